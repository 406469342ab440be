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
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable, NamedTuple, Optional

sys.path.insert(0, str(Path(__file__).resolve().parent))
from lab import (  # noqa: E402
    BOTTLENECK_BPS, METRICS_PORT, QMON, QUENCH, RCPEER, READY_S, ROOT,
    Job, Lab, LabError, Traffic, wait_until,
)  # fmt: skip

REPORT = ROOT / "build/demo.json"
PYTHON = "/usr/bin/python3"  # the one that Debian's scapy belongs to
CHECK_CNPS = ROOT / "tests/oracle/check_cnps.py"

PATH_MTU = 1024
MESSAGE_BYTES = 65536
# What HTB counts of a frame: Ethernet without FCS, IPv4, UDP, BTH, ICRC.
HEADER_BYTES = 14 + 20 + 8 + 12 + 4
RETH_BYTES = 16  # in the first frame of a message
CAPTURE_FILTER = "udp dst port 4791 and udp[8] = 0x81"  # CNPs
TIMELINE_SLOT_S = 0.1  # of rcpeer's reports


# Measuring


class Losses:
    """Counters of lost frames: of the queues, by node, and of what lies before any queue."""

    def __init__(self, lab: Lab):
        self.queues = {node: sum(queue_drops(lab, node).values()) for node in lab.nodes}
        self.before_queues = softnet_drops() + sum(device_drops(lab, node) for node in lab.nodes)


