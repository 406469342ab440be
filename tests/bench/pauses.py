# SPDX-License-Identifier: BSD-2-Clause
"""Priority flow control against the clock: from the frame that fills a queue past its mark to the XOFF
on the wire, and from a peer's XOFF to the gate closed, by an agent that polls in SCHED_FIFO and by one
that sleeps as any process does, alone and beside others who change queues.

The RTNL load has a CPU, the agent another one: what is measured beside it is the lock, not the CPU.
"""
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Iterator, Optional

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lab"))
from control import CLASS, TOOLS, latencies, nameless_namespace  # noqa: E402
from frames import DSCP_ROCE, ECT0, Way, data_frame  # noqa: E402
from harness import Group, Measure, Row  # noqa: E402
from lab import RETURN_BPS, STOP_S, Lab, LabError, Port, policy_with, policy_with_pfc, run  # noqa: E402
from test_pfc import ROCE, pfc_frame  # noqa: E402

XOFF, GATE = TOOLS / "pauses_xoff", TOOLS / "pauses_gate"

SPEED_MBIT = 100  # in the policy: the longest pause is 335 ms, and no sample takes so long
CROSSINGS, CROSSINGS_QUICK = 1000, 500
PAUSES, PAUSES_QUICK = 2000, 1000
FIRST = 50  # in SCHED_FIFO

# Of frames of 1,002 bytes the gate looks at the first and three are under the mark: the fifth crosses.
PAYLOAD_BYTES, CROSSING, XOFF_BYTES, XON_BYTES = 944, 5, 3500, 1000

LOAD_CLASSES, LOAD_PASSES = 1000, 10


def xoff_hex(quanta: int) -> str:
    return pfc_frame({ROCE: quanta}).hex()


def with_pfc(text: str, **keys: str) -> str:
    """The policy with PFC in its class, and whatever else."""
    text = policy_with(text, limit="1MiB", kmin=f"{XON_BYTES}B", kmax=f"{XOFF_BYTES - 1}B")
    text = policy_with_pfc(text, f"{XOFF_BYTES}B", f"{XON_BYTES}B")
    return text + "".join(f"{key}: {value}\n" for key, value in keys.items())


@contextmanager
def agent(lab: Lab, node: str, ports: list[Port], **keys: str) -> Iterator[None]:
    """An agent there for a while."""
    plain, lab.base_policy = lab.base_policy, with_pfc(lab.base_policy, **keys)
    lab.start_agent(node, [port._replace(keys=f"speed: {SPEED_MBIT}Mbit") for port in ports])
    lab.base_policy = plain
    lab.wait_ready(node)
    try:
        yield
    finally:
        lab.stop_quench()


# A queue that fills


def crossings(lab: Lab, count: int) -> dict[str, float]:
    way = Way("02:00:00:00:01:01", "02:00:00:00:01:fe", lab.address("h1"), lab.address("r1"))
    data = data_frame(way, 0x200, payload_bytes=PAYLOAD_BYTES, tos=DSCP_ROCE << 2 | ECT0)
    places = [f"{lab.namespace(node)}:{device}" for node, device in (("gw", "h1"), ("h1", "eth0"), ("r1", "eth0"))]
    with agent(lab, "gw", [Port(port, "gateway", RETURN_BPS) for port in ("r1", "h1")], pfc="{budget: 1000000}"):
        return latencies(lab, "xoff", XOFF, *places, count, CROSSING, data.hex(), xoff_hex(65535), xoff_hex(0))


# A peer that pauses


