# SPDX-License-Identifier: BSD-2-Clause
"""What a frame costs a gateway: nanoseconds of one CPU from the sender's device to the receiver's,
with quench, with its queues alone, and with none.

Each frame is made at the sender's device, enters the gateway by a port, is routed or bridged, queued
at another, and dropped at the receiver's device when it has been counted there. The two ends are part
of every figure; the row "making and counting alone" says how much of it. The rate of the ports is too
high to hold any frame up, so what is measured is the CPU. A run in which a frame was lost, took
another way or was not seen by quench is a fault and no figure.

Sizes are those on the wire, FCS included. That of a RoCE frame over IPv4 is always two above a
multiple of four, but for the smallest, which has no payload and is padded to 64 by Ethernet.
"""
import json
import os
import shutil
import struct
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Callable, Iterator, NamedTuple, Optional

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "bench"), str(TESTS / "lab")]
from frames import DSCP_ROCE, ECT0, Way, data_frame, ip_header, mac_bytes  # noqa: E402
from harness import Group, Measure, Row  # noqa: E402
from lab import (  # noqa: E402
    ROOT, STOP_S, Lab, Port, expect, expect_equal, policy_with, policy_with_pfc, running, shaper, wait_until,
)  # fmt: skip

TOOL = ROOT / "build/bench/gateway"

SENDERS = 2  # the second for the row of two CPUs
PORTS = ("r1", "h1", "h2")  # of the gateway
MTU = 4200
RATE_BPS = 100_000_000_000
BUFFER_BYTES = 64 << 20
# Room for all that two CPUs may have on the way, and the curve so high that it marks nothing.
POLICY = {"limit": f"{BUFFER_BYTES >> 20}MiB", "kmin": "12MiB", "kmax": "20MiB"}

FCS_BYTES, ETHERNET_BYTES, IPV4_BYTES, UDP_BYTES = 4, 14, 20, 8
ROCE_BYTES_MIN = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES + 12 + 4  # with BTH and ICRC
LIVE_BYTES_MAX = 2048  # XDP makes no frame that does not fit into a page with all that goes with it
SOCKET_SHARE = 4  # longer ones come from a socket, one by one: fewer, so that they take no longer
FIRST_QPN = 0x10000
TOS_ROCE = DSCP_ROCE << 2 | ECT0
DISCARD_PORT = 9
HELD_FRAMES = 128  # behind the closed gate

QPS = 1000
BUDGET, BUDGET_PFC, BUDGET_GATE = 1.25, 1.35, 2
FRAMES, FRAMES_QUICK = 50_000, 20_000
ROUNDS, ROUNDS_QUICK = 25, 5


def roce_frame(way: Way, size: int) -> bytes:
    """A SEND of one packet. The ICRC is that of the first: nobody on the way looks at it."""
    payload_bytes = max(size - FCS_BYTES - ROCE_BYTES_MIN, 0) // 4 * 4
    return data_frame(way, FIRST_QPN, payload_bytes=payload_bytes, tos=TOS_ROCE)


def plain_frame(way: Way, size: int) -> bytes:
    """A UDP datagram of best effort."""
    length = size - FCS_BYTES - ETHERNET_BYTES - IPV4_BYTES
    link = mac_bytes(way.dst_mac) + mac_bytes(way.src_mac) + struct.pack("!H", 0x0800)
    udp = struct.pack("!HHHH", way.port, DISCARD_PORT, length, 0)
    return link + ip_header(way, 0, length, b"") + udp + bytes(length - UDP_BYTES)


class Load(NamedTuple):
    """What is sent through a gateway. Several QPs take turns."""

    size: int
    qps: int = 1
    cpus: int = 1
    roce: bool = True

    def frame(self, way: Way) -> bytes:
        return roce_frame(way, self.size) if self.roce else plain_frame(way, self.size)


USUAL = Load(1022, QPS)


