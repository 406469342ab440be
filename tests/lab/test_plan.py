#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""quench plan: changes nothing, tells what run then does, and what is in the way or hurts."""
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
from lab import (  # noqa: E402
    BOTTLENECK_BPS, QUENCH, READY_S, Cases, Lab, Port, expect, expect_equal, in_namespace, policy_with,
)  # fmt: skip

NOTIFY = "notify: true"  # so that there are programs at tc
PORTS = [Port(name, "gateway", BOTTLENECK_BPS, NOTIFY) for name in ("h1", "r1")]
PROGRAMS = {"xdp", "tcx egress"}
OBJECT = re.compile(r"^(qdisc|class) (\S+) (\w+:\w*)", re.M)
COUNTS = ("create", "change", "delete", "blocked")
LLDPAD = """
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind("\\0/com/intel/lldpad")
print(flush=True)
sys.stdin.read()
"""


class Plan(NamedTuple):
    status: int
    document: dict

    def counts(self) -> dict[str, int]:
        return {name: self.document[name] for name in COUNTS if self.document[name]}

    def port(self, name: str) -> dict:
        (port,) = (p for p in self.document["ports"] if p["name"] == name)
        return port

    def objects(self, name: str, action: str) -> set[str]:
        return {s["object"] for s in self.port(name)["steps"] if s["action"] == action}

    def blocks(self, name: str) -> str:
        return " ".join(s["to"] for s in self.port(name)["steps"] if s["action"] == "blocked")

    def warnings(self, name: str) -> list[str]:
        return [warning["code"] for warning in self.port(name)["warnings"]]


def call_plan(lab: Lab, ports: list[Port], *options: str, instance: str = "") -> subprocess.CompletedProcess:
    policy = lab.write_policy("gw", ports)
    command = lab.command(
        "gw", QUENCH, "plan", "-c", policy, "--instance", instance or lab.instance("gw"), *options
    )
    return subprocess.run(command, capture_output=True, text=True, timeout=READY_S)


def plan(lab: Lab, ports: list[Port], instance: str = "") -> Plan:
    done = call_plan(lab, ports, "--json", instance=instance)
    return Plan(done.returncode, json.loads(done.stdout))


def expect_untouched(lab: Lab, before: dict) -> None:
    left = lab.left_behind(before)
    expect(not left, f"the plan changed {left}")


def tc_objects(lab: Lab, device: str) -> set[str]:
    """All of the device's as plan names them; TBF's own classes come by themselves."""
    printed = lab.run("gw", "sh", "-c", f"tc qdisc show dev {device}; tc class show dev {device}")
    return {f"{kind} {what} {handle}" for what, kind, handle in OBJECT.findall(printed) if (what, kind) != ("class", "tbf")}


def test_untouched(cases: Cases, lab: Lab, before: dict) -> set[str]:
    with cases.case("plan_of_untouched_ports_creates_and_changes_nothing"):
        found = plan(lab, PORTS)
        expect_equal((found.status, found.document["possible"]), (0, True), "verdict")
        expect_equal(set(found.counts()), {"create", "delete"}, "kinds of steps")
        expect_equal(found.objects("r1", "delete"), {"noqueue qdisc"}, "what goes")
        expect_untouched(lab, before)
    with cases.case("plan_as_text_says_the_same_and_changes_nothing"):
        done = call_plan(lab, PORTS)
        expect_equal((done.returncode, done.stderr), (0, ""), "status and errors")
        counts = found.counts()
        expect(f"\n{counts['create']} to create, 0 to change, {counts['delete']} to delete" in done.stdout, done.stdout)
        expect("  + htb qdisc 9000: root, default 30\n" in done.stdout, done.stdout)
        expect_untouched(lab, before)
    return found.objects("r1", "create")


