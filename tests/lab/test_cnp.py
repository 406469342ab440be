#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""CNPs and pairs on frames made by hand: whom a CNP is for, what it looks like, when there is none,
and that no frame of data ever comes back to its sender."""
import math
import socket
import sys
import time
from itertools import cycle
from pathlib import Path
from typing import Callable, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
from frames import (  # noqa: E402
    CE, DSCP_CNP, DSCP_ROCE, ECT0, ROCE_PORT, STAG, TOS_CE,
    Injector, Tag, Tap, Way, ack_frame, cm_frame, cnp_frame, data_frame, icrc_oracle, is_cnp, judge,
    start_blast, tags_of, transport_of, udp_checksum_state,
)  # fmt: skip
from lab import (  # noqa: E402
    READY_S, RECEIVER_ADDRESS, RETURN_BPS,
    Cases, Lab, LabError, Port, Traffic, expect, expect_equal, in_namespace, policy_with, wait_until,
)  # fmt: skip

H1, R1 = "10.0.1.1", RECEIVER_ADDRESS
H1_V6, R1_V6 = "fd00::1", "fd00::100"
# The cables: as a frame of h1 arrives at r1, at the gateway, and as a frame of r1 arrives at h1.
TO_R1 = Way("02:00:00:00:64:fe", "02:00:00:00:64:01", H1, R1)
TO_R1_V6 = TO_R1._replace(src=H1_V6, dst=R1_V6)
TO_GW = Way("02:00:00:00:01:01", "02:00:00:00:01:fe", H1, R1)
TO_H1 = Way("02:00:00:00:01:fe", "02:00:00:00:01:01", R1, H1)

CNP_PRIORITY = 6  # of policies/lab.yaml
INTERVAL_S = 0.001
PAIRS = 64
OURS, THEIRS = 0x100, 0x200  # QPNs of h1 and of r1, each with PAIRS of them
SENTINELS = range(PAIRS - 16, PAIRS)  # pairs that say in turn that all before them has arrived
SAME = 0x77  # a QPN that both hosts use for one pair
UNKNOWN = 0x999
BURST = 1000
FLOOD_PER_S = 20_000
QUEUES_LOST = 5  # times, each until they are made again
LIMIT = "1MiB"  # above kmax, with one sender too


class Layout(NamedTuple):
    """A kind of CE frame, and the tags of the CNP about it."""

    name: str
    way: Way
    frame: dict
    tags: tuple[Tag, ...] = ()


VLAN, QINQ = (Tag(100),), (Tag(10, 3, STAG), Tag(20))
CNP_VLAN = (Tag(100, CNP_PRIORITY),)
CNP_QINQ = (Tag(10, CNP_PRIORITY, STAG), Tag(20))
LAYOUTS = [
    layout
    for version, way in (("ipv4", TO_R1), ("ipv6", TO_R1_V6))
    for layout in (
        Layout(f"{version}", way, {}),
        Layout(f"{version}_without_payload", way, {"payload_bytes": 0}),
        Layout(f"{version}_with_udp_checksum", way, {"udp_checksum": True}),
        Layout(f"{version}_in_vlan", way, {"tags": VLAN}, CNP_VLAN),
        Layout(f"{version}_in_vlan_at_cnp_priority", way, {"tags": CNP_VLAN}, CNP_VLAN),
        Layout(f"{version}_with_priority_tag", way, {"tags": (Tag(0),)}, (Tag(0, CNP_PRIORITY),)),
        Layout(f"{version}_with_two_tags", way, {"tags": QINQ}, CNP_QINQ),
    )
] + [
    Layout("ipv4_with_options", TO_R1, {"options": b"\x01" * 8}),
    Layout("ipv4_with_all_options", TO_R1, {"options": b"\x01" * 40}),
    Layout("ipv4_with_options_and_two_tags", TO_R1, {"options": b"\x01" * 8, "tags": QINQ}, CNP_QINQ),
]


def pair_rows() -> list[tuple[str, int, str, int]]:
    rows = [(H1, OURS + i, R1, THEIRS + i) for i in range(PAIRS)] + [(H1, SAME, R1, SAME)]
    return rows + [(H1_V6, OURS + i, R1_V6, THEIRS + i) for i in range(PAIRS)]


def pairs_policy() -> str:
    lines = [f'  - {{a: "{a}/{aq:#x}", b: "{b}/{bq:#x}"}}\n' for a, aq, b, bq in pair_rows()]
    return "pairs:\n" + "".join(lines)


def pairs_known() -> list[dict]:
    """The same for check_cnps.py."""
    return [{"a": a, "a_qpn": aq, "b": b, "b_qpn": bq} for a, aq, b, bq in pair_rows()]


class Cable:
    """The cable between gw and r1: what is put on it toward r1, and what r1 sends back."""

    def __init__(self, lab: Lab):
        self.lab = lab
        self.tap = Tap(lab, "gw", "r1")
        self.injector = Injector(lab, "gw", "r1")
        self.seen = 0
        self.sentinels = cycle(SENTINELS)

    def answers(self, *frames: bytes) -> list[bytes]:
        """The CNPs that the frames earn. One more frame comes behind them; when that is answered, the
        others have been as well, or never will be."""
        sentinel = next(self.sentinels)
        self.injector.send(*frames, data_frame(TO_R1, THEIRS + sentinel))

        def answered() -> list[bytes]:
            cnps = self.tap.cnps()[self.seen :]
            return cnps if OURS + sentinel in map(qpn_of, cnps) else []

        cnps = wait_until(answered, 5, "answer to the frame behind the others")
        self.seen += len(cnps)
        return [cnp for cnp in cnps if qpn_of(cnp) != OURS + sentinel]


def qpn_of(frame: bytes) -> int:
    return transport_of(frame)[1]


class Growth:
    """How far counters of an agent have gone since."""

    def __init__(self, lab: Lab, node: str):
        self.lab, self.node = lab, node
        self.before = lab.metrics(node)

    def of(self, name: str, **labels: str) -> int:
        now = self.lab.metrics(self.node)
        return now.total(name, **labels) - self.before.total(name, **labels)

    def suppressed(self, reason: str) -> int:
        return self.of("quench_cnp_suppressed_total", reason=reason)


# What a CNP looks like


def test_layouts(cases: Cases, lab: Lab) -> None:
    cable = Cable(lab)
    for i, layout in enumerate(LAYOUTS):
        with cases.case(f"cnp_about_{layout.name}_goes_to_the_sender_in_the_same_vlan_without_udp_checksum"):
            cnps = cable.answers(data_frame(layout.way, THEIRS + i, **layout.frame))
            expect_equal([qpn_of(cnp) for cnp in cnps], [OURS + i], "QPNs of CNPs")
            expect_equal(tags_of(cnps[0]), layout.tags, "tags")
            expect_equal(udp_checksum_state(cnps[0]), "none", "UDP checksum")
    with cases.case("cnp_about_pair_with_one_qpn_on_both_sides_goes_to_the_sender"):
        cnps = cable.answers(data_frame(TO_R1, SAME))
        expect_equal([qpn_of(cnp) for cnp in cnps], [SAME], "QPNs of CNPs")
        grown = Growth(lab, "r1")
        cable.answers(cnp_frame(TO_R1, SAME))  # and r1 takes one about its own data
        expect_equal(grown.of("quench_cnp_unknown_pair_total"), 0, "CNPs for an unknown pair")
        expect_equal(grown.of("quench_cnp_received_total"), 1, "CNPs received")
    with cases.case("cnp_of_every_layout_is_right_in_every_byte"):
        cable.tap.finish()
        verdict = judge(lab, [cable.tap], pairs_known(), "--at-source")
        cases.note(f"{verdict['cnps']} CNPs")
        expect(verdict["cnps"] > len(LAYOUTS) and not verdict["faults"], verdict)


def test_no_cnp(cases: Cases, lab: Lab) -> None:
    cable = Cable(lab)
    nothing = {
        "a_cnp": (cnp_frame(TO_R1, THEIRS, tos=DSCP_CNP << 2 | CE), None),
        "a_cnp_with_the_dscp_of_data": (cnp_frame(TO_R1, THEIRS, tos=TOS_CE), None),
        "an_ack": (ack_frame(TO_R1, THEIRS), None),
        "a_cm_message": (cm_frame(TO_R1), None),
        "a_frame_that_is_not_ce": (data_frame(TO_R1, THEIRS, tos=DSCP_ROCE << 2 | ECT0), None),
        "an_unknown_pair": (data_frame(TO_R1, UNKNOWN), "unknown_pair"),
    }
    for name, (frame, reason) in nothing.items():
        with cases.case(f"cnp_about_{name}_is_never_sent"):
            grown = Growth(lab, "r1")
            expect_equal(cable.answers(frame, frame, frame), [], "CNPs")
            total = grown.of("quench_cnp_suppressed_total")
            expect_equal(total, 3 if reason else 0, "CNPs suppressed")
            expect_equal(grown.suppressed(reason) if reason else 0, total, f"CNPs suppressed: {reason}")
    cable.tap.finish()


# How often


def test_interval(cases: Cases, lab: Lab) -> None:
    bursts = {
        "as_fast_as_can_be": ((), 1),
        "in_50_ms": (("-r", BURST * 20), 1),
        "of_two_qps_in_50_ms": (("-r", BURST * 20), 2),
    }
    for name, (options, qps) in bursts.items():
        with cases.case(f"ce_burst_{name}_earns_one_cnp_an_interval_and_the_rest_is_counted"):
            burst = [data_frame(TO_R1, THEIRS + i) for i in range(qps)]
            tap, grown = Tap(lab, "gw", "r1"), Growth(lab, "r1")
            report = start_blast(lab, "gw", "r1", burst, "-n", BURST, *options).report()
            frames = report["frames_sent"]
            wait_until(lambda: grown.of("quench_ce_received_total") == frames, 5, "frames at r1")
            sent = grown.of("quench_cnp_sent_total")
            tap.wait(lambda _: len(tap.cnps()) >= sent, f"{sent} CNPs")
            cnps = [qpn_of(cnp) for cnp in tap.finish() if is_cnp(cnp)]
            cases.note(f"{frames} frames in {report['seconds'] * 1e3:.2f} ms, {sent} CNPs")
            expect_equal(len(cnps), sent, "CNPs on the cable, by quench_cnp_sent_total")
            expect_equal(sent + grown.suppressed("interval"), frames, "CNPs sent and suppressed")
            for qpn in range(OURS, OURS + qps):
                expect_interval_kept(cnps.count(qpn), report["seconds"])


def expect_interval_kept(cnps: int, seconds: float) -> None:
    """So many that there was one an interval, on a machine that may have looked away for a while."""
    most = seconds / INTERVAL_S + 2
    expect(max(1, 0.2 * (most - 2)) <= cnps <= most, f"{cnps} CNPs in {seconds * 1e3:.2f} ms")


# Pairs


def test_pairs(cases: Cases, lab: Lab) -> None:
    with cases.case("cnp_for_an_unknown_pair_is_counted_and_does_nothing"):
        grown = Growth(lab, "h1")
        injector = Injector(lab, "gw", "h1")
        injector.send(*[cnp_frame(TO_H1, UNKNOWN)] * 5)
        wait_until(lambda: grown.of("quench_cnp_received_total") == 5, 5, "CNPs at h1")
        expect_equal(grown.of("quench_cnp_unknown_pair_total"), 5, "CNPs for an unknown pair")
        for name in ("quench_cnp_handled_total", "quench_cnp_unenforced_total", "quench_netlink_ops_total"):
            expect_equal(grown.of(name), 0, name)

    qpn = 0x30000
    tap = Tap(lab, "h1", "eth0", "udp port 4791 and udp[8] = 0x81")
    listener = lab.start_listener("--qpn-base", qpn)
    start = math.ceil(time.time() + 1)
    traffic = Traffic([listener], [lab.start_sender("h1", 2, qpn, "--start-at", start)], start, 2)
    with cases.case("pair_with_one_qpn_on_both_sides_is_learned_from_cm"):
        learned = wait_until(lambda: learned_pairs(lab, "r1"), READY_S, "pair learned from CM")
        expect_equal(learned, {(H1, R1, qpn, qpn), (R1, H1, qpn, qpn)}, "pairs")
        held = wait_until(lambda: lab.metrics("h1").total("quench_qps_limited"), 5, "QP held back")
        expect_equal(held, 1, "QPs held back")
    with cases.case("cnps_of_pair_with_one_qpn_on_both_sides_are_right_in_every_byte"):
        traffic.finish()
        tap.finish()
        verdict = judge(lab, [tap], traffic.pairs())
        cases.note(f"{verdict['cnps']} CNPs")
        expect(verdict["cnps"] and not verdict["faults"], verdict)
        expect_equal(traffic.sent[0]["cnps"], verdict["cnps"], "CNPs that the sender got")
    with cases.case("pair_is_forgotten_after_its_dreq_and_earns_no_more_cnps"):
        wait_until(lambda: not learned_pairs(lab, "r1"), 5, "pair forgotten")
        cable, grown = Cable(lab), Growth(lab, "r1")
        expect_equal(cable.answers(*[data_frame(TO_R1, qpn)] * 3), [], "CNPs")
        expect_equal(grown.suppressed("unknown_pair"), 3, "CNPs suppressed: unknown_pair")
        cable.tap.finish()


def learned_pairs(lab: Lab, node: str) -> set[tuple]:
    return {
        (f["src"], f["dst"], f["dst_qpn"], f["peer_qpn"]) for f in lab.flows(node) if f["pair_source"] == "cm"
    }  # fmt: skip


# Frames whose checksum nobody has completed yet


class LocalSender:
    """The kernel's own UDP, which leaves checksums to the device."""

    def __init__(self, lab: Lab):
        self.out, self.back = in_namespace(lab.namespace("h1"), self._open)

    @staticmethod
    def _open() -> tuple[socket.socket, socket.socket]:
        sockets = []
        for port in (TO_GW.port, ROCE_PORT):
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            s.bind((H1, port))
            s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, TOS_CE)
            s.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER, IP_PMTUDISC_DO: DF, and so id 0
            s.settimeout(5)
            sockets.append(s)
        return sockets[0], sockets[1]

    def send(self, qpn: int) -> None:
        frame = data_frame(TO_GW, qpn)
        self.out.sendto(frame[icrc_oracle.locate(frame).bth :], (R1, ROCE_PORT))

    def receive(self) -> bytes:
        """The BTH and all behind it, of a frame whose UDP checksum the kernel found right."""
        return self.back.recv(2048)

    def close(self) -> None:
        self.out.close()
        self.back.close()


