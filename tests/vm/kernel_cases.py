# SPDX-License-Identifier: BSD-2-Clause
"""quench on a stock kernel, in one guest: programs load and attach, the agent runs or says why not."""
import re
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lab"))
from agent import Agent, without_cnps  # noqa: E402
from frames import DSCP_ROCE, ECT0, Way, data_frame  # noqa: E402
from guest import Guest, Guests  # noqa: E402
from image import Image  # noqa: E402
from lab import (  # noqa: E402
    BOTTLENECK_BPS, POLICY, RETURN_BPS, ROOT, Fabric, Port,
    expect, expect_equal, lab_policy, wait_until,
)  # fmt: skip
from results import Results  # noqa: E402
from test_pfc import pfc_frame  # noqa: E402

PROGRAMS = {"quench_xdp", "quench_root", "quench_tc_ingress", "quench_tc_ingress_generic", "quench_tc_egress",
            "quench_tc_ahead", "quench_pause_look", "quench_qdisc_destroy"}  # fmt: skip
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
FRAMES, QPN, PEER_QPN = 20, 0x123, 0x321
WAY = Way("02:00:00:00:00:01", "02:00:00:00:00:02", "198.51.100.1", "198.51.100.2")
ARRIVE_S = 10

# A slow port, by which frames leave from veth1 to veth5: a queue comes to be there. A pause lasts.
SLOW_BPS = 10_000_000
MANY_FRAMES, PAYLOAD_BYTES = 300, 1024
TOS_ECT = DSCP_ROCE << 2 | ECT0
ROCE_PRIORITY, PAUSE_MAX_QUANTA = 3, 65535  # 3.4 s at this speed
STILL_S = 0.5  # nothing comes for so long: nothing is on its way
EXTRAS = f"""
pairs:
  - {{a: {WAY.src}/{PEER_QPN:#x}, b: {WAY.dst}/{QPN:#x}}}
pfc: {{watchdog: {{detect: 10s}}}}
"""

STATE = "tc qdisc; ip -br link; bpftool net; find /sys/fs/bpf /run/quench -mindepth 1 2>/dev/null; true"


def version(release: str) -> tuple[int, int]:
    major, minor = release.split(".")[:2]
    return int(major), int(re.match(r"\d+", minor)[0])


class Machine:
    """A guest with interfaces that take native XDP: a virtio-net and ends of two veths, which are
    bridged, and another veth. IPv6 is off: only what is sent on purpose is on the cables."""

    def __init__(self, guest: Guest):
        self.guest = guest
        self.version = version(guest.image.release)
        guest.run(
            "modprobe veth; modprobe tun; modprobe bridge;"
            "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1;"
            "for i in 0 2 4; do ip link add veth$i type veth peer name veth$((i + 1)); done;"
            "ip link add br0 type bridge mcast_snooping 0;"
            "for d in eth0 veth0 veth4; do ip link set $d master br0; done;"
            "for d in br0 eth0 veth0 veth1 veth2 veth3 veth4 veth5; do ip link set $d up; done"
        )

    @staticmethod
    def policy(ports: list[Port]) -> str:
        return lab_policy(Fabric()) + EXTRAS + "ports:\n" + "".join(port.row() for port in ports)

    def send(self, device: str, frame: bytes, times: int = 1) -> None:
        self.guest.run(f"blast -d {device} -n {times} {frame.hex()}")

    def arrived(self, device: str) -> int:
        """Frames that came out of the cable there."""
        return int(self.guest.run(f"cat /sys/class/net/{device}/statistics/rx_packets"))

    def wait_arrived(self, device: str, count: int) -> None:
        wait_until(lambda: self.arrived(device) >= count, ARRIVE_S, f"{count} frames at {device}")

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
        machine.send("veth1", data_frame(WAY, QPN), FRAMES)
        flows = agent.flows()
        found = agent.ports()["eth0"]["qdiscs_found"]
    packets = [flow["packets"] for flow in flows if flow["dst_qpn"] == QPN]
    expect_equal(packets, [FRAMES], "packets of the flow")
    expect(found > 0, "the depth of no queue can be read")
    results.figure("queues_read", found)


def slow_port(keys: str) -> list[Port]:
    return [Port("veth4", "gateway", SLOW_BPS, keys), Port("veth0", "gateway", RETURN_BPS)]


def gateway_marks_and_makes_cnps(machine: Machine, results: Results) -> None:
    """A queue at a slow port: frames are marked, none is lost, and where there is tcx the sender gets
    CNPs."""
    notifies = machine.version >= TCX_SINCE
    with agent_runs(machine, results, slow_port("notify: true" if notifies else "")) as agent:
        there, back = machine.arrived("veth5"), machine.arrived("veth1")
        machine.send("veth1", data_frame(WAY, QPN, payload_bytes=PAYLOAD_BYTES, tos=TOS_ECT), MANY_FRAMES)
        machine.wait_arrived("veth5", there + MANY_FRAMES)
        marked, back = agent.ports()["veth4"]["ce_marked"], machine.arrived("veth1") - back
        cnps = agent.metrics().total("quench_cnp_sent_total")
    expect(0 < marked < MANY_FRAMES, f"{marked} of {MANY_FRAMES} frames marked")
    expect_equal(back, cnps, "frames that came back, and CNPs")
    expect_equal(cnps > 0, notifies, "CNPs were made")
    results.figure("marked", marked)
    results.figure("cnps", cnps)


def gateway_obeys_pause(machine: Machine, results: Results) -> None:
    """XOFF: nothing leaves. XON: everything does."""
    with agent_runs(machine, results, slow_port("speed: 10Mbit")):
        before = machine.arrived("veth5")
        machine.send("veth5", pfc_frame({ROCE_PRIORITY: PAUSE_MAX_QUANTA}))
        time.sleep(STILL_S)
        machine.send("veth1", data_frame(WAY, QPN), FRAMES)
        time.sleep(STILL_S)
        expect_equal(machine.arrived("veth5") - before, 0, "frames past a closed gate")
        machine.send("veth5", pfc_frame({ROCE_PRIORITY: 0}))
        machine.wait_arrived("veth5", before + FRAMES)
    results.figure("frames_held", FRAMES)


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


def host_reacts_without_tcx(machine: Machine, results: Results) -> None:
    """A host that makes no CNPs needs none: DCQCN and its queues do without."""
    ports = "ports:\n" + "".join(port.row() for port in HOST_PORTS)
    before = machine.state()
    agent = Agent(machine.guest, without_cnps(lab_policy(Fabric())) + ports)
    try:
        modes = {port: row["xdp_mode"] for port, row in agent.ports().items()}
        queues = machine.guest.run("tc qdisc show dev veth2")
    finally:
        agent.stop()
    expect(set(modes.values()) == {"native"}, f"XDP modes {modes}")
    expect("qdisc tbf" in queues, f"no gate: {queues}")
    expect_equal(machine.state(), before, "left behind")


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


CASES = (
    programs_load, policy_is_valid, gateway_runs, gateway_marks_and_makes_cnps, gateway_obeys_pause,
    host_runs_or_says_why_not, host_reacts_without_tcx,
)  # fmt: skip


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
