#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""What quench says and leaves when something is wrong, and whether Prometheus can read its metrics."""
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
from lab import (  # noqa: E402
    METRICS_PORT, QUENCH, READY_S, ROOT,
    Cases, Lab, LabError, Port, expect, expect_equal, run, wait_until,
)  # fmt: skip

PROMETHEUS = ROOT / "build/prometheus"
PROMETHEUS_PORT = 9090
FOREIGN_XDP = """
__attribute__((section("xdp"), used)) int foreign(void *ctx) { return 2; }
char _license[] __attribute__((section("license"), used)) = "GPL";
"""

MALFORMED = """\
version: 1
classes:
  - {name: roce, priority: 9, dscp: [26], kind: lossless, limit: 1MiB,
     ecn: {kmin: 200KB, kmax: 100KB, pmax: 10%}}
ports:
  - {name: eth0, role: gateway, rate: 200}
  - {name: eth0, role: router, rate: 1Gbit}
nonsense: 3
"""
FAULTS = {  # line and field of everything that is wrong above
    (3, "classes[0].priority"), (4, "classes[0].ecn.kmin"), (6, "ports[0].rate"),
    (7, "ports[1].name"), (7, "ports[1].role"), (8, "nonsense"),
}  # fmt: skip
HURTS = """\
version: 1
ports:
  - {name: eth0, role: gateway, rate: 1Gbit}
classes:
  - {name: roce, priority: 3, dscp: [26], kind: lossless, limit: 1MiB}
cnp: {priority: 0}
"""
NO_YAML = "version: 1\nports: [\n"

OPTIONS = {
    "run": ["--config=FILE", "--instance=NAME", "--help"],
    "check": ["FILE...", "--json", "--help"],
    "plan": ["--config=FILE", "--instance=NAME", "--json", "--help"],
    "status": ["--instance=NAME", "--json", "--help"],
    "flows": ["--instance=NAME", "--json", "--help"],
    "headroom": ["--speed=RATE", "--cable=LENGTH", "--mtu=BYTES", "--port-mtu=BYTES", "--cell=BYTES", "--limit=SIZE",
                 "--ports=N", "--model=NAME", "--reaction=TIME", "--response=TIME", "--json", "--measure",
                 "--rounds=N", "--poll", "--priority=N", "--help"],
    "release": ["--instance=NAME", "--help"],
}


class Ended(NamedTuple):
    status: int
    out: str
    err: str


def call(*argv: object) -> Ended:
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, errors="replace", timeout=READY_S)
    return Ended(done.returncode, done.stdout, done.stderr)


def quench(*argv: object) -> Ended:
    return call(QUENCH, *argv)


def expect_one_line(ended: Ended, status: int, *words: object) -> None:
    """It said one line on standard error that has these words, and nothing else."""
    expect_equal(ended.status, status, f"exit status, with {ended.err.strip()!r}")
    expect_equal(ended.out, "", "standard output")
    expect(re.fullmatch(r"quench: [^\n]+\n", ended.err), f"not one line: {ended.err!r}")
    for word in words:
        expect(str(word) in ended.err, f"{word!r} is missing in {ended.err.strip()!r}")


# The command line and the policy, on no machine