def test_checksums(cases: Cases, lab: Lab) -> None:
    """Who completes what: the checksum of the original by the sender, or by nobody; that of its clone
    by the port that it leaves by, or by nobody."""
    settings = [
        ("left_open_all_the_way", "on", "on", "partial", {"none", "partial"}),
        ("completed_behind_the_clone", "on", "off", "partial", {"none", "right"}),
        ("completed_by_the_sender", "off", "on", "right", {"none"}),
    ]
    for i, (name, sender_tx, port_tx, original, wanted) in enumerate(settings):
        with cases.case(f"cnp_about_frame_with_checksum_{name}_is_taken_by_the_senders_kernel"):
            lab.run("h1", "ethtool", "-K", "eth0", "tx", sender_tx)
            lab.run("gw", "ethtool", "-K", "h1", "tx", port_tx)
            sender, at_r1, at_h1 = LocalSender(lab), Tap(lab, "r1", "eth0"), Tap(lab, "h1", "eth0")
            sender.send(THEIRS + i)
            packet = sender.receive()
            expect_equal(packet[0], 0x81, "opcode")
            at_h1.wait(lambda _: at_h1.cnps(), "CNP")
            at_r1.wait(lambda frames: any(map(transport_of, frames)), "the frame itself")
            originals = [udp_checksum_state(f) for f in at_r1.finish() if transport_of(f)]
            expect_equal(originals, [original], "UDP checksum of the frame itself")
            cnps = [udp_checksum_state(f) for f in at_h1.finish() if is_cnp(f)]
            cases.note(f"UDP checksum of the CNP: {cnps[0]}")
            expect(len(cnps) == 1 and cnps[0] in wanted, f"UDP checksum of the CNP: {cnps}")
            if "partial" not in cnps:
                verdict = judge(lab, [at_h1], pairs_known())
                faults = [f for f in verdict["faults"] if "UDP.chksum" not in f]
                expect(not faults and not verdict["bad_icrc"], verdict)
            sender.close()
    lab.run("h1", "ethtool", "-K", "eth0", "tx", "on", "tso", "off")
    lab.run("gw", "ethtool", "-K", "h1", "tx", "on", "tso", "off")


