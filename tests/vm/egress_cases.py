# SPDX-License-Identifier: BSD-2-Clause
"""What rxe does when its frames wait at the egress of its own machine, or are dropped there: by the
kernel's own queues, and by quench's gate."""
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lab"))
from agent import Agent  # noqa: E402
from endpoints import IPV4, Endpoint, Gateway, await_listening  # noqa: E402
from guest import Guests  # noqa: E402
from image import Image  # noqa: E402
from lab import expect, expect_equal  # noqa: E402
from loop_cases import TROUBLE, host_policy  # noqa: E402
from results import Results  # noqa: E402
from rxe_cases import TOS_ROCE_ECT, perftest_mb_s  # noqa: E402

CLIENT_S = 60
GATE = "gate eth0 20 50 50"  # 20 times closed for 50 ms, and then open as long
MTU = 1500


class Obstacle(NamedTuple):
    """What is in the way of a's frames."""

    name: str
    qdisc: str  # of eth0
    messages: int = 400  # of 64 KiB
    timeout: int = 18  # of the QP: 4.096 us times 2 to this power; 14 is perftest's own
    drops: bool = False  # behind rxe's back; else every frame that it calls sent arrives


OBSTACLES = (
    Obstacle("frames_late_by_20_ms", "netem delay 20ms limit 10000"),
    Obstacle("frames_wait_for_a_class_of_2_mbit_s", "tbf rate 2mbit burst 2000 limit 1000000", 15),
    Obstacle("the_same_with_a_time_out_of_67_ms", "tbf rate 2mbit burst 2000 limit 1000000", 15, 14),
    Obstacle("a_hundredth_is_dropped", "netem loss 1% limit 10000", 50, 14, drops=True),
    Obstacle("a_queue_of_20_kb_refuses_frames", "tbf rate 60mbit burst 2000 limit 20000"),
)


class Pair(NamedTuple):
    a: Endpoint
    b: Endpoint

    def write(self, messages: int, timeout: int, meanwhile: str = "") -> tuple[dict[str, int], float, str]:
        """ib_write_bw from a to b, to its good end: how the counters moved, MB/s, and what a command
        printed that a runs beside it."""
        before = [end.counters() for end in self]
        command = f"ib_write_bw -x {{}} -s 65536 -n {messages} -u {timeout} --tclass={TOS_ROCE_ECT}"
        server = self.b.guest.start(f"timeout {CLIENT_S} {command.format(self.b.gid)}")
        await_listening(self.b.guest, "ib_write_bw", [server])
        client = self.a.guest.start(f"timeout {CLIENT_S} {command.format(self.a.gid)} {IPV4['b']}")
        beside = self.a.guest.run(meanwhile) if meanwhile else ""
        mb_s = perftest_mb_s(client.result())
        server.result()
        a, b = ({n: now[n] - was[n] for n in now} for now, was in zip((e.counters() for e in self), before))
        return {"sent": a["sent_pkts"], "arrived": b["rcvd_pkts"], **{n: a[n] + b[n] for n in TROUBLE}}, mb_s, beside


def record(results: Results, moved: dict[str, int], mb_s: float) -> None:
    for name, count in moved.items():
        results.figure(name, count)
    results.figure("mb_s", mb_s)


@contextmanager
def in_the_way(pair: Pair, qdisc: str) -> Iterator[None]:
    pair.a.guest.run(f"tc qdisc add dev eth0 root {qdisc}")
    try:
        yield
    finally:
        pair.a.guest.run("tc qdisc del dev eth0 root")


def overcomes(pair: Pair, obstacle: Obstacle, results: Results) -> None:
    with in_the_way(pair, obstacle.qdisc):
        moved, mb_s, _ = pair.write(obstacle.messages, obstacle.timeout)
        refused = re.search(r"dropped (\d+)", pair.a.guest.run("tc -s qdisc show dev eth0"))[1]
        moved["refused_or_dropped"] = int(refused)
    record(results, moved, mb_s)
    if not obstacle.drops:
        expect_equal(moved["arrived"], moved["sent"], "frames that arrived")


def gate_loses_nothing(pair: Pair, results: Results) -> None:
    """quench's gate closes again and again while rxe sends: every frame arrives, and none twice."""
    agent = Agent(pair.a.guest, host_policy(False))
    try:
        expect_equal(agent.ports()["eth0"]["xdp_mode"], "native", "XDP")
        moved, mb_s, held = pair.write(800, 18, GATE)
        dropped = agent.ports()["eth0"]["dropped"]
    finally:
        agent.stop()
    record(results, moved, mb_s)
    results.figure("frames_held", int(held))
    expect(int(held) > 0, "the gate held no frame")
    expect_equal(dropped, 0, "frames that quench dropped")
    expect_equal(moved["arrived"], moved["sent"], "frames that arrived")
    expect_equal({name: moved[name] for name in TROUBLE}, dict.fromkeys(TROUBLE, 0), "retransmissions")


def run_cases(results: Results, image: Image, directory: Path, _: bool) -> None:
    """All in one boot. The gateway between the two only bridges."""
    endpoint = f"rxe of {image.release}"
    with Gateway("a", "b") as lab, Guests() as guests:
        pair = None
        with results.on(image.release, endpoint, "two_endpoints_come_up"):
            machines = [lab.guest(image, f"egress-{end}", end, directory) for end in lab.ends]
            guests.boot(*machines)
            lab.set_mtu(MTU)
            pair = Pair(*(Endpoint(guest, end) for guest, end in zip(machines, lab.ends)))
        if not pair:
            return
        for obstacle in OBSTACLES:
            with results.on(image.release, endpoint, obstacle.name):
                overcomes(pair, obstacle, results)
        with results.on(image.release, endpoint, "quench_gate_closed_20_times_for_50_ms"):
            gate_loses_nothing(pair, results)
