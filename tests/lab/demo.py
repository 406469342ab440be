#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The demo: N senders overload one gateway port, first on the kernel's own queues, then with quench.

Prints both runs side by side, writes build/demo.json, and fails when quench breaks a promise or
when the plain run shows no loss that could have been prevented.
"""
import argparse
import json
import math
import os
import re
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Callable, NamedTuple, Optional

sys.path.insert(0, str(Path(__file__).resolve().parent))
from lab import (  # noqa: E402
    BOTTLENECK_BPS, METRICS_PORT, QMON, QUENCH, RCPEER, READY_S, ROOT,
    Fabric, Job, Lab, LabError, Traffic, add_fabric_options, fabric_of, fabric_options, in_namespace,
    policy_number, wait_until,
)  # fmt: skip

REPORT = ROOT / "build/demo.json"
PYTHON = "/usr/bin/python3"  # the one that Debian's scapy belongs to
CHECK_CNPS = ROOT / "tests/oracle/check_cnps.py"

MESSAGE_BYTES = 65536
# What HTB counts of a frame: Ethernet without FCS, IP, UDP, BTH, ICRC.
HEADER_BYTES = {4: 14 + 20 + 8 + 12 + 4, 6: 14 + 40 + 8 + 12 + 4}
RETH_BYTES = 16  # in the first frame of a message
CAPTURE_FILTER = {  # CNPs
    4: "udp dst port 4791 and udp[8] = 0x81",
    6: "ip6 and udp dst port 4791 and ip6[48] = 0x81",
}
TIMELINE_SLOT_S = 0.1  # of rcpeer's reports


# Measuring


class Losses:
    """Counters of lost frames: of the queues, by node, and of what lies before any queue. Where
    quench runs, best effort is left out: its queue is one of its own, and TCP fills it."""

    def __init__(self, lab: Lab):
        self.queues = {node: sum(queue_drops(lab, node).values()) for node in lab.nodes}
        self.before_queues = softnet_drops() + sum(device_drops(lab, node) for node in lab.nodes)


UNCOUNTED_LEAVES = ("9031:", "9032:")  # of quench's tree: best effort, and the sink that kicks end in


def queue_drops(lab: Lab, node: str) -> dict[str, int]:
    """Frames that the qdiscs of each device lost, but for best effort's and the agent's own. A parent counts what its
    leaf refused once more, so the larger of the root's count and the sum of the leaves' is taken."""
    qdiscs = json.loads(lab.run(node, "tc", "-s", "-j", "qdisc"))
    drops = {}
    for device in {q["dev"] for q in qdiscs}:
        own = [q for q in qdiscs if q["dev"] == device]
        parents = {q["parent"].split(":")[0] for q in own if "parent" in q}
        root = sum(q["drops"] for q in own if q.get("root"))
        leaves = sum(q["drops"] for q in own if q["handle"].rstrip(":") not in parents)
        uncounted = sum(q["drops"] for q in own if q["handle"] in UNCOUNTED_LEAVES)
        drops[device] = max(root, leaves) - uncounted
    return drops


def softnet_drops() -> int:
    """Frames that found a CPU's backlog full; of the whole machine."""
    lines = Path("/proc/net/softnet_stat").read_text().splitlines()
    return sum(int(line.split()[1], 16) for line in lines)


XDP_DROPS = re.compile(r"^\s*rx_queue_\d+_xdp_drops: (\d+)", re.M)


def device_drops(lab: Lab, node: str) -> int:
    """Frames that the veth devices of a node lost, receive ring and XDP included."""
    total = 0
    for link in json.loads(lab.run(node, "ip", "-s", "-s", "-j", "link", "show", "type", "veth")):
        stats = link["stats64"]
        total += sum(stats["rx"][key] for key in ("dropped", "over_errors", "missed_errors"))
        total += stats["tx"]["dropped"]
        driver = lab.run(node, "ethtool", "-S", link["ifname"])
        total += sum(map(int, XDP_DROPS.findall(driver)))
    return total


