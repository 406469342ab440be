#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Priority flow control: what a peer's pause frames do to the gates, and what queues that fill do to the
peers they fill from.

    tests/lab/test_pfc.py              in short, as `make check` runs it
    tests/lab/test_pfc.py --long       1,000 pauses, 20 s of incast, a storm of 60 s: build/pfc.json
"""
import argparse
import ctypes
import errno
import json
import os
import random
import re
import select
import signal
import socket
import statistics
import struct
import sys
import threading
import time
from itertools import islice
from pathlib import Path
from typing import Iterator, NamedTuple, Optional

sys.path.insert(0, str(Path(__file__).resolve().parent))
from demo import Losses, loss_results, received_bytes, traffic_results  # noqa: E402
from frames import (  # noqa: E402
    CTAG, ECT0, DSCP_ROCE, Injector, Way, cnp_frame, data_frame, mac_bytes, start_blast, transport_of,
)  # fmt: skip
from lab import (  # noqa: E402
    BOTTLENECK_BPS, METRICS_PORT, NOISE_PORT, RCPEER, READY_S, RECEIVER_ADDRESS, RETURN_BPS, ROOT,
    Cases, Lab, LabError, Port, Traffic, expect, expect_equal, in_namespace,
    policy_with, policy_with_pfc, run, wait_until,
)  # fmt: skip

RESULTS = ROOT / "build/pfc.json"
MTU = 4200
PFC_ADDRESS, MAC_CONTROL = "01:80:c2:00:00:01", 0x8808
OPCODE_PAUSE, OPCODE_PFC = 0x0001, 0x0101
ROCE, OTHER, LOSSY = 3, 4, 1  # priorities
DSCP_OTHER, DSCP_LOSSY = 34, 10
SPEED_BPS = 10**9  # of every link, in the policy
QUANTUM_S = 512 / SPEED_BPS
QPN = 0x200
H1_GW = Way("02:00:00:00:01:01", "02:00:00:00:01:fe", "10.0.1.1", RECEIVER_ADDRESS)
R1_MAC = "02:00:00:00:64:01"
SIZES = (2, 1024, 4096)  # payloads: frames of 60, 1,082 and 4,154 bytes
QUIET_S = 0.002
LIMIT = "1MiB"

# For the incast: each of eight hosts may fill an eighth of the limit. All is marked before any is paused.
INCAST_LIMIT = 3 << 20
KMAX_BYTES, XOFF_BYTES, XON_BYTES = 140_000, 150_000, 100_000
STORM_DETECT_S = 0.1
BULK_BPS = BOTTLENECK_BPS // 4
BULK_WIRE_SHARE = (14 + 20 + 8 + 1400) / 1400  # what HTB counts for each byte of payload


def pfc_frame(
    times: dict[int, int], vector: Optional[int] = None, opcode: int = OPCODE_PFC, src: str = R1_MAC,
    dst: str = PFC_ADDRESS, tagged: bool = False, size: int = 60,
) -> bytes:  # fmt: skip
    """A PFC frame: quanta by priority; the enable vector is theirs unless given."""
    enabled = sum(1 << p for p in times) if vector is None else vector
    link = mac_bytes(dst) + mac_bytes(src) + (struct.pack("!HH", CTAG, ROCE << 13) if tagged else b"")
    body = struct.pack("!HHH8H", MAC_CONTROL, opcode, enabled, *[times.get(p, 0) for p in range(8)])
    return (link + body).ljust(size, b"\0")[:size]


def quanta(seconds: float) -> int:
    return min(65535, round(seconds / QUANTUM_S))


class Receiver:
    """What arrives at a device, frame by frame: the PSNs of RoCE data."""

    def __init__(self, lab: Lab, node: str, device: str):
        self.socket = in_namespace(lab.namespace(node), lambda: self._open(device))

    @staticmethod
    def _open(device: str) -> socket.socket:
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
        s.bind((device, 0))
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
        return s

    def frames(self, seconds: float, enough: int = 1 << 30) -> list[bytes]:
        """What comes within the time, or until there are enough."""
        return list(islice(self._arrivals(seconds), enough))

    def psns(self, seconds: float, enough: int = 1 << 30) -> list[int]:
        """The same, of frames that have one."""
        psns = (psn_of(f) for f in self._arrivals(seconds))
        return list(islice((psn for psn in psns if psn is not None), enough))

    def _arrivals(self, seconds: float) -> Iterator[bytes]:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and select.select([self.socket], [], [], left)[0]:
            data, address = self.socket.recvfrom(65536)
            if address[2] != socket.PACKET_OUTGOING:
                yield data


def psn_of(frame: bytes) -> Optional[int]:
    found = transport_of(frame)
    if found is None or found[1] not in (QPN, QPN + 1, QPN + 2):
        return None
    return int.from_bytes(frame[14 + 20 + 8 + 9 : 14 + 20 + 8 + 12], "big")


class Bench:
    """gw with an agent; h1 sends to r1 through it, and r1 pauses it. Neither has an agent."""

    def __init__(self, lab: Lab):
        self.lab = lab
        self.sender = Injector(lab, "h1", "eth0")
        self.peer = Injector(lab, "r1", "eth0")
        self.receiver = Receiver(lab, "r1", "eth0")
        self.psn = 0

    def metric(self, name: str, port: str = "r1", **labels: str) -> float:
        """A counter; 0 when there is no such series."""
        pattern = "".join(rf'(?=[^}}]*\b{k}="{v}")' for k, v in {"port": port, **labels}.items())
        text = self.lab.get("gw", METRICS_PORT, "/metrics")
        return sum(float(v) for v in re.findall(rf"^{name}{{{pattern}[^}}]*}} (\S+)$", text, re.M))

    def gate_is_closed(self, cls: int = 0) -> bool:
        text = self.lab_tc("qdisc", "show", "dev", "r1", "handle", f"{0x9010 + cls:x}:")
        return json.loads(text)[0]["options"]["rate"] == 4000

    def lab_tc(self, *words: str) -> str:
        return run("tc", "-n", self.lab.namespace("gw"), "-j", "-d", *words)

    def limits(self) -> list:
        """Kind, handle and limit of every queue of r1, as tc shows them."""
        return [
            (q["kind"], q.get("handle"), q.get("options", {}).get("limit"))
            for q in json.loads(self.lab_tc("qdisc", "show", "dev", "r1"))
        ]

    def pause(self, times: dict[int, int], **rest) -> None:
        self.peer.send(pfc_frame(times, **rest))

    def send(self, *payloads: int, dscp: int = DSCP_ROCE, qpn: int = QPN) -> list[int]:
        """A frame of each size; returns their PSNs."""
        first = self.psn
        for payload in payloads:
            self.sender.send(data_frame(H1_GW, qpn, self.psn, payload, tos=dscp << 2 | ECT0))
            self.psn += 1
        return list(range(first, self.psn))

    def flows_now(self, dscp: int = DSCP_ROCE, qpn: int = QPN) -> bool:
        """Does a frame of that DSCP pass without delay?"""
        psns = self.send(64, dscp=dscp, qpn=qpn)
        return self.receiver.psns(0.05, 1) == psns

    def wait_closed(self, cls: int = 0) -> None:
        """Look often: the longest pause is no longer than 33 ms."""
        wait_until(lambda: self.gate_is_closed(cls), 2, "the gate does not close", every_s=0.001)

    def go_on(self, *priorities: int) -> None:
        self.pause({p: 0 for p in priorities or (ROCE,)})
        wait_until(lambda: not self.gate_is_closed(), 2, "the gate does not open")
        self.receiver.frames(QUIET_S)


def pfc_policy(lab: Lab) -> str:
    """Lossless classes on two priorities, a lossy one on a third."""
    text = policy_with(lab.base_policy, limit=LIMIT)
    extra = "".join(
        f"  - {{name: {name}, priority: {p}, dscp: [{dscp}], kind: {kind}, limit: {LIMIT}}}\n"
        for name, p, dscp, kind in (("other", OTHER, DSCP_OTHER, "lossless"), ("bulk", LOSSY, DSCP_LOSSY, "lossy"))
    )
    text = re.sub(r"^(cnp:)", extra + r"\1", text, count=1, flags=re.M)
    return text + f"pfc: {{watchdog: {{detect: {round(STORM_DETECT_S * 1e3)}ms, restore: 100ms}}}}\n"


# What a peer says


def test_words(cases: Cases, bench: Bench) -> None:
    """Frames without effect are counted and pause nobody; none is forwarded."""
    stranger = Receiver(bench.lab, "h2", "eth0")

    def without_effect(name: str, frame: bytes, metric: str, **labels: str) -> None:
        with cases.case(f"pfc_{name}_pauses_nobody_and_is_counted"):
            before = bench.metric(metric, **labels)
            bench.peer.send(frame)
            wait_until(lambda: bench.metric(metric, **labels) > before, 2, f"{metric} {labels} stands still")
            expect(not bench.gate_is_closed() and bench.flows_now(), "the gate is closed")

    long = quanta(0.03)
    ignored = "quench_pfc_ignored_total"
    without_effect("without_enable_bits", pfc_frame({p: 65535 for p in range(8)}, vector=0), ignored, reason="empty")
    without_effect("for_a_lossy_priority", pfc_frame({LOSSY: long}), ignored, reason="not_enabled")
    without_effect("for_best_effort", pfc_frame({0: long}), ignored, reason="not_enabled")
    frames = "quench_frames_total"
    without_effect("with_a_tag", pfc_frame({ROCE: long}, tagged=True), frames, kind="other")
    without_effect("of_802_3x", pfc_frame({}, vector=0xFFFF, opcode=OPCODE_PAUSE), frames, kind="pause")
    without_effect("of_unknown_opcode", pfc_frame({ROCE: long}, opcode=0x0102), frames, kind="mac_control")
    without_effect("to_another_address", pfc_frame({ROCE: long}, dst="01:80:c2:00:00:0e"), frames, kind="mac_control")
    without_effect("to_the_port_itself", pfc_frame({ROCE: long}, dst=H1_GW.dst_mac), frames, kind="mac_control")
    without_effect("that_is_too_short", pfc_frame({ROCE: long}, size=32), frames, kind="mac_control")
    with cases.case("pfc_of_a_lossy_priority_leaves_its_frames_flowing"):
        bench.pause({LOSSY: long, ROCE: long})
        bench.wait_closed()
        expect(bench.flows_now(DSCP_LOSSY, QPN + 1), "the lossy class is paused")
        bench.go_on()
    with cases.case("pfc_of_no_kind_is_forwarded"):
        found = [f for f in stranger.frames(0.05) if f[12:14] == struct.pack("!H", MAC_CONTROL)]
        expect(not found, f"{len(found)} MAC control frames came out at another port")


def test_pauses(cases: Cases, bench: Bench) -> None:
    with cases.case("xoff_closes_and_xon_opens_at_once"):
        bench.pause({ROCE: 65535})
        bench.wait_closed()
        psns = bench.send(*SIZES)
        expect_equal(bench.receiver.psns(0.01), [], "frames that left a closed gate")
        xons = bench.metric("quench_xon_received_total", priority=str(ROCE))
        start = time.monotonic()
        bench.pause({ROCE: 0})
        expect_equal(bench.receiver.psns(1, len(psns)), psns, "frames after XON")
        cases.note(f"open after {(time.monotonic() - start) * 1e3:.1f} ms")
        expect_equal(bench.metric("quench_xon_received_total", priority=str(ROCE)) - xons, 1, "XONs counted")
    with cases.case("xoff_of_a_source_address_of_zeros_counts"):
        bench.pause({ROCE: 65535}, src="00:00:00:00:00:00")
        bench.wait_closed()
        bench.go_on()
    with cases.case("xoff_of_one_priority_leaves_the_others_flowing"):
        bench.pause({ROCE: 65535})
        bench.wait_closed()
        bench.send(64)
        expect(bench.flows_now(DSCP_OTHER, QPN + 1), "the other lossless class is paused")
        bench.go_on()
    with cases.case("xoff_expires_by_itself"):
        bench.pause({ROCE: quanta(0.03)})
        start = time.monotonic()
        bench.wait_closed()
        psns = bench.send(64)
        expect_equal(bench.receiver.psns(1, 1), psns, "frames after the pause")
        took = time.monotonic() - start
        cases.note(f"open after {took * 1e3:.1f} ms of 30")
        expect(0.029 <= took < 0.09, f"open after {took * 1e3:.1f} ms")
    with cases.case("xoff_again_moves_only_the_end"):
        pauses = bench.metric("quench_pauses_total", priority=str(ROCE))
        start = time.monotonic()
        bench.pause({ROCE: quanta(0.03)})
        bench.wait_closed()
        bench.pause({ROCE: quanta(0.03)})
        psns = bench.send(64)
        again = time.monotonic()
        expect_equal(bench.receiver.psns(1, 1), psns, "frames after the pause")
        expect(time.monotonic() - again > 0.025, f"open {time.monotonic() - again:.4f} s after the second word")
        expect_equal(bench.metric("quench_pauses_total", priority=str(ROCE)) - pauses, 1, "pauses")
        cases.note(f"{(time.monotonic() - start) * 1e3:.0f} ms in all")
    with cases.case("xoff_again_with_a_shorter_time_ends_sooner"):
        bench.pause({ROCE: 65535})
        bench.wait_closed()
        psns = bench.send(64)
        bench.pause({ROCE: quanta(0.001)})
        start = time.monotonic()
        expect_equal(bench.receiver.psns(1, 1), psns, "frames after the pause")
        expect(time.monotonic() - start < 0.02, "the longer time was kept")
    with cases.case("both_priorities_of_one_frame_pause"):
        bench.pause({ROCE: 65535, OTHER: 65535})
        bench.wait_closed(0)
        bench.wait_closed(1)
        bench.go_on(ROCE, OTHER)


def test_gate(cases: Cases, bench: Bench, pauses: int, results: dict) -> None:
    """Nothing leaves a closed gate, nothing is lost in it, and all comes out in order."""
    with cases.case(f"gate_{pauses}_pauses_let_nothing_out_lose_nothing_keep_order"):
        limits, drops = bench.limits(), bench.metric("quench_queue_drops_total")
        before = bench.metric("quench_pauses_total", priority=str(ROCE))
        sent, received, leaked = [], [], 0
        for i in range(pauses):
            if i % 2:  # in the middle of a burst
                sent += bench.send(*SIZES * 4)
            bench.pause({ROCE: 65535})
            bench.wait_closed()
            sent += bench.send(*SIZES)
            received += bench.receiver.psns(QUIET_S)  # what was on its way before
            leaked += len(late := bench.receiver.psns(QUIET_S))
            received += late
            bench.pause({ROCE: 0})
            received += bench.receiver.psns(1, len(sent) - len(received))
        escaped = bench.metric("quench_pause_escaped_bytes_total", priority=str(ROCE))
        results["gate"] = {
            "pauses": pauses, "frames": len(sent), "leaked": leaked, "escaped_bytes": escaped,
            "lost": len(sent) - len(received), "in_order": received == sorted(received),
            "dropped": bench.metric("quench_queue_drops_total") - drops,
        }  # fmt: skip
        cases.note(json.dumps(results["gate"]))
        expect_equal(received, sent, "frames")
        expect_equal((leaked, escaped), (0, 0), "leaked frames, escaped bytes")
        expect_equal(results["gate"]["dropped"], 0, "dropped")
        expect_equal(bench.metric("quench_pauses_total", priority=str(ROCE)) - before, pauses, "pauses")
        expect_equal(bench.limits(), limits, "limits of the queues")


def test_multicast(cases: Cases, bench: Bench) -> None:
    with cases.case("multicast_is_kept_out_of_the_lossless_class"):
        before = bench.metric("quench_multicast_kept_out_total")
        out = Injector(bench.lab, "gw", "r1", bypass=False)
        out.send(data_frame(H1_GW._replace(dst_mac="01:00:5e:00:00:01"), QPN, 1, 64, tos=DSCP_ROCE << 2 | ECT0))
        expect_equal(bench.metric("quench_multicast_kept_out_total") - before, 1, "kept out")
        bench.receiver.frames(QUIET_S)


# A peer that never stops


def storm(bench: Bench, seconds: float) -> Iterator[None]:
    """Pauses of both lossless priorities, refreshed, with traffic that waits."""
    frame = pfc_frame({ROCE: 65535, OTHER: 65535})
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        bench.peer.send(frame)
        bench.send(1024)
        bench.send(1024, dscp=DSCP_OTHER, qpn=QPN + 1)
        yield
        time.sleep(0.01)


def counts(bench: Bench, name: str) -> list[float]:
    return [bench.metric(name, priority=str(p)) for p in (ROCE, OTHER)]


def test_storm(cases: Cases, bench: Bench, seconds: float, results: dict) -> None:
    with cases.case(f"storm_of_{seconds:g}_s_on_two_priorities_is_one_storm_and_one_restore_each"):
        storms, restores = counts(bench, "quench_pause_storms_total"), counts(bench, "quench_pause_restores_total")
        dropped = bench.metric("quench_drops_total", reason="storm")
        first = bench.psn
        for _ in storm(bench, seconds):
            bench.receiver.frames(0)
        sent = bench.psn - first
        during = [a - b for a, b in zip(counts(bench, "quench_pause_storms_total"), storms)]
        expect_equal(during, [1, 1], "storms while it lasts")
        wait_until(
            lambda: [a - b for a, b in zip(counts(bench, "quench_pause_restores_total"), restores)] == [1, 1],
            2, "both priorities are not restored",
        )  # fmt: skip
        expect_equal(
            [a - b for a, b in zip(counts(bench, "quench_pause_storms_total"), storms)], [1, 1], "storms altogether"
        )
        results["storm"] = {
            "seconds": seconds, "storms": during, "frames_sent": sent,
            "frames_dropped": bench.metric("quench_drops_total", reason="storm") - dropped,
        }  # fmt: skip
        cases.note(json.dumps(results["storm"]))
    with cases.case("after_a_storm_everything_passes_again"):
        bench.receiver.frames(0.02)
        for qpn, dscp in ((QPN, DSCP_ROCE), (QPN + 1, DSCP_OTHER)):
            psns = bench.send(*SIZES * 10, dscp=dscp, qpn=qpn)
            expect_equal(bench.receiver.psns(1, len(psns)), psns, "frames after the storm")
        bench.pause({ROCE: 65535})
        bench.wait_closed()
        bench.go_on()


def test_no_storm(cases: Cases, bench: Bench) -> None:
    """What only looks like a storm."""

    def none(name: str, rounds: int, on_s: float, off_s: float, traffic: bool) -> None:
        with cases.case(f"{name}_is_no_storm"):
            before = counts(bench, "quench_pause_storms_total")
            for _ in range(rounds):
                end = time.monotonic() + on_s
                while time.monotonic() < end:
                    bench.pause({ROCE: quanta(0.015)})
                    if traffic:
                        bench.send(1024)
                    time.sleep(0.005)
                bench.pause({ROCE: 0})
                time.sleep(off_s)
            bench.receiver.frames(QUIET_S)
            expect_equal(counts(bench, "quench_pause_storms_total"), before, "storms")

    none("pause_of_half_the_detection_time_again_and_again", 6, STORM_DETECT_S / 2, STORM_DETECT_S / 2, True)
    none("pause_of_an_empty_queue", 1, 4 * STORM_DETECT_S, 0.02, False)


def test_killed(cases: Cases, bench: Bench) -> None:
    with cases.case("agent_killed_while_a_gate_is_closed_leaves_it_open_within_100_ms"):
        bench.pause({ROCE: 65535})
        bench.wait_closed()
        psns = bench.send(*SIZES)
        expect_equal(bench.receiver.psns(QUIET_S), [], "frames that left a closed gate")
        start = time.monotonic()
        os.kill(bench.lab.agents["gw"].process.pid, signal.SIGKILL)
        expect_equal(bench.receiver.psns(1, len(psns)), psns, "frames after the kill")
        took_ms = (time.monotonic() - start) * 1e3
        cases.note(f"{took_ms:.1f} ms")
        expect(took_ms < 100, f"open after {took_ms:.1f} ms")
        bench.lab.agents["gw"].process.wait()
    with cases.case("agent_started_again_obeys_again"):
        bench.lab.start_agent("gw", gw_ports(bench.lab))
        bench.lab.wait_ready("gw")
        bench.pause({ROCE: 65535})
        bench.wait_closed()
        bench.go_on()
    with cases.case("agent_killed_in_a_storm_leaves_nothing_that_drops"):
        dropped = bench.metric("quench_drops_total", reason="storm")
        for _ in storm(bench, 2):
            if bench.metric("quench_drops_total", reason="storm") > dropped:
                break
        os.kill(bench.lab.agents["gw"].process.pid, signal.SIGKILL)
        bench.lab.agents["gw"].process.wait()
        bench.receiver.frames(0.02)
        wait_until(bench.flows_now, 2, "frames do not pass")


def xoff_bytes(lab: Lab) -> int:
    """The mark that the programs go by."""
    pin = lab.directory / "bpf/quench/v1" / lab.instance("gw") / "conf_map"
    found = json.loads(run("bpftool", "-j", "map", "lookup", "pinned", pin, "key", *[0] * 4))
    return found["formatted"]["value"]["classes"][0]["xoff_bytes"]


def test_mtu(cases: Cases, lab: Lab) -> None:
    with cases.case("xoff_follows_the_longest_frame"):
        before = xoff_bytes(lab)
        lab.ip("gw", "link set r1 mtu 9000")
        wait_until(lambda: xoff_bytes(lab) < before - 4000, 2, "room for longer frames after XOFF")
        lab.run("gw", lab.quench, "reload", "--instance", lab.instance("gw"))
        lab.ip("gw", f"link set r1 mtu {MTU}")
        wait_until(lambda: xoff_bytes(lab) == before, 2, "XOFF where it was")


def test_port_gone(cases: Cases, bench: Bench) -> None:
    """Nobody waits for a gate that is gone."""

    def fill() -> bool:
        bench.pause({ROCE: 65535})
        bench.send(*[4096] * 10)
        return bench.metric("quench_xoff_sent_total", port="h1") > 0

    with cases.case("peer_goes_on_when_the_port_that_it_waited_for_is_gone"):
        wait_until(fill, 3, "h1 is not paused", every_s=0.002)
        bench.pause({ROCE: 65535})
        bench.lab.ip("gw", "link del r1")
        wait_until(lambda: bench.metric("quench_xon_sent_total", port="h1"), 2, "h1 is not told to go on")
        told = bench.metric("quench_xoff_sent_total", port="h1")
        time.sleep(0.1)
        expect_equal(bench.metric("quench_xoff_sent_total", port="h1"), told, "XOFF after the XON")


def links_that_change(cases: Cases) -> None:
    with Lab(senders=2, mtu=MTU) as lab:
        marked = incast_policy(lab, ecn=False)
        lab.base_policy = re.sub(r"pfc: {xoff.*}", "pfc: {}", marked)
        lab.start_agent("gw", gw_ports(lab))
        lab.wait_ready("gw")
        test_mtu(cases, lab)
        lab.base_policy = marked
        lab.write_policy("gw", gw_ports(lab))
        lab.run("gw", lab.quench, "reload", "--instance", lab.instance("gw"))
        test_port_gone(cases, Bench(lab))


def gw_ports(lab: Lab) -> list[Port]:
    return with_speed(lab.default_ports("gw"))


def with_speed(ports: list[Port]) -> list[Port]:
    keys = f"speed: {SPEED_BPS // 10**6}Mbit"
    return [p._replace(keys=", ".join(k for k in (p.keys, keys) if k)) for p in ports]


def words_and_gates(cases: Cases, long: bool, results: dict) -> None:
    with Lab(senders=2, mtu=MTU) as lab:
        lab.base_policy = pfc_policy(lab)
        lab.start_agent("gw", gw_ports(lab))
        lab.wait_ready("gw")
        bench = Bench(lab)
        bench.send(64)
        bench.receiver.psns(1, 1)
        test_words(cases, bench)
        test_pauses(cases, bench)
        test_multicast(cases, bench)
        test_gate(cases, bench, 1000 if long else 60, results)
        test_no_storm(cases, bench)
        test_storm(cases, bench, 60 if long else 1, results)
        test_killed(cases, bench)
    links_that_change(cases)


# Peers that flood

FLOOD_FRAMES = 64
FLOOD_PER_S_MIN = 100_000
FLOOD_QPN = 0x51  # of h1, whose frames go to QPN
PLACEMENTS = 3  # who shares a CPU with whom is decided anew by each flood; a thread that starves does in all
REACTION_MS_P50, REACTION_MS_MAX = 1, 100  # beside a flood that has one of two CPUs for itself
BEST_EFFORT_QPN, LOSSY_QPN = QPN + 2, QPN + 1
RTMGRP_TC, RTM_NEWTCLASS, TCA_OPTIONS, TCA_HTB_PARMS = 8, 40, 2, 1
SO_ATTACH_FILTER = 26


def hostile_frames(count: int) -> list[bytes]:
    """MAC control frames at random. Half are PFC frames for whatever policy does not obey; the others
    name what it does obey, and have a fault each."""
    dice, obeyed = random.Random(count), 1 << ROCE | 1 << OTHER

    def mac() -> str:
        return dice.randbytes(6).hex(":")

    faults = (
        lambda: {"opcode": dice.choice((0, OPCODE_PAUSE, 0x0100, 0x0102, dice.randrange(0x0200, 0x10000)))},
        lambda: {"dst": mac()},
        lambda: {"size": dice.randrange(14, 34)},
        lambda: {"tagged": True},
    )
    frames = []
    for i in range(count):
        times = {p: dice.randrange(1, 0x10000) for p in range(8)}
        vector = dice.randrange(0x10000)
        if i % 2:
            rest = {"vector": vector & ~obeyed, "size": dice.choice((34, 60, dice.randrange(60, 1500)))}
        else:
            rest = {"vector": vector | obeyed, **dice.choice(faults)()}
        frames.append(pfc_frame(times, src=mac(), **rest))
    return frames


def only_type(netlink_type: int) -> bytes:
    """A classic BPF program: netlink messages of one type (its second word's first half)."""
    (at_hand,) = struct.unpack(">H", struct.pack("=H", netlink_type))
    code = ((0x28, 0, 0, 4), (0x15, 0, 1, at_hand), (0x06, 0, 0, 0xFFFFFFFF), (0x06, 0, 0, 0))
    return b"".join(struct.pack("=HBBI", *row) for row in code)


class Reaction:
    """DCQCN in h1: from a CNP on its cable to the QP's rate in the kernel, by the kernel's own word."""

    def __init__(self, lab: Lab):
        self.cable = Injector(lab, "gw", "h1")
        self.news = in_namespace(lab.namespace("h1"), self._open)
        self.cnp = cnp_frame(H1_GW.back(), FLOOD_QPN)

    @staticmethod
    def _open() -> socket.socket:
        s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        program = ctypes.create_string_buffer(only_type(RTM_NEWTCLASS))
        s.setsockopt(
            socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HL", (len(program) - 1) // 8, ctypes.addressof(program))
        )
        s.bind((0, RTMGRP_TC))
        return s

    @staticmethod
    def _attribute(data: bytes, wanted: int) -> bytes:
        while data:
            length, kind = struct.unpack_from("=HH", data)
            if kind == wanted:
                return data[4:length]
            data = data[(length + 3) // 4 * 4 :]
        raise LabError("a class without a rate")

    def _rate_bps(self, seconds: float) -> Optional[int]:
        """The next rate of the QP's class within the time."""
        if not select.select([self.news], [], [], seconds)[0]:
            return None
        options = self._attribute(self.news.recv(65536)[16 + 20 :], TCA_OPTIONS)
        return struct.unpack_from("=8xI", self._attribute(options, TCA_HTB_PARMS))[0] * 8

    def _send_cnp(self) -> bool:
        """False when the cable is full."""
        try:
            self.cable.send(self.cnp)
        except OSError as fault:
            if fault.errno != errno.ENOBUFS:
                raise
            return False
        return True

    def sample_s(self) -> float:
        """The time to the next cut. Afterwards the QP is at line rate again."""
        start = time.monotonic()
        while not self._send_cnp():
            start = time.monotonic()
        rate = self._rate_bps(1)
        took = time.monotonic() - start
        expect(rate is not None and rate < RETURN_BPS, f"rate after a CNP: {rate}")
        while rate != RETURN_BPS:
            rate = self._rate_bps(1)
            expect(rate, "the QP does not come back to line rate")
        return took


def flood_policy(lab: Lab) -> str:
    """One QP of h1, which a CNP cuts by a little and one increase brings back."""
    text = policy_with(
        pfc_policy(lab), qp_classes=1, tick="1ms", increase_timer="5ms", min_rate="999850kbit", step="0%",
        idle="3600s", interval="1us",
    )  # fmt: skip
    return text + f'pairs:\n  - {{a: "{lab.address("h1")}/{FLOOD_QPN:#x}", b: "{lab.address("r1")}/{QPN:#x}"}}\n'


class Flood:
    """h1 has an agent and sends; gw, which has none, is its peer."""

    def __init__(self, lab: Lab):
        self.lab = lab
        self.sender = Injector(lab, "h1", "eth0", bypass=False)
        self.peer = Injector(lab, "gw", "h1")
        self.receiver = Receiver(lab, "gw", "h1")
        self.reaction = Reaction(lab)
        self.psn = 0

    def metric(self, name: str, **labels: str) -> int:
        return self.lab.metrics("h1").total(name, **labels)

    def pass_s(self, *flows: tuple[int, int], seconds: float = 1) -> float:
        """A frame of each flow (QPN, DSCP) through the queues; the time until all have come."""
        start, self.psn = time.monotonic(), self.psn + 1
        for qpn, dscp in flows:
            self.sender.send(data_frame(H1_GW, qpn, self.psn, 64, tos=dscp << 2 | ECT0))
        found = self.receiver.psns(seconds, len(flows))
        expect_equal(found, [self.psn] * len(flows), "frames that pass")
        return time.monotonic() - start

    def run(self, frames: list[bytes], seconds: float, flows: list[tuple[int, int]]) -> dict:
        """Flood, and see how the flows and DCQCN do meanwhile."""
        reactions, passes, answers, cpu = [], [], [], self._cpu_s()
        job = start_blast(self.lab, "gw", "h1", frames, "-t", int(seconds * 1000))
        while job.alive():
            passes.append(self.pass_s(*flows))
            reactions.append(self.reaction.sample_s())
            asked = time.monotonic()
            if not len(reactions) % 20:
                expect(self.lab.status("h1"), "no status")
                answers.append(time.monotonic() - asked)
        report = job.report()
        return {
            "frames": report["frames_sent"], "frames_per_s": round(report["frames_sent"] / report["seconds"]),
            "agent_cpu_share": round((self._cpu_s() - cpu) / report["seconds"], 3),
            "samples": len(reactions), **_spread("reaction", reactions), **_spread("pass", passes),
            "status_ms_max": round(max(answers) * 1e3, 1),
        }  # fmt: skip

    def _cpu_s(self) -> float:
        """Of the agent, all threads."""
        return time.clock_gettime(~self.lab.agents["h1"].process.pid << 3 | 2)


def _spread(name: str, times_s: list[float]) -> dict[str, float]:
    figures = {"p50": statistics.median(times_s), "max": max(times_s)}
    return {f"{name}_ms_{key}": round(value * 1e3, 3) for key, value in figures.items()}


def test_floods(cases: Cases, flood: Flood, seconds: float, results: dict) -> None:
    roce, lossy, best_effort = (QPN, DSCP_ROCE), (LOSSY_QPN, DSCP_LOSSY), (BEST_EFFORT_QPN, 0)
    everything = (roce, (LOSSY_QPN, DSCP_OTHER), lossy, best_effort)
    flood.pass_s(roce)
    wait_until(lambda: flood.metric("quench_qp_classes"), READY_S, "QP class of h1")

    def flooded(name: str, frames: list[bytes], flows: list[tuple[int, int]]) -> dict:
        for _ in range(PLACEMENTS):
            result = results[name] = flood.run(frames, seconds, flows)
            cases.note(json.dumps(result))
            if result["reaction_ms_p50"] < REACTION_MS_P50:
                break
        expect(result["frames_per_s"] >= FLOOD_PER_S_MIN, "that was no flood")
        expect(result["reaction_ms_p50"] < REACTION_MS_P50, f"half of DCQCN's reactions take more than {result['reaction_ms_p50']} ms")
        expect(result["reaction_ms_max"] < REACTION_MS_MAX, "DCQCN starved")
        expect("hangs" not in flood.lab.agents["h1"].errors(), "the guardian took the agent for hung")
        return result

    results["quiet_reaction"] = _spread("reaction", [flood.reaction.sample_s() for _ in range(50)])
    with cases.case("flood_of_hostile_mac_control_pauses_nobody_and_starves_nobody"):
        cases.note(json.dumps(results["quiet_reaction"]))
        flooded("flood_hostile", hostile_frames(FLOOD_FRAMES), list(everything))
        expect_equal(flood.metric("quench_pauses_total"), 0, "pauses")
    with cases.case("flood_of_pauses_in_turn_with_their_ends_starves_nobody"):
        frames = [pfc_frame({ROCE: t, LOSSY: t}) for t in (65535, 0)]
        result = flooded("flood_alternating", frames, [lossy, best_effort])
        pauses = result["pauses"] = flood.metric("quench_pauses_total", priority=str(ROCE))
        cases.note(f"{pauses} pauses")
        expect(pauses, "not one pause: that says nothing")
        expect_equal(flood.metric("quench_pauses_total"), pauses, "pauses of all priorities")
    with cases.case("after_a_flood_everything_passes"):
        flood.peer.send(pfc_frame({ROCE: 0}))
        flood.receiver.frames(0.05)
        cases.note(f"{max(flood.pass_s(*everything) for _ in range(50)) * 1e3:.1f} ms at most")


def floods(cases: Cases, long: bool, results: dict) -> None:
    with Lab(senders=1) as lab:
        lab.base_policy = flood_policy(lab)
        lab.start_agent("h1", with_speed([Port("eth0", "host", RETURN_BPS)]))
        lab.wait_ready("h1")
        test_floods(cases, Flood(lab), 10 if long else 1.5, results)


# Queues that fill


def incast_policy(lab: Lab, ecn: bool) -> str:
    """PFC in the class, and a lossy class beside it; without ECN nobody slows for anything else."""
    text = policy_with(lab.base_policy, limit=f"{INCAST_LIMIT >> 10}KiB", kmax=f"{KMAX_BYTES}B")
    text = policy_with_pfc(text, f"{XOFF_BYTES}B", f"{XON_BYTES}B")
    bulk = f"  - {{name: bulk, priority: {LOSSY}, dscp: [{DSCP_LOSSY}], kind: lossy, limit: {LIMIT}}}\n"
    text = re.sub(r"^(cnp:)", bulk + r"\1", text, count=1, flags=re.M)
    if ecn:
        return text
    text = re.sub(r"^    ecn:\n(      .*\n)*", "", text, flags=re.M)
    return policy_with(text, generate="off")


class Bulk:
    """A lossy flow of a quarter of the bottleneck, from h1."""

    def __init__(self, lab: Lab, traffic: Traffic):
        self.traffic = traffic
        self.sink = lab.start("r1", "sink", RCPEER, "sink", "--port", NOISE_PORT)
        listening = ("ss", "-4", "-Hlun", f"sport = :{NOISE_PORT}")
        wait_until(lambda: lab.run("r1", *listening), READY_S, f"{self.sink.name} does not listen")
        self.sender = lab.start(
            "h1", "bulk", RCPEER, "noise", "-c", RECEIVER_ADDRESS, "--port", NOISE_PORT, "--dscp", DSCP_LOSSY,
            "--udp", BULK_BPS // 10**6, "--duration", traffic.seconds + traffic.start_epoch - time.time(),
        )  # fmt: skip

    def finish(self) -> float:
        """What arrived of its payload, in bit/s."""
        self.sender.report()
        self.sink.stop()
        start, end = self.traffic.start_epoch, self.traffic.start_epoch + self.traffic.seconds
        return received_bytes(self.sink.report()["udp"], start, end) * 8 / self.traffic.seconds


def incast(lab: Lab, ecn: bool, seconds: float) -> dict:
    """Eight hosts send into one port, a lossy flow beside them."""
    base, lab.base_policy = lab.base_policy, incast_policy(lab, ecn)
    lab.start_quench(**{node: with_speed(lab.default_ports(node)) for node in lab.nodes})
    lab.base_policy = base
    before = Losses(lab)
    traffic = lab.start_traffic(seconds)
    bulk = Bulk(lab, traffic)
    traffic.finish()
    bulk_bps = bulk.finish()
    gw, h1 = lab.metrics("gw"), lab.metrics("h1")
    ends = traffic_results(lab, traffic)
    after = Losses(lab)
    after.before_queues -= sum(  # XDP drops that are none
        lab.metrics(node).total("quench_drops_total", reason="pause_consumed") for node in lab.nodes
    )
    result = {
        **loss_results(lab, before, after, ends),
        "naks": ends["naks"],
        "order_violations": ends["order_violations"],
        "jain": ends["jain"],
        "bulk_bps": bulk_bps,
        "goodput_share": ends["goodput_share"] + bulk_bps * BULK_WIRE_SHARE / BOTTLENECK_BPS,
        "xoffs": gw.total("quench_xoff_sent_total"),
        "xons": gw.total("quench_xon_sent_total"),
        "pauses_of_h1": h1.total("quench_pauses_total"),
        "deepest_leaf_bytes": gw.total("quench_headroom_max_bytes", port="r1"),
    }
    lab.stop_quench()
    return result


def test_incast(cases: Cases, long: bool, results: dict) -> None:
    seconds = 20 if long else 4
    with Lab(senders=8) as lab:
        share = INCAST_LIMIT // len(lab.hosts)
        without, with_ecn = results["incast"], results["incast_ecn"] = {}, {}
        with cases.case("incast_without_ecn_loses_nothing"):
            without |= incast(lab, False, seconds)
            cases.note(json.dumps(without))
            for key in ("gateway_drops", "host_drops", "lost_before_quench", "frames_missing", "naks", "order_violations"):
                expect_equal(without[key], 0, key)
            expect(without["xoffs"] > 100, "hardly an XOFF: the case says nothing")
            expect(without["deepest_leaf_bytes"] <= share, f"a leaf held {without['deepest_leaf_bytes']} bytes, its share is {share}")
        with cases.case("incast_without_ecn_wastes_nothing"):
            expect(without["goodput_share"] >= 0.97, f"goodput {without['goodput_share']:.1%}")
            expect(without["bulk_bps"] >= 0.95 * BULK_BPS, f"the lossy flow got {without['bulk_bps'] / 1e6:.1f} Mbit/s")
        with cases.case("incast_with_ecn_hardly_pauses"):
            with_ecn |= incast(lab, True, seconds)
            cases.note(json.dumps(with_ecn))
            expect_equal((with_ecn["gateway_drops"], with_ecn["naks"]), (0, 0), "drops, NAKs")
            expect(
                with_ecn["xoffs"] <= 0.05 * without["xoffs"],
                f"{with_ecn['xoffs']} XOFFs with ECN, {without['xoffs']} without",
            )


PARTS = {"gates": words_and_gates, "floods": floods, "incast": test_incast}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--only", choices=PARTS, help="a part")
    args = parser.parse_args()
    cases, results = Cases(), {}
    for part in [args.only] if args.only else PARTS:
        PARTS[part](cases, args.long, results)
    if args.long:
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    return cases.exit_code()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as fault:
        print(f"not ok - lab: {fault}")
        sys.exit(1)
