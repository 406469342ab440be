#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""quench on Debian's stock kernels and between their soft-RoCE endpoints, in guests under QEMU.

Prints a line for each case and "N passed, N failed" at the end, and writes build/vm.json and, as
tables, build/vm.md. Everything runs under software emulation: nothing here says how fast anything is.
"""
import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Optional

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "lab")]
import egress_cases  # noqa: E402
import kernel_cases  # noqa: E402
import loop_cases  # noqa: E402
import pair_cases  # noqa: E402
import rxe_cases  # noqa: E402
from debian import Unreachable  # noqa: E402
from frames import BLAST  # noqa: E402
from image import KERNELS, Image, Kernel, build  # noqa: E402
from lab import QUENCH, ROOT, exit_on_signals  # noqa: E402
from results import IMAGE_CASE, PACKAGES_CASE, Results  # noqa: E402

CACHE = ROOT / "build/vm"
REPORT = ROOT / "build/vm.json"
PROGRAMS = [
    QUENCH, BLAST, CACHE / "load", CACHE / "gate",
    *(ROOT / "build" / test for test in kernel_cases.ALL_TESTS),
]  # fmt: skip
DATA = {f"root/{name}": ROOT / name for name in ("tests/vectors", "tests/captures", "policies")}
GROUPS = {
    "kernel": kernel_cases.run_cases, "rxe": rxe_cases.run_cases, "egress": egress_cases.run_cases,
    "pairs": pair_cases.run_cases,
}  # fmt: skip
STOCK_ONLY = ("rxe", "egress", "pairs")  # one kind of guest will do
LOOP = "loop"  # with guests of several kernels; compares rates, so the machine must have nothing else to do
TCX_KERNEL = "6.12"


def make_image(results: Results, kernel: Kernel, directory: Path) -> Optional[Image]:
    """The kernel's image; none without its packages, which is a fault where it is the stock kernel."""
    print(f"== {kernel.name} ({kernel.package} of {kernel.source.name})", flush=True)
    try:
        image = build(kernel, CACHE, directory, PROGRAMS, DATA)
    except Unreachable as why:
        if not kernel.stock:
            results.skip(kernel.name, why)
            return None
        results.fail(kernel.name, PACKAGES_CASE, why)
        return None
    except (OSError, StopIteration, subprocess.CalledProcessError) as fault:
        results.fail(kernel.name, IMAGE_CASE, fault)
        return None
    size_mb = image.initramfs.stat().st_size // 1_000_000
    print(f"   Linux {image.release}, initramfs of {size_mb} MB", flush=True)
    return image


def run_all(results: Results, args: argparse.Namespace, directory: Path) -> None:
    """The groups of each kernel, and then those of several."""
    groups, images = args.only or [*GROUPS, *([LOOP] if args.all else [])], {}
    for kernel in KERNELS:
        if args.kernel and kernel.name not in args.kernel:
            continue
        image = make_image(results, kernel, directory)
        if not image:
            continue
        images["stock" if kernel.stock else kernel.name] = image
        for group, run_cases in GROUPS.items():
            if group in groups and (kernel.stock or args.all or group not in STOCK_ONLY):
                run_cases(results, image, directory, args.all)
    if LOOP in groups and "stock" in images:
        print("== the whole loop", flush=True)
        loop_cases.run_cases(results, images["stock"], images.get(TCX_KERNEL), directory)


def main() -> int:
    parser = argparse.ArgumentParser(description="quench in guests under QEMU; needs root.")
    parser.add_argument("--only", choices=[*GROUPS, LOOP], action="append", help="these groups of cases")
    parser.add_argument("--kernel", choices=[k.name for k in KERNELS], action="append", help="these kernels")
    parser.add_argument("--all", action="store_true", help="every test, endpoints of every kernel, and the whole loop")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="leave consoles and captures there")
    args = parser.parse_args()
    exit_on_signals()
    results = Results()
    CACHE.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="quench-vm."))
    try:
        run_all(results, args, directory)
        if args.keep:
            shutil.copytree(directory, args.keep, dirs_exist_ok=True)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    results.write(REPORT)
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