def test_policy_faults(cases: Cases, directory: Path) -> None:
    policy = directory / "malformed.yaml"
    policy.write_text(MALFORMED)
    line = re.compile(rf"{re.escape(str(policy))}:(\d+):(\d+): ([^:\s]+): (.+)")

    for command in (["check", policy], ["run", "-c", policy]):
        with cases.case(f"{command[0]}_malformed_policy_reports_every_fault_and_exits_3"):
            ended = quench(*command)
            expect_equal(ended.status, 3, "exit status")
            expect_equal(ended.out, "", "standard output")
            found = [line.fullmatch(text) for text in ended.err.splitlines()]
            expect(all(found), f"not file:line:column: field: reason: {ended.err!r}")
            expect_equal({(int(f[1]), f[3]) for f in found if f}, FAULTS, "faults")
            columns = {f[3]: int(f[2]) for f in found if f}
            expect_equal(columns["ports[0].rate"], 1 + MALFORMED.splitlines()[5].index("200"), "column")

    with cases.case("check_text_that_is_no_yaml_names_the_place_and_exits_3"):
        policy.write_text(NO_YAML)
        ended = quench("check", policy)
        expect_equal(ended.status, 3, "exit status")
        expect(re.fullmatch(rf"{re.escape(str(policy))}:\d+:\d+: [^\n]+\n", ended.err), ended.err)

    with cases.case("check_valid_policy_says_so_and_exits_0"):
        expect_equal(quench("check", ROOT / "policies/lab.yaml"),
                     Ended(0, f"{ROOT}/policies/lab.yaml: valid\n", ""), "answer")  # fmt: skip

    policy.write_text(HURTS)
    warnings = [(5, "classes[0].kind"), (6, "cnp.priority")]
    with cases.case("check_warns_of_what_hurts_and_exits_0"):
        ended = quench("check", policy)
        expect_equal((ended.status, ended.out), (0, f"{policy}: valid, 2 warnings\n"), "verdict")
        found = [re.fullmatch(rf"{re.escape(str(policy))}:(\d+):\d+: (\S+): warning: (.+)", text)
                 for text in ended.err.splitlines()]  # fmt: skip
        expect(all(found), f"not file:line:column: field: warning: reason: {ended.err!r}")
        expect_equal([(int(f[1]), f[2]) for f in found if f], warnings, "warnings")
    with cases.case("check_json_has_faults_and_warnings_of_every_file"):
        bad = directory / "bad.yaml"
        bad.write_text(MALFORMED)
        odd = os.fsencode(directory) + b"/b\xe9.yaml"
        ended = quench("check", "--json", policy, bad, directory / "none.yaml", os.fsdecode(odd))
        document = json.loads(ended.out)["files"]
        expect_equal(ended.status, 3, "exit status")
        expect_equal([row["valid"] for row in document], [True, False, False, False], "verdicts")
        expect_equal([(w["line"], w["field"]) for w in document[0]["warnings"]], warnings, "warnings")
        expect_equal({(f["line"], f["field"]) for f in document[1]["faults"]}, FAULTS, "faults")
        for row in document[2:]:
            expect("No such file" in row["error"], row)
        expect_equal(document[3]["file"], f"{directory}/b?.yaml", "a name that is no UTF-8")

    missing = directory / "missing.yaml"
    for command in (["check", missing], ["run", "-c", missing]):
        with cases.case(f"{command[0]}_missing_policy_names_the_file_and_exits_1"):
            expect_one_line(quench(*command), 1, missing, "No such file")
    with cases.case("check_directory_as_policy_names_it_and_exits_1"):
        expect_one_line(quench("check", directory), 1, directory)


def expect_unwritten(*argv: object) -> None:
    """A full disk is no success."""
    with open("/dev/full", "w") as full:
        done = subprocess.run([QUENCH, *map(str, argv)], stdout=full, stderr=subprocess.PIPE, text=True)
    expect_equal(done.returncode, 1, "exit status")
    expect("cannot be written" in done.stderr, done.stderr)


