#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Is the depth that the programs read what the kernel says it is, and is a stale address never believed?

depth_read, the programs' own function, is run by depthprobe (tests/prog) on the maps of live agents:
on gw's bottleneck port r1 and on h1's eth0, which has QP classes. At rest `tc -s` judges it; under load
each look counts whose two brackets, the kernel's answers before and after it, are equal.

    tests/lab/test_depth.py [CASE...]     all cases, or those whose names contain one of the words
"""
import contextlib
import json
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from typing import Callable, Iterator, NamedTuple

from lab import BOTTLENECK_BPS, FRAME_BYTES_MAX, RECEIVER_ADDRESS, ROOT, Lab, LabError, in_namespace
from lab import run as run_command
from lab import wait_until

DEPTHPROBE = ROOT / "build/prog/depthprobe"
LIMIT_KIB = 400  # of the class: above kmax, and far below what four windows hold
COMPARABLE_MIN = 1000
FOUND_AGAIN_S = 3
NEVER_S = 0.5  # so long something must not happen: 50 times what a new walk waits
TCP_PORT = 5001
TCP_TOS = 26 << 2  # the DSCP of the class
TCP_S = 3
LEAF_CYCLES, GATE_CYCLES = 300, 60
CYCLE_PAUSE_S = 0.004
FROZEN_RATE = "8kbit"  # a frame a second; what is less leaves a debt that lasts
JITTER_BYTES = 16  # pads and headers in a mean; a GSO frame is thousands longer

# h1's slot on gw: r1 is port 1, h1 port 2
GATE, INNER, LEAF_MINOR = "9010:", "9020:", 3
LEAF = "a002:"
SLOTS = 6
FAST = "rate 100gbit ceil 100gbit burst 3750000b cburst 3750000b quantum 1522"


class Failed(Exception):
    """The behaviour that a case states does not hold."""


def expect(condition: object, detail: str) -> None:
    if not condition:
        raise Failed(detail)


class Look(NamedTuple):
    """What one reader says of one queue."""

    reader: str
    believed: bool
    backlog_bytes: int
    sent_bytes: int


class Bench:
    """The lab with agents on gw and h1 and the ways to look into it."""

    def __init__(self, lab: Lab):
        self.lab = lab

    # Looking

    def probe(self, node: str, device: str, *options: object) -> str:
        instance = self.lab.instance(node)
        return self.lab.run(node, DEPTHPROBE, "--dev", device, "--instance", instance, *options)

    def looks(self, node: str, device: str) -> dict[str, list[Look]]:
        """What every reader says of each place in the tree, by handle as tc writes it."""
        doc = json.loads(self.probe(node, device))
        return {q["handle"].removesuffix("0"): [Look(**k) for k in q["looks"]] for q in doc}

    def believed(self, node: str, device: str) -> set[str]:
        """The handles that any reader believes."""
        looks = self.looks(node, device)
        return {handle for handle, each in looks.items() if any(k.believed for k in each)}

    def qdiscs(self, node: str, device: str) -> dict[str, dict]:
        """`tc -s qdisc` of the device, by handle."""
        text = run_command("tc", "-n", self.lab.namespace(node), "-s", "-j", "qdisc", "show", "dev", device)
        return {q["handle"]: q for q in json.loads(text) if "handle" in q}

    def differences(self, node: str, device: str) -> list[str]:
        """Where depth_read and tc differ, in a moment in which tc says the same before and after."""

        def still() -> list:
            before, looks, after = self.qdiscs(node, device), self.looks(node, device), self.qdiscs(node, device)
            same = all(counters(before, h) == counters(after, h) for h in looks)
            return [before, looks] if same else []

        qdiscs, looks = wait_until(still, FOUND_AGAIN_S, f"a still moment of {device} in {node}")
        return [
            f"{handle} by {k.reader}: believed {k.believed}, {k.backlog_bytes} of "
            f"{qdiscs[handle]['backlog']} bytes waiting, {k.sent_bytes} of {qdiscs[handle]['bytes']} sent"
            for handle in looks.keys() & qdiscs.keys()
            for k in looks[handle]
            if (k.believed, k.backlog_bytes, k.sent_bytes)
            != (True, qdiscs[handle]["backlog"], qdiscs[handle]["bytes"])
        ]

    def expect_equal(self, node: str, device: str) -> None:
        wrong = self.differences(node, device)
        expect(not wrong, "; ".join(wrong[:4]))

    def start_compare(self, node: str, device: str, seconds: float):
        instance = self.lab.instance(node)
        return self.lab.start(
            node, f"depthprobe-{node}", DEPTHPROBE, "--dev", device, "--instance", instance,
            "--seconds", seconds,
        )  # fmt: skip

    def compare(self, node: str, device: str, seconds: float) -> dict:
        return self.start_compare(node, device, seconds).report(seconds + FOUND_AGAIN_S)

    def counter(self, name: str) -> int:
        return self.lab.metrics("gw").total(name, port="r1")

    # Traffic

    @contextlib.contextmanager
    def traffic(self, senders: int) -> Iterator[None]:
        """The first so many senders, from when something waits in gw's port."""
        traffic = self.lab.start_traffic(seconds=120)
        try:
            for job in traffic.senders[senders:]:
                job.stop()
            wait_until(self.waiting_bytes, 10, "overload")
            yield
        finally:
            traffic.stop()
            for job in [*traffic.senders, traffic.listener]:
                job.process.wait()
                self.lab.jobs.remove(job)

    def waiting_bytes(self) -> int:
        return self.qdiscs("gw", "r1")[GATE]["backlog"]

    @contextlib.contextmanager
    def class_rate(self, node: str, device: str, rate: str) -> Iterator[None]:
        """Another rate for the class in a port of 200 Mbit/s, changed in place. Its own rate is what
        HTB lets it have even when its parent has less."""

        def change(rate: str, ceil: str) -> None:
            self.lab.tc(
                node,
                f"class change dev {device} parent 9000:1 classid 9000:10 htb prio 1 rate {rate} "
                f"ceil {ceil} burst 20000b cburst 25000b quantum {FRAME_BYTES_MAX}",
            )

        change(rate, rate)
        try:
            yield
        finally:
            change("160mbit", "200mbit")

    def tcp(self, seconds: float) -> int:
        """A TCP flow from h1 to r1, in the class once it is connected; the bytes that arrived."""
        received: list[int] = []
        with in_namespace(self.lab.namespace("r1"), listen_tcp) as server:
            reader = threading.Thread(target=lambda: received.append(drain_tcp(server)))
            reader.start()
            with in_namespace(self.lab.namespace("h1"), socket.socket) as client:
                client.settimeout(FOUND_AGAIN_S)
                client.connect((RECEIVER_ADDRESS, TCP_PORT))
                client.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, TCP_TOS)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end = time.monotonic() + seconds
                with contextlib.suppress(TimeoutError):
                    while time.monotonic() < end:
                        client.send(bytes(1 << 18))
            reader.join()
        return sum(received)

    # Changes to the tree

    def expect_found_again(self, node: str = "gw", device: str = "r1") -> None:
        """Every queue of the tree that tc shows is believed again, and the values are right."""

        def missing() -> set[str]:
            looks = self.looks(node, device)
            there = self.qdiscs(node, device).keys()
            return {h for h, each in looks.items() if h not in there or not all(k.believed for k in each)}

        try:
            wait_until(lambda: not missing(), FOUND_AGAIN_S, "found again")
        except LabError:
            raise Failed(f"not found within {FOUND_AGAIN_S} s under traffic: {sorted(missing())}") from None
        sums = self.compare(node, device, 0.5)
        expect_agreement(sums)
        for name, tally in sums["readers"].items():
            expect(not tally["unbelieved"], f"{name}: {tally['unbelieved']} looks not believed afterwards")

    def cycle(self, lines: list[str], cycles: int) -> None:
        """The lines for tc, again and again, a moment apart."""
        process = subprocess.Popen(
            ["tc", "-n", self.lab.namespace("gw"), "-batch", "-"],
            stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        with contextlib.suppress(BrokenPipeError):
            for _ in range(cycles):
                for line in lines:
                    process.stdin.write(line + "\n")
                    process.stdin.flush()
                    time.sleep(CYCLE_PAUSE_S)
        _, errors = process.communicate()
        expect(not process.returncode, f"tc: {errors.strip()}")


def counters(qdiscs: dict[str, dict], handle: str) -> tuple:
    return tuple(qdiscs.get(handle, {}).get(key) for key in ("bytes", "packets", "backlog", "qlen"))


def listen_tcp() -> socket.socket:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((RECEIVER_ADDRESS, TCP_PORT))
    server.listen()
    server.settimeout(10)
    return server


def drain_tcp(server: socket.socket) -> int:
    """Read one connection to its end, which the sender makes abrupt."""
    total = 0
    connection, _ = server.accept()
    with connection, contextlib.suppress(ConnectionResetError):
        connection.settimeout(TCP_S + FOUND_AGAIN_S)
        while data := connection.recv(1 << 18):
            total += len(data)
    return total


def expect_agreement(sums: dict, busy_min: int = 0) -> str:
    """No look that counts differs, by any reader. Says how many there were."""
    for name, tally in sums["readers"].items():
        for wrong in ("different", "misplaced", "ghosts"):
            expect(not tally[wrong], f"{name}: {tally[wrong]} {wrong}: {sums['examples'][:2]}")
        busy = tally["comparable_busy"]
        expect(busy >= busy_min, f"{name}: only {busy} comparable samples of {sums['samples']}")
    return ", ".join(
        f"{name} {t['comparable']} comparable ({t['comparable_busy']} with frames waiting)"
        for name, t in sums["readers"].items()
    )


# The tree of gw's port r1, made by hand


def leaf_line(slot: int, verb: str = "add", kind: str = "bfifo") -> str:
    return f"qdisc {verb} dev r1 parent {INNER}{slot + 1:x} handle {0xA000 + slot:x}: {kind} limit {LIMIT_KIB}kb"


def gate_lines() -> list[str]:
    """The gate and all below it."""
    lines = [
        f"qdisc add dev r1 parent 9000:10 handle {GATE} tbf rate 100gbit burst 3750000b limit {LIMIT_KIB}kb",
        f"qdisc add dev r1 parent {GATE}1 handle {INNER} htb default 1",
    ]
    for slot in range(SLOTS):
        lines.append(f"class add dev r1 parent {INNER} classid {INNER}{slot + 1:x} htb {FAST}")
        lines.append(leaf_line(slot))
    return lines


def root_lines() -> list[str]:
    share = f"rate 20mbit ceil {BOTTLENECK_BPS}bit burst 3042b cburst 25000b quantum {FRAME_BYTES_MAX}"
    return [
        "qdisc add dev r1 root handle 9000: htb default 30",
        f"class add dev r1 parent 9000: classid 9000:1 htb rate {BOTTLENECK_BPS}bit ceil {BOTTLENECK_BPS}bit "
        f"burst 25000b cburst 25000b quantum {FRAME_BYTES_MAX}",
        f"class add dev r1 parent 9000:1 classid 9000:10 htb {share}",
        f"class add dev r1 parent 9000:1 classid 9000:20 htb {share}",
        f"class add dev r1 parent 9000:1 classid 9000:30 htb {share}",
        f"class add dev r1 parent 9000: classid 9000:31 htb rate 8kbit ceil 8kbit quantum {FRAME_BYTES_MAX}",
        "qdisc add dev r1 parent 9000:20 handle 9030: bfifo limit 128kb",
        f"qdisc add dev r1 parent 9000:30 handle 9031: bfifo limit {LIMIT_KIB}kb",
        "qdisc add dev r1 parent 9000:31 handle 9032: pfifo limit 0",
        *gate_lines(),
    ]


# The cases, in this order: each leaves the tree whole, but for the last ones


def depth_before_first_frame_nothing_believed(bench: Bench) -> str:
    believed = bench.believed("gw", "r1")
    expect(not believed, f"believed though no frame has led to it: {believed}")
    return ""


def depth_overload_equals_kernel(bench: Bench) -> str:
    bench.expect_found_again()
    return expect_agreement(bench.compare("gw", "r1", 3), COMPARABLE_MIN)


def depth_qp_leaves_under_load_equal_kernel(bench: Bench) -> str:
    with bench.class_rate("h1", "eth0", "20mbit"):
        bench.expect_found_again("h1", "eth0")
        return expect_agreement(bench.compare("h1", "eth0", 2), COMPARABLE_MIN)


def depth_class_limit_and_leaf_drops_equals_kernel(bench: Bench) -> str:
    refused, dropped = bench.counter("quench_drops_total"), bench.qdiscs("gw", "r1")[LEAF]["drops"]
    bench.lab.tc("gw", leaf_line(2, "change").replace(f"{LIMIT_KIB}kb", "20000b"))
    sums = bench.compare("gw", "r1", 2)
    dropped = bench.qdiscs("gw", "r1")[LEAF]["drops"] - dropped
    bench.lab.tc("gw", leaf_line(2, "change"))
    wait_until(lambda: bench.counter("quench_drops_total") > refused, FOUND_AGAIN_S, "a drop above the limit")
    refused = bench.counter("quench_drops_total") - refused
    said = expect_agreement(sums, COMPARABLE_MIN)
    expect(dropped, "the leaf dropped nothing: the case says nothing")
    return f"{refused} frames refused, {dropped} dropped by a leaf; {said}"


def depth_frozen_queue_equals_tc(bench: Bench) -> str:
    with bench.class_rate("gw", "r1", FROZEN_RATE):
        bench.expect_equal("gw", "r1")
        waiting = bench.waiting_bytes()
    expect(waiting, "nothing waited: the case says nothing")
    left = bench.qdiscs("gw", "r1")[GATE]["packets"]
    wait_until(lambda: bench.qdiscs("gw", "r1")[GATE]["packets"] > left + 100, FOUND_AGAIN_S, "frames leave again")
    return f"{waiting} bytes waiting"


def depth_link_down_and_up_equals_kernel(bench: Bench) -> str:
    job = bench.start_compare("gw", "r1", 3)
    for _ in range(3):
        wait_until(bench.waiting_bytes, FOUND_AGAIN_S, "overload")
        bench.lab.ip("gw", "link set r1 down")
        bench.expect_equal("gw", "r1")
        expect(not bench.waiting_bytes(), "a port that is down holds frames")
        bench.lab.ip("gw", "link set r1 up")
    for change in ("down", "up"):
        bench.lab.ip("r1", f"link set eth0 {change}")
    bench.lab.ip("r1", "route replace default via 10.0.100.254")
    said = expect_agreement(job.report(), COMPARABLE_MIN)
    wait_until(bench.waiting_bytes, FOUND_AGAIN_S, "overload after the link came up")
    bench.expect_found_again()
    return said


def depth_leaf_deleted_not_believed(bench: Bench) -> str:
    before = bench.believed("gw", "r1")
    bench.lab.tc("gw", f"qdisc del dev r1 parent {INNER}{LEAF_MINOR} handle {LEAF}")
    believed = bench.believed("gw", "r1")
    expect(believed == before - {LEAF}, f"believed: {sorted(believed)}, before: {sorted(before)}")
    return ""


def depth_leaf_recreated_found_again(bench: Bench) -> str:
    bench.lab.tc("gw", leaf_line(2))
    bench.expect_found_again()
    return ""


def depth_leaf_replaced_in_place_still_believed(bench: Bench) -> str:
    bench.lab.tc("gw", leaf_line(2, "replace"))
    bench.expect_found_again()
    return ""


def depth_leaf_of_another_handle_not_believed(bench: Bench) -> str:
    bench.lab.tc("gw", leaf_line(2, "replace").replace(LEAF, "a0ff:"))
    deadline = time.monotonic() + NEVER_S
    while time.monotonic() < deadline:
        expect(LEAF not in bench.believed("gw", "r1"), f"{LEAF} is believed, a0ff: stands there")
    bench.lab.tc("gw", leaf_line(2, "replace"))
    bench.expect_found_again()
    return ""


def depth_gate_deleted_nothing_believed_frames_counted(bench: Bench) -> str:
    unknown = bench.counter("quench_depth_unknown_total")
    bench.lab.tc("gw", "qdisc del dev r1 parent 9000:10")
    believed = bench.believed("gw", "r1")
    expect(not believed, f"believed: {sorted(believed)}")
    wait_until(
        lambda: bench.counter("quench_depth_unknown_total") > unknown, FOUND_AGAIN_S, "frames of unknown depth counted"
    )
    believed = bench.believed("gw", "r1")
    expect(not believed, f"believed after the frames: {sorted(believed)}")
    return ""


def depth_gate_recreated_found_again(bench: Bench) -> str:
    bench.lab.tc("gw", *gate_lines())
    bench.expect_found_again()
    return ""


def depth_leaf_cycles_under_traffic_never_wrong(bench: Bench) -> str:
    job = bench.start_compare("gw", "r1", 2 * LEAF_CYCLES * CYCLE_PAUSE_S)
    lines = [f"qdisc del dev r1 parent {INNER}{LEAF_MINOR} handle {LEAF}", leaf_line(2)]
    bench.cycle(lines, LEAF_CYCLES)
    said = expect_agreement(job.report(), COMPARABLE_MIN)
    bench.expect_found_again()
    return said


def depth_gate_cycles_under_traffic_never_wrong(bench: Bench) -> str:
    lines = ["qdisc del dev r1 parent 9000:10", "\n".join(gate_lines())]
    job = bench.start_compare("gw", "r1", 2 * GATE_CYCLES * 3 * CYCLE_PAUSE_S)
    bench.cycle(lines, GATE_CYCLES)
    said = expect_agreement(job.report())
    bench.expect_found_again()
    return said


def depth_at_rest_equals_tc(bench: Bench) -> str:
    for node, device in (("gw", "r1"), ("h1", "eth0")):
        wait_until(lambda: not bench.qdiscs(node, device)[GATE]["backlog"], FOUND_AGAIN_S, "rest")
        bench.expect_equal(node, device)
    return ""


def offloads(bench: Bench, on: bool) -> None:
    """GSO frames come from h1's TCP and from GRO at gw; with TSO, r1 lets them out whole."""
    state = "on" if on else "off"
    for node, device, features in (("h1", "eth0", ("gso",)), ("gw", "h1", ("gro",)), ("gw", "r1", ("gso", "tso"))):
        for feature in features:
            bench.lab.run(node, "ethtool", "-K", device, feature, state)
    features = json.loads(bench.lab.run("gw", "ethtool", "--json", "-k", "r1"))[0]
    active = features["tcp-segmentation-offload"]["active"]
    expect(active == on, f"TSO of r1 is {'on' if active else 'off'}")


def tcp_beside_roce(bench: Bench) -> tuple[dict, int]:
    job = bench.start_compare("gw", "r1", TCP_S)
    received = bench.tcp(TCP_S)
    expect(received, "TCP brought nothing over: the case says nothing")
    return job.report(), received


def depth_tcp_with_gso_equals_kernel(bench: Bench) -> str:
    offloads(bench, True)
    sums, received = tcp_beside_roce(bench)
    said = expect_agreement(sums, COMPARABLE_MIN)
    longest = sums["longest_skb_bytes"]
    expect(longest > FRAME_BYTES_MAX + JITTER_BYTES, f"no GSO frame waited: {longest} bytes at most")
    return f"{received} bytes of TCP, a frame of {longest} bytes or more waited; {said}"


def depth_tcp_without_gso_equals_kernel(bench: Bench) -> str:
    offloads(bench, False)
    sums, received = tcp_beside_roce(bench)
    said = expect_agreement(sums, COMPARABLE_MIN)
    longest = sums["longest_skb_bytes"]
    expect(longest <= FRAME_BYTES_MAX + JITTER_BYTES, f"a GSO frame waited: {longest} bytes")
    return f"{received} bytes of TCP; {said}"


def root_program_id(bench: Bench) -> int:
    """The classifier, which the agent holds, also while no filter does."""
    text = bench.lab.run("gw", "tc", "filter", "show", "dev", "r1", "parent", "9000:")
    found = re.search(r"quench_root direct-action.* id (\d+)", text)
    expect(found, f"no filter of quench: {text}")
    return int(found[1])


def depth_root_deleted_nothing_believed(bench: Bench) -> str:
    pin = f"/sys/fs/bpf/{bench.lab.name}-root"
    bench.lab.run("gw", "bpftool", "prog", "pin", "id", root_program_id(bench), pin)
    bench.lab.tc("gw", "qdisc del dev r1 root")
    believed = bench.believed("gw", "r1")
    expect(not believed, f"believed: {sorted(believed)}")
    return ""


def depth_root_recreated_without_filter_frames_unmarked_uncounted(bench: Bench) -> str:
    """What is so, not what one would wish: nobody but the filter would notice."""
    names = ("quench_ce_marked_total", "quench_depth_unknown_total", "quench_drops_total")
    bench.lab.tc("gw", *root_lines())
    before = [bench.counter(n) for n in names]
    wait_until(lambda: bench.qdiscs("gw", "r1")["9031:"]["packets"] > 1000, FOUND_AGAIN_S, "frames in best effort")
    expect(not bench.believed("gw", "r1"), f"believed: {sorted(bench.believed('gw', 'r1'))}")
    after = [bench.counter(n) for n in names]
    expect(before == after, f"{names}: {before}, then {after}")
    expect(not bench.qdiscs("gw", "r1")[GATE]["packets"], "frames pass the gate")
    return "all ride in best effort"


def depth_root_and_filter_recreated_found_again(bench: Bench) -> str:
    pin = f"/sys/fs/bpf/{bench.lab.name}-root"
    bench.lab.run(
        "gw", "tc", "filter", "add", "dev", "r1", "parent", "9000:", "protocol", "all", "pref", 1,
        "handle", 1, "bpf", "object-pinned", pin, "classid", "9000:", "direct-action",
    )  # fmt: skip
    bench.expect_found_again()
    return ""


def agent_after_all_still_answers(bench: Bench) -> str:
    for node in ("gw", "h1"):
        expect(bench.lab.status(node), f"the agent in {node} does not answer")
    return ""


Case = Callable[[Bench], str]
QUIET: tuple[Case, ...] = (depth_before_first_frame_nothing_believed,)
LOADED: tuple[Case, ...] = (
    depth_overload_equals_kernel,
    depth_qp_leaves_under_load_equal_kernel,
    depth_class_limit_and_leaf_drops_equals_kernel,
    depth_frozen_queue_equals_tc,
    depth_link_down_and_up_equals_kernel,
    depth_leaf_deleted_not_believed,
    depth_leaf_recreated_found_again,
    depth_leaf_replaced_in_place_still_believed,
    depth_leaf_of_another_handle_not_believed,
    depth_gate_deleted_nothing_believed_frames_counted,
    depth_gate_recreated_found_again,
    depth_leaf_cycles_under_traffic_never_wrong,
    depth_gate_cycles_under_traffic_never_wrong,
)
BESIDE_TCP: tuple[Case, ...] = (
    depth_tcp_with_gso_equals_kernel,
    depth_tcp_without_gso_equals_kernel,
)
RESTING: tuple[Case, ...] = (depth_at_rest_equals_tc,)
ROOTLESS: tuple[Case, ...] = (
    depth_root_deleted_nothing_believed,
    depth_root_recreated_without_filter_frames_unmarked_uncounted,
    depth_root_and_filter_recreated_found_again,
    agent_after_all_still_answers,
)


def run_cases(bench: Bench, cases: tuple[Case, ...]) -> int:
    """Run them in order; returns how many failed."""
    failed = 0
    for case in cases:
        try:
            said = case(bench)
            print(f"ok - {case.__name__}" + (f" ({said})" if said else ""), flush=True)
        except (Failed, LabError, OSError, KeyError) as fault:
            print(f"not ok - {case.__name__}: {fault}", flush=True)
            failed += 1
    return failed


def chosen(cases: tuple[Case, ...]) -> tuple[Case, ...]:
    words = sys.argv[1:]
    return tuple(c for c in cases if not words or any(w in c.__name__ for w in words))


def main() -> int:
    with Lab(senders=4) as lab:
        lab.base_policy = re.sub(r"^( +limit:) *\S+", rf"\1 {LIMIT_KIB}KiB", lab.base_policy, flags=re.M)
        # the queues that these cases delete are theirs to make again
        lab.base_policy += "repair: false\n"
        for node in ("gw", "h1"):
            lab.start_agent(node)
        for node in ("gw", "h1"):
            lab.wait_ready(node)
        bench = Bench(lab)
        failed = run_cases(bench, chosen(QUIET))
        for senders, cases in ((2, BESIDE_TCP), (4, LOADED), (0, RESTING), (4, ROOTLESS)):
            if chosen(cases):
                with bench.traffic(senders) if senders else contextlib.nullcontext():
                    failed += run_cases(bench, chosen(cases))
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as fault:
        print(f"not ok - lab: {fault}")
        sys.exit(1)
