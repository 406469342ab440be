#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The demo and its variants in one table: build/demo-all.md, and build/demo-all.json with all figures.

The plain kernel is measured once, quench in each variant. Fails when a promise is broken.
"""
import argparse
import json
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
from demo import broken_promises, missing_parts, plain_run, quench_run  # noqa: E402
from lab import ROOT, Fabric, LabError  # noqa: E402

REPORT = ROOT / "build/demo-all.json"
TABLE = ROOT / "build/demo-all.md"


class Variant(NamedTuple):
    name: str
    fabric: Fabric
    quench: bool = True


VARIANTS = (
    Variant("without quench, four senders", Fabric(), quench=False),
    Variant("quench, four senders", Fabric()),
    Variant("16 senders", Fabric(senders=16)),
    Variant("IPv6", Fabric(ipv=6)),
    Variant("gateway bridges", Fabric(bridged=True)),
    Variant("gateway makes the CNPs", Fabric(notify=True)),
    Variant("TCP and UDP beside", Fabric(noise=True)),
    Variant("two bottlenecks in a row", Fabric(gateways=2)),
    Variant("MTU 4200", Fabric(mtu=4200)),
    Variant("MTU 9000", Fabric(mtu=9000)),
    Variant("MTU 4200, 16 senders", Fabric(mtu=4200, senders=16)),
)

HEAD = ("variant", "dropped", "lost before", "NAKs", "retransmitted %", "goodput %", "Jain",
        "queue KB: mean / p99 / max", "Kmax KB", "CE marks", "CNPs: bad / all", "64 KiB p99 ms")  # fmt: skip


def cells(name: str, r: dict) -> tuple[str, ...]:
    """A row of the table."""
    queue = " / ".join(f"{r[f'queue_{key}_bytes'] / 1000:.0f}" for key in ("mean", "p99", "max"))
    return (
        name, f"{r['gateway_drops']:,}", f"{r['lost_before_quench']}", f"{r['naks']:,}",
        f"{100 * r['retransmitted_share']:.2f}", f"{100 * r['goodput_share']:.1f}", f"{r['jain']:.4f}",
        queue, f"{r['kmax_bytes'] / 1000:.0f}", f"{r['ce_marked']:,}", f"{r['cnps_bad']} / {r['cnps']:,}",
        f"{r['latency_p99_us'] / 1000:.0f}",
    )  # fmt: skip


def table(results: dict[str, dict]) -> str:
    """In Markdown, and easy on the eye without it."""
    rows = [HEAD, *[cells(name, result) for name, result in results.items()]]
    widths = [max(map(len, column)) for column in zip(*rows)]
    rows.insert(1, ("-" * widths[0], *["-" * (width - 1) + ":" for width in widths[1:]]))
    lines = []
    for row in rows:
        padded = [row[0].ljust(widths[0]), *[text.rjust(width) for text, width in zip(row[1:], widths[1:])]]
        lines.append(f"| {' | '.join(padded)} |")
    return "\n".join(lines) + "\n"


def remarks(results: dict[str, dict]) -> list[str]:
    """What a row alone does not tell."""
    said = []
    for r in results.values():
        if "beside_share" in r:
            said.append(
                f"Beside TCP and UDP: the goodput is everybody's, {100 * r['roce_share']:.1f} % of the "
                f"link RoCE's, {100 * r['beside_share']:.1f} % the others'."
            )
        if r["gateways"] == 2:
            shares = ", ".join(f"{path} {share:.2f}" for path, share in r["shares_by_path"].items())
            said.append(
                "Two bottlenecks: the lesser goodput, the larger queue; Jain's index is that of senders "
                f"with the same way, of all it is {r['jain_all']:.3f}. Their shares, of the mean: {shares}."
            )
    return said


def say(text: str) -> None:
    print(text, flush=True)


def measure_all(seconds: float) -> int:
    results: dict[str, dict] = {}
    broken: list[str] = []
    for number, variant in enumerate(VARIANTS, 1):
        say(f"\n== {number} of {len(VARIANTS)}: {variant.name}")
        call = quench_run if variant.quench else plain_run
        results[variant.name] = call(variant.fabric, seconds, say)
        if variant.quench:
            broken += [f"{variant.name}: {text}" for text in broken_promises(results[variant.name])]
        REPORT.write_text(json.dumps(results, indent=1) + "\n")
    text = "\n".join([table(results), *remarks(results)]) + "\n"
    TABLE.write_text(text)
    say("\n" + text)
    for fault in broken:
        print(f"FAILED: {fault}", file=sys.stderr)
    return 1 if broken else 0


def main() -> int:
    parser = argparse.ArgumentParser(description="The demo and all its variants in one table.")
    parser.add_argument("--seconds", type=float, default=20, help="sending time of each run")
    args = parser.parse_args()
    if not 5 <= args.seconds <= 3600:
        parser.error("5 to 3600 seconds are possible")
    missing = missing_parts()
    if missing:
        print(f"demo_all: {missing}", file=sys.stderr)
        return 1
    try:
        return measure_all(args.seconds)
    except LabError as fault:
        print(f"demo_all: {fault}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