def test_command_line(cases: Cases) -> None:
    for command, options in OPTIONS.items():
        with cases.case(f"{command}_help_names_every_option_and_exits_0"):
            ended = quench(command, "--help")
            expect_equal((ended.status, ended.err), (0, ""), "exit status and errors")
            missing = [option for option in options if option not in ended.out]
            expect(not missing, f"{missing} are not in {ended.out!r}")
            named = set(re.findall(r"--([a-z-]+)", ended.out)) - {"usage", "help"}
            wanted = {option[2:].split("=")[0] for option in options if option.startswith("--")}
            expect_equal(named, wanted - {"help"}, "options")
    with cases.case("help_names_every_command_and_exits_0"):
        ended = quench("--help")
        expect_equal(ended.status, 0, "exit status")
        expect(all(re.search(rf"^  {command} ", ended.out, re.M) for command in OPTIONS), ended.out)

    wrong = {
        "no_command": [], "unknown_command": ["pause"], "unknown_option": ["status", "--colour"],
        "check_without_file": ["check"], "argument_too_many": ["flows", "extra"],
        "option_of_another_command": ["release", "--json"],
    }  # fmt: skip
    for name, argv in wrong.items():
        with cases.case(f"usage_{name}_exits_2"):
            ended = quench(*argv)
            expect_equal((ended.status, ended.out), (2, ""), "exit status and standard output")
            expect(ended.err.strip(), "nothing was said")

    for argv in (["check", ROOT / "policies/lab.yaml"], ["status", "--help"], ["--version"], ["help"]):
        with cases.case(f"{argv[0].strip('-')}_whose_output_cannot_be_written_exits_1"):
            expect_unwritten(*argv)

    with cases.case("instance_name_with_a_slash_is_refused"):
        expect_one_line(quench("status", "--instance", "../x"), 1, '"../x"')
    nobody = "nobody-at-home"
    for command in ("status", "flows"):
        with cases.case(f"{command}_without_agent_names_the_socket_and_exits_1"):
            expect_one_line(quench(command, "--instance", nobody), 1, f"/run/quench/{nobody}.sock")
    with cases.case("release_without_agent_says_so_and_exits_0"):
        ended = quench("release", "--instance", nobody)
        expect_equal((ended.status, ended.err), (0, ""), "exit status and errors")
        expect(re.fullmatch(rf"nothing to release: [^\n]*{nobody}\n", ended.out), ended.out)
        expect(not list(Path("/run/quench").glob(f"{nobody}*")), "files were left in /run/quench")


# Starting an agent where it cannot work


R1, H1 = Port("r1", "gateway", 200_000_000), Port("h1", "gateway", 1_000_000_000)


class Refusals:
    """Agents in gw that must not come up."""

    def __init__(self, cases: Cases, lab: Lab):
        self.cases, self.lab = cases, lab

    def run(self, ports: list[Port], wrap: tuple = (), instance: str = "") -> list[str]:
        """The command line of an agent with these ports."""
        policy = self.lab.write_policy("gw", ports)
        name = instance or self.lab.instance("gw")
        return [*map(str, wrap), str(QUENCH), "run", "-c", str(policy), "--instance", name]

    def check(self, name: str, argv: list[str], *words: Callable[[], object] | object) -> None:
        """It says one line with these words, exits 1 and changes nothing."""
        with self.cases.case(name):
            before = self.lab.state()
            wanted = [word() if callable(word) else word for word in words]
            expect_one_line(call(*argv), 1, *wanted)
            left = self.lab.left_behind(before)
            expect(not left, f"left behind: {left}")

    def check_in_gw(self, name: str, argv: list[str], *words: object) -> None:
        self.check(name, self.lab.command("gw", *argv), *words)


def without(capability: str) -> tuple:
    return ("setpriv", "--bounding-set", f"-{capability}", "--inh-caps", f"-{capability}")


def test_machine(refusals: Refusals) -> None:
    """What the machine lacks."""
    agent = refusals.run([R1, H1])
    namespace = refusals.lab.namespace("gw")
    # `ip netns exec` mounts a /sys of its own, where nothing is mounted yet
    refusals.check("run_without_bpffs_names_it", ["ip", "netns", "exec", namespace, *agent],
                   "/sys/fs/bpf", "mount -t bpf")  # fmt: skip
    for capability in ("net_admin", "bpf", "perfmon"):
        refusals.check_in_gw(f"run_without_cap_{capability}_names_it", [*without(capability), *agent],
                             f"CAP_{capability.upper()}")  # fmt: skip


