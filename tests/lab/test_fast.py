#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The ring and the fast thread under load: storms of CNPs, a full ring, QPs that change their class
a thousand times a second; and how little an agent needs that has nothing to do.

    test_fast.py [--long]
"""
import argparse
import json
import os
import re
import signal
import statistics
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, Iterator, Optional

sys.path.insert(0, str(Path(__file__).resolve().parent))
from frames import Way, cnp_frame, data_frame, start_blast  # noqa: E402
from lab import (  # noqa: E402
    QUENCH, RECEIVER_ADDRESS, RETURN_BPS,
    Cases, Lab, LabError, Port, expect, expect_equal, in_namespace, policy_with, run, wait_until,
)  # fmt: skip

H1, R1 = "10.0.1.1", RECEIVER_ADDRESS
TO_H1 = Way("02:00:00:00:01:fe", "02:00:00:00:01:01", R1, H1)
KNOWN, PEER, UNKNOWN = 0x51, 0x52, 0x999  # QPNs: of a pair that policy knows and nobody uses; of nobody
NEWCOMER = 0x18000  # the QPN of one that connects meanwhile
PAIR = f'pairs:\n  - {{a: "{H1}/{KNOWN:#x}", b: "{R1}/{PEER:#x}"}}\n'

IDLE_S, IDLE_CPU_MAX = 10, 0.005
RING_CNPS = 128 * 1024 // (8 + 72)  # what half the ring holds, which is what CNPs get; each has a header
OVERFLOW_CNPS, OVERFLOW_PER_S = 10_000, 100_000
STORM_S, STORM_PER_S_MIN = 4, 20_000  # on a machine that does all the rest as well
ANSWER_S_MAX = 1.0
NEXT_LOOK_S = 12  # what nothing tells the agent, it finds when it looks next
STORM_CPU_MAX = 0.02  # of an agent that the storm has nothing to tell
# Traffic beside the storm that leaves the machine time for a storm.
STORM_SENDERS, STORM_BOTTLENECK_BPS = 2, 40_000_000
RECOVERED_BPS = STORM_BOTTLENECK_BPS / STORM_SENDERS / 2  # half a fair share

# Each frame is of another QP; more QPs than the flow table has room for (flows_max). The frames are for
# another machine: XDP sees them, the kernel drops them.
ASTRAY = Way("02:00:00:00:01:01", "02:00:00:00:99:99", H1, R1)
MANY_FLOWS, FLOWS_PER_S, BTH_QPN_AT = 100_000, 50_000, 14 + 20 + 8 + 5
SCRAPE_S_MAX = 0.25

LEASE_MS = 4
MOVES_S, MOVES_LONG_S = 10, 30
MOVES_PER_S_MIN = 500
QPS, WINDOW_FRAMES = 8, 32  # of each sender; classes for all of them, with those that run empty
QP_CLASSES = 64
ROOMY_LIMIT = "2MiB"  # holds every window: nothing is lost, whatever the rates are


def cpu_s(pid: int) -> float:
    """CPU time of a process, all threads, to the nanosecond: its CPUCLOCK_SCHED."""
    return time.clock_gettime(~pid << 3 | 2)


def children(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def agent_pids(lab: Lab, node: str) -> list[int]:
    """The agent and its guardian."""
    pid = lab.agents[node].process.pid
    expect_equal(Path(f"/proc/{pid}/comm").read_text().strip(), "quench", f"process {pid}")
    return [pid, *children(pid)]


def agent_cpu_s(lab: Lab, node: str) -> float:
    return sum(map(cpu_s, agent_pids(lab, node)))


def events_text(lab: Lab, node: str) -> list[str]:
    answer = run(QUENCH, "events", "--instance", lab.instance(node), "--json")
    return [event["text"] for event in json.loads(answer)["events"]]


def ip_received(lab: Lab, node: str) -> int:
    """IPv4 packets that the node's stack has taken."""

    def read() -> int:
        rows = re.findall(r"^Ip: (.*)$", Path("/proc/thread-self/net/snmp").read_text(), re.M)
        return int(dict(zip(rows[0].split(), rows[1].split()))["InReceives"])

    return in_namespace(lab.namespace(node), read)


