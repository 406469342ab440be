# SPDX-License-Identifier: BSD-2-Clause
"""quench on this machine's kernel as the gateway between two guests with soft-RoCE.

    a (10.99.0.1, fd99::1) -- tapa [gw: br0] tapb -- b (10.99.0.2, fd99::2)

quench's own word about each frame is compared with the endpoints' counters and with a capture.
"""
import re
import sys
import time
from pathlib import Path
from typing import NamedTuple, Optional

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lab"))
from guest import Guest, Guests, Network  # noqa: E402
from image import Image  # noqa: E402
from lab import Job, Lab, Port, expect, expect_equal, wait_until  # noqa: E402
from results import Results  # noqa: E402
from wire import Flow, Pair, Wire  # noqa: E402

FREE_BPS = 1_000_000_000  # far above what an emulated guest sends
BOTTLENECK_BPS = 60_000_000  # below it
SNAP_BYTES, RING_KB = 2048, 65536
LISTEN_S, CLIENT_S = 30, 50
SETTLE_S = 10
LOOK_S = 0.1
QPN_CM = 1
TOS_ROCE = 26 << 2  # the class's DSCP
TOS_ROCE_ECT = TOS_ROCE | 2

IPV4, IPV6 = {"a": "10.99.0.1", "b": "10.99.0.2"}, {"a": "fd99::1", "b": "fd99::2"}

ENDPOINT_UP = """
sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.eth0.accept_dad=0
ip link set eth0 up; ip addr add {ipv4}/24 dev eth0; ip addr add {ipv6}/64 dev eth0 nodad
modprobe rdma_rxe && modprobe rdma_ucm && rdma link add rxe0 type rxe netdev eth0 || exit 1
cd /sys/class/infiniband/rxe0/ports/1/gids
until i=$(grep -l 0000:0000:0000:0000:0000:ffff *); do usleep 50000; done
echo $i
"""

# A server listens when it sleeps where one waits for connections: nothing that it prints says so.
LISTENING = """
until grep -qE 'ucma|csk|futex' /proc/$(pidof {program})/wchan 2>/dev/null; do usleep 50000; done
"""


class Test(NamedTuple):
    """A program's two ends, and what only one of them is told: b serves, a is the client."""

    name: str
    command: str
    server: str = ""
    client: str = "{peer}"
    data: tuple[str, str] = ("write", "a")  # the operation that carries it, and who sends that
    connects_by_cm: bool = False

    @property
    def program(self) -> str:
        return self.command.split()[0]


MESSAGES, DATAGRAMS = "-s 65536 -n 200", "-s 1024 -n 1000"
TESTS = (
    Test("rping over IPv4", "rping -v -C 200", "-s", "-c -a {peer}", ("send", "a"), True),
    Test("rping over IPv6", "rping -v -C 200", "-s -a {peer6}", "-c -a {peer6}", ("send", "a"), True),
    Test("ib_write_bw", f"ib_write_bw -x {{gid}} {MESSAGES} --tclass={TOS_ROCE}"),
    Test("ib_write_bw -R", f"ib_write_bw -R {MESSAGES} --tos={TOS_ROCE}", connects_by_cm=True),
    Test("ib_read_bw", f"ib_read_bw -x {{gid}} {MESSAGES} --tclass={TOS_ROCE}", data=("read_response", "b")),
    Test("ib_send_bw -R", f"ib_send_bw -R {MESSAGES} --tos={TOS_ROCE}", "", "{peer}", ("send", "a"), True),
    Test("ib_write_lat", f"ib_write_lat -x {{gid}} -n 200 --tclass={TOS_ROCE}"),
    Test("ib_send_bw UD", f"ib_send_bw -c UD -x {{gid}} {DATAGRAMS} --tclass={TOS_ROCE}", data=("send", "a")),
)  # fmt: skip

MARKED = Test("ib_write_bw, marked", f"ib_write_bw -R {MESSAGES} --tos={TOS_ROCE_ECT}", connects_by_cm=True)


