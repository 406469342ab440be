#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""How an agent grows: its CPU and memory with the QPs that it holds back, its metrics with the flows.

A host of several ports, each with a peer at the other end of its cable. CM messages make the pairs, a
frame of each QP gets it a class, and CNPs slow it down. Policy: the defaults, but for timers of 1 ms, so
that each tick raises each QP once, and additive increases too small to bring any back to line rate.

More QPs are left to the command line, because their classes take minutes to make: the kernel walks all
classes of an HTB for each new one, and lists the qdiscs of every device to whoever asks about one.

    growth.py PORTS QPS    measure once with so many ports and QPs of each, and print the figures
"""
import http.client
import json
import random
import re
import socket
import statistics
import struct
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, Iterator

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lab"))
from frames import (  # noqa: E402
    DSCP_ROCE, ECT0, PACKET_QDISC_BYPASS, SOL_PACKET, Injector, Way, cm_frame, cnp_frame, data_frame,
    start_blast,
)  # fmt: skip
from harness import Group, Measure, Row  # noqa: E402
from lab import (  # noqa: E402
    METRICS_PORT, RETURN_BPS,
    Lab, LabError, Metrics, Port, expect_equal, in_namespace, wait_until,
)  # fmt: skip
from test_fast import agent_cpu_s  # noqa: E402

BTH_OFFSET = 14 + 20 + 8
QPN_OFFSET = BTH_OFFSET + 5  # of the destination
MAD_OFFSET = BTH_OFFSET + 12 + 8
OTHER_MAC = "02:00:00:00:ff:ff"  # of nobody: behind XDP and the queues, the stacks drop such frames
POLICY = """version: 1
classes:
  - {{name: roce, priority: 3, dscp: [26], kind: lossless, limit: 1MiB}}
dcqcn:
  qp_classes: {qps}
  increase_timer: 1ms
  alpha_timer: 1ms
  additive_rate: 1kbit
  idle: 3600s
flows_max: 131072
"""


# Limited QPs

SIZES = {1_000: (1, 1_000), 10_000: (4, 2_500)}  # all QPs: ports, QPs of each
PORT_BPS = 10_000_000_000
QPN_FIRST = 0x100
TRIES_MAX = 10
LUMP, LUMP_S = 100, 0.002  # frames sent at once, and the time that they have
CALM_S, MEASURE_S = 1, 2
CNPS_PER_S = 10_000
START_S = 300  # many classes take their time


class Cable:
    """The QPs of one port of the host, seen from both ends of its cable."""

    REQ, REP = 0x10, 0x13
    ATTRIBUTE, LOCAL_ID, REQ_QPN, REP_QPN = 16, 24, 56, 36  # offsets in a MAD

    def __init__(self, lab: Lab, peer: str, qps: int):
        number = lab.numbers[peer]
        here, there = f"10.0.{number}.254", f"10.0.{number}.1"
        self.to_host = Way(f"02:00:00:00:{number:02x}:01", OTHER_MAC, there, here)
        self.to_peer = Way(f"02:00:00:00:{number:02x}:fe", OTHER_MAC, here, there)
        self.qpns = range(QPN_FIRST, QPN_FIRST + qps)  # the same at both ends
        self.wire = Injector(lab, peer, "eth0").socket
        self.queues = Injector(lab, "gw", peer).socket
        self.queues.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, 0)

    def close(self) -> None:
        self.wire.close()
        self.queues.close()

    def _cm(self, way: Way, attribute: int, qpn_offset: int, qpn: int) -> bytes:
        """A message of one of the two handshakes' halves; a QP's IDs are its QPN at both ends."""
        frame = bytearray(cm_frame(way))
        frame[MAD_OFFSET + 1] = 7  # the class of CM
        struct.pack_into("!H", frame, MAD_OFFSET + self.ATTRIBUTE, attribute)
        struct.pack_into("!II", frame, MAD_OFFSET + self.LOCAL_ID, qpn, qpn)
        put_qpn(frame, MAD_OFFSET + qpn_offset, qpn)
        return bytes(frame)

    def handshakes(self) -> Iterator[tuple[socket.socket, bytes]]:
        """The host's answer comes by the wire as well: it is not asked who said so."""
        for qpn in self.qpns:
            yield self.wire, self._cm(self.to_host, self.REQ, self.REQ_QPN, qpn)
            yield self.wire, self._cm(self.to_peer, self.REP, self.REP_QPN, qpn)

    def data(self) -> Iterator[tuple[socket.socket, bytes]]:
        frame = data_frame(self.to_peer, 0, tos=DSCP_ROCE << 2 | ECT0)
        return ((self.queues, with_qpn(frame, qpn)) for qpn in self.qpns)

    def cnps(self) -> Iterator[tuple[socket.socket, bytes]]:
        frame = cnp_frame(self.to_host, 0)
        return ((self.wire, with_qpn(frame, qpn)) for qpn in self.qpns)


