#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Agents killed at random instants under load: nothing lost, nothing reordered, all open at once.

    test_kill.py [--kills N] [--gap SECONDS]
"""
import argparse
import json
import os
import random
import signal
import socket
import struct
import statistics
import sys
import time

import demo
from lab import Lab, LabError, exit_on_signals, in_namespace, run

OPEN_WITHIN_S = 0.1
LEAST_QP_CLASS = 0x1000  # minor ids of QP classes start here
failed = False


def report(ok: bool, name: str, detail: str) -> None:
    global failed
    print(f"{'ok' if ok else 'not ok'} - {name}: {detail}", flush=True)
    failed |= not ok


class ClassRates:
    """The HTB classes of a node's eth0, asked of the kernel itself: tc takes too long to start."""

    GET_TCLASS, DONE, ERROR = 42, 3, 2
    OPTIONS, PARMS = 2, 1  # TCA_OPTIONS, TCA_HTB_PARMS; linux/rtnetlink.h, linux/pkt_sched.h

    def __init__(self, lab: Lab, node: str):
        def enter() -> tuple[socket.socket, int]:
            link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
            return link, socket.if_nametoindex("eth0")

        self.socket, self.ifindex = in_namespace(lab.namespace(node), enter)
        self.line_bytes = lab.host_bps // 8

    def limited(self) -> int:
        """How many QP classes stand below the line rate."""
        body = struct.pack("=BxxxiIII", 0, self.ifindex, 0, 0, 0)
        self.socket.send(struct.pack("=IHHII", 16 + len(body), self.GET_TCLASS, 0x301, 1, 0) + body)
        count = 0
        while True:
            data = self.socket.recv(1 << 16)
            while data:
                length, kind = struct.unpack_from("=IH", data)
                if kind in (self.DONE, self.ERROR):
                    return count
                count += self.is_limited(data[16:length])
                data = data[(length + 3) & ~3:]

    def is_limited(self, message: bytes) -> bool:
        handle, = struct.unpack_from("=I", message, 8)
        parms = attribute(attribute(message[20:], self.OPTIONS), self.PARMS)
        if handle & 0xffff < LEAST_QP_CLASS or not parms:
            return False
        rate, = struct.unpack_from("=I", parms, 8)  # tc_htb_opt.rate.rate, bytes a second
        return rate < self.line_bytes


def attribute(data: bytes, wanted: int) -> bytes:
    """The payload of one netlink attribute; nothing if it is not there."""
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if kind & 0x3fff == wanted:
            return data[4:length]
        data = data[(length + 3) & ~3:] if length >= 4 else b""
    return b""


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
    rates = ClassRates(lab, node) if node.startswith("h") else None
    os.kill(agent_pid(lab, node), signal.SIGKILL)
    killed = time.monotonic()
    while rates and rates.limited():
        if time.monotonic() > killed + 5:
            raise LabError(f"{node}: still limited")
    opened = time.monotonic() - killed if rates else 0.0
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
        results = demo.traffic_results(lab, storm.traffic)
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
