#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The closed loop under traffic: marks, CNPs, rates, and queues that lose and reorder nothing."""
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable

sys.path.insert(0, str(Path(__file__).resolve().parent))
from demo import CHECK_CNPS, PYTHON, measure  # noqa: E402
from lab import (  # noqa: E402
    BOTTLENECK_BPS, RETURN_BPS, STOP_S,
    Cases, Lab, LabError, Port, expect, expect_equal, policy_with, wait_until,
)  # fmt: skip

SECONDS, SHORT_SECONDS = 10, 6
GOODPUT_MIN = 0.93  # the first second, in which the rates find each other, weighs more than in the demo
GOODPUT_MIN_SHORT = 0.85
JAIN_MIN = 0.95

# Classes for fewer QPs than send, and room for the windows of those that nobody slows.
FEW_CLASSES, MANY_QPS, WINDOW_FRAMES = 2, 8, 64
ROOMY_LIMIT = "2MiB"
IDLE_MS = 200
PAUSING_MBIT = 1  # a message of 64 KiB in 524 ms: each QP pauses for longer than IDLE_MS


def quiet(_: str) -> None:
    pass


# The promises


def expect_promises(cases: Cases, name: str, r: dict, goodput_min: float) -> None:
    """Every promise of a measured loop is a case."""
    with cases.case(f"{name}_loses_no_frame_and_counts_every_one"):
        cases.note(f"{r['frames_sent']} frames")
        for key in ("gateway_drops", "host_drops", "lost_before_quench", "frames_missing",
                    "program_drops", "ring_drops", "socket_drops"):  # fmt: skip
            expect_equal(r[key], 0, key)
    with cases.case(f"{name}_has_no_nak_no_retransmission_and_no_reordering"):
        for key in ("naks", "retransmitted_share", "timeouts", "order_violations", "icrc_bad"):
            expect_equal(r[key], 0, key)
    with cases.case(f"{name}_holds_the_queue_below_kmax"):
        cases.note(f"mean {r['queue_mean_bytes'] / 1000:.0f} KB, p99 {r['queue_p99_bytes'] / 1000:.0f} KB")
        expect(r["queue_p99_bytes"] <= r["kmax_bytes"], f"p99 {r['queue_p99_bytes']}, kmax {r['kmax_bytes']}")
    with cases.case(f"{name}_sends_cnps_that_are_right_in_every_byte"):
        cases.note(f"{r['cnps']} CNPs")
        expect(r["ce_marked"] > 0 and r["cnps"] > 0, f"{r['ce_marked']} marks, {r['cnps']} CNPs")
        expect(not r["cnps_bad"], r["cnp_faults"])
        expect_equal(r["cnps_received"], r["cnps"], "CNPs that the senders got, of those on the wire")
    with cases.case(f"{name}_is_fast_and_fair"):
        cases.note(f"goodput {r['goodput_share']:.3f}, Jain {r['jain']:.4f}")
        expect(r["goodput_share"] >= goodput_min, f"goodput {r['goodput_share']:.3f}, not {goodput_min}")
        expect(r["jain"] >= JAIN_MIN, f"Jain {r['jain']:.4f}, not {JAIN_MIN}")
    with cases.case(f"{name}_needs_no_rate_twice"):
        expect_equal(r["netlink_errors"], 0, "netlink errors")


def test_receiver_notifies(cases: Cases) -> None:
    with Lab(senders=4) as lab:
        lab.start_quench()
        result = measure(lab, SECONDS, quiet)
        expect_promises(cases, "loop", result, GOODPUT_MIN)
        with cases.case("loop_cnps_on_the_wire_are_those_that_r1_counts"):
            expect_equal(result["cnp_sent_total"], result["cnps"], "quench_cnp_sent_total of r1")


def test_gateway_notifies(cases: Cases, name: str, bridged: bool) -> None:
    """No agent in r1: gw marks, and makes the CNPs itself."""
    with Lab(senders=4, bridged=bridged) as lab:
        towards_hosts = [Port(host, "gateway", RETURN_BPS) for host in lab.hosts]
        bottleneck = Port("r1", "gateway", BOTTLENECK_BPS, "notify: true")
        lab.start_quench(gw=[bottleneck, *towards_hosts], r1=[])
        result = measure(lab, SHORT_SECONDS, quiet)
        expect_promises(cases, name, result, GOODPUT_MIN_SHORT)
        with cases.case(f"{name}_cnps_are_made_at_gw_with_ttl_64"):
            expect_equal(judge_at_source(lab), 0, "exit status of check_cnps.py --at-source")
            sent = lab.metrics("gw")
            expect_equal(sent.total("quench_cnp_sent_total"), result["cnps"], "quench_cnp_sent_total of gw")
            expect_equal(sent.total("quench_cnp_sent_total", port="r1"), 0, "CNPs toward the receiver")


def judge_at_source(lab: Lab) -> int:
    """Judge the captures of the last measurement once more, as taken where the CNPs were made."""
    files = [str(lab.directory / f"{host}.pcap") for host in lab.hosts]
    command = [PYTHON, str(CHECK_CNPS), *files, "--pairs", str(lab.directory / "pairs.json"), "--at-source"]
    return subprocess.run(command, capture_output=True).returncode


# More QPs than classes