class Growth:
    """How far counters of an agent have gone since."""

    def __init__(self, lab: Lab, node: str):
        self.lab, self.node = lab, node
        self.before = lab.metrics(node)

    def of(self, name: str, **labels: str) -> int:
        full_name, now = f"quench_{name}_total", self.lab.metrics(self.node)
        return now.total(full_name, **labels) - self.before.total(full_name, **labels)

    def told(self) -> int:
        """CNPs that became events, or would have."""
        return sum(self.of(name) for name in ("cnp_handled", "cnp_unenforced", "cnp_too_soon", "ring_drops"))


# Nothing to do


def test_idle(cases: Cases, lab: Lab) -> None:
    with cases.case("agent_without_traffic_needs_less_than_half_a_percent_of_a_core"):
        before = {node: agent_cpu_s(lab, node) for node in lab.agents}
        started = time.monotonic()
        time.sleep(IDLE_S)  # what is measured
        seconds = time.monotonic() - started
        shares = {node: (agent_cpu_s(lab, node) - before[node]) / seconds for node in before}
        most = max(shares.values())
        cases.note(f"{statistics.mean(shares.values()):.3%} mean, {most:.3%} max of {len(shares)} agents")
        expect(most < IDLE_CPU_MAX, f"CPU shares {shares}")


# A ring that nobody empties


def test_ring_overflow(cases: Cases, lab: Lab) -> None:
    with cases.case("ring_that_is_full_counts_each_event_it_loses_and_passes_every_frame"):
        grown, received = Growth(lab, "h1"), ip_received(lab, "h1")
        with ring_kept_full(lab) as report:
            blast = report
        wait_until(lambda: grown.told() == OVERFLOW_CNPS, 5, f"all CNPs accounted for, not {grown.told()}")
        expect_equal(blast["frames_sent"], OVERFLOW_CNPS, "CNPs sent")
        expect_equal(grown.of("cnp_received"), OVERFLOW_CNPS, "CNPs received")
        drops = grown.of("ring_drops")
        cases.note(f"{drops} of {OVERFLOW_CNPS} events lost while the agent stood still")
        kept = OVERFLOW_CNPS - drops
        expect(abs(kept - RING_CNPS) <= 64, f"{kept} events kept, CNPs have room for {RING_CNPS}")
        expect(ip_received(lab, "h1") - received >= OVERFLOW_CNPS, "the stack did not get every frame")
    with cases.case("ring_that_was_full_works_again"):
        grown = Growth(lab, "h1")
        start_blast(lab, "gw", "h1", [cnp_frame(TO_H1, KNOWN)], "-n", 100, "-r", 10_000).report()
        wait_until(lambda: grown.of("cnp_unenforced") == 100, 5, "events")
        expect_equal(grown.of("ring_drops"), 0, "events lost")
        expect(not any("guardian" in text for text in events_text(lab, "h1")), events_text(lab, "h1"))


@contextmanager
def ring_kept_full(lab: Lab) -> Iterator[dict]:
    """More CNPs for h1's agent than the ring holds, while the agent stands still: for less time than
    its guardian grants it. Gives the sender's report."""
    pid = agent_pids(lab, "h1")[0]
    os.kill(pid, signal.SIGSTOP)
    try:
        options = ("-n", OVERFLOW_CNPS, "-r", OVERFLOW_PER_S)
        yield start_blast(lab, "gw", "h1", [cnp_frame(TO_H1, KNOWN)], *options).report()
    finally:
        os.kill(pid, signal.SIGCONT)


def pair_source(lab: Lab, node: str, qpn: int) -> Optional[str]:
    return {f["peer_qpn"]: f["pair_source"] for f in lab.flows(node)}.get(qpn)