class Gateway(Lab):
    """The lab's gateway alone: a bridge between two taps, where guests are plugged in."""

    def __init__(self) -> None:
        super().__init__(bridged=True)
        self.nodes, self.numbers = self.gateways, {}

    def _build(self) -> None:
        super()._build()
        for end in IPV4:
            self.run("gw", "ip", "tuntap", "add", f"tap{end}", "mode", "tap")
            self.ip("gw", f"link set tap{end} mtu {self.fabric.mtu} master br0 up")

    def start_gateway(self, rate_bps: int) -> None:
        self.start_agent("gw", [Port("tapa", "gateway", FREE_BPS), Port("tapb", "gateway", rate_bps)])
        status = self.wait_ready("gw")
        modes = {port["name"]: port["xdp_mode"] for port in status["ports"]}
        expect_equal(modes, {"tapa": "native", "tapb": "native"}, "XDP modes")

    def capture(self, path: Path) -> "CaptureJob":
        return CaptureJob(self, path)


class CaptureJob:
    """tcpdump at b's tap, where everything between a and b passes."""

    def __init__(self, lab: Lab, path: Path):
        self.path = path
        self.job: Job = lab.start(
            "gw", path.stem, "tcpdump", "-Z", "root", "-n", "-U", "--immediate-mode", "-i", "tapb",
            "-s", SNAP_BYTES, "-B", RING_KB, "-w", path, "udp port 4791",
        )  # fmt: skip
        wait_until(lambda: "listening on" in self.job.errors(), SETTLE_S, "tcpdump")

    def finish(self) -> Wire:
        """What it saw, all of it."""
        size = -1
        while size != self.path.stat().st_size:
            size = self.path.stat().st_size
            time.sleep(0.3)
        self.job.stop()
        self.job.wait()
        expect("\n0 packets dropped by kernel" in self.job.errors(), self.job.errors())
        return Wire(self.path)


class Endpoint:
    """A guest with rxe0."""

    def __init__(self, guest: Guest, name: str):
        self.guest, self.name = guest, name
        up = ENDPOINT_UP.format(ipv4=IPV4[name], ipv6=IPV6[name])
        self.gid = int(guest.run(up))
        self.addresses = (IPV4[name], IPV6[name], link_local(guest))

    def counters(self) -> dict[str, int]:
        """rxe's own."""
        text = self.guest.run("cd /sys/class/infiniband/rxe0/ports/1/hw_counters; grep . *")
        return {name: int(value) for name, value in (line.split(":") for line in text.split())}


def link_local(guest: Guest) -> str:
    return re.search(r"inet6 (fe80\S+)/", guest.run("ip -6 addr show dev eth0"))[1]


class Seen:
    """What the gateway's quench says. It is asked while a test runs, too: pairs last as long as their
    connection."""

    def __init__(self, lab: Gateway):
        self.lab = lab
        self.pairs: set[Pair] = set()

    def look(self) -> dict[Flow, dict]:
        flows = {Flow(f["src"], f["dst"], f["dst_qpn"]): f for f in self.lab.flows("gw")}
        for flow, row in flows.items():
            if row["pair_source"] == "cm":
                self.pairs.add(Pair(flow, row["peer_qpn"]))
        return flows

    def cm_frames(self, port: str) -> int:
        """CM messages belong to no flow."""
        return self.lab.metrics("gw").total("quench_frames_total", kind="cm", port=port)

    def frames_from(self, end: "Endpoint") -> int:
        """Every RoCE frame that came from there."""
        flows = self.look()
        data = sum(row["packets"] for flow, row in flows.items() if flow.src in end.addresses)
        return data + self.cm_frames(f"tap{end.name}")


