# SPDX-License-Identifier: BSD-2-Clause
"""quench on a stock kernel, in one guest: programs load and attach, the agent runs or says why not."""
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lab"))
from agent import Agent  # noqa: E402
from frames import Way, data_frame  # noqa: E402
from guest import Guest, Guests  # noqa: E402
from image import Image  # noqa: E402
from lab import (  # noqa: E402
    BOTTLENECK_BPS, POLICY, RETURN_BPS, ROOT, Fabric, Port,
    expect, expect_equal, lab_policy,
)  # fmt: skip
from results import Results  # noqa: E402

PROGRAMS = {"quench_xdp", "quench_root", "quench_tc_ingress", "quench_tc_ingress_generic",
            "quench_tc_egress", "quench_tc_notify", "quench_qdisc_destroy"}  # fmt: skip
RDONLY_CAST_SINCE = (6, 2)  # the kernel function bpf_rdonly_cast
TCX_SINCE = (6, 6)
LOAD_S = 120
TEST_S = 300  # the verifier of the newest kernels takes long under emulation

# Those of tests/prog and tests/unit in which the kernel has the most to say; and all.
TESTS = ("prog/test_mark", "prog/test_root", "prog/test_same", "prog/test_xdp", "unit/test_kernel_tc")
ALL_TESTS = tuple(
    sorted(f"{path.parent.name}/{path.stem}" for kind in ("prog", "unit")
           for path in (ROOT / "tests" / kind).glob("test_*.c"))
)  # fmt: skip

# What fails in a guest: before the kernel has what it tests, as tcx, or HTB's remarks in the answer
# instead of the log; and where scapy, or another build of ours, is the judge, which are not there.
NEVER = (99, 0)
FAIL_BEFORE = {
    "bridge_untagged_frame_is_marked_and_otherwise_unchanged": TCX_SINCE,
    "bridge_frame_with_one_tag_is_marked_and_otherwise_unchanged": TCX_SINCE,
    "bridge_frame_with_two_tags_is_marked_and_otherwise_unchanged": TCX_SINCE,
    "warning_with_success_is_kept_apart": (6, 4),
    "egress_cnp_of_every_layout_satisfies_scapy_and_oracle": NEVER,
    "icrc_of_every_icrc_vector_is_the_same_in_four_builds": NEVER,
}

GATEWAY_PORTS = [Port("eth0", "gateway", BOTTLENECK_BPS), Port("veth0", "gateway", RETURN_BPS)]
HOST_PORTS = [Port("veth2", "host", BOTTLENECK_BPS)]

# What veth1 sends arrives at veth0, and leaves by eth0.
FRAMES, QPN = 20, 0x123
WAY = Way("02:00:00:00:00:01", "02:00:00:00:00:02", "198.51.100.1", "198.51.100.2")

STATE = "tc qdisc; ip -br link; bpftool net; find /sys/fs/bpf /run/quench -mindepth 1 2>/dev/null; true"


def version(release: str) -> tuple[int, int]:
    major, minor = release.split(".")[:2]
    return int(major), int(re.match(r"\d+", minor)[0])


class Machine:
    """A guest with interfaces that take native XDP: a virtio-net and one end of a veth, which are
    bridged, and another veth."""

    def __init__(self, guest: Guest):
        self.guest = guest
        self.version = version(guest.image.release)
        guest.run(
            "modprobe veth; modprobe tun; modprobe bridge;"
            "ip link add veth0 type veth peer name veth1; ip link add veth2 type veth peer name veth3;"
            "ip link add br0 type bridge; ip link set eth0 master br0; ip link set veth0 master br0;"
            "for d in br0 eth0 veth0 veth1 veth2 veth3; do ip link set $d up; done"
        )

    @staticmethod
    def policy(ports: list[Port]) -> str:
        return lab_policy(Fabric()) + "ports:\n" + "".join(port.row() for port in ports)

    def state(self) -> str:
        """Whatever an agent could leave behind. The module of a qdisc that was used may stay."""
        return self.guest.run(STATE)


def boots(machine: Machine, results: Results) -> None:
    expect_equal(machine.guest.run("uname -r").strip(), machine.guest.image.release, "uname -r")
    results.figure("boot_s", round(machine.guest.boot_s, 1))