def test_full_ring(cases: Cases, lab: Lab) -> None:
    """What an agent must not miss, however many CNPs there are."""
    with cases.case("pair_that_connects_while_cnps_fill_the_ring_is_learned"):
        listener = lab.start_listener()
        with ring_kept_full(lab):
            sender = lab.start_sender("h1", 3, NEWCOMER, "--offer", 1)
            wait_until(lambda: pair_source(lab, "r1", NEWCOMER), 1, "pair at r1")
        try:
            wait_until(lambda: pair_source(lab, "h1", NEWCOMER), 1, "pair at h1")
        finally:
            sender.wait()
            listener.stop()
    with cases.case("queues_deleted_while_cnps_fill_the_ring_are_made_again"):
        with ring_kept_full(lab):
            lab.tc("h1", "qdisc del dev eth0 root")
        wait_until(lambda: has_queues(lab), NEXT_LOOK_S, "queues")
    if not has_queues(lab):
        job = lab.agents.pop("h1")
        job.stop()
        job.wait()
        lab.start_agent("h1")
        lab.wait_ready("h1")


def has_queues(lab: Lab) -> bool:
    return "quench_root" in lab.run("h1", "tc", "filter", "show", "dev", "eth0")


# Storms


class Storm:
    """CNPs to h1 for a QP, as many as the cable takes, and how the agent there bears them."""

    def __init__(self, lab: Lab, qpn: int, seconds: float):
        self.lab = lab
        self.grown, self.cpu = Growth(lab, "h1"), agent_cpu_s(lab, "h1")
        self.events = len(events_text(lab, "h1"))
        self.started = time.monotonic()
        # as ConnectX sends them: ECT, no source port
        frame = cnp_frame(TO_H1._replace(port=0), qpn, tos=0xC2)
        self.job = start_blast(lab, "gw", "h1", [frame], "-t", int(seconds * 1000))
        self.answers_s: list[float] = []

    def watch(self, also: Optional[Callable[[], object]] = None) -> None:
        """Ask the agent for its status, and whatever else, until the storm is over."""
        while self.job.alive():
            asked = time.monotonic()
            expect(self.lab.status("h1"), "no status")
            self.answers_s.append(time.monotonic() - asked)
            if also:
                also()

    def finish(self, cases: Cases) -> dict:
        report = self.job.report()
        self.cpu_share = (agent_cpu_s(self.lab, "h1") - self.cpu) / (time.monotonic() - self.started)
        per_s = report["frames_sent"] / report["seconds"]
        cases.note(f"{per_s:.0f} CNPs a second")
        if self.answers_s:
            cases.note(f"slowest answer {max(self.answers_s):.3f} s of {len(self.answers_s)}")
            expect(max(self.answers_s) < ANSWER_S_MAX, f"an answer took {max(self.answers_s):.3f} s")
        cases.note(f"agent's CPU {self.cpu_share:.1%}")
        expect(per_s >= STORM_PER_S_MIN, f"{per_s:.0f} CNPs a second are no storm")
        return report


def test_storms_without_traffic(cases: Cases, lab: Lab) -> None:
    with cases.case("cnp_storm_for_an_unknown_pair_makes_no_event_and_costs_the_agent_nothing"):
        storm = Storm(lab, UNKNOWN, STORM_S / 2)
        storm.job.wait()
        report = storm.finish(cases)
        wait_until(lambda: storm.grown.of("cnp_received") == report["frames_sent"], 5, "CNPs at h1")
        expect_equal(storm.grown.of("cnp_unknown_pair"), report["frames_sent"], "CNPs for an unknown pair")
        expect_equal(storm.grown.told(), 0, "events")
        expect(storm.cpu_share < STORM_CPU_MAX, f"the agent needed {storm.cpu_share:.1%} of a core")
    with cases.case("cnp_storm_for_a_qp_that_sends_nothing_is_counted_to_the_last_cnp_and_passes"):
        received = ip_received(lab, "h1")
        storm = Storm(lab, KNOWN, STORM_S / 2)
        storm.watch()
        sent = storm.finish(cases)["frames_sent"]
        wait_until(lambda: storm.grown.told() == sent, 5, "every CNP told or counted as lost")
        cases.note(f"{storm.grown.of('ring_drops')} of {sent} lost in the ring")
        expect_equal(storm.grown.of("netlink_ops"), 0, "rate changes")
        expect(ip_received(lab, "h1") - received >= sent, "the stack did not get every frame")


def rate_of(lab: Lab, qpn: int) -> float:
    """What DCQCN holds h1's frames to that QP to; 0 when it does not."""
    return next((f["rate_bps"] for f in lab.flows("h1") if (f["dst"], f["dst_qpn"]) == (R1, qpn)), 0)


