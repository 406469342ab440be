#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""quench on Debian's stock kernels and between their soft-RoCE endpoints, in guests under QEMU.

Prints a line for each case and "N passed, N failed" at the end, and writes build/vm.json. Everything
runs under software emulation: nothing here says how fast anything is.
"""
import argparse
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "lab")]
import kernel_cases  # noqa: E402
import rxe_cases  # noqa: E402
from frames import BLAST  # noqa: E402
from debian import Unreachable  # noqa: E402
from image import KERNELS, Image, Kernel, build  # noqa: E402
from lab import QUENCH, ROOT, LabError, exit_on_signals  # noqa: E402
from results import PACKAGES_CASE, Results  # noqa: E402

CACHE = ROOT / "build/vm"
REPORT = ROOT / "build/vm.json"
PROGRAMS = [
    QUENCH, BLAST, CACHE / "load",
    *(ROOT / "build" / test for test in kernel_cases.ALL_TESTS),
]  # fmt: skip
DATA = {f"root/{name}": ROOT / name for name in ("tests/vectors", "tests/captures", "policies")}
GROUPS = {"kernel": kernel_cases.run_cases, "rxe": rxe_cases.run_cases}
STOCK_ONLY = ("rxe",)  # the quench under test is on this machine's kernel: one kind of guest will do


def run_kernel(results: Results, kernel: Kernel, args: argparse.Namespace, directory: Path) -> None:
    """Make the kernel's image and run the groups on it. Without its packages there is nothing to
    run: a fault where it is the stock kernel."""
    print(f"== {kernel.name} ({kernel.package} of {kernel.source.name})", flush=True)
    try:
        image: Image = build(kernel, CACHE, directory, PROGRAMS, DATA)
    except Unreachable as why:
        if not kernel.stock:
            results.skip(kernel.name, why)
            return
        with results.on(kernel.name, "none", PACKAGES_CASE):
            raise LabError(str(why))
        return
    size_mb = image.initramfs.stat().st_size // 1_000_000
    print(f"   Linux {image.release}, initramfs of {size_mb} MB", flush=True)
    for group in args.only or GROUPS:
        if kernel.stock or args.all or group not in STOCK_ONLY:
            GROUPS[group](results, image, directory, args.all)
    image.initramfs.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description="quench in guests under QEMU; needs root.")
    parser.add_argument("--only", choices=GROUPS, action="append", help="these groups of cases")
    parser.add_argument("--kernel", choices=[k.name for k in KERNELS], action="append", help="these kernels")
    parser.add_argument("--all", action="store_true", help="every test, and endpoints of every kernel")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="leave consoles and captures there")
    args = parser.parse_args()
    exit_on_signals()
    results = Results()
    CACHE.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="quench-vm."))
    try:
        for kernel in KERNELS:
            if not args.kernel or kernel.name in args.kernel:
                run_kernel(results, kernel, args, directory)
        if args.keep:
            shutil.copytree(directory, args.keep, dirs_exist_ok=True)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    results.write(REPORT)
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