# No frame of data comes back


def detach_egress(lab: Lab, node: str, device: str) -> None:
    number = in_namespace(lab.namespace(node), lambda: socket.if_nametoindex(device))
    pin = f"/sys/fs/bpf/quench/v1/{lab.instance(node)}/link_tc_egress_{number}"
    lab.run(node, "bpftool", "link", "detach", "pinned", pin)


class Flood:
    """CE frames of many QPs on their way to r1, and a watch on what comes back to h1's side."""

    def __init__(self, lab: Lab, node: str, device: str, way: Way):
        self.tap = Tap(lab, node, device, f"udp port {ROCE_PORT}")
        frames = [data_frame(way, THEIRS + i) for i in range(PAIRS)]
        self.job = start_blast(lab, node, device, frames, "-r", FLOOD_PER_S)
        self.tap.wait(lambda _: self.tap.cnps(), "first CNP")

    def expect_none_back(self, cases: Cases) -> None:
        self.job.stop()
        report = self.job.report()
        frames = self.tap.finish()
        back = [f for f in frames if not is_cnp(f)]
        cases.note(f"{report['frames_sent']} frames, {len(frames) - len(back)} CNPs, {len(back)} came back")
        first = back[0][:64].hex() if back else None
        expect(not back, f"{len(back)} of {report['frames_sent']} frames came back, the first {first}")


