# SPDX-License-Identifier: BSD-2-Clause
"""The control loop: what DCQCN costs by itself, what a rate change costs, and how long it takes from
a CNP to the rate in the kernel and from a CE frame to its CNP.

A DCQCN event is a CNP taken in, or one increase by the timer or by the byte counter. The QPs have
their events in a random order, so that none finds its state in a cache because it came just before.
"""
import json
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lab"))
from frames import (  # noqa: E402
    DSCP_ROCE, ECT0, PACKET_QDISC_BYPASS, SOL_PACKET, Injector, Way, cnp_frame, data_frame,
)  # fmt: skip
from harness import Group, Measure, Row  # noqa: E402
from lab import (  # noqa: E402
    READY_S, RETURN_BPS, ROOT, Lab, LabError, Port, exit_on_signals, policy_with, run, wait_until,
)  # fmt: skip

TOOLS = ROOT / "build/bench"
DCQCN, CLASS, RATE, CNP = (TOOLS / f"control{name}" for name in ("", "_class", "_rate", "_cnp"))


# DCQCN by itself

QPS = (1_000, 100_000, 1_000_000)


@contextmanager
def dcqcn_session(_: bool) -> Iterator[Measure]:
    def measure() -> dict[str, float]:
        return {
            f"{key}_{qps}": value for qps in QPS for key, value in json.loads(run(DCQCN, qps)).items()
        }

    yield measure


def dcqcn_rows() -> list[Row]:
    """Few QPs against the clock, many against few: what grows is the way to memory."""
    few, *many = QPS
    rows = []
    for key, what, budget_ns in (
        ("cnp_ns", "a CNP", 40),
        ("timer_ns", "a timer increase", 60),
        ("byte_ns", "a byte-counter increase", 60),
    ):
        rows.append(Row(f"DCQCN: {what}, {few:,} QPs", "ns", f"{key}_{few}", budget=budget_ns))
        for qps, budget in zip(many, (8, 25)):
            rows.append(Row(f"DCQCN: {what}, {qps:,} QPs", "ns", f"{key}_{qps}", f"{key}_{few}",
                            f"{few:,} QPs", budget))  # fmt: skip
    for qps in QPS:
        rows.append(Row(f"DCQCN: a CNP every 50 us for each of {qps:,} QPs, ticks of 1 ms", "ns",
                        f"paced_ns_{qps}", budget=150))  # fmt: skip
    rows.append(Row("DCQCN: memory of a QP class", "bytes", f"bytes_{few}", budget=128))
    return rows


# Class changes

CHANGES = 20_000  # of each run
CLASSES = {1_000: 0.25, 4_096: 0.6}  # QP classes of a port, and the budget


@contextmanager
def nameless_namespace() -> Iterator[list[str]]:
    """A network namespace that goes with this process; gives what to put before a command."""
    exit_on_signals()
    holder = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sh", "-c", "echo; exec sleep infinity"]
    with subprocess.Popen(holder, stdout=subprocess.PIPE) as process:
        try:
            if not process.stdout.readline():
                raise LabError("cannot make a network namespace")
            yield ["nsenter", "-t", str(process.pid), "-n"]
        finally:
            process.kill()


class Changes(NamedTuple):
    """A device with a port's queue tree, and two ways to make changes there."""

    enter: list[str]
    device: str
    classes: int
    script: Path

    @property
    def passes(self) -> int:
        return CHANGES // self.classes

    @property
    def tc_passes(self) -> int:
        """One more: neither way ends where the other did, and so each is seen to have done it."""
        return self.passes + 1

    def tool(self, command: str, *arguments: object) -> str:
        return run(*self.enter, CLASS, command, self.device, self.classes, *arguments)

    def prepare(self) -> "Changes":
        self.tool("make")
        self.script.write_text(self.tool("script", self.tc_passes))
        return self

    def ours_us(self) -> float:
        return json.loads(self.tool("change", self.passes))["us"]

    def tc_us(self) -> float:
        """Its start counts as well: 1 or 2 ms of all."""
        started = time.perf_counter()
        run(*self.enter, "tc", "-batch", self.script)
        seconds = time.perf_counter() - started
        self.tool("check", self.tc_passes)
        return seconds * 1e6 / (self.tc_passes * self.classes)


@contextmanager
def class_session(_: bool) -> Iterator[Measure]:
    with nameless_namespace() as enter, tempfile.TemporaryDirectory() as directory:
        run(*enter, "ip", "link", "add", "name", "q0", "type", "veth", "peer", "name", "q1")
        all_changes = [
            Changes(enter, f"q{i}", classes, Path(directory, f"{classes}")).prepare()
            for i, classes in enumerate(CLASSES)
        ]

        def measure() -> dict[str, float]:
            figures = {}
            for changes in all_changes:
                figures[f"ours_{changes.classes}"] = changes.ours_us()
                figures[f"tc_{changes.classes}"] = changes.tc_us()
            return figures

        yield measure


def class_rows() -> list[Row]:
    return [
        Row(f"rate of one of {classes:,} QP classes changed", "us", f"ours_{classes}", f"tc_{classes}",
            "tc -batch", budget)
        for classes, budget in CLASSES.items()
    ]  # fmt: skip


# How long the loop's two turns take

QPN = {"h1": (0x51, 0x61), "h2": (0x52, 0x62)}  # of the host, and of r1
TICKS = {"h1": "10us", "h2": "1ms"}  # of the agents there: the shortest, and the default
SAMPLES = {"h1": 400, "h2": 150}  # for each round
CE_SAMPLES = 2000


def way_to(lab: Lab, host: str) -> Way:
    """From r1, as a frame arrives at the host."""
    number = lab.numbers[host]
    return Way(f"02:00:00:00:{number:02x}:fe", f"02:00:00:00:{number:02x}:01",
               lab.address("r1"), lab.address(host))  # fmt: skip


