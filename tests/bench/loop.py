# SPDX-License-Identifier: BSD-2-Clause
"""What the loop as a whole achieves in the lab, against the kernel's own queues with the same rates and
buffers: four senders overload one gateway port, first there, then here. All figures are demo.py's."""
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lab"))
from demo import measure as measure_lab  # noqa: E402
from harness import Group, Measure, Row  # noqa: E402
from lab import Lab, LabError  # noqa: E402

SECONDS = 10
FIGURES = {  # key here: that of demo.py and the factor
    "goodput": ("goodput_share", 100),
    "jain": ("jain", 1),
    "queue": ("queue_p99_bytes", 1e-3),
    "drops": ("gateway_drops", 1),
    "latency": ("latency_p99_us", 1e-3),
}


def figures_of(side: str, lab: Lab) -> dict[str, float]:
    seen = measure_lab(lab, SECONDS, lambda _: None)
    return {f"{side}_{key}": seen[name] * factor for key, (name, factor) in FIGURES.items()}


@contextmanager
def session(_: bool) -> Iterator[Measure]:
    """Both labs are there all the time; the one that is not measured has nothing to do."""
    name = f"loop{os.getpid()}"
    with Lab(name=f"{name}p") as plain, Lab(name=f"{name}q") as quench:
        plain.shape_plain()
        quench.start_quench()

        def measure() -> dict[str, float]:
            figures = figures_of("plain", plain) | figures_of("quench", quench)
            if not figures["plain_drops"]:
                raise LabError("the plain queues dropped nothing: that was no overload")
            return figures

        yield measure


def row(what: str, unit: str, key: str, budget: float, more_is_better: bool = False) -> Row:
    return Row(f"four senders, one port: {what}", unit, f"quench_{key}", f"plain_{key}", "bfifo", budget,
               more_is_better)  # fmt: skip


ROWS = [
    row("goodput", "% of link", "goodput", 1.1, more_is_better=True),
    row("fairness (Jain)", "", "jain", 0.97, more_is_better=True),
    row("queue, p99", "KB", "queue", 0.3),
    row("dropped in the gateway's queues", "frames", "drops", 0),
    row("64 KiB message, p99", "ms", "latency", 0.5),
]

GROUPS = [Group("loop", ROWS, session, rounds=1)]