class Captures:
    """The CNPs on the gateways' ports toward the senders."""

    def __init__(self, lab: Lab):
        self.lab = lab
        self.jobs = [self._start(host) for host in lab.hosts]
        for job in self.jobs:
            wait_until(lambda: self._listens(job), 10, f"{job.name} does not capture")

    def _start(self, host: str) -> Job:
        return self.lab.start(
            self.lab.gateway_of(host), f"capture-{host}", "tcpdump", "-Z", "root", "-i", host,
            "-w", self._file(host), "-s", "128", "-B", "4096", "-U", "--immediate-mode",
            CAPTURE_FILTER[self.lab.fabric.ipv],
        )  # fmt: skip

    def _file(self, host: str) -> Path:
        return self.lab.directory / f"{host}.pcap"

    @staticmethod
    def _listens(job: Job) -> bool:
        if not job.alive():
            raise LabError(f"{job.name}: {job.errors().strip()}")
        return "listening on" in job.errors()

    def finish(self) -> None:
        """A capture that lost frames proves nothing."""
        for job in self.jobs:
            job.stop()
        for job in self.jobs:
            job.wait()
            dropped = re.search(r"^(\d+) packets? dropped by kernel", job.errors(), re.M)
            if not dropped or dropped[1] != "0":
                raise LabError(f"{job.name}: {dropped[0] if dropped else 'says nothing of drops'}")

    def judge(self, pairs: list[dict]) -> dict:
        """What an independent reader says of every CNP."""
        pair_file = self.lab.directory / "pairs.json"
        pair_file.write_text(json.dumps(pairs))
        files = [str(self._file(host)) for host in self.lab.hosts]
        command = [PYTHON, str(CHECK_CNPS), *files, "--pairs", str(pair_file)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode not in (0, 1) or not done.stdout:
            raise LabError(f"check_cnps.py: {done.stderr.strip()}")
        return json.loads(done.stdout)


def payload_share(fabric: Fabric) -> float:
    """The share of payload in what a saturated port sends."""
    headers = HEADER_BYTES[fabric.ipv] + RETH_BYTES * fabric.path_mtu / MESSAGE_BYTES
    return fabric.path_mtu / (fabric.path_mtu + headers)


def received_bytes(flow: dict, start: float, end: float) -> int:
    """Payload taken in order for the first time between two times on slot borders."""
    first = flow["timeline_start_epoch"]
    slots = range(round((start - first) / TIMELINE_SLOT_S), round((end - first) / TIMELINE_SLOT_S))
    line = flow["timeline"]
    return sum(line[i] for i in slots if 0 <= i < len(line))


def jain(shares: list[int]) -> float:
    """Jain's fairness index: 1 when all are equal, 1/n when one has everything."""
    squares = sum(x * x for x in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 0.0


def over_senders(combine: Callable, sent: list[dict], quantile: str) -> Optional[float]:
    """Combine a latency quantile of all senders that completed a message."""
    values = [s["latency_us"][quantile] for s in sent if s["latency_us"][quantile] is not None]
    return combine(values) if values else None


def shares_by_path(lab: Lab, traffic: Traffic, start: float, end: float) -> dict[tuple, list[int]]:
    """What each sender's flow took between two times, by the way that it goes."""
    taken = {flow["src"]: received_bytes(flow, start, end) for flow in traffic.received["flows"]}
    shares: dict[tuple, list[int]] = {}
    for host in lab.hosts:
        shares.setdefault(lab.path_of(host), []).append(taken.get(lab.address(host), 0))
    return shares


def goodput_share(lab: Lab, traffic: Traffic) -> float:
    """The payload through the bottleneck, as a share of what it can carry; with two, the lesser."""
    start, end = traffic.start_epoch, traffic.start_epoch + traffic.seconds
    possible = BOTTLENECK_BPS / 8 * traffic.seconds * payload_share(lab.fabric)
    through = []
    for gateway, _ in lab.bottlenecks():
        addresses = {lab.address(host) for host in lab.hosts if lab.passes(host, gateway)}
        flows = [flow for flow in traffic.received["flows"] if flow["src"] in addresses]
        through.append(sum(received_bytes(flow, start, end) for flow in flows))
    return min(through) / possible


def traffic_results(lab: Lab, traffic: Traffic) -> dict:
    """What the ends saw."""
    flows, sent = traffic.received["flows"], traffic.sent
    end = traffic.start_epoch + traffic.seconds
    middle = traffic.start_epoch + round(traffic.seconds / 2 / TIMELINE_SLOT_S) * TIMELINE_SLOT_S
    frames_sent = sum(s["frames_sent"] for s in sent)
    shares = shares_by_path(lab, traffic, middle, end)
    every = [share for group in shares.values() for share in group]
    return {
        "naks": sum(f["naks_sent"] for f in flows),
        "retransmitted_share": sum(s["frames_retransmitted"] for s in sent) / max(frames_sent, 1),
        "timeouts": sum(s["timeouts"] for s in sent),
        "goodput_share": goodput_share(lab, traffic),
        "jain": min(jain(group) for group in shares.values()),
        "jain_all": jain(every),
        "shares_by_path": {
            " - ".join(path): statistics.mean(group) / max(statistics.mean(every), 1)
            for path, group in shares.items()
        },
        "latency_p50_us": over_senders(statistics.median, sent, "p50"),
        "latency_p99_us": over_senders(max, sent, "p99"),
        "frames_sent": frames_sent,
        "frames_received": sum(f["frames"] for f in flows),
        "order_violations": sum(f["order_violations"] for f in flows),
        "ce_received": sum(f["ce"] for f in flows),
        "cnps_received": sum(s["cnps"] for s in sent),
        "icrc_bad": sum(report["icrc_bad"] for report in [*sent, traffic.received]),
        "socket_drops": sum(report["socket_drops"] for report in [*sent, traffic.received]),
    }


def loss_results(lab: Lab, before: Losses, after: Losses, traffic: dict) -> dict:
    """What was lost where; what the ends miss and nobody counts is lost before quench as well.
    Plain queues that others share do not tell whose frames they lost."""
    queues = {node: after.queues[node] - before.queues[node] for node in lab.nodes}
    gateways = sum(queues[gateway] for gateway in lab.gateways)
    counted = after.before_queues - before.before_queues
    missing = traffic["frames_sent"] - traffic["frames_received"] - sum(queues.values()) - counted
    return {
        "gateway_drops": gateways,
        "host_drops": sum(queues.values()) - gateways,
        "lost_before_quench": counted,
        "frames_missing": None if lab.fabric.noise and not lab.agents else missing,
    }


def queue_results(lab: Lab, reports: list[dict]) -> dict:
    """The largest figures of all bottlenecks, and each one's own."""
    keys = ("mean_bytes", "p99_bytes", "max_bytes", "missed_ticks")
    ports = [f"{gateway}:{port}" for gateway, port in lab.bottlenecks()]
    return {
        **{f"queue_{key}": max(report[key] for report in reports) for key in keys},
        "queues": {port: {key: report[key] for key in keys} for port, report in zip(ports, reports)},
    }


def agent_results(lab: Lab) -> dict:
    """What quench says of itself; zeros where it does not run."""

    def total(nodes: list[str], name: str, **labels: str) -> int:
        return sum(scrapes[n].total(f"quench_{name}_total", **labels) for n in nodes if n in scrapes)

    scrapes = {node: lab.metrics(node) for node in lab.agents}
    dropped = total(lab.nodes, "drops") - total(lab.nodes, "drops", reason="pause_consumed")
    return {
        "ce_marked": total(lab.gateways, "ce_marked"),
        "ce_marked_least": min(total([gateway], "ce_marked") for gateway in lab.gateways),
        "cnp_sent_total": total([*lab.receivers, *lab.gateways], "cnp_sent"),
        "cnp_received_total": total(lab.hosts, "cnp_received"),
        "program_drops": dropped,
        "ring_drops": total(lab.nodes, "ring_drops"),
        "netlink_errors": total(lab.nodes, "netlink_errors"),
    }


def cnp_results(verdict: dict) -> dict:
    bad = ("bad_icrc", "bad_layout", "bad_qpn", "bad_udp_port", "unknown_pair")
    return {
        "cnps": verdict["cnps"],
        "cnps_bad_icrc": verdict["bad_icrc"],
        "cnps_bad": sum(verdict[key] for key in bad),
        "cnp_faults": verdict["faults"],
    }


# Others beside RoCE


class ClassQueue(threading.Thread):
    """What the class of RoCE holds at the bottleneck, while best effort has a queue beside it that
    qmon's root includes. Samples have no real-time priority: some come late."""

    PERIOD_S, WARM_UP_S = 0.002, 2
    RTM_GETQDISC, REQUEST_ECHO_ACK, ERROR = 38, 0x1 | 0x8 | 0x4, 2
    STATS2, STATS_QUEUE = 7, 3
    MESSAGE, ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=HH")
    TCMSG = struct.Struct("=BxxxiIII")
    GATE_PARENT = 0x90000010  # TREE_ROOT, the first class

    def __init__(self, lab: Lab):
        super().__init__()
        gateway, port = lab.bottlenecks()[0]
        self.samples: list[tuple[float, int]] = []
        self.ending = threading.Event()
        self.start_epoch = time.time()

        def enter() -> tuple[socket.socket, int]:
            netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
            netlink.settimeout(1)
            return netlink, socket.if_nametoindex(port)

        self.socket, self.ifindex = in_namespace(lab.namespace(gateway), enter)

    def run(self) -> None:
        while not self.ending.wait(self.PERIOD_S):
            self.samples.append((time.time(), self._backlog()))

    def _backlog(self) -> int:
        body = self.TCMSG.pack(0, self.ifindex, 0, self.GATE_PARENT, 0)
        size = self.MESSAGE.size + len(body)
        self.socket.send(self.MESSAGE.pack(size, self.RTM_GETQDISC, self.REQUEST_ECHO_ACK, 1, 0) + body)
        found, answered = 0, False
        while not answered:
            data = self.socket.recv(65536)
            while data:
                length, kind = self.MESSAGE.unpack_from(data)[:2]
                answered |= kind == self.ERROR  # with error 0 it is the acknowledgement
                if kind != self.ERROR:
                    found = self._read(data[self.MESSAGE.size + self.TCMSG.size : length])
                data = data[length + 3 & ~3 :]
        return found

    def _read(self, attributes: bytes) -> int:
        """The backlog in the attributes of a qdisc; it follows the queue's length in frames."""
        stats = self._attribute(attributes, self.STATS2)
        return struct.unpack_from("=II", self._attribute(stats, self.STATS_QUEUE))[1]

    def _attribute(self, data: bytes, wanted: int) -> bytes:
        while len(data) >= self.ATTRIBUTE.size:
            length, kind = self.ATTRIBUTE.unpack_from(data)
            if kind & 0x3FFF == wanted:
                return data[self.ATTRIBUTE.size : length]
            data = data[length + 3 & ~3 :]
        raise LabError(f"netlink: a qdisc without attribute {wanted}")

    def report(self, start_epoch: float) -> dict:
        """As qmon reports."""
        self.ending.set()
        self.join()
        if not self.samples:
            raise LabError("nothing was seen of the class's queue")
        steady = sorted(size for when, size in self.samples if when > start_epoch + self.WARM_UP_S)
        span = self.samples[-1][0] - self.samples[0][0]
        return {
            "mean_bytes": statistics.mean(steady),
            "p99_bytes": steady[math.ceil(len(steady) * 0.99) - 1],
            "max_bytes": max(size for _, size in self.samples),
            "missed_ticks": max(0, round(span / self.PERIOD_S) - len(self.samples)),
        }


class Noise:
    """TCP and plain UDP beside RoCE, and RoCE's own queue."""

    UDP_BYTES = 1400  # rcpeer's datagrams

    def __init__(self, lab: Lab, traffic: Traffic):
        self.traffic = traffic
        ip_bytes = {4: 20, 6: 40}[lab.fabric.ipv]
        segment_bytes = lab.fabric.mtu - ip_bytes - 20 - 12  # with time stamps
        self.wire_share = {  # bytes that HTB counts for each of payload
            "tcp": (14 + lab.fabric.mtu) / segment_bytes,
            "udp": (14 + ip_bytes + 8 + self.UDP_BYTES) / self.UDP_BYTES,
        }
        self.sink, *self.senders = lab.start_noise(traffic.seconds + traffic.start_epoch - time.time())
        self.queue = ClassQueue(lab) if "gw" in lab.agents else None
        if self.queue:
            self.queue.start()

    def finish(self, queue: dict) -> tuple[dict, dict]:
        """What came of it, and the report on RoCE's own queue where it has one."""
        if self.queue:
            queue = self.queue.report(self.traffic.start_epoch)
        for job in self.senders:
            job.report()
        self.sink.stop()
        sunk = self.sink.report()
        start, end = self.traffic.start_epoch, self.traffic.start_epoch + self.traffic.seconds
        bps = {
            kind: received_bytes(sunk[kind], start, end) * 8 / self.traffic.seconds for kind in self.wire_share
        }
        beside = sum(bps[kind] * share for kind, share in self.wire_share.items()) / BOTTLENECK_BPS
        return {"beside_share": beside, **{f"{kind}_bps": value for kind, value in bps.items()}}, queue


# Showing


class Progress:
    """A line a second while a run goes on."""

    BACKLOG = re.compile(r"\bmean (\d+)  max (\d+)")
    GOODPUT = re.compile(r"([\d.]+) Mbit/s")
    COLUMNS_MAX = 8

    def __init__(self, lab: Lab, traffic: Traffic, queues: list[Job]):
        self.lab, self.traffic, self.queues = lab, traffic, queues

    def header(self) -> str:
        names = self.lab.hosts if len(self.lab.hosts) <= self.COLUMNS_MAX else ["least", "mean", "most"]
        columns = "".join(f"{name:>7}" for name in names)
        return f"{'time':>6}{columns} Mbit/s   queue mean   max KB     marked    CNPs"

    def line(self) -> str:
        rates = [self._rate(job) for job in self.traffic.senders]
        if len(rates) > self.COLUMNS_MAX:
            rates = [min(rates), statistics.mean(rates), max(rates)]
        columns = "".join(f"{rate:7.1f}" for rate in rates)
        seconds = time.time() - self.traffic.start_epoch
        mean, largest = self._queue_kb()
        marked, cnps = self._agent()
        return f"{seconds:4.0f} s{columns}          {mean:10.0f} {largest:8.0f} {marked:>10} {cnps:>7}"

    def _rate(self, job: Job) -> float:
        found = self.GOODPUT.search(job.last_line())
        return float(found[1]) if found else 0.0

    def _queue_kb(self) -> tuple[float, float]:
        """Of the bottleneck where most waits."""
        found = [self.BACKLOG.search(queue.last_line()) for queue in self.queues]
        means, largest = zip(*[(int(f[1]), int(f[2])) if f else (0, 0) for f in found])
        return max(means) / 1000, max(largest) / 1000

    def _agent(self) -> tuple[str, str]:
        if "gw" not in self.lab.agents:
            return "-", "-"
        scrapes = [self.lab.metrics(gateway) for gateway in self.lab.gateways]
        marked = sum(m.total("quench_ce_marked_total") for m in scrapes)
        if self.lab.fabric.notify:
            return str(marked), str(sum(m.total("quench_cnp_sent_total") for m in scrapes))
        return str(marked), str(scrapes[0].total("quench_frames_total", kind="cnp"))


def watch(progress: Progress, say: Callable[[str], None]) -> None:
    """Tell how it goes until the sending time is over."""
    traffic = progress.traffic
    end = traffic.start_epoch + traffic.seconds
    say(progress.header())
    for second in range(1, math.ceil(traffic.seconds)):
        # a little later than the peers, whose lines come each full second
        time.sleep(max(0.0, traffic.start_epoch + second + 0.2 - time.time()))
        say(progress.line())
    time.sleep(max(0.0, end - time.time()))


# A run


def start_monitors(lab: Lab, traffic: Traffic) -> list[Job]:
    """Watch the bottleneck's queue from shortly before the first payload on: to the monitor a run
    begins when the queue first holds something, and connecting is not part of it."""
    time.sleep(max(0.0, traffic.start_epoch - 0.5 - time.time()))
    return [
        lab.start(
            gateway, f"qmon-{gateway}", QMON, "--device", port, "--progress",
            "--csv", lab.directory / f"queue-{gateway}.csv",
        )
        for gateway, port in lab.bottlenecks()
    ]  # fmt: skip


def measure(lab: Lab, seconds: float, say: Callable[[str], None]) -> dict:
    """Send for the given time and return everything that was seen."""
    captures = Captures(lab)
    before = Losses(lab)
    traffic = lab.start_traffic(seconds, MESSAGE_BYTES)
    noise = Noise(lab, traffic) if lab.fabric.noise else None
    queues = start_monitors(lab, traffic)
    watch(Progress(lab, traffic, queues), say)
    for queue in queues:
        queue.stop()
    traffic.finish()
    reports, beside = [queue.report() for queue in queues], {}
    if noise:
        beside, reports[0] = noise.finish(reports[0])
    agent = agent_results(lab)
    after = Losses(lab)
    captures.finish()
    ends = traffic_results(lab, traffic)
    roce_share = ends["goodput_share"]
    return {
        **loss_results(lab, before, after, ends),
        **ends,
        **beside,
        "roce_share": roce_share,
        "goodput_share": roce_share + beside.get("beside_share", 0),
        **queue_results(lab, reports),
        "kmax_bytes": policy_number(lab.base_policy, "kmax"),
        **agent,
        **cnp_results(captures.judge(traffic.pairs())),
        **asdict(lab.fabric),
        "seconds": seconds,
    }


def plain_run(fabric: Fabric, seconds: float, say: Callable[[str], None]) -> dict:
    say(f"\nWithout quench: {fabric.text()}, seconds: {seconds:g}")
    with Lab(**asdict(fabric)) as lab:
        lab.shape_plain()
        return keep_timeline(lab, "plain", measure(lab, seconds, say))


def quench_run(fabric: Fabric, seconds: float, say: Callable[[str], None]) -> dict:
    """A run with an agent in every node, which must leave each node as it found it."""
    say(f"\nWith quench: {fabric.text()}, seconds: {seconds:g}")
    with Lab(**asdict(fabric)) as lab:
        state = lab.state()
        lab.start_quench()
        result = measure(lab, seconds, say)
        lab.stop_quench()
        result["left_behind"] = lab.left_behind(state)
        return keep_timeline(lab, "quench", result)


def keep_timeline(lab: Lab, name: str, result: dict) -> dict:
    """Keep the first queue's course for plotting."""
    (REPORT.parent / f"demo-{name}-queue.csv").write_text((lab.directory / "queue-gw.csv").read_text())
    return result


# Judging


class Row(NamedTuple):
    """A line of the table. A promise is what the quench run must keep, a foil what the plain run
    must show, else the comparison is worth nothing."""

    key: str
    label: str
    unit: str = ""
    scale: float = 1
    digits: int = 0
    promise: Optional[Callable[[dict], bool]] = None
    promise_text: str = ""
    foil: Optional[Callable[[dict], bool]] = None
    shown: bool = True


def zero(key: str) -> Callable[[dict], bool]:
    return lambda result: result[key] == 0


def positive(key: str) -> Callable[[dict], bool]:
    return lambda result: result[key] > 0


def at_least(key: str, bound: float) -> Callable[[dict], bool]:
    return lambda result: result[key] >= bound


ROWS = (
    Row("gateway_drops", "dropped in the gateway's queues", "frames",
        promise=zero("gateway_drops"), promise_text="0", foil=positive("gateway_drops")),
    Row("lost_before_quench", "lost before any queue", "frames",
        promise=zero("lost_before_quench"), promise_text="0"),
    Row("naks", "NAKs", promise=zero("naks"), promise_text="0", foil=positive("naks")),
    Row("retransmitted_share", "retransmitted", "% of frames", 100, 2,
        promise=zero("retransmitted_share"), promise_text="0"),
    Row("goodput_share", "goodput", "% of link", 100, 1,
        promise=at_least("goodput_share", 0.95), promise_text=">= 95"),
    Row("jain", "fairness (Jain)", "", 1, 4, promise=at_least("jain", 0.95), promise_text=">= 0.95"),
    Row("queue_mean_bytes", "queue, mean", "KB", 1e-3, 1),
    Row("queue_p99_bytes", "queue, 99th percentile", "KB", 1e-3, 1,
        promise=lambda r: r["queue_p99_bytes"] <= r["kmax_bytes"], promise_text="<= Kmax"),
    Row("queue_max_bytes", "queue, largest", "KB", 1e-3, 1),
    Row("latency_p50_us", "64 KiB message, median", "ms", 1e-3, 1),
    Row("latency_p99_us", "64 KiB message, 99th percentile", "ms", 1e-3, 1),
    Row("ce_marked", "marked CE", "packets"),
    Row("ce_marked_least", "marked CE, by the gateway that marks least", "packets",
        promise=positive("ce_marked_least"), promise_text="> 0", shown=False),
    Row("cnps", "CNPs on the wire", "", promise=positive("cnps"), promise_text="> 0"),
    Row("cnps_bad_icrc", "CNPs with a bad ICRC", "", promise=zero("cnps_bad_icrc"), promise_text="0"),
    Row("cnps_bad", "CNPs bad in any way", "", promise=zero("cnps_bad"), promise_text="0"),
    Row("frames_missing", "missing, counted nowhere", "frames",
        promise=zero("frames_missing"), promise_text="0", shown=False),
    Row("program_drops", "dropped by quench's programs", "frames",
        promise=zero("program_drops"), promise_text="0", shown=False),
    Row("left_behind", "left behind", promise=lambda r: not r["left_behind"], promise_text="nothing",
        shown=False),
)  # fmt: skip


def cell(row: Row, result: dict) -> str:
    value = result.get(row.key)
    if value is None:
        return "-"
    return f"{value * row.scale:,.{row.digits}f}" if isinstance(value, (int, float)) else str(value)


def verdict(row: Row, quenched: list[dict]) -> str:
    if not row.promise or not quenched:
        return ""
    kept = all(row.promise(result) for result in quenched)
    return f"{'ok' if kept else 'BROKEN'}, promised {row.promise_text}"


def print_table(plain: dict, quenched: list[dict], say: Callable[[str], None]) -> None:
    numbered = [f"quench {number}" for number in range(1, len(quenched) + 1)]
    heads = ["plain", *(numbered if len(quenched) > 1 else ["quench"] * len(quenched))]
    label = 46
    say(f"\n{'':{label}}" + "".join(f"{head:>12}" for head in heads))
    for row in ROWS:
        if not row.shown and all(not row.promise or row.promise(r) for r in quenched):
            continue
        name = f"{row.label}{', ' + row.unit if row.unit else ''}"
        cells = "".join(f"{cell(row, result):>12}" for result in [plain, *quenched])
        say(f"{name:{label}}{cells}   {verdict(row, quenched)}".rstrip())
    say(f"\nKmax is {plain['kmax_bytes'] / 1000:.0f} KB; the link is {BOTTLENECK_BPS / 1e6:g} Mbit/s.")


def faults(plain: dict, quenched: list[dict]) -> list[str]:
    """Every promise that was broken, and everything that the plain run failed to show."""
    found = [f"plain: {row.label}: none seen" for row in ROWS if row.foil and not row.foil(plain)]
    for number, result in enumerate(quenched, 1):
        found += [f"quench run {number}: {text}" for text in broken_promises(result)]
    return found


def broken_promises(result: dict) -> list[str]:
    """What a run with quench did not keep."""
    broken = [
        f"{row.label}: {cell(row, result)} {row.unit}".strip() + f", promised {row.promise_text}"
        for row in ROWS
        if row.promise and not row.promise(result)
    ]
    return broken + result["cnp_faults"]


# The command


def say_more(say: Callable[[str], None]) -> None:
    say(
        f"\nWhile it ran, each namespace had its /metrics, the gateway's for example:\n"
        f"  ip netns exec LAB-gw curl -s http://127.0.0.1:{METRICS_PORT}/metrics\n"
        f"To have a lab stay up, with traffic: make demo KEEP=1"
    )


def keep_lab(fabric: Fabric, say: Callable[[str], None]) -> None:
    """Leave a lab with agents and traffic to a process of its own."""
    log = REPORT.parent / "demo-lab.log"
    command = [PYTHON, str(ROOT / "tests/lab/lab.py"), "up", "--traffic"]
    environment = {key: value for key, value in os.environ.items() if key != "LAB"}
    with open(log, "w") as out:
        process = subprocess.Popen(
            [*command, *fabric_options(fabric)], env=environment, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def is_up() -> bool:
        if process.poll() is not None:
            raise LabError(f"the lab did not come up: {log.read_text().strip()}")
        return "To end it" in log.read_text()

    wait_until(is_up, 2 * READY_S, "the lab did not come up")
    say("\n" + log.read_text().strip())


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The same overload without and with quench.")
    add_fabric_options(parser)
    parser.add_argument("--seconds", type=float, default=20, help="sending time of each run")
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="repeat the quench run")
    parser.add_argument("--keep", action="store_true", help="then leave a lab up, with traffic")
    parser.add_argument("--plain-only", action="store_true", help="no quench run")
    parser.add_argument("--json-only", action="store_true", help="print the JSON report and nothing else")
    args = parser.parse_args()
    if not 5 <= args.seconds <= 3600 or args.runs < 1:
        parser.error("5 to 3600 seconds and at least 1 run are possible")
    try:
        fabric_of(args)
    except LabError as fault:
        parser.error(str(fault))
    return args


def demo(args: argparse.Namespace, say: Callable[[str], None]) -> int:
    fabric = fabric_of(args)
    plain = plain_run(fabric, args.seconds, say)
    quenched = [] if args.plain_only else [quench_run(fabric, args.seconds, say) for _ in range(args.runs)]
    report = {"plain": plain, **({"quench": quenched[-1]} if quenched else {})}
    if len(quenched) > 1:
        report["quench_runs"] = quenched
    REPORT.write_text(json.dumps(report, indent=1) + "\n")
    print_table(plain, quenched, say)
    if args.json_only:
        print(json.dumps(report, indent=1))
    found = faults(plain, quenched)
    for fault in found:
        print(f"FAILED: {fault}", file=sys.stderr)
    if not args.plain_only:
        say_more(say)
    if args.keep:
        keep_lab(fabric, say)
    return 1 if found else 0


def missing_parts(plain_only: bool = False) -> Optional[str]:
    """Why no lab can be made here."""
    if os.geteuid():
        return "needs root, for namespaces and BPF"
    needed = [RCPEER, QMON, *([] if plain_only else [QUENCH])]
    missing = [str(path) for path in needed if not path.exists()]
    return f"{', '.join(missing)}: not there; `make all` builds it" if missing else None


def main() -> int:
    args = parse_arguments()
    missing = missing_parts(args.plain_only)
    if missing:
        print(f"demo: {missing}", file=sys.stderr)
        return 1

    def say(text: str) -> None:
        if not args.json_only:
            print(text, flush=True)

    try:
        return demo(args, say)
    except LabError as fault:
        print(f"demo: {fault}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