def programs_load(machine: Machine, results: Results) -> None:
    """Each program passes this kernel's verifier, and XDP attaches natively to both interfaces."""
    answer = machine.guest.try_run("load eth0; first=$?; load veth0 | tail -n 1; exit $first", LOAD_S)
    said = dict(line.split(" ", 1) for line in answer.text.splitlines() if " " in line)
    refused = [f"{name} {what}" for name, what in said.items() if what.startswith("refused")]
    expect(not refused and not answer.status, "; ".join(refused) or answer.text)
    expect_equal(PROGRAMS & said.keys(), PROGRAMS, "loaded")
    for name in sorted(PROGRAMS):
        results.figure(name, int(said[name]))
    has_cast = "true" if machine.version >= RDONLY_CAST_SINCE else "false"
    expect_equal(said["depth_rdonly_cast"], has_cast, "depth_rdonly_cast")
    for device in ("eth0", "veth0"):
        expect_equal(said[device], "native", f"XDP on {device}")
        results.note(f"XDP on {device} native")


def policy_is_valid(machine: Machine, results: Results) -> None:
    machine.guest.write("/root/lab.yaml", POLICY.read_text())
    results.note(machine.guest.run("quench check /root/lab.yaml").strip())


@contextmanager
def agent_runs(machine: Machine, results: Results, ports: list[Port]) -> Iterator[Agent]:
    """The agent starts, attaches natively, and when it is stopped leaves nothing behind."""
    before = machine.state()
    agent = Agent(machine.guest, machine.policy(ports))
    try:
        modes = {port: row["xdp_mode"] for port, row in agent.ports().items()}
        expect(set(modes.values()) == {"native"}, f"XDP modes {modes}")
        results.note(", ".join(f"{port} {mode}" for port, mode in modes.items()))
        yield agent
    finally:
        agent.stop()
    expect_equal(machine.state(), before, "left behind")


def gateway_runs(machine: Machine, results: Results) -> None:
    """Ports from which no CNP leaves: these need no tcx, so that any kernel will do. Frames cross the
    gateway, are counted, and make it find its queues at the port where they leave."""
    with agent_runs(machine, results, GATEWAY_PORTS) as agent:
        frame = data_frame(WAY, QPN).hex()
        machine.guest.run(f"blast -d veth1 -n {FRAMES} {frame}")
        flows = agent.flows()
        found = agent.ports()["eth0"]["qdiscs_found"]
    packets = [flow["packets"] for flow in flows if flow["dst_qpn"] == QPN]
    expect_equal(packets, [FRAMES], "packets of the flow")
    expect(found > 0, "the depth of no queue can be read")
    results.figure("queues_read", found)


def host_runs_or_says_why_not(machine: Machine, results: Results) -> None:
    """A host that makes CNPs needs tcx."""
    if machine.version >= TCX_SINCE:
        with agent_runs(machine, results, HOST_PORTS):
            return
    before = machine.state()
    machine.guest.write("/root/host.yaml", machine.policy(HOST_PORTS))
    answer = machine.guest.try_run("quench run -c /root/host.yaml")
    lines = answer.text.strip().splitlines()
    expect(answer.status == 1 and len(lines) == 1, f"exit status {answer.status}: {answer.text}")
    expect("tcx" in lines[0] and "6.6" in lines[0], lines[0])
    expect_equal(machine.state(), before, "left behind")
    results.note(lines[0])


def tests_pass(machine: Machine, results: Results, name: str) -> None:
    """A cmocka program of ours, whole, as it runs on the machine that built it."""
    text = machine.guest.try_run(f"cd /root && {name} 2>&1", TEST_S).text
    bad = re.findall(r"^\[  (?:FAILED |SKIPPED|ERROR  ) \] (?!\d+ test|---)(.+)$", text, re.M)
    ran = re.search(r"^\[=+\] (\d+) test\(s\) run", text, re.M)
    passed = re.search(r"^\[  PASSED  \] (\d+) test", text, re.M)
    expect(ran and passed, text[-300:])
    unexpected = [test for test in bad if machine.version >= FAIL_BEFORE.get(test, (0, 0))]
    expect(not unexpected, ", ".join(dict.fromkeys(unexpected)))
    expect_equal(int(passed[1]) + len(set(bad)), int(ran[1]), "tests accounted for")
    results.figure("tests", int(passed[1]))
    if bad:
        results.figure("lacking_what_they_test", len(set(bad)))


CASES = (programs_load, policy_is_valid, gateway_runs, host_runs_or_says_why_not)


def run_cases(results: Results, image: Image, directory: Path, everything: bool) -> None:
    """All cases in one boot; a guest that does not come up is one failure."""
    kernel = image.release
    with Guests() as guests:
        machine = None
        with results.on(kernel, "none", "boots"):
            guest = Guest(image, f"kernel-{image.kernel.name}", directory)
            guests.boot(guest)
            machine = Machine(guest)
            boots(machine, results)
        for case in CASES if machine else ():
            with results.on(kernel, "none", case.__name__):
                case(machine, results)
        for test in (ALL_TESTS if everything else TESTS) if machine else ():
            name = test.split("/")[1]
            with results.on(kernel, "none", name):
                tests_pass(machine, results, name)
