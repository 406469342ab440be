# SPDX-License-Identifier: BSD-2-Clause
"""The whole loop between real endpoints, which have no congestion control of their own: two senders
with soft-RoCE, whose frames pass quench in their own kernel, and a gateway with a bottleneck.

    a -- tapa [gw: br0] tapb -- b         c -- tapc [gw]

The same traffic runs without a bottleneck, with one and plain queues, and with quench: then the CNPs
that rxe never sends are made at the gateway's port facing b, or by quench in b.
"""
import json
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, NamedTuple, Optional, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lab"))
from agent import Agent, without_cnps  # noqa: E402
from demo import CHECK_CNPS, PYTHON, jain, queue_drops  # noqa: E402
from endpoints import FREE_BPS, IPV4, Endpoint, Gateway, await_listening  # noqa: E402
from guest import Command, Guest, Guests  # noqa: E402
from image import Image  # noqa: E402
from lab import Port, expect, expect_equal, policy_number, policy_with, shaper  # noqa: E402
from results import Results  # noqa: E402
from rxe_cases import TOS_ROCE_ECT  # noqa: E402

POLICY = (Path(__file__).resolve().parent / "loop.yaml").read_text()
POLICY = re.sub(r"^ports:.*\Z", "", POLICY, flags=re.M | re.S)
SENDERS, RECEIVER = ("a", "c"), "b"
BOTTLENECK_BPS = 60_000_000
HOST_BPS = BOTTLENECK_BPS  # of a sender's port: each alone could fill the bottleneck
HOST_LIMIT = "8MiB"  # nothing holds a READ's responder back: all that was asked for waits here
QPS = 2  # of each sender
SECONDS = 10
SAMPLE_S = 0.5
CLIENT_S = 60
CONNECT_S, CONNECTS_MAX = 1.5, 3
MEEK = "renice 19 $$ >/dev/null"  # a client polls, and rxe works in ksoftirqd on the same CPU
PORT_FIRST = 18515
MTU, PATH_MTU = 2200, 2048  # the longest frames that Linux 6.1's virtio-net takes with XDP hold no 4096
PAYLOAD_SHARE = PATH_MTU / (14 + 20 + 8 + 12 + PATH_MTU + 4)
GOODPUT_MIN, JAIN_MIN = 0.9, 0.9
GUEST_SHARE = 0.8  # of an emulated CPU, beside quench in the same guest
TRIES = 3
SPURIOUS_MAX = 10  # more than without a bottleneck: rxe under emulation times out now and then
CNPS_AND_CM = "udp port 4791 and (udp[8] = 0x81 or udp[8] = 0x64)"

# What rxe counts when frames are lost, or take too long.
TROUBLE = ("out_of_seq_request", "duplicate_request", "rcvd_seq_err", "completer_retry_err")


class Operation(NamedTuple):
    """A perftest program, and whether its client is who sends the data."""

    name: str
    program: str
    client_sends: bool


OPERATIONS = (Operation("WRITE", "ib_write_bw", True), Operation("READ", "ib_read_bw", False))


class Run(NamedTuple):
    """What came of some seconds of traffic."""

    bps: dict[str, float]  # by sender, as perftest says
    trouble: dict[str, int]  # of all endpoints together
    dropped: int  # frames, in the bottleneck's queues
    lost_before: int  # at the taps
    mbit_s: list[int]  # through the bottleneck, second by second
    qp_bytes: list[int]  # of each QP, in the second half; none without quench at the gateway
    ports: list[dict]  # what each agent in a guest says of its port, halfway

    @property
    def goodput(self) -> float:
        """Of what the bottleneck can carry."""
        return sum(self.bps.values()) / (BOTTLENECK_BPS * PAYLOAD_SHARE)

    @property
    def retransmissions(self) -> int:
        return sum(self.trouble.values())


class Timeline:
    """A counter of bytes, looked at now and then."""

    def __init__(self, count: int):
        self.began = time.monotonic()
        self.samples = [(0.0, count)]

    @property
    def seconds(self) -> float:
        return self.samples[-1][0]

    def add(self, count: int) -> None:
        self.samples.append((time.monotonic() - self.began, count))

    def _at(self, second: float) -> float:
        """The count then, between two samples."""
        later = next(i for i, (when, _) in enumerate(self.samples) if when >= second)
        (t0, count0), (t1, count1) = self.samples[max(later - 1, 0)], self.samples[later]
        return count0 + (count1 - count0) * (second - t0) / (t1 - t0) if t1 > t0 else count0

    def mbit_s(self) -> list[int]:
        """Of each whole second."""
        counts = [self._at(second) for second in range(int(self.seconds) + 1)]
        return [round((b - a) * 8 / 1e6) for a, b in zip(counts, counts[1:])]


