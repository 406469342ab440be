#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Benchmarks of quench against what a user would otherwise run, in one table: build/bench.json and
build/bench.md. Needs root. Exits with 1 when a row is over its budget."""
import argparse
import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import control  # noqa: E402
import gateway  # noqa: E402
import growth  # noqa: E402
import loop  # noqa: E402
import pauses  # noqa: E402
import programs  # noqa: E402
from harness import QUICK_ROOM, Group, run_group  # noqa: E402
from lab import LabError  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
JSON, TABLE = ROOT / "build/bench.json", ROOT / "build/bench.md"

GROUPS: list[Group] = [
    *programs.GROUPS, *gateway.GROUPS, *control.GROUPS, *pauses.GROUPS, *loop.GROUPS, *growth.GROUPS,
]  # fmt: skip


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def figure(value: object) -> str:
    """A figure with three digits or so."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def budget_text(row: dict) -> str:
    return "" if row["budget"] is None else f"{figure(row['budget'])}{'' if row['ok'] else ' **missed**'}"


def table(rows: list[dict]) -> str:
    """The rows as a Markdown table."""
    lines = ["| what | unit | quench | other | | ratio | budget |", "|---|---|--:|--:|---|--:|--:|"]
    for row in rows:
        cells = (row["name"], row["unit"], figure(row["ours"]), figure(row["other"]),
                 row["other_name"] or "", figure(row["ratio"]), budget_text(row))  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def chosen(only: list[str], quick: bool) -> list[Group]:
    groups = [g for g in GROUPS if not only or g.name in only]
    return [g for g in groups if g.rounds_quick or not quick]


def run_all(groups: list[Group], quick: bool) -> tuple[list[dict], list[str]]:
    """The rows of all groups, and what went wrong: a group that cannot be measured costs no other one."""
    rows, faults = [], []
    for group in groups:
        try:
            rows += run_group(group, quick, say)
        except (LabError, OSError, RuntimeError, ValueError, subprocess.SubprocessError) as fault:
            faults.append(f"{group.name}: {fault}")
    return rows, faults


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Benchmarks, in one table.")
    parser.add_argument("--quick", action="store_true", help=f"few rounds; {QUICK_ROOM} times the budgets")
    parser.add_argument("--only", action="append", default=[], metavar="GROUP", choices=[g.name for g in GROUPS],
                        help="this group; may be repeated")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the JSON and no table")
    return parser.parse_args()


def main() -> int:
    args = parse_arguments()
    rows, faults = run_all(chosen(args.only, args.quick), args.quick)
    JSON.write_text(json.dumps(rows, indent=1) + "\n")
    TABLE.write_text(table(rows))
    print(JSON.read_text() if args.json else TABLE.read_text(), end="")
    judged = [row for row in rows if row["budget"] is not None]
    missed = [row["name"] for row in judged if not row["ok"]]
    failed = faults + [f"{name}: over its budget" for name in missed]
    for text in failed:
        print(f"not ok - {text}", file=sys.stderr)
    print(f"{len(judged) - len(missed)} passed, {len(failed)} failed", file=sys.stderr if args.json else sys.stdout)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