def put_qpn(frame: bytearray, offset: int, qpn: int) -> None:
    frame[offset : offset + 3] = qpn.to_bytes(3, "big")


def with_qpn(frame: bytes, qpn: int) -> bytes:
    """The frame for another QP; nobody here looks at the ICRC."""
    changed = bytearray(frame)
    put_qpn(changed, QPN_OFFSET, qpn)
    return bytes(changed)


def send_in_lumps(frames: list[tuple[socket.socket, bytes]], times: int = 1) -> None:
    """All of them, each lump several times over, no faster than the agent empties its ring: CNPs of one
    QP that come closer than dcqcn.cnp_spacing count as one."""
    for start in range(0, len(frames), LUMP):
        for _ in range(times):
            for sender, frame in frames[start : start + LUMP]:
                sender.send(frame)
            time.sleep(LUMP_S)


class Host:
    """An agent at the gateway, with ports of role host."""

    def __init__(self, lab: Lab, ports: int, qps: int):
        self.lab = lab
        self.all_qps = ports * qps
        peers = lab.hosts[:ports]
        lab.base_policy = POLICY.format(qps=qps)
        lab.start_agent("gw", [Port(peer, "host", PORT_BPS) for peer in peers])
        wait_until(lambda: lab.status("gw"), START_S, "the agent does not answer")
        self.cables = [Cable(lab, peer, qps) for peer in peers]

    def stop(self) -> None:
        for cable in self.cables:
            cable.close()
        job = self.lab.agents.pop("gw")
        job.stop()
        job.wait(START_S)

    def frames(self, kind: Callable[[Cable], Iterator]) -> list[tuple[socket.socket, bytes]]:
        return [frame for cable in self.cables for frame in kind(cable)]

    def bring(self, metric: str, frames: list, times: int = 1) -> None:
        """Send the frames until the metric counts all QPs."""
        for _ in range(TRIES_MAX):
            send_in_lumps(frames, times)
            time.sleep(0.3)
            there = self.lab.metrics("gw").total(metric)
            if there == self.all_qps:
                return
        raise LabError(f"{metric}: {there} of {self.all_qps}")

    def limit_all(self) -> list[tuple[socket.socket, bytes]]:
        """Returns a CNP for each QP, in a random order. Three CNPs one after another bring the target down too,
        so that recovery ends far below line rate."""
        self.bring("quench_pairs", self.frames(Cable.handshakes))
        self.bring("quench_qp_classes", self.frames(Cable.data))
        cnps = self.frames(Cable.cnps)
        random.Random(1).shuffle(cnps)
        self.bring("quench_qps_limited", cnps, times=3)
        return cnps

    def cpu_percent(self, meanwhile: Callable[[], None]) -> float:
        before, started = agent_cpu_s(self.lab, "gw"), time.monotonic()
        meanwhile()
        return 100 * (agent_cpu_s(self.lab, "gw") - before) / (time.monotonic() - started)

    def resident_mb(self) -> float:
        status = Path(f"/proc/{self.lab.agents['gw'].process.pid}/status").read_text()
        return int(re.search(r"^VmRSS:\s+(\d+) kB", status, re.M)[1]) * 1024 / 1e6


def send_steadily(frames: list[tuple[socket.socket, bytes]], count: int) -> None:
    """CNPS_PER_S; what was held up is made up for in lumps that the ring holds."""
    started, sent = time.monotonic(), 0
    while sent < count:
        due = int((time.monotonic() - started) * CNPS_PER_S)
        for n in range(sent, min(due, count, sent + LUMP)):
            sender, frame = frames[n % len(frames)]
            sender.send(frame)
            sent += 1
        time.sleep(0.001)


def measure_size(lab: Lab, ports: int, qps: int) -> dict[str, float]:
    host = Host(lab, ports, qps)
    cnps = host.limit_all()
    time.sleep(CALM_S)
    count = CNPS_PER_S * MEASURE_S
    recovering = host.cpu_percent(lambda: time.sleep(MEASURE_S))
    before = lab.metrics("gw")
    slowing = host.cpu_percent(lambda: send_steadily(cnps, count))
    after = lab.metrics("gw")
    expect_equal(after.total("quench_qps_limited"), host.all_qps, "QPs limited at the end")
    handled = grown(before, after, "quench_cnp_handled_total")
    figures = {
        "cpu": recovering, "cpu_cnps": slowing, "memory": host.resident_mb(),
        "handled": 100 * handled / count,
    }  # fmt: skip
    host.stop()
    return figures


