# SPDX-License-Identifier: BSD-2-Clause
"""quench on this machine's kernel as the gateway between two guests with soft-RoCE.

    a (10.99.0.1, fd99::1) -- tapa [gw: br0] tapb -- b (10.99.0.2, fd99::2)

quench's own word about each frame is compared with the endpoints' counters and with a capture.
"""
import re
import sys
import time
from pathlib import Path
from typing import ContextManager, NamedTuple, Optional

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lab"))
from endpoints import IPV4, IPV6, LISTEN_S, Endpoint, Gateway, Seen, await_listening  # noqa: E402
from guest import Guests  # noqa: E402
from image import Image  # noqa: E402
from lab import expect, expect_equal  # noqa: E402
from results import Results  # noqa: E402
from wire import Flow, Wire, tshark_opcodes  # noqa: E402

BOTTLENECK_BPS = 60_000_000  # below what an emulated guest sends
CLIENT_S = 50
LOOK_S = 0.1
QPN_CM = 1
MTUS = {1500: 1024, 4500: 4096}  # of Ethernet, and what rxe makes of it
TOS_ROCE = 26 << 2  # the class's DSCP
TOS_ROCE_ECT = TOS_ROCE | 2

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

    def start_gateway(self, **rates_bps: int) -> None:
        self.lab.start_gateway(**rates_bps)
        self.seen = Seen(self.lab)

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
        await_listening(self.b.guest, test.program, [server])
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
    """Both ends succeed; quench counted every frame that they say they sent and got, and named the
    operation."""
    run = fixture.run(test)
    for end, other in (("a", "b"), ("b", "a")):
        expect_equal(run.counted[end], run.moved[end]["sent_pkts"], f"frames that {end} sent")
        expect_equal(run.counted[end], run.moved[other]["rcvd_pkts"], f"frames that {other} got")
        results.figure(f"frames_{end}", run.counted[end])
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


def tshark_agrees(wire: Wire, path: Path, results: Results) -> None:
    """On the frames of each flow and opcode, that of CM included."""
    expect_equal(tshark_opcodes(path), wire.opcodes, "frames by flow and opcode")
    results.figure("opcodes", len({opcode for _, opcode in wire.opcodes}))


def marks_leave_icrcs_right(fixture: Fixture, path: Path, results: Results) -> None:
    """A bottleneck at b's port: frames are marked there, none is lost, and every ICRC still holds."""
    fixture.start_gateway(b=BOTTLENECK_BPS)
    capture = fixture.lab.capture(path)
    run = fixture.run(MARKED)
    wire = capture.finish()
    for end in fixture.ends:
        expect_equal(wire.sent_by(*end.addresses), run.moved[end.name]["sent_pkts"], f"frames of {end.name}")
    expect_agreement(fixture, wire)
    expect(wire.ce > 0, "no frame was marked")
    expect_equal(wire.ce, fixture.lab.port("b")["ce_marked"], "marked frames in the capture, and by quench's count")
    expect_equal(wire.bad_icrcs, 0, "frames with a wrong ICRC")
    results.figure("frames", wire.frames)
    results.figure("marked", wire.ce)
    results.figure("mb_s", perftest_mb_s(run.client))


def run_with_mtu(results: Results, fixture: Fixture, endpoint: str, mtu: int, directory: Path) -> None:
    host = Path("/proc/sys/kernel/osrelease").read_text().strip()

    def on(case: str) -> ContextManager[None]:
        return results.on(host, endpoint, f"{case}, MTU {mtu}")

    capture = wire = None
    path = directory / f"rxe-{mtu}.pcap"
    with on("gateway_starts"):
        fixture.lab.set_mtu(mtu)
        for end in fixture.ends:
            expect_equal(end.set_mtu(mtu), MTUS[mtu], f"path MTU of {end.name}")
        fixture.start_gateway()
        capture = fixture.lab.capture(path)
    if not capture:
        return
    for test in TESTS:
        with on(test.name):
            passes(fixture, test, results)
    with on("every_flow_is_that_of_the_capture"):
        wire = capture.finish()
        capture_agrees(fixture, wire, results)
    with on("tshark_agrees"):
        tshark_agrees(wire, path, results)
    with on("pairs_are_those_of_cm"):
        pairs_are_those_of_cm(fixture, wire, results)
    fixture.lab.stop_quench()
    with on("marks_leave_icrcs_right"):
        marks_leave_icrcs_right(fixture, directory / f"marked-{mtu}.pcap", results)
    fixture.lab.stop_quench()


def run_cases(results: Results, image: Image, directory: Path, _: bool) -> None:
    """All cases between two guests of one boot."""
    endpoint = f"rxe of {image.release}"
    host = Path("/proc/sys/kernel/osrelease").read_text().strip()
    with Gateway("a", "b") as lab, Guests() as guests:
        fixture = None
        with results.on(host, endpoint, "two_endpoints_come_up"):
            ends = [lab.guest(image, f"rxe-{name}", name, directory) for name in lab.ends]
            guests.boot(*ends)
            fixture = Fixture(lab, *(Endpoint(guest, name) for guest, name in zip(ends, lab.ends)))
        if not fixture:
            return
        before = lab.state()
        for mtu in MTUS:
            run_with_mtu(results, fixture, endpoint, mtu, directory)
        lab.set_mtu(1500)
        with results.on(host, endpoint, "nothing_stays_at_the_gateway"):
            expect_equal(lab.left_behind(before), [], "left behind")