class Loop:
    """The gateway and three endpoints."""

    def __init__(self, lab: Gateway, ends: dict[str, Endpoint]):
        self.lab, self.ends = lab, ends
        self.baselines: dict[Operation, Run] = {}  # what the ends do without a bottleneck

    def trouble(self) -> dict[str, int]:
        counters = [end.counters() for end in self.ends.values()]
        return {name: sum(c[name] for c in counters) for name in TROUBLE}

    def link(self) -> dict:
        return self.lab.link("tapb")

    def dropped(self) -> int:
        return queue_drops(self.lab, "gw").get("tapb", 0)

    def qp_bytes(self) -> dict[tuple, int]:
        if "gw" not in self.lab.agents:
            return {}
        addresses = {IPV4[sender] for sender in SENDERS}
        return {
            (flow["src"], flow["dst_qpn"]): flow["bytes"]
            for flow in self.lab.flows("gw")
            if flow["src"] in addresses and {"write", "read_response"} & set(flow["operations"])
        }

    def run(self, operation: Operation, agents: Sequence[Agent] = ()) -> Run:
        trouble, dropped, before = self.trouble(), self.dropped(), self.link()
        clients = self._connect(operation)
        timeline, halfway, asked = Timeline(self.link()["tx"]["bytes"]), {}, []
        while not all(client.done() for client in clients.values()):
            time.sleep(SAMPLE_S)
            timeline.add(self.link()["tx"]["bytes"])
            if not halfway and timeline.seconds > SECONDS / 2:
                halfway = self.qp_bytes()
                asked = [agent.ask_status() for agent in agents]
        whole, after = self.qp_bytes(), self.trouble()
        return Run(
            {sender: average_bps(client.result()) for sender, client in clients.items()},
            {name: after[name] - trouble[name] for name in TROUBLE},
            self.dropped() - dropped,
            self.link()["tx"]["dropped"] - before["tx"]["dropped"],
            timeline.mbit_s(),
            [size - halfway[qp] for qp, size in whole.items() if size - halfway.get(qp, size) > 0],
            [json.loads(status.result())["ports"][0] for status in asked],
        )

    def _connect(self, operation: Operation) -> dict[str, Command]:
        """Start all; rdma_cm under emulation fails to connect now and then."""
        for _ in range(CONNECTS_MAX - 1):
            clients = self._start(operation)
            time.sleep(CONNECT_S)
            if not any(client.done() for client in clients.values()):
                return clients
            program = operation.program
            for end in self.ends.values():
                end.guest.try_run(f"killall {program}; while pidof {program}; do usleep 50000; done")
        return self._start(operation)

    def _start(self, operation: Operation) -> dict[str, Command]:
        """Servers, and then a client for each sender."""
        options = f"-R -q {QPS} -s 65536 -D {SECONDS} --report_gbits --tos={TOS_ROCE_ECT}"
        servers: dict[str, list[Command]] = {}
        clients = {}
        for number, sender in enumerate(SENDERS):
            server, client = (RECEIVER, sender) if operation.client_sends else (sender, RECEIVER)
            command = f"exec timeout {CLIENT_S} {operation.program} {options} -p {PORT_FIRST + number}"
            servers.setdefault(server, []).append(self.ends[server].guest.start(command))
            clients[sender] = (self.ends[client].guest, f"{MEEK}; {command} {IPV4[server]}")
        for server, commands in servers.items():
            await_listening(self.ends[server].guest, operation.program, commands)
        return {sender: guest.start(command) for sender, (guest, command) in clients.items()}


def endpoint_of(guest: Guest, end: str) -> Endpoint:
    endpoint = Endpoint(guest, end)
    expect_equal(endpoint.set_mtu(MTU), PATH_MTU, f"path MTU of {end}")
    return endpoint


