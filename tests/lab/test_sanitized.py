#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Agents built with ASan, LSan and UBSan hold the loop: no report, and as many descriptors at the end.
A long run looks at the memory of ordinary ones as well: sanitizers keep some for each thread that was.

    test_sanitized.py [--seconds 60]
"""
import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from demo import measure  # noqa: E402
from lab import ROOT, Cases, Footprint, Lab, expect, expect_equal, run  # noqa: E402

SANITIZED = ROOT / "build/san/quench"
REPORT = re.compile(r"^.*(?:ERROR: \w+Sanitizer|runtime error).*$", re.M)
SHORT_S = 6
LONG_S = 30  # from here on memory is looked at: before, allocators are still filling their pools
RSS_GROWTH_MAX_KB = 256


class Witness:
    """Asks each agent for all that it can show, beside its work, and notes what that costs it."""

    def __init__(self, lab: Lab):
        self.lab = lab
        self.footprints: list[Footprint] = []

    def __call__(self, _: str) -> None:
        for node in self.lab.agents:
            expect(self.lab.status(node), f"{node} has no status")
            self.lab.flows(node)
            self.lab.metrics(node)
        self.footprints.append(Footprint(self.lab))

    def growth_kb(self) -> dict[str, int]:
        """From the first third to the end."""
        return self.footprints[-1].growth_kb(self.footprints[len(self.footprints) // 3])

    def fds(self) -> dict[str, int]:
        """How many descriptors more than at first, those of connections to whoever asks left out."""
        return {node: min(f.fds[node] for f in self.footprints[-3:]) - self.footprints[0].fds[node]
                for node in self.lab.agents}  # fmt: skip


def test_loop(cases: Cases, seconds: float) -> None:
    with Lab(senders=4, quench=SANITIZED) as lab:
        agents = []
        with cases.case(f"agents_with_sanitizers_hold_the_loop_for_{seconds:g}_s"):
            lab.start_quench()
            agents = list(lab.agents.values())
            witness = Witness(lab)
            result = measure(lab, seconds, witness)
            cases.note(f"{result['cnps']} CNPs")
            for key in ("gateway_drops", "naks", "order_violations", "cnps_bad", "frames_missing"):
                expect_equal(result[key], 0, key)
            expect(result["cnps"] > 0, "no CNPs")
        with cases.case("agents_with_sanitizers_hold_as_many_descriptors_at_the_end"):
            expect(max(witness.fds().values()) <= 0, witness.fds())
        with cases.case("agents_with_sanitizers_end_with_0_and_report_nothing"):
            lab.release("h1")
            lab.stop_quench()
            reports = [REPORT.findall(job.errors()) for job in agents]
            expect(agents and not any(reports), reports)


def test_memory(cases: Cases, seconds: float) -> None:
    with Lab(senders=4) as lab:
        with cases.case(f"agents_need_no_more_memory_and_descriptors_as_time_goes_on_for_{seconds:g}_s"):
            lab.start_quench()
            witness = Witness(lab)
            measure(lab, seconds, witness)
            growth = witness.growth_kb()
            cases.note(f"{growth} KB of {witness.footprints[-1].rss_kb}")
            expect(max(growth.values()) <= RSS_GROWTH_MAX_KB, f"grew by {growth} KB")
            expect(max(witness.fds().values()) <= 0, witness.fds())


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=SHORT_S, help="how long the loop runs")
    args = parser.parse_args()
    cases = Cases()
    with cases.case("agents_with_sanitizers_are_built"):
        run("make", "-s", "-C", ROOT, "SAN=1", SANITIZED.relative_to(ROOT))
    test_loop(cases, args.seconds)
    if args.seconds >= LONG_S:
        test_memory(cases, args.seconds)
    return cases.exit_code()


if __name__ == "__main__":
    sys.exit(main())
