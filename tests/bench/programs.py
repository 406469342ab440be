# SPDX-License-Identifier: BSD-2-Clause
"""What a frame costs in each program (BPF_PROG_RUN), and how that grows with the flows in the table.

Every figure is the CPU time of one program on one kind of frame, what an empty program costs included.
Counters prove in each run which way the frames went. A flow is "known" when this CPU has counted it
before; the PSNs of data run on by one. "Another flow each time" is the worst order for caches: every
flow of the table has had a frame before one has its next. All flow tables have room for 1,048,576.
"""
import json
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Optional

from harness import Group, Measure, Row

ROOT = Path(__file__).resolve().parents[2]
PROGCOST = ROOT / "build/bench/progcost"

DATA_NS, OTHER_NS = 40, 20  # what a frame may cost in XDP

Other = tuple[str, str]
NONE: Other = ("", "")
EMPTY_XDP: Other = ("xdp_empty", "an empty program")
EMPTY_TC: Other = ("tc_empty", "an empty program")
MINIMAL: Other = ("minimal_data", "one lookup, three counters")
FILTER: Other = ("filter_data", "xdp-filter, UDP port that passes")
CNP_ALONE: Other = ("xdp_cnp", "the same without an event")
FILTER_TCP: Other = ("filter_tcp", "xdp-filter, drops TCP")


def row(name: str, ours: str, other: Other = NONE, budget: Optional[float] = None) -> Row:
    return Row(name, "ns", ours, *other, budget)


XDP = [
    row("XDP: data, known flow", "xdp_data", budget=DATA_NS),
    row("XDP: data, known flow", "xdp_data", MINIMAL, 3),
    row("XDP: data, known flow", "xdp_data", FILTER, 5),
    row("XDP: data over IPv6, known flow", "xdp_data_ipv6", EMPTY_XDP, 7),
    row("XDP: data with CE, known flow", "xdp_data_ce", EMPTY_XDP, 7.5),
    row("XDP: data, flow of another CPU", "xdp_data_elsewhere", EMPTY_XDP, 8),
    row("XDP: data, the same PSN again and again", "xdp_data_again", EMPTY_XDP, 7),
    row("XDP: data, first frame of 50,000 flows", "xdp_data_new_flow"),
    row("XDP: data, unknown flow, table full", "xdp_data_table_full", EMPTY_XDP, 14),
    row("XDP: ACK, known flow", "xdp_ack", EMPTY_XDP, 7),
    row("XDP: CNP, known pair", "xdp_cnp", EMPTY_XDP, 10),
    row("XDP: CNP, known pair, event to the agent", "xdp_cnp_event", CNP_ALONE, 5),
    row("XDP: PFC frame, ends here", "xdp_pfc", EMPTY_XDP, 12),
    row("XDP: TCP", "xdp_tcp", budget=OTHER_NS),
    row("XDP: TCP", "xdp_tcp", FILTER_TCP, 2.25),
]

GROWTH = [
    row(f"XDP: data, another of {flows} flows each time", f"xdp_{key}",
        (f"minimal_{key}", "one lookup, three counters"), budget)  # fmt: skip
    for key, flows, budget in (
        ("10", "10", 3),
        ("1k", "1,000", 3.25),
        ("100k", "100,000", 4.25),
        ("1m", "1,048,576", 2.75),
    )
]

# The depth of the class is known in all of these: it is read from a real queue that holds frames.
ROOT_CLASSIFIER = [
    row("root: data below Kmin", "root_data", EMPTY_TC, 3.25),
    row("root: data over IPv6 below Kmin", "root_data_ipv6", EMPTY_TC, 3.25),
    row("root: data above Kmax, marked", "root_mark", EMPTY_TC, 4.25),
    row("root: data of a QP with a class", "root_qp", EMPTY_TC, 5),
    row("root: data of a QP without a class", "root_qp_shared", EMPTY_TC, 6),
    row("root: data of a QP without a record, table full", "root_qp_refused", EMPTY_TC, 8),
    row("root: ACK", "root_ack", EMPTY_TC, 3.25),
    row("root: CNP", "root_cnp", EMPTY_TC, 2.75),
    row("root: TCP", "root_tcp", EMPTY_TC, 2.5),
]

HOOKS = [
    row("tc egress: any frame without our mark", "egress_data", EMPTY_TC, 1.35),
    row("tc egress: clone becomes a CNP", "egress_morph", EMPTY_TC, 18),
    row("tc egress: clone becomes a CNP over IPv6", "egress_morph_ipv6", EMPTY_TC, 23),
    row("tc ahead: data below XOFF", "pauses_data", EMPTY_TC, 4),
    row("tc ahead: data above XOFF, the peer paused", "pauses_data_over", EMPTY_TC, 4),
    row("tc ahead: TCP", "pauses_tcp", EMPTY_TC, 3),
    row("tc notify: data below Kmin", "notify_data", EMPTY_TC, 2.8),
    row("tc notify: data above Kmax, marked, a CNP just sent", "notify_mark", EMPTY_TC, 7.75),
    row("tc notify: TCP", "notify_tcp", EMPTY_TC, 2.25),
    row("tc ingress: data without CE", "ingress_data", EMPTY_TC, 1.4),
    row("tc ingress: data with CE, a CNP just sent", "ingress_ce", EMPTY_TC, 6.25),
]


@contextmanager
def session(_: bool) -> Iterator[Measure]:
    """progcost, which measures everything again for each line that is read of it."""
    with subprocess.Popen([PROGCOST], cwd=ROOT, stdout=subprocess.PIPE, text=True) as tool:

        def measure() -> dict[str, float]:
            line = tool.stdout.readline()
            if not line:
                raise RuntimeError(f"{PROGCOST.name} ended with {tool.wait()}")
            return json.loads(line)

        try:
            yield measure
        finally:
            tool.terminate()


GROUPS: list[Group] = [
    Group("programs", XDP + GROWTH + ROOT_CLASSIFIER + HOOKS, session, rounds=25, rounds_quick=5)
]