class Run(NamedTuple):
    """What the client printed; how each end's counters, and quench's frames of it, moved meanwhile;
    the flows afterwards, with the packets that each had before."""

    client: str
    moved: dict[str, dict[str, int]]
    counted: dict[str, int]
    flows: dict[Flow, dict]
    packets_before: dict[Flow, int]

    def operations_of(self, end: "Endpoint") -> set[str]:
        """Of the flows from there that moved."""
        return {
            operation
            for flow, row in self.flows.items()
            if flow.src in end.addresses and row["packets"] > self.packets_before.get(flow, 0)
            for operation in row["operations"]
        }


class Fixture:
    """Gateway, guests, and the tests between them."""

    def __init__(self, lab: Gateway, a: Endpoint, b: Endpoint):
        self.lab, self.a, self.b = lab, a, b
        self.seen = Seen(lab)

    @property
    def ends(self) -> tuple[Endpoint, Endpoint]:
        return self.a, self.b

    def counters(self) -> dict[str, dict[str, int]]:
        return {end.name: end.counters() for end in self.ends}

    def counted(self) -> dict[str, int]:
        return {end.name: self.seen.frames_from(end) for end in self.ends}

    def run(self, test: Test) -> Run:
        """Run both ends to a good end of each."""
        words = {"peer": IPV4["b"], "peer6": IPV6["b"]}
        before, counted = self.counters(), self.counted()
        packets_before = {flow: row["packets"] for flow, row in self.seen.look().items()}
        server_line = f"{test.command} {test.server}".format(gid=self.b.gid, **words)
        client_line = f"{test.command} {test.client}".format(gid=self.a.gid, **words)
        server = self.b.guest.start(f"timeout {LISTEN_S + CLIENT_S} {server_line}")
        self.b.guest.run(LISTENING.format(program=test.program), LISTEN_S)
        client = self.a.guest.start(f"timeout {CLIENT_S} {client_line}")
        while not client.done():
            self.seen.look()
            time.sleep(LOOK_S)
        printed = client.result()
        server.result()
        after = self.counters()
        moved = {end: {n: after[end][n] - before[end][n] for n in after[end]} for end in after}
        counted = {end: count - counted[end] for end, count in self.counted().items()}
        return Run(printed, moved, counted, self.seen.look(), packets_before)


def perftest_mb_s(text: str) -> Optional[float]:
    """The average of a bandwidth test: BW average in MB/s, the fourth number of its line."""
    found = re.search(r"^\s*\d+\s+\d+\s+([\d.]+)\s+([\d.]+)\s+[\d.]+\s*$", text, re.M)
    return float(found[2]) if found else None


def passes(fixture: Fixture, test: Test, results: Results) -> None:
    """Both ends succeed; quench counted every frame that they say they sent, and named the operation."""
    run = fixture.run(test)
    for name, counted in run.counted.items():
        expect_equal(counted, run.moved[name]["sent_pkts"], f"frames of {name}")
        results.figure(f"frames_{name}", counted)
    operation, sender = test.data
    found = run.operations_of(getattr(fixture, sender))
    expect(operation in found, f"the flows of {sender} have {found}, not {operation}")
    speed = perftest_mb_s(run.client)
    if speed is not None:
        results.figure("mb_s", speed)


def expect_agreement(fixture: Fixture, wire: Wire) -> None:
    """Flow by flow, quench counts what the capture holds."""
    flows = fixture.seen.look()
    ours = {flow: (row["packets"], row["bytes"], set(row["operations"])) for flow, row in flows.items()}
    theirs = {
        flow: (wire.packets[flow], wire.bytes[flow], wire.operations[flow])
        for flow in wire.packets
        if flow.qpn != QPN_CM
    }
    for flow in sorted(ours.keys() | theirs.keys()):
        expect_equal(ours.get(flow), theirs.get(flow), f"{flow.src} to {flow.dst} QPN {flow.qpn:#x}")
    cm_frames = sum(packets for flow, packets in wire.packets.items() if flow.qpn == QPN_CM)
    expect_equal(sum(fixture.seen.cm_frames(f"tap{e.name}") for e in fixture.ends), cm_frames, "CM messages")