def grown(before: Metrics, after: Metrics, name: str) -> int:
    return after.total(name) - before.total(name)


@contextmanager
def qps_session(_: bool) -> Iterator[Measure]:
    with Lab(senders=max(ports for ports, _ in SIZES.values())) as lab:
        yield lambda: {
            f"{key}_{size}": value
            for size, shape in SIZES.items()
            for key, value in measure_size(lab, *shape).items()
        }


def qps_rows() -> list[Row]:
    """Few QPs against what is sane, many against few: no more than in proportion."""
    few, many = SIZES
    rows = []
    for key, what, unit, budget, budget_ratio in (
        ("cpu", "agent's CPU, {} QPs recovering, tick 1 ms", "% of a core", 30, many / few),
        ("cpu_cnps", f"agent's CPU, {{}} QPs, {CNPS_PER_S:,} CNPs a second", "% of a core", 50, many / few),
        ("memory", "agent's memory (RSS), {} QPs limited", "MB", 64, 2),
    ):
        rows.append(Row(what.format(f"{few:,}"), unit, f"{key}_{few}", budget=budget))
        rows.append(Row(what.format(f"{many:,}"), unit, f"{key}_{many}", f"{key}_{few}", f"{few:,} QPs",
                        budget_ratio))  # fmt: skip
    rows.append(Row(f"of those CNPs, handled with {many:,} QPs", "%", f"handled_{many}", budget=90,
                    more_is_better=True))  # fmt: skip
    return rows


# Flows

FLOWS = {"h1": 1_000, "r1": 100_000}  # at two agents of the same kind
FEW_FLOWS = "h1"
FLOWS_PER_S = 200_000
SCRAPES = 20


def fill_flows(lab: Lab, node: str) -> None:
    """One frame of each flow; the destination QPN counts up from 0."""
    number, flows = lab.numbers[node], FLOWS[node]
    way = Way(f"02:00:00:00:{number:02x}:fe", OTHER_MAC, "10.0.200.1", lab.address(node))
    start_blast(
        lab, "gw", node, [data_frame(way, 0, tos=DSCP_ROCE << 2 | ECT0)],
        "-n", flows, "-r", FLOWS_PER_S, "-c", QPN_OFFSET,
    ).report()  # fmt: skip
    seen = lab.metrics(node)
    expect_equal(seen.total("quench_frames_total", kind="rocev2"), flows, f"frames of {node}")
    expect_equal(seen.total("quench_flows_full_total"), 0, f"flows that {node} has no room for")


def listing_ms(lab: Lab, node: str) -> float:
    started = time.perf_counter()
    expect_equal(len(lab.flows(node)), FLOWS[node], f"flows of {node}")
    return (time.perf_counter() - started) * 1e3


def scrapes_ms(lab: Lab, node: str) -> float:
    """The median of a few; each opens a connection, as Prometheus' first one does."""

    def scrape() -> float:
        started = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", METRICS_PORT, timeout=5)
        connection.request("GET", "/metrics")
        connection.getresponse().read()
        connection.close()
        return (time.perf_counter() - started) * 1e3

    return in_namespace(lab.namespace(node), lambda: statistics.median(scrape() for _ in range(SCRAPES)))


@contextmanager
def scrape_session(_: bool) -> Iterator[Measure]:
    with Lab(senders=1) as lab:
        lab.base_policy = POLICY.format(qps=64)
        for node in FLOWS:
            lab.start_agent(node, [Port("eth0", "host", RETURN_BPS)])
        for node in FLOWS:
            lab.wait_ready(node)
            fill_flows(lab, node)
        yield lambda: {
            **{f"scrape_{flows}": scrapes_ms(lab, node) for node, flows in FLOWS.items()},
            "listing": listing_ms(lab, FEW_FLOWS),
        }


def scrape_rows() -> list[Row]:
    few, many = FLOWS.values()
    return [
        Row(f"scrape of /metrics, {many:,} flows", "ms", f"scrape_{many}", f"scrape_{few}",
            f"{few:,} flows", 2),
        Row(f"quench flows --json, {few:,} flows", "ms", "listing", budget=1_000),
    ]  # fmt: skip


GROUPS = [
    Group("scrape", scrape_rows(), scrape_session, rounds=5, rounds_quick=3),
    Group("growth", qps_rows(), qps_session, rounds=1),
]


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__.splitlines()[-1].strip(), file=sys.stderr)
        return 2
    ports, qps = map(int, sys.argv[1:])
    with Lab(senders=ports) as lab:
        print(json.dumps(measure_size(lab, ports, qps)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