def test_live(cases: Cases, lab: Lab, planned: set[str]) -> None:
    lab.start_agent("gw", PORTS)
    lab.wait_ready("gw")
    running = lab.state()
    with cases.case("plan_was_what_run_has_done"):
        queues = {name for name in planned if re.match(r"\w+ (qdisc|class) ", name)}
        expect_equal(queues, tc_objects(lab, "r1"), "queues")
        expect_equal(planned - queues, PROGRAMS | {"bpf filter quench_root"}, "programs")
    with cases.case("plan_of_what_runs_is_empty"):
        found = plan(lab, PORTS)
        expect_equal((found.status, found.counts()), (0, {}), "steps")
        expect("r1 (gateway): nothing to do\n" in call_plan(lab, PORTS).stdout, "not said")
    with cases.case("plan_of_another_rate_changes_in_place"):
        found = plan(lab, [PORTS[0], Port("r1", "gateway", 2 * BOTTLENECK_BPS, NOTIFY)])
        expect_equal(found.objects("h1", "change"), set(), "changes of h1")
        expect_equal(found.objects("r1", "change"), {f"htb class 9000:{c}" for c in ("1", "10", "20", "30")}, "changes")
        (step,) = (s for s in found.port("r1")["steps"] if s["object"] == "htb class 9000:1")
        expect(step["from"].startswith(f"rate {BOTTLENECK_BPS}, "), step)
        expect(step["to"].startswith(f"rate {2 * BOTTLENECK_BPS}, "), step)
    with cases.case("plan_of_other_thresholds_changes_what_the_programs_are_told"):
        kept = lab.base_policy
        lab.base_policy = policy_with(kept, kmin="31KB", interval="2ms")
        found = plan(lab, PORTS)
        lab.base_policy = kept
        expect_equal(found.counts(), {"change": 2}, "steps")
        steps = {s["object"]: (s["from"], s["to"]) for s in found.port("all ports")["steps"]}
        expect_equal(steps["configuration"], ("cnp.interval 1000000ns", "cnp.interval 2000000ns"), "CNPs")
        expect_equal(steps["class roce"], ("kmin 30000", "kmin 31000"), "marks")
    with cases.case("plan_of_one_port_less_and_another_more_says_both"):
        found = plan(lab, [PORTS[0], Port("q0", "gateway", BOTTLENECK_BPS)])
        expect(found.objects("q0", "create") >= PROGRAMS | {"htb qdisc 9000:"}, found.objects("q0", "create"))
        gone = found.objects("r1", "delete")
        expect(gone >= tc_objects(lab, "r1") | PROGRAMS, gone)
        expect_equal(found.port("h1")["steps"], [], "steps of h1")
    with cases.case("plan_of_another_instance_is_blocked_by_name_and_warns"):
        found = plan(lab, PORTS, instance=f"{lab.name}-other")
        attached = json.loads(lab.run("gw", "ip", "-j", "link", "show", "r1"))[0]["xdp"]["prog"]["id"]
        expect_equal((found.status, found.document["possible"]), (1, False), "verdict")
        expect(f"another XDP program (id {attached}, quench_xdp)" in found.blocks("r1"), found.blocks("r1"))
        expect("foreign_tcx" in found.warnings("r1"), found.warnings("r1"))
    with cases.case("plans_beside_a_running_agent_change_nothing"):
        expect_untouched(lab, running)
        expect(lab.status("gw"), "the agent does not answer")
    lab.agents["gw"].process.kill()
    lab.agents.pop("gw").process.wait(READY_S)
    with cases.case("plan_after_a_kill_is_empty_too"):
        expect_equal(plan(lab, PORTS).counts(), {}, "steps")
    lab.release("gw")


def test_in_the_way(cases: Cases, lab: Lab) -> None:
    lab.tc("gw", "qdisc add dev q0 root tbf rate 1mbit burst 10k limit 10k")
    lab.ip("gw", "link add qb type bridge", "link set q1 master qb")
    found = plan(lab, [Port(name, "gateway", BOTTLENECK_BPS) for name in ("q0", "qb", "none0", "r1")])
    with cases.case("foreign_root_bridge_and_missing_interface_are_named_and_the_rest_is_planned"):
        expect_equal((found.status, found.counts()["blocked"]), (1, 3), "verdict")
        expect("somebody else's root qdisc is in place: tbf qdisc" in found.blocks("q0"), found.blocks("q0"))
        expect("of kind bridge" in found.blocks("qb") and "q1" in found.blocks("qb"), found.blocks("qb"))
        expect("none0" in found.blocks("none0"), found.blocks("none0"))
        expect(found.objects("r1", "create"), "nothing for r1")
    lab.tc("gw", "qdisc del dev q0 root")
    lab.ip("gw", "link del qb")


