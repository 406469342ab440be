# SPDX-License-Identifier: BSD-2-Clause
"""What the cases found, as Markdown for build/vm.md and the README."""
from typing import Callable, Iterator, NamedTuple

LOOP_CASES = ("unlimited", "without quench", "CNPs made by the gateway", "CNPs made by the receiver")
RETRANSMISSIONS = ("out_of_seq_request", "duplicate_request", "rcvd_seq_err", "completer_retry_err")


class Column(NamedTuple):
    """What one case of a kernel says: figures in, a cell out, where it passed."""

    title: str
    case: str
    cell: Callable[[dict], object]


KERNEL_COLUMNS = (
    Column("programs load, native XDP", "programs_load", lambda _: "yes"),
    Column("marks CE", "gateway_marks_and_makes_cnps", lambda _: "yes"),
    Column("makes CNPs", "gateway_marks_and_makes_cnps", lambda f: "yes" if f["cnps"] else "no: no tcx"),
    Column("obeys pauses", "gateway_obeys_pause", lambda _: "yes"),
    Column("reaction point starts", "host_reacts_without_tcx", lambda _: "yes"),
)


def line(*cells: object) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |\n"


def kernel_table(rows: list[dict]) -> str:
    """A line for each kernel that a guest ran."""
    found: dict[str, dict[str, dict]] = {}
    for row in rows:
        if row["endpoint"] == "none" and row["result"] != "skipped":
            found.setdefault(row["kernel"], {})[row["case"]] = row
    found = {kernel: cases for kernel, cases in found.items() if "boots" in cases}
    if not found:
        return ""
    text = line("Linux", *(column.title for column in KERNEL_COLUMNS), "tests of ours")
    text += line(*["---"] * (len(KERNEL_COLUMNS) + 2))
    for kernel, cases in found.items():
        tests = sum(case["figures"].get("tests", 0) for case in cases.values())
        text += line(kernel, *(kernel_cell(cases, column) for column in KERNEL_COLUMNS), tests)
    return text


def kernel_cell(cases: dict[str, dict], column: Column) -> object:
    row = cases.get(column.case)
    if not row:
        return "not run"
    return column.cell(row["figures"]) if row["result"] == "passed" else "**failed**"


def loop_lines(rows: list[dict]) -> Iterator[str]:
    for row in rows:
        operation, _, way = row["case"].partition(", ")
        figures = row["figures"]
        if way in LOOP_CASES and "goodput" in figures:
            again = sum(figures[name] for name in RETRANSMISSIONS)
            fairness = figures.get("jain_qps", figures["jain_senders"])
            failed = "" if row["result"] == "passed" else " **failed**"
            yield line(f"{operation}, {way}{failed}", f"{100 * figures['goodput']:.1f}", f"{figures['dropped']:,}",
                       f"{again:,}", f"{fairness:.3f}")  # fmt: skip


def loop_table(rows: list[dict]) -> str:
    """A line for each run between real endpoints."""
    lines = "".join(loop_lines(rows))
    if not lines:
        return ""
    head = line("soft-RoCE, two senders", "goodput %", "dropped", "rxe: NAKs, repeats, time-outs", "Jain")
    return head + line("---", "--:", "--:", "--:", "--:") + lines


def tables(rows: list[dict]) -> str:
    return "\n".join(table for table in (kernel_table(rows), loop_table(rows)) if table)