def average_bps(text: str) -> float:
    """BW average in Gbit/s, the fourth number of perftest's line."""
    found = re.search(r"^\s*65536\s+\d+\s+[\d.]+\s+([\d.]+)\s+[\d.]+\s*$", text, re.M)
    expect(found, f"perftest printed no average: {text[-300:]}")
    return float(found[1]) * 1e9


# What the frames meet


@contextmanager
def plain(loop: Loop) -> Iterator[None]:
    """The kernel's own queue of the same size."""
    loop.lab.tc("gw", *shaper("tapb", BOTTLENECK_BPS, policy_number(POLICY, "limit")))
    try:
        yield
    finally:
        loop.lab.tc("gw", "qdisc del dev tapb root")


def host_policy(makes_cnps: bool) -> str:
    policy = policy_with(POLICY, limit=HOST_LIMIT)
    return f"{policy if makes_cnps else without_cnps(policy)}ports:\n" + Port("eth0", "host", HOST_BPS).row()


@contextmanager
def quench(loop: Loop, at_receiver: bool) -> Iterator[list[Agent]]:
    """quench in the senders, at the gateway and, if it makes the CNPs, in the receiver. The senders
    make none: their kernel may be too old for that."""
    keys = "" if at_receiver else "notify: true"
    free_ports = [Port(f"tap{end}", "gateway", FREE_BPS) for end in SENDERS]
    loop.lab.base_policy = POLICY
    loop.lab.start_gateway_ports([Port("tapb", "gateway", BOTTLENECK_BPS, keys), *free_ports])
    agents = [Agent(loop.ends[end].guest, host_policy(False)) for end in SENDERS]
    if at_receiver:
        agents.append(Agent(loop.ends[RECEIVER].guest, host_policy(True)))
    try:
        for agent in agents:
            expect_equal(agent.ports()["eth0"]["xdp_mode"], "native", "XDP in a guest")
        yield agents
    finally:
        for agent in agents:
            agent.stop()
        loop.lab.stop_quench()


def record(results: Results, run: Run) -> None:
    results.figure("goodput", round(run.goodput, 3))
    results.figure("dropped", run.dropped)
    for name, count in run.trouble.items():
        results.figure(name, count)
    results.figure("jain_senders", round(jain(list(run.bps.values())), 4))
    if run.qp_bytes:
        results.figure("jain_qps", round(jain(run.qp_bytes), 4))
    results.figure("mbit_s", run.mbit_s)


# The cases


def unlimited(loop: Loop, operation: Operation, results: Results) -> Run:
    """How much these ends can send, and how much of it rxe sends twice for reasons of its own."""
    run = loop.run(operation)
    record(results, run)
    expect_equal(run.dropped + run.lost_before, 0, "lost without a bottleneck")
    return run


def lossy_without_quench(loop: Loop, operation: Operation, results: Results) -> None:
    with plain(loop):
        run = loop.run(operation)
    record(results, run)
    expect(run.dropped > 0, "nothing was lost: the comparison is worth nothing")


def lossless_with_quench(loop: Loop, operation: Operation, baseline: Optional[Run], at_receiver: bool,
                         results: Results, directory: Path) -> None:  # fmt: skip
    """No frame is lost, none is sent again, everybody gets the same, and all of the bottleneck is
    used, as far as guests can that run quench as well. An emulated guest can lose seconds to other
    work of the machine: what is not about loss may hold in a later try."""
    expect(baseline, "there is no run without a bottleneck to compare with")
    wanted = GOODPUT_MIN * min(1.0, GUEST_SHARE * baseline.goodput)
    for attempt in range(1, TRIES + 1):
        with quench(loop, at_receiver) as agents, cnps(loop, directory) as captures:
            run = loop.run(operation, agents)
        judged = judge_cnps(captures)
        expect_equal(run.dropped, 0, "dropped in the bottleneck's queues")
        expect_equal(run.lost_before, 0, "lost at the tap")
        expect(run.retransmissions <= baseline.retransmissions + SPURIOUS_MAX, run.trouble)
        expect(judged["cnps"] > 0 and not judged["bad"], f"CNPs: {judged}")
        obeyed = sum(port["cnp_received"] for port in run.ports)
        expect(obeyed > 0, "no CNP came to a sender's quench")
        fair = min(jain(run.qp_bytes), jain(list(run.bps.values())))
        if run.goodput >= wanted and fair >= JAIN_MIN:
            break
        results.note(f"try {attempt}: goodput {run.goodput:.3f}, Jain {fair:.3f}")
    record(results, run)
    results.figure("cnps", judged["cnps"])
    results.figure("qps_limited", sum(port["qps_limited"] for port in run.ports))
    expect(run.goodput >= wanted, f"goodput {run.goodput:.3f} of {wanted:.3f}")
    expect(fair >= JAIN_MIN, f"bytes of each QP: {run.qp_bytes}, bit/s of each sender: {run.bps}")