def test_ports(refusals: Refusals) -> None:
    """What a port has already."""
    lab = refusals.lab
    refusals.check_in_gw("run_missing_interface_is_named",
                         refusals.run([R1, Port("h9", "gateway", 10**9)]), "h9")  # fmt: skip

    lab.tc("gw", "qdisc add dev h1 root handle 1: htb default 1")
    refusals.check_in_gw("run_foreign_root_qdisc_is_named", refusals.run([H1]), "h1", "htb", "1:")
    refusals.check_in_gw("run_second_port_fails_and_first_is_rolled_back", refusals.run([R1, H1]), "h1")
    lab.tc("gw", "qdisc del dev h1 root")

    attach_foreign_xdp(lab, "h1")
    refusals.check_in_gw("run_foreign_xdp_program_is_named_by_id", refusals.run([H1]),
                         "h1", lambda: f"id {xdp_id(lab, 'h1')}")  # fmt: skip
    lab.run("gw", "bpftool", "net", "detach", "xdp", "dev", "h1")

    lab.ip("gw", "link add br9 type bridge", "link set br9 up")
    refusals.check_in_gw("run_port_without_native_xdp_is_refused_unless_generic_ok",
                         refusals.run([Port("br9", "monitor")]), "br9", "native", "generic-ok")  # fmt: skip
    lab.ip("gw", "link del br9")


def test_upper_devices(refusals: Refusals) -> None:
    """Ports that stand on others: no queue of theirs holds what waits. This kernel has bridges and
    macvlans; the other kinds are in the unit tests."""
    lab = refusals.lab
    lab.ip("gw", "link add br9 type bridge", "link set br9 up")
    for role in ("gateway", "host"):
        refusals.check_in_gw(f"run_{role}_on_an_empty_bridge_is_refused",
                             refusals.run([R1, Port("br9", role, 10**9)]),
                             "br9", "bridge", "has none under it")  # fmt: skip
    lab.ip("gw", "link set h1 master br9", "link set h2 master br9")
    wait_until(lambda: lab.run("gw", "ip", "-br", "link", "show", "br9").split()[1] == "UP", READY_S, "br9 is not up")
    for role in ("gateway", "host"):
        refusals.check_in_gw(f"run_{role}_on_a_bridge_names_its_ports",
                             refusals.run([R1, Port("br9", role, 10**9)]),
                             "br9", "bridge", "instead: h1, h2\n")  # fmt: skip
    lab.ip("gw", "link add mv9 link br9 type macvlan", "link set mv9 up")
    refusals.check_in_gw("run_gateway_on_a_macvlan_on_a_bridge_names_the_bridges_ports",
                         refusals.run([Port("mv9", "gateway", 10**9)]),
                         "mv9", "macvlan", "instead: h1, h2\n")  # fmt: skip
    lab.ip("gw", "link del mv9", "link set h1 nomaster", "link set h2 nomaster", "link del br9")
    lab.ip("gw", "link add mv9 link h1 type macvlan", f"link set mv9 netns {lab.namespace('h2')}")
    refusals.check("run_host_on_a_macvlan_out_of_another_namespace_says_that_none_is_here",
                   lab.command("h2", *refusals.run([Port("mv9", "host", 10**9)])),
                   "mv9", "macvlan", "has none under it")  # fmt: skip
    lab.ip("h2", "link del mv9")


def attach_foreign_xdp(lab: Lab, device: str) -> None:
    source, program = lab.directory / "foreign.c", lab.directory / "foreign.o"
    source.write_text(FOREIGN_XDP)
    run("clang", "-target", "bpf", "-O2", "-c", "-o", program, source)
    lab.run("gw", "bpftool", "prog", "load", program, "/sys/fs/bpf/foreign", "type", "xdp")
    lab.run("gw", "bpftool", "net", "attach", "xdp", "pinned", "/sys/fs/bpf/foreign", "dev", device)


def xdp_id(lab: Lab, device: str) -> int:
    attached = json.loads(lab.run("gw", "bpftool", "-j", "net"))[0]["xdp"]
    return next(entry["id"] for entry in attached if entry["devname"] == device)


def test_other_agent(refusals: Refusals) -> None:
    """What another agent has."""
    lab = refusals.lab
    lab.start_agent("gw", [H1])
    lab.wait_ready("gw")
    other = f"{lab.name}-other"
    refusals.check_in_gw("run_instance_that_runs_already_is_named", refusals.run([R1]), lab.instance("gw"))
    refusals.check_in_gw("run_port_of_another_instance_is_named", refusals.run([R1, H1], instance=other),
                         "h1", lambda: f"id {xdp_id(lab, 'h1')}")  # fmt: skip
    refusals.check_in_gw("run_metrics_port_in_use_is_named", refusals.run([R1], instance=other),
                         "observe.listen", METRICS_PORT)  # fmt: skip
    with refusals.cases.case("agent_beside_failing_ones_works_on"):
        expect(lab.status("gw"), "no answer")
    lab.stop_quench()