def latency_policy(lab: Lab, tick: str) -> str:
    """One QP, which a CNP cuts by a little and one increase brings back: a sample takes as long as the
    increase timer, which is long enough for the cut to be sent before."""
    text = policy_with(
        lab.base_policy, qp_classes=1, tick=tick, increase_timer="5ms", min_rate="999850kbit", step="0%",
        idle="3600s", interval="1us",
    )  # fmt: skip
    pairs = [
        f'  - {{a: "{lab.address(host)}/{ours}", b: "{lab.address("r1")}/{theirs}"}}\n'
        for host, (ours, theirs) in QPN.items()
    ]
    return text + "pairs:\n" + "".join(pairs)


def start_agents(lab: Lab) -> None:
    """In every node but the gateway; the hosts' QPs have sent something and have their class."""
    plain = lab.base_policy
    ports = [Port("eth0", "host", RETURN_BPS)]
    for node in ("r1", *TICKS):
        lab.base_policy = latency_policy(lab, TICKS.get(node, "1ms"))
        lab.start_agent(node, ports)
        lab.base_policy = plain
    for node in lab.agents:
        lab.wait_ready(node)
    for host in TICKS:
        data = data_frame(way_to(lab, host).back(), QPN[host][1], tos=DSCP_ROCE << 2 | ECT0)
        send_through_queues(lab, host, data)
        wait_until(lambda: lab.metrics(host).total("quench_qp_classes"), READY_S, f"QP class of {host}")


def send_through_queues(lab: Lab, node: str, frame: bytes) -> None:
    sender = Injector(lab, node, "eth0")
    sender.socket.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, 0)
    sender.send(frame)
    sender.close()


def cnp_to_rate(lab: Lab, host: str) -> dict[str, float]:
    agent = lab.agents[host].process.pid
    cnp = cnp_frame(way_to(lab, host), QPN[host][0])
    return latencies(lab, f"rate_{host}", RATE, host, agent, RETURN_BPS, SAMPLES[host], cnp.hex())


def ce_to_cnp(lab: Lab) -> dict[str, float]:
    way = way_to(lab, "r1")._replace(src=lab.address("h1"))
    data = data_frame(way, QPN["h1"][1])
    return latencies(lab, "cnp", CNP, "r1", CE_SAMPLES, data.hex())


def latencies(lab: Lab, prefix: str, *command: object) -> dict[str, float]:
    """What a tool at the gateway says of its samples."""
    return {f"{prefix}_{key}": value for key, value in json.loads(lab.run("gw", *command)).items()}


class Load:
    """`ip netns add` and `ip netns del` in a loop: both take the RTNL lock, as a rate change does."""

    LOOP = """
        trap stop=1 TERM
        n=0 stop=
        while [ -z "$stop" ]; do
            ip netns add "$0" && ip netns del "$0" || exit 1
            n=$((n + 1))
        done
        echo $n
    """

    def __init__(self, name: str):
        self.command = ["setpriv", "--pdeathsig", "TERM", "sh", "-c", self.LOOP, name]
        self.per_s = 0.0  # namespaces that came and went, known in the end

    def __enter__(self) -> "Load":
        self.started = time.monotonic()
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        printed, _ = self.process.communicate()
        if self.process.returncode:
            raise LabError("ip netns add or del failed beside the benchmark")
        self.per_s = int(printed) / (time.monotonic() - self.started)


def latency_figures(lab: Lab) -> dict[str, float]:
    figures = ce_to_cnp(lab)
    for host in TICKS:
        figures |= cnp_to_rate(lab, host)
    return figures


@contextmanager
def latency_session(_: bool) -> Iterator[Measure]:
    with Lab(senders=len(TICKS)) as lab:
        start_agents(lab)
        yield lambda: latency_figures(lab)


@contextmanager
def loaded_session(_: bool) -> Iterator[Measure]:
    with Lab(senders=len(TICKS)) as lab:
        start_agents(lab)

        def measure() -> dict[str, float]:
            with Load(f"{lab.name}-load") as load:
                figures = latency_figures(lab)
            return figures | {"load": load.per_s}

        yield measure


class Budgets(NamedTuple):
    """In us; nobody can promise the largest."""

    p50: float
    p99: float


def latency_rows(beside: str, cnp: Budgets, **rate: Budgets) -> list[Row]:
    timed = [("CE in, CNP out", "cnp", cnp)]
    for host, budgets in rate.items():
        timed.append((f"CNP in, rate in the kernel, tick {TICKS[host]}", f"rate_{host}", budgets))
    return [
        Row(f"{what}{beside}: {name}", "us", f"{prefix}_{key}", budget=budget)
        for what, prefix, budgets in timed
        for key, name, budget in (
            ("p50_us", "p50", budgets.p50), ("p99_us", "p99", budgets.p99), ("max_us", "largest", None),
        )
    ]  # fmt: skip


IDLE = latency_rows("", Budgets(50, 500), h1=Budgets(600, 10_000), h2=Budgets(400, 10_000))
LOADED = [
    *latency_rows(", beside RTNL load", Budgets(100, 5_000),
                  h1=Budgets(1_200, 20_000), h2=Budgets(1_000, 20_000)),
    Row("that RTNL load: ip netns add, ip netns del", "1/s", "load"),
]  # fmt: skip

GROUPS = [
    Group("dcqcn", dcqcn_rows(), dcqcn_session, rounds=3, rounds_quick=1),
    Group("classes", class_rows(), class_session, rounds=5, rounds_quick=3),
    Group("latency", IDLE, latency_session, rounds=3, rounds_quick=1),
    Group("latency-rtnl", LOADED, loaded_session, rounds=3),
]
