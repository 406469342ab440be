#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs each fuzz target for a while, from its committed seeds and the vectors, and fails on a finding.

    tests/fuzz/test_fuzz.py [--seconds N] [--keep] [TARGET...]

--keep goes on from the inputs of earlier runs, in build/fuzz/corpus, and adds what it finds new.
A finding is left in build/fuzz/findings: run the target on that file to see it again. Then mend it,
and commit the file as a seed.
"""
import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SEEDS, BUILT = ROOT / "tests/fuzz/corpus", ROOT / "build/fuzz"
VECTORS, POLICIES, CAPTURES = ROOT / "tests/vectors", ROOT / "policies", ROOT / "tests/captures"
INPUT_BYTES_MAX = {"fuzz_wire": 700, "fuzz_policy": 4096, "fuzz_netlink": 8192, "fuzz_capture": 16384}
STARTED_LATE_S = 60  # for a busy machine to read the seeds


def vector_frames() -> list[bytes]:
    lines = [line for path in sorted(VECTORS.glob("*.txt")) for line in path.read_text().splitlines()]
    return [bytes.fromhex(line.split()[-1]) for line in lines if line and not line.startswith("#")]


def more_seeds(target: str) -> list[bytes]:
    """Inputs that the tree has anyway."""
    if target == "fuzz_wire":
        return [b"\0" + frame for frame in vector_frames()]
    if target == "fuzz_policy":
        return [path.read_bytes() for path in sorted(POLICIES.glob("*.yaml"))]
    if target == "fuzz_capture":
        return [path.read_bytes() for path in sorted(CAPTURES.glob("*.pcap*"))]
    return []


def fill(corpus: Path, target: str) -> None:
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(more_seeds(target)):
        (corpus / f"tree-{number}").write_bytes(data)


def command(target: str, corpus: Path, seconds: int) -> list[str]:
    options = {"max_total_time": seconds, "max_len": INPUT_BYTES_MAX[target], "seed": 1, "timeout": 10,
               "rss_limit_mb": 2048, "print_final_stats": 1}  # fmt: skip
    return [str(BUILT / target), *(f"-{name}={value}" for name, value in options.items()),
            f"-artifact_prefix={BUILT}/findings/{target}-", str(corpus), str(SEEDS / target)]


def number_of(name: str, output: str) -> int:
    found = re.search(rf"{name}\D*(\d+)", output)
    return int(found[1]) if found else 0


def run(target: str, corpus: Path, seconds: int) -> bool:
    """True when the fuzzer ran and found nothing."""
    name = f"{target}_finds_nothing"
    fill(corpus, target)
    try:
        done = subprocess.run(command(target, corpus, seconds), capture_output=True, text=True,
                              errors="replace", timeout=seconds + STARTED_LATE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"not ok - {name}: {error}", flush=True)
        return False
    inputs = number_of("number_of_executed_units:", done.stderr)
    if done.returncode or not inputs:
        print(f"{done.stderr[-4000:]}\nnot ok - {name}: exit status {done.returncode}", flush=True)
        return False
    print(f"ok - {name} ({inputs} inputs in {seconds} s)", flush=True)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description="run the fuzz targets")
    parser.add_argument("--seconds", type=int, default=4, help="for each target")
    parser.add_argument("--keep", action="store_true", help="keep the inputs that found new paths")
    parser.add_argument("targets", nargs="*", default=sorted(INPUT_BYTES_MAX))
    options = parser.parse_args()
    (BUILT / "findings").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        inputs = BUILT / "corpus" if options.keep else Path(scratch)
        good = [run(target, inputs / target, options.seconds) for target in options.targets]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
