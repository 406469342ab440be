#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Run test programs one after another, show what they say, and add up what passed and failed.

    tests/run.py PROGRAM...      each a command line

Understands cmocka ("[       OK ] name") and plain lines ("ok - name", "not ok - name",
"skip - name"). A program that fails without naming a failed test counts as one failure, and so
does one that names no test at all. A skip is counted, and is a failure when CI is set.
"""
import os
import re
import shlex
import subprocess
import sys
import time

PASSED = re.compile(r"^(\[       OK \]|ok - )")
FAILED = re.compile(r"^(\[  FAILED  \] (?!\d+ test)|not ok - )")
SKIPPED = re.compile(r"^(\[  SKIPPED \] (?!\d+ test)|skip - )")


def run(command: str) -> tuple[int, int, int]:
    """Run one program; returns how many of its tests passed, failed and were skipped."""
    counts = [0, 0, 0]
    listed: set[str] = set()
    started = time.monotonic()
    print(f"== {command}", flush=True)
    try:
        process = subprocess.Popen(shlex.split(command), stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, errors="replace")
    except OSError as error:
        print(f"not ok - {command} cannot be started: {error.strerror}\n")
        return 0, 1, 0
    assert process.stdout
    for line in process.stdout:
        print(line, end="", flush=True)
        for i, pattern in enumerate((PASSED, FAILED, SKIPPED)):
            # cmocka lists its failures a second time at the end
            name = line.split("]", 1)[-1].strip()
            if pattern.match(line) and not (i and name in listed):
                counts[i] += 1
                if i:
                    listed.add(name)
    code = process.wait()
    if code and not counts[1]:
        print(f"not ok - {command} ended with status {code}")
        counts[1] = 1
    if not sum(counts):
        print(f"not ok - {command} ran no test")
        counts[1] = 1
    print(f"-- {time.monotonic() - started:.1f} s: {counts[0]} passed, {counts[1]} failed, "
          f"{counts[2]} skipped\n", flush=True)
    return counts[0], counts[1], counts[2]


def main() -> int:
    results = [run(command) for command in sys.argv[1:]]
    passed, failed, skipped = (sum(column) for column in zip(*results)) if results else (0, 1, 0)
    if os.environ.get("CI"):
        failed += skipped
    if skipped:
        print(f"{skipped} skipped")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