# Prometheus


def prometheus_program(name: str) -> Path:
    """A program out of Debian's package, which is not installed: that would start a service."""
    path = PROMETHEUS / "root/usr/bin" / name
    if not path.exists():
        PROMETHEUS.mkdir(parents=True, exist_ok=True)
        for command in (["download", "-qq", "prometheus"], ["update", "-qq"]) * 2:
            done = subprocess.run(["apt-get", *command], cwd=PROMETHEUS, capture_output=True, text=True)
            packages = sorted(PROMETHEUS.glob("prometheus_*.deb"))
            if packages:
                break  # else the lists of packages may be old
        if not packages:
            raise LabError(f"apt-get download prometheus: {done.stderr.strip()}")
        run("dpkg", "-x", packages[-1], PROMETHEUS / "root")
    return path


def test_metrics(cases: Cases, lab: Lab) -> None:
    lab.start_agent("gw")
    lab.wait_ready("gw")
    for command in ("status", "flows", "events"):
        with cases.case(f"{command}_that_cannot_be_written_exits_1"):
            expect_unwritten(command, "--instance", lab.instance("gw"))
            expect_unwritten(command, "--json", "--instance", lab.instance("gw"))
    with cases.case("metrics_text_is_valid_to_promtool"):
        text = lab.get("gw", METRICS_PORT, "/metrics")
        done = subprocess.run([prometheus_program("promtool"), "check", "metrics"], input=text,
                              capture_output=True, text=True)  # fmt: skip
        expect(done.returncode == 0 and not done.stderr.strip(), done.stderr.strip() or done.stdout)
    with cases.case("metrics_are_scraped_by_prometheus"):
        scrape(cases, lab)
    lab.stop_quench()


def scrape(cases: Cases, lab: Lab) -> None:
    config = lab.directory / "prometheus.yaml"
    config.write_text(
        "global: {scrape_interval: 500ms, scrape_timeout: 500ms}\n"
        "scrape_configs:\n"
        f'  - {{job_name: quench, static_configs: [{{targets: ["127.0.0.1:{METRICS_PORT}"]}}]}}\n'
    )
    server = lab.start(
        "gw", "prometheus", prometheus_program("prometheus"), f"--config.file={config}",
        f"--storage.tsdb.path={lab.directory}/tsdb", f"--web.listen-address=127.0.0.1:{PROMETHEUS_PORT}",
    )  # fmt: skip

    def ask(expression: str) -> list[dict]:
        if not server.alive():
            raise LabError(f"prometheus ended: {server.errors().strip()[-300:]}")
        try:
            answer = lab.get("gw", PROMETHEUS_PORT, f"/api/v1/query?query={expression}")
        except (OSError, LabError):  # it does not listen yet
            return []
        return json.loads(answer)["data"]["result"]

    up = wait_until(lambda: ask("up"), READY_S, "a first scrape")
    expect_equal([result["value"][1] for result in up], ["1"], "up")
    frames = wait_until(lambda: ask("quench_frames_total"), READY_S, "quench_frames_total")
    ports = {result["metric"]["port"] for result in frames}
    expect_equal(ports, {"r1", *lab.hosts}, "ports of quench_frames_total")
    cases.note(f"{len(frames)} series of quench_frames_total")
    server.stop()
    server.wait()


def main() -> int:
    cases = Cases()
    started = time.monotonic()
    with Lab(senders=2) as lab:
        test_policy_faults(cases, lab.directory)
        test_command_line(cases)
        refusals = Refusals(cases, lab)
        test_machine(refusals)
        test_ports(refusals)
        test_upper_devices(refusals)
        test_other_agent(refusals)
        test_metrics(cases, lab)
    print(f"{time.monotonic() - started:.1f} s")
    return cases.exit_code()


if __name__ == "__main__":
    sys.exit(main())