def test_warnings(cases: Cases, lab: Lab) -> None:
    """What a veth can have of what a NIC has."""
    quiet, pcp = [Port("q0", "gateway", BOTTLENECK_BPS)], [Port("q0", "gateway", BOTTLENECK_BPS, keys="trust: pcp")]
    with cases.case("quiet_port_has_no_warning"):
        expect_equal(plan(lab, quiet).warnings("q0"), [], "warnings")
    lab.run("gw", "ethtool", "-K", "q0", "rx-udp-gro-forwarding", "on")
    lab.tc("gw", "qdisc add dev q0 clsact")
    lldpad = in_namespace(lab.namespace("gw"), lambda: subprocess.Popen(
        [sys.executable, "-c", LLDPAD], stdin=subprocess.PIPE, stdout=subprocess.PIPE))  # fmt: skip
    lldpad.stdout.readline()
    with cases.case("lldpad_clsact_udp_gro_and_hidden_tags_are_warned_of"):
        found = plan(lab, pcp)
        expect_equal(found.status, 0, "status: warnings are no obstacles")
        expect_equal(found.warnings("q0"), ["clsact", "udp_gro", "tags_hidden", "lldpad"], "warnings")
    lldpad.communicate()
    lab.tc("gw", "qdisc del dev q0 clsact")
    lab.run("gw", "ethtool", "-K", "q0", "rx-udp-gro-forwarding", "off")
    with cases.case("warnings_go_with_their_causes"):
        expect_equal(plan(lab, quiet).warnings("q0"), [], "warnings")


def test_patterns(cases: Cases, lab: Lab) -> None:
    mac = json.loads(lab.run("gw", "ip", "-j", "link", "show", "q1"))[0]["address"]
    for name, keys, wanted in (
        ("q*", "driver: veth", ["q0", "q1"]),
        ('"*"', f'mac: "{mac}"', ["q1"]),
        ("q0", "driver: veth", ["q0"]),
    ):
        port = Port(name, "gateway", BOTTLENECK_BPS, keys)
        with cases.case(f"port_{name.strip(chr(34))}_with_{keys.split(':')[0]}_is_{'_and_'.join(wanted)}"):
            expect_equal([p["name"] for p in plan(lab, [port]).document["ports"]], wanted, "ports of the plan")
            lab.start_agent("gw", [port])
            expect_equal([p["name"] for p in lab.wait_ready("gw")["ports"]], wanted, "ports of the agent")
            expect_equal(plan(lab, [port]).counts(), {}, "steps beside it")
            lab.stop_quench()
    with cases.case("pattern_that_means_nothing_is_named"):
        for keys in ("driver: mlx5_core", ""):
            done = call_plan(lab, [Port("q*" if keys else "ib*", "gateway", BOTTLENECK_BPS, keys)])
            expect_equal((done.returncode, done.stdout), (1, ""), "status and output")
            expect("no interface is meant" in done.stderr, done.stderr)


def main() -> int:
    cases = Cases()
    with Lab(senders=2) as lab:
        lab.ip("gw", "link add q0 type veth peer name q1", "link set q0 up", "link set q1 up")
        before = lab.state()
        test_live(cases, lab, test_untouched(cases, lab, before))
        test_in_the_way(cases, lab)
        test_warnings(cases, lab)
        test_patterns(cases, lab)
        with cases.case("plans_leave_nothing"):
            expect_untouched(lab, before)
    return cases.exit_code()


if __name__ == "__main__":
    sys.exit(main())