class Load:
    """`tc -batch` with changes of classes of a port in another namespace, again and again, on one CPU."""

    LOOP = """
        trap stop=1 TERM
        n=0 stop=
        while [ -z "$stop" ]; do
            tc -batch "$0" || exit 1
            n=$((n + 1))
        done
        echo $n
    """

    def __init__(self, enter: list[str], cpu: int, script: Path):
        run(*enter, "ip", "link", "add", "name", "q0", "type", "veth", "peer", "name", "q1")
        run(*enter, CLASS, "make", "q0", LOAD_CLASSES)
        script.write_text(run(*enter, CLASS, "script", "q0", LOAD_CLASSES, LOAD_PASSES))
        start = ["setpriv", "--pdeathsig", "TERM", "taskset", "-c", str(cpu), *enter]
        self.command = [*start, "sh", "-c", self.LOOP, str(script)]
        self.per_s = 0.0  # changes, known in the end

    def __enter__(self) -> "Load":
        self.started = time.monotonic()
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        printed, _ = self.process.communicate(timeout=STOP_S)
        if self.process.returncode:
            raise LabError("tc -batch failed beside the benchmark")
        self.per_s = int(printed) * LOAD_CLASSES * LOAD_PASSES / (time.monotonic() - self.started)


def gate(lab: Lab, prefix: str, cpu: int, how: str, count: int) -> dict[str, float]:
    """The peer's tool has the CPU to itself, or when it sleeps, before others."""
    place = ("taskset", "-c", cpu, "chrt", "-f", FIRST)
    pid = lab.agents["h1"].process.pid
    return latencies(lab, prefix, *place, GATE, "h1", pid, count, how, xoff_hex(65535), xoff_hex(0))


def gates(lab: Lab, load: Load, cpus: tuple[int, int], count: int) -> dict[str, float]:
    figures = {}
    for mode, keys in (("poll", f"poll: true, priority: {FIRST}"), ("sleep", "poll: false")):
        realtime = f"{{{keys}, cpus: [{cpus[1]}]}}"
        with agent(lab, "h1", [Port("eth0", "host", RETURN_BPS)], realtime=realtime):
            figures |= gate(lab, mode, cpus[0], "spin", count)
            with load:
                figures |= gate(lab, f"{mode}_load", cpus[0], "sleep", count)
            figures[f"{mode}_load_per_s"] = load.per_s
    return figures


@contextmanager
def session(quick: bool) -> Iterator[Measure]:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise LabError("an agent that polls needs a CPU of its own: there is only one")
    with ExitStack() as stack:
        enter = stack.enter_context(nameless_namespace())
        script = Path(stack.enter_context(tempfile.TemporaryDirectory()), "changes")
        load = Load(enter, cpus[0], script)
        lab = stack.enter_context(Lab(senders=1))
        yield lambda: {
            **crossings(lab, CROSSINGS_QUICK if quick else CROSSINGS),
            **gates(lab, load, (cpus[0], cpus[-1]), PAUSES_QUICK if quick else PAUSES),
        }


def latency_rows(
    what: str, key: str, p50: Optional[float] = None, p99: Optional[float] = None
) -> list[Row]:
    """In us; nobody can promise the largest."""
    columns = (("p50_us", "p50", p50), ("p99_us", "p99", p99), ("max_us", "largest", None))
    return [
        Row(f"{what}: {name}", "us", f"{key}_{column}", budget=budget, tail=name != "p50")
        for column, name, budget in columns
    ]


ROWS = [
    *latency_rows("frame past the mark, XOFF on the wire", "xoff", 10, 20),
    *latency_rows("XOFF in, gate closed, agent polls", "poll", 25, 60),
    *latency_rows("XOFF in, gate closed, agent sleeps", "sleep", 100, 1000),
    *latency_rows("XOFF in, gate closed, agent polls, beside RTNL load", "poll_load"),
    Row("that RTNL load: class changes by tc -batch", "1/s", "poll_load_per_s"),
    *latency_rows("XOFF in, gate closed, agent sleeps, beside RTNL load", "sleep_load"),
    Row("that RTNL load: class changes by tc -batch", "1/s", "sleep_load_per_s"),
]

GROUPS = [Group("pauses", ROWS, session, rounds=3, rounds_quick=1)]