def start_notifying_gateway(lab: Lab) -> None:
    gw = [Port("r1", "gateway", RETURN_BPS, "notify: true"), Port("h1", "gateway", RETURN_BPS)]
    lab.start_agent("gw", gw)
    lab.wait_ready("gw")


def stray_clones(lab: Lab, node: str) -> int:
    return lab.metrics(node).total("quench_drops_total", reason="stray_clone")


def frames_seen(lab: Lab, node: str) -> int:
    return lab.metrics(node).total("quench_frames_total", kind="rocev2")


def wait_frames_go_on(lab: Lab, node: str) -> None:
    seen = frames_seen(lab, node)
    wait_until(lambda: frames_seen(lab, node) > seen + FLOOD_PER_S // 10, 5, "frames go on")


def lose_hook(cases: Cases, lab: Lab, node: str, device: str) -> None:
    """Without the hook that makes CNPs of them, clones go where nothing comes out."""
    detach_egress(lab, node, device)
    wait_until(lambda: stray_clones(lab, node), 5, "clones in the sink")
    wait_frames_go_on(lab, node)
    cases.note(f"{stray_clones(lab, node)} clones ended in the sink")


def lose_hook_and_queues(cases: Cases, lab: Lab, node: str, device: str) -> None:
    """Neither the hook nor the sink is there for a while."""
    lose_hook(cases, lab, node, device)
    for _ in range(QUEUES_LOST):
        lab.tc(node, f"qdisc del dev {device} root")
        wait_until(lambda: "quench_root" in lab.run(node, "tc", "filter", "show", "dev", device), 5, "queues")
    wait_frames_go_on(lab, node)


def go_down_and_up(_: Cases, lab: Lab, node: str, device: str) -> None:
    for _ in range(5):
        lab.ip(node, f"link set {device} down", f"link set {device} up",
               f"neigh replace {H1} lladdr {TO_GW.src_mac} nud permanent dev {device}")  # fmt: skip
        sent = lab.metrics(node).total("quench_cnp_sent_total")
        wait_until(lambda: lab.metrics(node).total("quench_cnp_sent_total") > sent, 5, "CNPs go on")


def stop_agent(_: Cases, lab: Lab, node: str, device: str) -> None:
    job = lab.agents.pop(node)
    job.stop()
    job.wait()


def kill_and_release(_: Cases, lab: Lab, node: str, device: str) -> None:
    job = lab.agents.pop(node)
    job.process.kill()
    job.process.wait()
    lab.release(node)


MISHAPS = {
    "port_that_goes_down_and_up": go_down_and_up,
    "port_that_loses_its_egress_hook": lose_hook,
    "port_that_loses_its_egress_hook_and_its_queues": lose_hook_and_queues,
    "agent_that_is_stopped": stop_agent,
    "agent_that_is_killed_and_released": kill_and_release,
}


def test_reflection_at_gateway(cases: Cases, lab: Lab) -> None:
    """Each mishap happens to the port toward the sender, or to the agent."""
    for name, happen in MISHAPS.items():
        with cases.case(f"gateway_{name}_under_ce_reflects_no_data"):
            restart_gateway(lab)
            flood = Flood(lab, "h1", "eth0", TO_GW)
            happen(cases, lab, "gw", "h1")
            flood.expect_none_back(cases)


def restart_gateway(lab: Lab) -> None:
    if "gw" in lab.agents:
        stop_agent(Cases(), lab, "gw", "")
    start_notifying_gateway(lab)


def test_reflection_at_host(cases: Cases, lab: Lab) -> None:
    with cases.case("host_port_that_loses_its_egress_hook_under_ce_reflects_no_data"):
        flood = Flood(lab, "gw", "r1", TO_R1)
        lose_hook(cases, lab, "r1", "eth0")
        flood.expect_none_back(cases)


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
    with Lab(senders=1) as lab:
        lab.base_policy = policy_with(lab.base_policy, limit=LIMIT) + pairs_policy()
        lab.start_quench()
        for test in (test_layouts, test_no_cnp, test_interval, test_pairs, test_reflection_at_host):
            guarded(cases, test, lab)
        lab.stop_quench()
        start_notifying_gateway(lab)
        for test in (test_checksums, test_reflection_at_gateway):
            guarded(cases, test, lab)
    print(f"{time.monotonic() - started:.1f} s")
    return cases.exit_code()


if __name__ == "__main__":
    sys.exit(main())