class Tool:
    """build/bench/gateway at work. Its programs come off when the block ends."""

    def __init__(self, *options: str):
        self.process = subprocess.Popen(
            [TOOL, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> "Tool":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()

    def ask(self, *words: object) -> dict:
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        expect(answer, f"{TOOL.name} gave no answer to {' '.join(map(str, words[:3]))}")
        return json.loads(answer)


# The gateways


def start_agent(lab: Lab) -> None:
    """An agent in the gateway and in nobody else."""
    lab.base_policy = policy_with(lab.base_policy, **POLICY)
    lab.start_agent("gw", [Port(port, "gateway", RATE_BPS) for port in PORTS])
    modes = {port["name"]: port["xdp_mode"] for port in lab.wait_ready("gw")["ports"]}
    expect_equal(modes, dict.fromkeys(PORTS, "native"), "XDP modes")


def start_pfc_agent(lab: Lab) -> None:
    """The same with PFC, whose marks no queue ever reaches."""
    lab.base_policy = policy_with_pfc(lab.base_policy, "24MiB", "8MiB")
    start_agent(lab)


def leave_queues(lab: Lab) -> None:
    """The queues of an agent that is no more, without its programs: a filter of the kernel's own
    puts RoCE into its class."""
    start_agent(lab)
    process = lab.agents.pop("gw").process
    guardians = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.kill()
    process.wait()
    wait_until(lambda: not running([int(pid) for pid in guardians]), STOP_S, "end of the guardian")
    shutil.rmtree(next((lab.directory / "bpf/quench").glob(f"v*/{lab.instance('gw')}")))
    lab.tc("gw", *[f"filter del dev {port} parent 9000:" for port in PORTS])
    lab.tc("gw", "filter add dev r1 parent 9000: protocol ip u32 "
                 f"match ip dsfield {DSCP_ROCE << 2:#x} 0xfc flowid 9000:10")  # fmt: skip


def make_htb(lab: Lab) -> None:
    lab.tc("gw", *shaper("r1", RATE_BPS, BUFFER_BYTES, lab.fabric.frame_bytes_max))


class Kind(NamedTuple):
    """How a gateway is set up."""

    prepare: Callable[[Lab], None]
    bridged: bool = False
    empty_xdp: bool = True  # on every port
    queues: bool = True  # those of quench
    receiver: tuple[str, str] = ("r1", "eth0")


KINDS = {
    "alone": Kind(lambda _: None, bridged=True, empty_xdp=False, queues=False, receiver=("gw", "h1")),
    "none": Kind(lambda _: None, empty_xdp=False, queues=False),
    "htb": Kind(make_htb, queues=False),
    "queues": Kind(leave_queues),
    "quench": Kind(start_agent, empty_xdp=False),
    "pfc quench": Kind(start_pfc_agent, empty_xdp=False),
    "bridged queues": Kind(leave_queues, bridged=True),
    "bridged quench": Kind(start_agent, bridged=True, empty_xdp=False),
}


class Gateway:
    """A gateway of one kind between its senders and the receiver."""

    def __init__(self, kind: Kind, lab: Lab, tool: Tool, frames: int):
        self.kind, self.lab, self.tool, self.frames = kind, lab, tool, frames

    def way(self, host: str) -> Way:
        own, to = (f"02:00:00:00:{self.lab.numbers[node]:02x}" for node in (host, "r1"))
        to_mac = f"{to}:01" if self.kind.bridged else f"{own}:fe"
        return Way(f"{own}:01", to_mac, self.lab.address(host), self.lab.address("r1"))

    def send(self, load: Load, count: int) -> dict:
        """So many frames, from each of the load's CPUs; the tool's report."""
        frames = [load.frame(self.way(host)).hex() for host in self.lab.hosts[: load.cpus]]
        return self.tool.ask("live" if load.size <= LIVE_BYTES_MAX else "socket", count, load.qps, *frames)

    def cost_ns(self, load: Load) -> float:
        """Of one frame. Nothing but what is measured may have happened meanwhile."""
        each = self.frames_each(load)
        count = each * load.cpus
        before = self.counters()
        report = self.send(load, each)
        self.check_arrivals(load, count, report)
        grown = {what: value - before[what] for what, value in self.counters().items()}
        roce, others = (count, 0) if load.roce else (0, count)
        wanted = {"through the gate": roce, "rocev2": roce, "other": others}
        expect_equal(grown, {what: wanted.get(what, 0) for what in grown}, f"growth with {load}")
        return report["ns"] / count

    def frames_each(self, load: Load) -> int:
        """From each CPU. Two CPUs start milliseconds apart: always so many that this is little."""
        frames = max(self.frames, FRAMES) if load.cpus > 1 else self.frames
        return frames if load.size <= LIVE_BYTES_MAX else frames // SOCKET_SHARE

    def check_arrivals(self, load: Load, count: int, report: dict) -> None:
        """Every frame, whole. Who routes takes the padding off."""
        kind, frame = "roce" if load.roce else "other", load.frame(self.way("h1"))
        (ip_bytes,) = struct.unpack_from("!H", frame, ETHERNET_BYTES + 2)
        size = len(frame) if self.kind.bridged else ETHERNET_BYTES + ip_bytes
        arrived = report[f"{kind}_frames"], report[f"{kind}_bytes"]
        expect_equal(arrived, (count, count * size), f"frames and bytes that arrived of {load}")

    def counters(self) -> dict[str, int]:
        """Whatever tells the way that the frames took."""
        counters = {}
        if self.kind.queues:
            counters["through the gate"] = self.tool.ask("gate", "look")["frames_sent"]
        if self.lab.agents:
            metrics = self.lab.metrics("gw")
            for kind in ("rocev2", "other"):
                counters[kind] = metrics.total("quench_frames_total", kind=kind)
            for what in ("depth_unknown", "drops", "ce_marked", "flows_full", "queue_drops"):
                counters[what] = metrics.total(f"quench_{what}_total")
        return counters

    def held(self) -> int:
        """Frames behind the gate."""
        return self.tool.ask("gate", "look")["frames_held"]

    def warm_up(self) -> None:
        """Once past everything that only the first frame meets, with as many flows as there will be."""
        self.send(USUAL, QPS)
        if self.lab.agents:
            expect_equal(len(self.lab.flows("gw")), QPS, "flows")

    def queues_text(self) -> str:
        """Every queue of the port to the receiver, with all its values."""
        shown = (self.lab.run("gw", "tc", "-d", what, "show", "dev", "r1") for what in ("qdisc", "class"))
        return "".join(shown)


def ends_of(kind: Kind, lab: Lab) -> list[str]:
    """What the tool has to know of the lab."""
    places = [("-s", host, "eth0") for host in lab.hosts] + [("-r", *kind.receiver)]
    places += [("-g", "gw", "r1")] if kind.queues else []
    places += [("-e", "gw", port) for port in PORTS if kind.empty_xdp]
    return [word for option, node, port in places for word in (option, f"{lab.namespace(node)}:{port}")]


@contextmanager
def gateway_of(name: str, frames: int) -> Iterator[Gateway]:
    kind = KINDS[name]
    lab_name = f"q{os.getpid()}{name.replace(' ', '')}"
    with Lab(senders=SENDERS, name=lab_name, mtu=MTU, bridged=kind.bridged) as lab:
        kind.prepare(lab)
        with Tool(*ends_of(kind, lab)) as tool:
            gateway = Gateway(kind, lab, tool, frames)
            gateway.warm_up()
            yield gateway


# What is measured


class Point(NamedTuple):
    """A load on a gateway of one kind: one figure."""

    kind: str
    load: Load

    @property
    def key(self) -> str:
        return f"{self.kind}: {self.load}"


class Comparison(NamedTuple):
    ours: Point
    other: Point
    other_name: str
    budget: Optional[float] = None

    def row(self) -> Row:
        load = self.ours.load
        words = ["bridged" if KINDS[self.ours.kind].bridged else "routed", f"{load.size:,} B",
                 f"{load.qps:,} QP{'s' if load.qps > 1 else ''}"]  # fmt: skip
        words += ["PFC"] if self.ours.kind.startswith("pfc") else []
        words += [f"{load.cpus} CPUs into one port"] if load.cpus > 1 else []
        name = f"gateway: {', '.join(words)}"
        return Row(name, "ns/frame", self.ours.key, self.other.key, self.other_name, self.budget)


def beside_queues(load: Load, way: str = "") -> Comparison:
    ours, other = Point(f"{way}quench", load), Point(f"{way}queues", load)
    return Comparison(ours, other, "empty XDP, same queues", BUDGET)


QUENCH = Point("quench", USUAL)
COMPARISONS = [
    beside_queues(Load(64)),
    beside_queues(Load(64, QPS)),
    beside_queues(Load(254, QPS)),
    beside_queues(Load(1022)),
    beside_queues(USUAL),
    beside_queues(Load(4094, QPS)),
    beside_queues(USUAL, "bridged "),
    Comparison(Point("pfc quench", USUAL), Point("queues", USUAL), "empty XDP, same queues", BUDGET_PFC),
    Comparison(Point("pfc quench", USUAL), QUENCH, "quench without PFC"),
    Comparison(QUENCH, Point("htb", USUAL), "empty XDP, one HTB"),
    Comparison(QUENCH, Point("none", USUAL), "no XDP, no queues"),
    Comparison(QUENCH, Point("alone", USUAL), "making and counting alone"),
    Comparison(Point("quench", USUAL._replace(cpus=2)), QUENCH, "1 CPU"),
]
POINTS = list(dict.fromkeys(point for c in COMPARISONS for point in (c.ours, c.other)))
GATE_ROW = Row("gateway: best effort, a gate closed", "ns/frame", "gate closed", "gate open", "gate open",
               BUDGET_GATE)  # fmt: skip


def gate_costs_ns(gateway: Gateway) -> dict[str, float]:
    """Of a best-effort frame, while frames of RoCE wait behind their class's gate and while none do."""
    load = Load(1022, roce=False)
    costs = {"gate open": gateway.cost_ns(load)}
    gateway.tool.ask("gate", "close")
    gateway.send(USUAL, HELD_FRAMES)
    expect_equal(gateway.held(), HELD_FRAMES, "frames behind the closed gate")
    costs["gate closed"] = gateway.cost_ns(load)
    expect_equal(gateway.held(), HELD_FRAMES, "frames behind the closed gate afterwards")
    gateway.tool.ask("gate", "open")
    wait_until(lambda: not gateway.held(), STOP_S, "an opened gate")
    return costs


@contextmanager
def session(quick: bool) -> Iterator[Measure]:
    frames = FRAMES_QUICK if quick else FRAMES
    with ExitStack() as stack:
        gateways = {kind: stack.enter_context(gateway_of(kind, frames)) for kind in KINDS}
        same = [gateways[kind].queues_text() for kind in ("queues", "quench")]
        expect_equal(*same, "the queues without quench")
        yield lambda: {
            **{point.key: gateways[point.kind].cost_ns(point.load) for point in POINTS},
            **gate_costs_ns(gateways["quench"]),
        }


ROWS = [*[comparison.row() for comparison in COMPARISONS], GATE_ROW]
GROUPS = [Group("gateway", ROWS, session, ROUNDS, ROUNDS_QUICK)]