def queue_drops(lab: Lab, node: str) -> dict[str, int]:
    """Frames that the qdiscs of each device lost. A parent counts what its leaf refused once more,
    so the larger of the root's count and the sum of the leaves' is taken."""
    qdiscs = json.loads(lab.run(node, "tc", "-s", "-j", "qdisc"))
    drops = {}
    for device in {q["dev"] for q in qdiscs}:
        own = [q for q in qdiscs if q["dev"] == device]
        parents = {q["parent"].split(":")[0] for q in own if "parent" in q}
        root = sum(q["drops"] for q in own if q.get("root"))
        leaves = sum(q["drops"] for q in own if q["handle"].rstrip(":") not in parents)
        drops[device] = max(root, leaves)
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
    """The CNPs on the gateway's ports toward the senders."""

    def __init__(self, lab: Lab):
        self.lab = lab
        self.jobs = [self._start(host) for host in lab.hosts]
        for job in self.jobs:
            wait_until(lambda: self._listens(job), 10, f"{job.name} does not capture")

    def _start(self, host: str) -> Job:
        return self.lab.start(
            "gw", f"capture-{host}", "tcpdump", "-Z", "root", "-i", host, "-w", self._file(host),
            "-s", "128", "-B", "4096", "-U", "--immediate-mode", CAPTURE_FILTER,
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


def payload_share() -> float:
    """The share of payload in what a saturated port sends."""
    headers = HEADER_BYTES + RETH_BYTES * PATH_MTU / MESSAGE_BYTES
    return PATH_MTU / (PATH_MTU + headers)


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


def kmax_bytes(policy: str) -> int:
    """Where the policy marks every packet."""
    found = re.search(r"\bkmax: *(\d+)(KB|KiB)\b", policy)
    if not found:
        raise LabError("the policy has no kmax")
    return int(found[1]) * {"KB": 1000, "KiB": 1024}[found[2]]


def over_senders(combine: Callable, sent: list[dict], quantile: str) -> Optional[float]:
    """Combine a latency quantile of all senders that completed a message."""
    values = [s["latency_us"][quantile] for s in sent if s["latency_us"][quantile] is not None]
    return combine(values) if values else None


def traffic_results(traffic: Traffic) -> dict:
    """What the two ends saw."""
    flows, sent = traffic.received["flows"], traffic.sent
    start, end = traffic.start_epoch, traffic.start_epoch + traffic.seconds
    middle = start + round(traffic.seconds / 2 / TIMELINE_SLOT_S) * TIMELINE_SLOT_S
    payload_bits = 8 * sum(received_bytes(flow, start, end) for flow in flows)
    frames_sent = sum(s["frames_sent"] for s in sent)
    shares = [received_bytes(flow, middle, end) for flow in flows]
    shares += [0] * (len(sent) - len(flows))
    return {
        "naks": sum(f["naks_sent"] for f in flows),
        "retransmitted_share": sum(s["frames_retransmitted"] for s in sent) / max(frames_sent, 1),
        "timeouts": sum(s["timeouts"] for s in sent),
        "goodput_share": payload_bits / (BOTTLENECK_BPS * traffic.seconds * payload_share()),
        "jain": jain(shares),
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
    """What was lost where; what the ends miss and nobody counts is lost before quench as well."""
    queues = {node: after.queues[node] - before.queues[node] for node in lab.nodes}
    counted = after.before_queues - before.before_queues
    missing = traffic["frames_sent"] - traffic["frames_received"]
    return {
        "gateway_drops": queues["gw"],
        "host_drops": sum(queues.values()) - queues["gw"],
        "lost_before_quench": counted,
        "frames_missing": missing - sum(queues.values()) - counted,
    }


def queue_results(report: dict) -> dict:
    return {
        "queue_mean_bytes": report["mean_bytes"],
        "queue_p99_bytes": report["p99_bytes"],
        "queue_max_bytes": report["max_bytes"],
        "queue_missed_ticks": report["missed_ticks"],
    }


def agent_results(lab: Lab) -> dict:
    """What quench says of itself; zeros where it does not run."""

    def total(nodes: list[str], name: str, **labels: str) -> int:
        return sum(scrapes[n].total(f"quench_{name}_total", **labels) for n in nodes if n in scrapes)

    scrapes = {node: lab.metrics(node) for node in lab.agents}
    dropped = total(lab.nodes, "drops") - total(lab.nodes, "drops", reason="pause_consumed")
    return {
        "ce_marked": total(["gw"], "ce_marked"),
        "cnp_sent_total": total(["r1"], "cnp_sent"),
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


# Showing


class Progress:
    """A line a second while a run goes on."""

    BACKLOG = re.compile(r"\bmean (\d+)  max (\d+)")
    GOODPUT = re.compile(r"([\d.]+) Mbit/s")
    COLUMNS_MAX = 8

    def __init__(self, lab: Lab, traffic: Traffic, queue: Job):
        self.lab, self.traffic, self.queue = lab, traffic, queue

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
        found = self.BACKLOG.search(self.queue.last_line())
        return (int(found[1]) / 1000, int(found[2]) / 1000) if found else (0.0, 0.0)

    def _agent(self) -> tuple[str, str]:
        if "gw" not in self.lab.agents:
            return "-", "-"
        m = self.lab.metrics("gw")
        return str(m.total("quench_ce_marked_total")), str(m.total("quench_frames_total", kind="cnp"))


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


def start_monitor(lab: Lab, traffic: Traffic) -> Job:
    """Watch the bottleneck's queue from shortly before the first payload on: to the monitor a run
    begins when the queue first holds something, and connecting is not part of it."""
    time.sleep(max(0.0, traffic.start_epoch - 0.5 - time.time()))
    csv = lab.directory / "queue.csv"
    return lab.start("gw", "qmon", QMON, "--device", "r1", "--progress", "--csv", csv)


def measure(lab: Lab, seconds: float, say: Callable[[str], None]) -> dict:
    """Send for the given time and return everything that was seen."""
    captures = Captures(lab)
    before = Losses(lab)
    traffic = lab.start_traffic(seconds, MESSAGE_BYTES, PATH_MTU)
    queue = start_monitor(lab, traffic)
    watch(Progress(lab, traffic, queue), say)
    queue.stop()
    traffic.finish()
    agent = agent_results(lab)
    after = Losses(lab)
    captures.finish()
    ends = traffic_results(traffic)
    return {
        **loss_results(lab, before, after, ends),
        **ends,
        **queue_results(queue.report()),
        "kmax_bytes": kmax_bytes(lab.base_policy),
        **agent,
        **cnp_results(captures.judge(traffic.pairs())),
        "senders": len(lab.hosts),
        "seconds": seconds,
    }


def plain_run(args: argparse.Namespace, say: Callable[[str], None]) -> dict:
    say(f"\nWithout quench: senders: {args.senders}, seconds: {args.seconds:g}")
    with Lab(senders=args.senders) as lab:
        lab.shape_plain()
        return keep_timeline(lab, "plain", measure(lab, args.seconds, say))


def quench_run(args: argparse.Namespace, say: Callable[[str], None]) -> dict:
    """A run with an agent in every node, which must leave each node as it found it."""
    say(f"\nWith quench: senders: {args.senders}, seconds: {args.seconds:g}")
    with Lab(senders=args.senders) as lab:
        state = lab.state()
        lab.start_quench()
        result = measure(lab, args.seconds, say)
        lab.stop_quench()
        after = lab.state()
        result["left_behind"] = [what for what in state if state[what] != after[what]]
        return keep_timeline(lab, "quench", result)


def keep_timeline(lab: Lab, name: str, result: dict) -> dict:
    """Keep the queue's course for plotting."""
    (REPORT.parent / f"demo-{name}-queue.csv").write_text((lab.directory / "queue.csv").read_text())
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
    say(f"\nKmax is {plain['kmax_bytes'] / 1000:g} KB; the link is {BOTTLENECK_BPS / 1e6:g} Mbit/s.")


def faults(plain: dict, quenched: list[dict]) -> list[str]:
    """Every promise that was broken, and everything that the plain run failed to show."""
    found = [f"plain: {row.label}: none seen" for row in ROWS if row.foil and not row.foil(plain)]
    for number, result in enumerate(quenched, 1):
        for row in ROWS:
            if row.promise and not row.promise(result):
                text = f"{cell(row, result)} {row.unit}".strip()
                found.append(f"quench run {number}: {row.label}: {text}, promised {row.promise_text}")
        found += [f"quench run {number}: {text}" for text in result["cnp_faults"]]
    return found


# The command


def say_more(say: Callable[[str], None]) -> None:
    say(
        f"\nWhile it ran, each namespace had its /metrics, the gateway's for example:\n"
        f"  ip netns exec LAB-gw curl -s http://127.0.0.1:{METRICS_PORT}/metrics\n"
        f"To have a lab stay up, with traffic: make demo KEEP=1"
    )


def keep_lab(senders: int, say: Callable[[str], None]) -> None:
    """Leave a lab with agents and traffic to a process of its own."""
    log = REPORT.parent / "demo-lab.log"
    command = [PYTHON, str(ROOT / "tests/lab/lab.py"), "up", "--traffic"]
    environment = {key: value for key, value in os.environ.items() if key != "LAB"}
    with open(log, "w") as out:
        process = subprocess.Popen(
            [*command, "--senders", str(senders)], env=environment, start_new_session=True,
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
    parser.add_argument("--senders", type=int, default=4, metavar="N")
    parser.add_argument("--seconds", type=float, default=20, help="sending time of each run")
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="repeat the quench run")
    parser.add_argument("--keep", action="store_true", help="then leave a lab up, with traffic")
    parser.add_argument("--plain-only", action="store_true", help="no quench run")
    parser.add_argument("--json-only", action="store_true", help="print the JSON report and nothing else")
    args = parser.parse_args()
    if not 5 <= args.seconds <= 3600 or not 1 <= args.senders <= 32 or args.runs < 1:
        parser.error("5 to 3600 seconds, 1 to 32 senders and at least 1 run are possible")
    return args


def demo(args: argparse.Namespace, say: Callable[[str], None]) -> int:
    plain = plain_run(args, say)
    quenched = [] if args.plain_only else [quench_run(args, say) for _ in range(args.runs)]
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
        keep_lab(args.senders, say)
    return 1 if found else 0


def main() -> int:
    args = parse_arguments()
    if os.geteuid():
        print("demo: needs root, for namespaces and BPF", file=sys.stderr)
        return 1
    needed = [RCPEER, QMON, *([] if args.plain_only else [QUENCH])]
    missing = [str(path) for path in needed if not path.exists()]
    if missing:
        print(f"demo: {', '.join(missing)}: not there; `make all` builds it", file=sys.stderr)
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
