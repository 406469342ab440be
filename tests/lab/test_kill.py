#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Agents killed at random instants under load: nothing lost, nothing reordered, all open at once.

    test_kill.py [--kills N] [--gap SECONDS]
"""
import argparse
import json
import os
import random
import re
import signal
import statistics
import sys
import time

import demo
from lab import Lab, LabError, exit_on_signals, run, wait_until

OPEN_WITHIN_S = 0.1
LEAST_QP_CLASS = 0x1000  # minor ids of QP classes start here
QP_CLASS = re.compile(r"^class htb \w+:(\w+) .* rate (\d+(?:\.\d+)?)([KMGT]?bit) ", re.M)
UNITS = {"bit": 1, "Kbit": 1e3, "Mbit": 1e6, "Gbit": 1e9, "Tbit": 1e12}
failed = False


def report(ok: bool, name: str, detail: str) -> None:
    global failed
    print(f"{'ok' if ok else 'not ok'} - {name}: {detail}", flush=True)
    failed |= not ok


def limited_classes(lab: Lab, node: str) -> list[float]:
    """The rates, in bit/s, of QP classes that stand below the host's line rate."""
    text = run("tc", "-n", lab.namespace(node), "class", "show", "dev", "eth0")
    rates = [float(number) * UNITS[unit] for minor, number, unit in QP_CLASS.findall(text)
             if int(minor, 16) >= LEAST_QP_CLASS]
    return [rate for rate in rates if rate < lab.host_bps]


def agent_pid(lab: Lab, node: str) -> int:
    """The agent itself, not what started it."""
    pids = run("ip", "netns", "pids", lab.namespace(node)).split()
    for pid in map(int, pids):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if b"run" in words[1:2] and words[0].endswith(b"quench"):
            return pid
    raise LabError(f"no agent in {node}")


def kill_one(lab: Lab, node: str) -> float:
    """Kill the node's agent; returns after how many seconds none of its QPs was held back."""
    job = lab.agents[node]
    os.kill(agent_pid(lab, node), signal.SIGKILL)
    killed = time.monotonic()
    if node.startswith("h"):
        wait_until(lambda: not limited_classes(lab, node), 5, f"{node}: still limited")
    opened = time.monotonic() - killed
    job.process.wait()
    lab.jobs.remove(job)
    return opened


def storm(lab: Lab, kills: int, gap: float) -> tuple[list[float], float]:
    """Kill that many agents one after another under load and start each again."""
    opened, seconds = [], kills * (gap + 0.7) + 5
    traffic = lab.start_traffic(seconds)
    time.sleep(max(0.0, traffic.start_epoch + 1 - time.time()))
    for _ in range(kills):
        node = random.choice(lab.nodes)
        time.sleep(random.uniform(0, 2 * gap))
        opened.append(kill_one(lab, node))
        time.sleep(random.choice((0, 0.05, 0.2)))
        lab.start_agent(node)
        lab.wait_ready(node)
    for job in traffic.senders:  # the receiver goes last: it has the end to acknowledge
        job.stop()
    traffic.finish()
    storm.traffic = traffic
    return opened, seconds


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=25)
    parser.add_argument("--gap", type=float, default=0.4)
    args = parser.parse_args()
    exit_on_signals()
    with Lab(senders=4) as lab:
        state = lab.state()
        lab.start_quench()
        before = demo.Losses(lab)
        opened, _ = storm(lab, args.kills, args.gap)
        after = demo.Losses(lab)
        results = demo.traffic_results(storm.traffic)
        loss = demo.loss_results(lab, before, after, results)
        starts = sum(lab.metrics(node).total("quench_starts_total") for node in lab.nodes)
        lab.stop_quench()
        left = [what for what, text in lab.state().items() if state[what] != text]

    print(f"{args.kills} kills: {json.dumps({**loss, **results}, default=str)[:1500]}")
    report(loss["gateway_drops"] == 0 and loss["lost_before_quench"] == 0, "kill_under_load_loses_no_frame",
           f"{loss['gateway_drops']} dropped, {loss['lost_before_quench']} lost")
    report(results["naks"] == 0 and results["retransmitted_share"] == 0, "kill_under_load_needs_no_retransmission",
           f"{results['naks']} NAKs, {results['retransmitted_share']} retransmitted")
    report(results["order_violations"] == 0, "kill_under_load_reorders_no_frame",
           f"{results['order_violations']} violations")
    report(max(opened) <= OPEN_WITHIN_S, "killed_agent_leaves_no_qp_limited",
           f"open after {statistics.median(opened) * 1e3:.1f} ms median, {max(opened) * 1e3:.1f} ms max")
    report(starts == len(opened) + 6, "next_start_takes_over", f"counters saw {starts} starts")
    report(not left, "stop_after_kills_leaves_no_trace", "; ".join(left) or "nothing left")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