def expect_in_order(flows: list[dict], sent: list[dict]) -> None:
    """All that was sent came, once and in order."""
    for key in ("order_violations", "gaps", "duplicates", "frames_lost", "naks_sent"):
        expect_equal(sum(flow[key] for flow in flows), 0, key)
    for key in ("frames_retransmitted", "frames_unacked", "timeouts"):
        expect_equal(sum(s[key] for s in sent), 0, key)
    expect_equal(sum(f["frames"] for f in flows), sum(s["frames_sent"] for s in sent), "frames received")


def classes_taken(lab: Lab) -> int:
    return lab.metrics("h1").total("quench_qp_classes")


def wait_all_given_back(lab: Lab) -> None:
    wait_until(lambda: classes_taken(lab) == 0, STOP_S, "all classes given back")


def few_classes_lab() -> Lab:
    lab = Lab(senders=1)
    lab.base_policy = policy_with(
        lab.base_policy, qp_classes=FEW_CLASSES, idle=f"{IDLE_MS}ms", limit=ROOMY_LIMIT
    )
    return lab


def test_few_classes(cases: Cases) -> None:
    with few_classes_lab() as lab:
        lab.start_quench()
        with cases.case("pool_of_a_port_holds_every_class_once"):
            pool = [entry["value"] for entry in dump_map(lab, "h1", "qp_free")[:FEW_CLASSES]]
            expect_equal(sorted(pool), list(range(FEW_CLASSES)), "classes in the ring of free ones")
        test_many_qps(cases, lab)
        test_bursts(cases, lab)
        test_pauses(cases, lab)


def test_many_qps(cases: Cases, lab: Lab) -> None:
    options = ("--qps", MANY_QPS, "--window", WINDOW_FRAMES)
    traffic = lab.start_traffic(4, options=options)
    with cases.case("more_qps_than_classes_take_all_classes_and_the_rest_is_counted"):
        wait_until(lambda: classes_taken(lab) == FEW_CLASSES, STOP_S, "all classes taken")
        traffic.finish()
        unenforced = lab.metrics("h1").total("quench_qp_unenforced_total")
        cases.note(f"{unenforced} frames unenforced")
        expect(unenforced > 0, "quench_qp_unenforced_total is 0")
    with cases.case("more_qps_than_classes_lose_and_reorder_nothing"):
        cases.note(f"{sum(s['frames_sent'] for s in traffic.sent)} frames")
        expect_equal(len(traffic.received["flows"]), MANY_QPS, "flows")
        expect_in_order(traffic.received["flows"], traffic.sent)
    with cases.case("qps_that_ended_give_their_classes_back"):
        wait_all_given_back(lab)


def test_bursts(cases: Cases, lab: Lab) -> None:
    """Senders one after another: an old QPN and a new one, on classes that others had."""
    listener = lab.start_listener()
    sent = []
    with cases.case("bursts_take_classes_and_give_them_back_each_time"):
        for qpn_base in (0x11000, 0x12000, 0x11000, 0x13000):
            options = ("--qps", MANY_QPS // 2, "--window", WINDOW_FRAMES)
            burst = lab.start_sender("h1", 0.4, qpn_base, *options)
            wait_until(lambda: classes_taken(lab) == FEW_CLASSES, STOP_S, f"classes taken by {qpn_base:#x}")
            sent.append(burst.report())
            wait_all_given_back(lab)
    with cases.case("bursts_with_old_and_new_qpns_lose_and_reorder_nothing"):
        listener.stop()
        cases.note(f"{sum(s['frames_sent'] for s in sent)} frames")
        expect_in_order(listener.report()["flows"], sent)


def test_pauses(cases: Cases, lab: Lab) -> None:
    """QPs that stay, and rest longer than idle between their messages: they change their class."""
    generations = owners_seen(lab)
    traffic = lab.start_traffic(4, options=("--qps", MANY_QPS, "--offer", PAUSING_MBIT))
    traffic.finish()
    with cases.case("qps_that_pause_hand_their_classes_on_and_reorder_nothing"):
        changes = owners_seen(lab) - generations
        cases.note(f"classes given back {changes} times")
        expect(changes > FEW_CLASSES, f"{changes} classes were given back")
        expect_in_order(traffic.received["flows"], traffic.sent)
        wait_all_given_back(lab)


def owners_seen(lab: Lab) -> int:
    """How often classes of h1 were taken back: the sum of their generations."""
    return sum(entry["value"]["generation"] for entry in dump_map(lab, "h1", "qp_classes"))


def dump_map(lab: Lab, node: str, name: str) -> list[dict]:
    """The entries of a map of the agent there."""
    (pin,) = (lab.directory / "bpf").glob(f"quench/v*/{lab.instance(node)}/{name}")
    entries = json.loads(lab.run(node, "bpftool", "-j", "map", "dump", "pinned", pin))
    return [entry["formatted"] for entry in entries]


def guarded(cases: Cases, test: Callable, *args: object) -> None:
    """A test that cannot go on fails as a case, and the next one runs."""
    try:
        test(cases, *args)
    except LabError as fault:
        with cases.case(f"{test.__name__}_can_go_on"):
            raise fault


def main() -> int:
    cases = Cases()
    started = time.monotonic()
    guarded(cases, test_receiver_notifies)
    guarded(cases, test_gateway_notifies, "loop_with_routing_gateway_that_notifies", False)
    guarded(cases, test_gateway_notifies, "loop_with_bridging_gateway_that_notifies", True)
    guarded(cases, test_few_classes)
    print(f"{time.monotonic() - started:.1f} s")
    return cases.exit_code()


if __name__ == "__main__":
    sys.exit(main())