def capture_agrees(fixture: Fixture, wire: Wire, results: Results) -> None:
    expect_agreement(fixture, wire)
    expect_equal(wire.bad_icrcs, 0, "frames with a wrong ICRC")
    results.figure("flows", len(wire.packets))
    results.figure("frames", wire.frames)
    results.figure("bytes", sum(wire.bytes.values()))


def pairs_are_those_of_cm(fixture: Fixture, wire: Wire, results: Results) -> None:
    """quench learned from CM what the oracle learned from the capture, and nothing else."""
    wanted = set(wire.pairs())
    connections = sum(test.connects_by_cm for test in TESTS)
    expect(len(wanted) >= 2 * connections, f"{len(wanted)} ends of pairs by {connections} tests")
    carried = {pair for pair in wanted if pair.flow in wire.packets}
    expect_equal(fixture.seen.pairs, carried, "pairs")
    results.figure("pairs", len(wanted) // 2)


def marks_leave_icrcs_right(fixture: Fixture, directory: Path, results: Results) -> None:
    """A bottleneck at b's port: frames are marked there, none is lost, and every ICRC still holds."""
    fixture.lab.start_gateway(BOTTLENECK_BPS)
    capture = fixture.lab.capture(directory / "marked.pcap")
    run = fixture.run(MARKED)
    wire = capture.finish()
    port = next(p for p in fixture.lab.status("gw")["ports"] if p["name"] == "tapb")
    for end in fixture.ends:
        expect_equal(wire.sent_by(*end.addresses), run.moved[end.name]["sent_pkts"], f"frames of {end.name}")
    expect_agreement(fixture, wire)
    expect(wire.ce > 0, "no frame was marked")
    expect_equal(wire.ce, port["ce_marked"], "marked frames in the capture, and by quench's count")
    expect_equal(wire.bad_icrcs, 0, "frames with a wrong ICRC")
    results.figure("frames", wire.frames)
    results.figure("marked", wire.ce)
    results.figure("mb_s", perftest_mb_s(run.client))


def run_cases(results: Results, image: Image, directory: Path, _: bool) -> None:
    """All cases between two guests of one boot."""
    endpoint = f"rxe of {image.release}"
    host = Path("/proc/sys/kernel/osrelease").read_text().strip()
    with Gateway() as lab, Guests() as guests:
        fixture = None
        with results.on(host, endpoint, "two_endpoints_come_up"):
            ends = [
                Guest(image, f"rxe-{name}", directory,
                      Network(lab.namespace("gw"), f"tap{name}", f"52:54:00:00:00:0{number}", lab.fabric.mtu))
                for number, name in enumerate(IPV4, 1)
            ]  # fmt: skip
            guests.boot(*ends)
            fixture = Fixture(lab, *(Endpoint(guest, name) for guest, name in zip(ends, IPV4)))
        if not fixture:
            return
        before = lab.state()
        capture = wire = None
        with results.on(host, endpoint, "gateway_starts"):
            lab.start_gateway(FREE_BPS)
            capture = lab.capture(directory / "rxe.pcap")
        if not capture:
            return
        for test in TESTS:
            with results.on(host, endpoint, test.name):
                passes(fixture, test, results)
        with results.on(host, endpoint, "every_flow_is_that_of_the_capture"):
            wire = capture.finish()
            capture_agrees(fixture, wire, results)
        with results.on(host, endpoint, "pairs_are_those_of_cm"):
            pairs_are_those_of_cm(fixture, wire, results)
        lab.stop_quench()
        with results.on(host, endpoint, "marks_leave_icrcs_right"):
            marks_leave_icrcs_right(fixture, directory, results)
        lab.stop_quench()
        with results.on(host, endpoint, "nothing_stays_at_the_gateway"):
            expect_equal(lab.left_behind(before), [], "left behind")