def test_storm(cases: Cases, lab: Lab) -> None:
    """The storm names a QP that DCQCN holds already, one of those that share the bottleneck."""
    traffic = lab.start_traffic(STORM_S + 12, hosts=lab.hosts[:STORM_SENDERS])
    flow = wait_until(lambda: limited_flow(lab), 15, "h1's QP held back")
    qpn, peer = flow["dst_qpn"], flow["peer_qpn"]

    with cases.case("cnp_storm_for_a_known_pair_leaves_the_agent_answering"):
        storm = Storm(lab, peer, STORM_S)
        rates: list[float] = []

        storm.watch(lambda: rates.append(rate_of(lab, qpn)))
        storm.finish(cases)
        cases.note(f"rates {min(rates) / 1e6:.1f} to {max(rates) / 1e6:.1f} Mbit/s")
        new_events = events_text(lab, "h1")[storm.events :]
        expect(not new_events, new_events)
    with cases.case("cnp_storm_is_handled_or_counted_to_the_last_cnp"):
        grown = storm.grown
        wait_until(lambda: grown.told() == grown.of("cnp_received"), 5,
                   f"{grown.told()} CNPs accounted for of {grown.of('cnp_received')}")  # fmt: skip
        cases.note(f"{grown.of('cnp_received')} CNPs, {grown.of('ring_drops')} lost in the ring")
    with cases.case("cnp_storm_does_not_keep_the_fast_thread_from_cutting_rates"):
        expect(rates and 0 < min(rates[len(rates) // 2 :]) < RECOVERED_BPS, f"rates in the storm: {rates}")
    with cases.case("rate_recovers_after_a_cnp_storm"):
        started = time.monotonic()
        wait_until(lambda: rate_of(lab, qpn) > RECOVERED_BPS, 8, f"{RECOVERED_BPS / 1e6:.0f} Mbit/s again")
        cases.note(f"{RECOVERED_BPS / 1e6:.0f} Mbit/s after {time.monotonic() - started:.1f} s")
    with cases.case("traffic_after_a_cnp_storm_has_come_in_order"):
        traffic.finish()
        flows = traffic.received["flows"]
        expect_equal(sum(f["order_violations"] for f in flows), 0, "order violations")
        expect_equal(sum(s["frames_unacked"] for s in traffic.sent), 0, "frames that never came")


# More QPs than anybody has


def scrape(lab: Lab) -> tuple[int, float]:
    """How many series gw has, and how long they took."""
    started = time.monotonic()
    return len(lab.metrics("gw").samples), time.monotonic() - started


def test_many_flows(cases: Cases, lab: Lab) -> None:
    series, _ = scrape(lab)
    frames, full = (frame_count(lab, name) for name in ("quench_frames_total", "quench_flows_full_total"))
    known, room = len(lab.flows("gw")), int(re.search(r"^flows_max: (\d+)", lab.base_policy, re.M)[1])
    blast = start_blast(lab, "h1", "eth0", [data_frame(ASTRAY, 0)], "-n", MANY_FLOWS, "-r", FLOWS_PER_S,
                        "-c", BTH_QPN_AT)  # fmt: skip
    blast.report()
    with cases.case("flows_beyond_the_table_are_counted_and_no_more_than_that"):
        seen = frame_count(lab, "quench_frames_total") - frames
        cases.note(f"{seen} frames, as many QPs")
        expect(seen > MANY_FLOWS * 0.9, f"gw saw {seen} frames")
        expect_equal(len(lab.flows("gw")), room, "flows known")
        expect_equal(frame_count(lab, "quench_flows_full_total") - full, seen - (room - known), "no place")
    with cases.case("metrics_are_as_many_with_a_full_flow_table_and_as_quick"):
        have, seconds = scrape(lab)
        cases.note(f"{have} series in {1e3 * seconds:.0f} ms")
        expect_equal(have, series, "series")
        expect(seconds < SCRAPE_S_MAX, f"{seconds:.3f} s")


def frame_count(lab: Lab, name: str) -> int:
    """A counter of what came from h1 to gw, RoCE alone where kinds are told apart."""
    kinds = {"kind": "rocev2"} if name == "quench_frames_total" else {}
    return lab.metrics("gw").total(name, port="h1", **kinds)


def storm_ports(lab: Lab) -> list[Port]:
    bottleneck = Port("r1", "gateway", STORM_BOTTLENECK_BPS)
    return [bottleneck, *[Port(host, "gateway", RETURN_BPS) for host in lab.hosts]]


def limited_flow(lab: Lab) -> Optional[dict]:
    return next((f for f in lab.flows("h1") if f["dst"] == R1 and f["rate_bps"]), None)


# QPs that change their class


def test_moves(cases: Cases, lab: Lab, seconds: int) -> None:
    with cases.case(f"qps_that_change_their_class_all_the_time_for_{seconds}_s_reorder_nothing"):
        before = moves(lab)
        traffic = lab.start_traffic(seconds, options=("--qps", QPS, "--window", WINDOW_FRAMES))
        traffic.finish()
        per_s = (moves(lab) - before) / seconds
        flows, sent = traffic.received["flows"], traffic.sent
        cases.note(f"{per_s:.0f} moves a second, {sum(s['frames_sent'] for s in sent)} frames")
        for key in ("order_violations", "gaps", "duplicates", "frames_lost", "naks_sent"):
            expect_equal(sum(f[key] for f in flows), 0, key)
        for key in ("frames_retransmitted", "frames_unacked"):
            expect_equal(sum(s[key] for s in sent), 0, key)
        expect(per_s >= MOVES_PER_S_MIN, f"{per_s:.0f} moves a second")


def moves(lab: Lab) -> int:
    return sum(lab.metrics(host).total("quench_qp_moves_total") for host in lab.hosts)


# Locked memory


def test_memlock(cases: Cases, lab: Lab) -> None:
    with cases.case("agent_that_may_lock_no_memory_starts"):
        policy = lab.write_policy("h1", lab.default_ports("h1"))
        lab.agents["h1"] = lab.start(
            "h1", "quench-h1", "setpriv", "--bounding-set", "-ipc_lock,-sys_resource",
            "prlimit", "--memlock=0:0", QUENCH, "run", "-c", policy, "--instance", lab.instance("h1"),
        )  # fmt: skip
        status = lab.wait_ready("h1")
        limits = Path(f"/proc/{lab.agents['h1'].process.pid}/limits").read_text()
        expect(re.search(r"^Max locked memory +0 +0 ", limits, re.M), limits)
        expect_equal([port["xdp_mode"] for port in status["ports"]], ["native"], "XDP modes")
        grown = Growth(lab, "h1")
        start_blast(lab, "gw", "h1", [cnp_frame(TO_H1, KNOWN)], "-n", 10).report()
        wait_until(lambda: grown.of("cnp_unenforced") == 10, 5, "events")


def guarded(cases: Cases, test: Callable, *args: object) -> None:
    """A test that cannot go on fails as a case, and the next one runs."""
    try:
        test(cases, *args)
    except LabError as fault:
        with cases.case(f"{test.__name__}_can_go_on"):
            raise fault


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--long", action="store_true", help=f"change classes for {MOVES_LONG_S} s")
    args = parser.parse_args()
    cases = Cases()
    started = time.monotonic()
    with Lab(senders=4) as lab:
        plain_policy = lab.base_policy + PAIR
        lab.base_policy = plain_policy
        lab.start_quench(gw=storm_ports(lab))
        for test in (test_idle, test_ring_overflow, test_full_ring, test_storms_without_traffic, test_storm,
                     test_many_flows):  # fmt: skip
            guarded(cases, test, lab)
        lab.stop_quench()
        roomy = policy_with(lab.base_policy, limit=ROOMY_LIMIT, qp_classes=QP_CLASSES)
        lab.base_policy = roomy.replace("  idle:", f"  lease: {LEASE_MS}ms\n  idle:")
        lab.start_quench()
        guarded(cases, test_moves, lab, MOVES_LONG_S if args.long else MOVES_S)
        lab.stop_quench()
        lab.base_policy = plain_policy
        guarded(cases, test_memlock, lab)
    print(f"{time.monotonic() - started:.1f} s")
    return cases.exit_code()


if __name__ == "__main__":
    sys.exit(main())
