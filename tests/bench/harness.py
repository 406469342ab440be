# SPDX-License-Identifier: BSD-2-Clause
"""What a benchmark is: rows of one table, measured side by side in rounds, each with its budget.

A group opens a session, which sets things up and gives a function that measures everything once and
returns a figure for each key. The rounds of a group repeat that, so that what is compared is measured
within the same second, and a machine that slows down slows both sides. A row picks two keys.
"""
import statistics
import time
from contextlib import AbstractContextManager
from typing import Callable, NamedTuple, Optional

QUICK_ROOM = 1.25  # few rounds on a busy machine: a budget is exceeded only beyond this

Measure = Callable[[], dict[str, float]]


class Row(NamedTuple):
    """One line of the table. The budget is of the ratio ours/other; of ours where there is no other."""

    name: str
    unit: str
    ours: str  # a key of the group's measurement
    other: str = ""  # another one, that it is compared with
    other_name: str = ""
    budget: Optional[float] = None
    more_is_better: bool = False
    tail: bool = False  # whatever else the machine does shows in it first: a quick run does not judge it


class Group(NamedTuple):
    """Rows that are measured together. The session is opened with True for a quick run."""

    name: str
    rows: list[Row]
    session: Callable[[bool], AbstractContextManager[Measure]]
    rounds: int
    rounds_quick: int = 0  # 0: not in a quick run


def budget_of(row: Row, quick: bool) -> Optional[float]:
    """The row's budget, with the room that a quick run has."""
    if row.budget is None or not quick:
        return row.budget
    if row.tail:
        return None
    return row.budget / QUICK_ROOM if row.more_is_better else row.budget * QUICK_ROOM


def within(row: Row, value: float, quick: bool) -> bool:
    """Does the value keep the row's budget?"""
    budget = budget_of(row, quick)
    if budget is None:
        return True
    return value >= budget if row.more_is_better else value <= budget


def result(row: Row, samples: list[dict[str, float]], quick: bool) -> dict:
    """The row's median figures; its ratio is the median of the ratios of each round."""
    ours = [sample[row.ours] for sample in samples]
    ratio = statistics.median(s[row.ours] / s[row.other] for s in samples) if row.other else None
    judged = statistics.median(ours) if ratio is None else ratio
    return {
        "name": row.name,
        "unit": row.unit,
        "ours": statistics.median(ours),
        "other": statistics.median(s[row.other] for s in samples) if row.other else None,
        "other_name": row.other_name or None,
        "ratio": ratio,
        "budget": budget_of(row, quick),
        "ok": within(row, judged, quick),
        "min": min(ours),
        "max": max(ours),
        "runs": len(samples),
    }


def run_group(group: Group, quick: bool, say: Callable[[str], None]) -> list[dict]:
    """Measure the group's rows. Raises what its session raises."""
    rounds = group.rounds_quick if quick else group.rounds
    started = time.monotonic()
    with group.session(quick) as measure:
        samples = []
        for number in range(rounds):
            say(f"{group.name}: round {number + 1} of {rounds}")
            samples.append(measure())
    say(f"{group.name}: {time.monotonic() - started:.1f} s")
    return [result(row, samples, quick) for row in group.rows]