@contextmanager
def cnps(loop: Loop, directory: Path) -> Iterator[list[Path]]:
    """The files with those that reach the senders."""
    jobs = [loop.lab.capture(directory / f"cnps-{end}.pcap", end, CNPS_AND_CM) for end in SENDERS]
    try:
        yield [job.path for job in jobs]
    finally:
        for job in jobs:
            job.close()


def judge_cnps(captures: list[Path]) -> dict:
    """What scapy and the ICRC oracle say of every CNP, whose QPs CM messages told them."""
    done = subprocess.run([PYTHON, CHECK_CNPS, *captures], capture_output=True, text=True)
    expect(done.returncode in (0, 1), done.stderr)
    verdict = json.loads(done.stdout)
    return {"cnps": verdict["cnps"], "bad": verdict["faults"]}


QUERIES = {  # what the guest's tools say of a port that is a reaction point
    "bpftool -j net show dev eth0": '"mode":"driver"',
    "tc qdisc show dev eth0": "qdisc tbf",
    "tc filter show dev eth0 parent 9000:": "quench_root",
}


def everything_is_live(loop: Loop, results: Results) -> None:
    """In a sending guest, by the words of others: native XDP on virtio-net, the filter, the gate."""
    with quench(loop, False):
        guest = loop.ends[SENDERS[0]].guest
        for command, wanted in QUERIES.items():
            said = guest.run(command)
            expect(wanted in said, f"{command}: {said}")
            results.note(f"{command.split()[0]}: {wanted}")


def run_cases(results: Results, stock: Image, newer: Optional[Image], directory: Path) -> None:
    """Three guests with the stock kernel; for CNPs made in the receiver, one whose newer kernel has
    tcx takes its place."""
    host = Path("/proc/sys/kernel/osrelease").read_text().strip()
    endpoint = f"rxe of {stock.release}"
    with Gateway(*SENDERS, RECEIVER) as lab, Guests() as guests:
        loop = None
        with results.on(host, endpoint, "three_endpoints_come_up"):
            machines = {end: lab.guest(stock, f"loop-{end}", end, directory) for end in lab.ends}
            guests.boot(*machines.values())
            lab.set_mtu(MTU)
            loop = Loop(lab, {end: endpoint_of(guest, end) for end, guest in machines.items()})
        if not loop:
            return
        before = lab.state()
        with results.on(host, endpoint, "everything_is_live"):
            everything_is_live(loop, results)
        for operation in OPERATIONS:
            with results.on(host, endpoint, f"{operation.name}, unlimited"):
                loop.baselines[operation] = unlimited(loop, operation, results)
            with results.on(host, endpoint, f"{operation.name}, without quench"):
                lossy_without_quench(loop, operation, results)
            with results.on(host, endpoint, f"{operation.name}, CNPs made by the gateway"):
                lossless_with_quench(loop, operation, loop.baselines.get(operation), False, results, directory)
        if not newer:
            results.skip(endpoint, "CNPs made by the receiver need a guest with tcx, and there is none")
            return
        endpoint += f", receiver {newer.release}"
        came = False
        with results.on(host, endpoint, "receiver_with_tcx_comes_up"):
            machines[RECEIVER].stop()
            machine = lab.guest(newer, f"loop-{RECEIVER}-tcx", RECEIVER, directory)
            guests.boot(machine)
            loop.ends[RECEIVER] = endpoint_of(machine, RECEIVER)
            came = True
        for operation in OPERATIONS if came else ():
            with results.on(host, endpoint, f"{operation.name}, CNPs made by the receiver"):
                lossless_with_quench(loop, operation, loop.baselines.get(operation), True, results, directory)
        lab.set_mtu(MTU)
        with results.on(host, endpoint, "nothing_stays_at_the_gateway"):
            expect_equal(lab.left_behind(before), [], "left behind")
