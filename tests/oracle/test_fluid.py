#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""DCQCN's fluid model (Zhu et al., CoNEXT 2016): its fixed point, solved here, and the one published
convergence bound; what tests/unit/test_closed_loop.c takes for the truth comes from here."""
import math
import sys
from typing import NamedTuple

PACKET = 8000.0  # bits
TAU, TAU_ALPHA, TIMER = 50e-6, 55e-6, 55e-6  # s: CNP interval, K, T
BYTES, STAGES, G = 10e6 * 8 / PACKET, 5, 1 / 256  # B in packets, F, g
ADDITIVE = 40e6 / PACKET  # R_AI, packets/s
KMIN_KB, KMAX_KB, PMAX = 5.0, 200.0, 0.01
failed = False


def report(ok: bool, name: str, detail: str) -> None:
    global failed
    print(f"{'ok' if ok else 'not ok'} - {name}{': ' + detail if not ok else ''}")
    failed |= not ok


class Point(NamedTuple):
    p: float
    queue_kb: float
    alpha: float
    rate_gbit: float
    target_gbit: float


def stages(p: float, each: float) -> tuple[float, float]:
    """Increases a packet by a counter that is full after so many packets: all, and beyond F."""
    quiet = math.log1p(-p)
    every = p / math.expm1(-each * quiet)
    return every, every * math.exp(STAGES * each * quiet)


def terms(p: float, rate: float) -> tuple[float, float, float, float]:
    cut = -math.expm1(TAU * rate * math.log1p(-p))
    alpha = -math.expm1(TAU_ALPHA * rate * math.log1p(-p))
    b, c = stages(p, BYTES)
    d, e = stages(p, TIMER * rate)
    return cut, alpha, b + d, c + e


def fixed_point(capacity_gbit: float, flows: int) -> Point:
    rate = capacity_gbit * 1e9 / PACKET / flows
    low, high = 1e-9, 0.5
    for _ in range(200):
        p = math.sqrt(low * high)
        cut, alpha, fast, additive = terms(p, rate)
        low, high = (low, p) if cut**2 * alpha / (fast * additive) > TAU**2 * ADDITIVE * rate else (p, high)
    target = rate + cut * alpha / (fast * TAU)
    return Point(p, KMIN_KB + p / PMAX * (KMAX_KB - KMIN_KB), alpha,
                 rate * PACKET / 1e9, target * PACKET / 1e9)  # fmt: skip


# C, N: p*, q* KB (None: beyond Kmax), alpha*, Rc, Rt in Gbit/s, as printed
PRINTED = """
10 2 4.552111e-3 93.766 0.14516 5 5.1151
25 2 1.419505e-3 32.680 0.11492 12.5 12.6767
25 4 3.431960e-3 71.923 0.13733 6.25 6.3781
25 8 8.225209e-3 165.392 0.16259 3.125 3.2165
40 2 7.769886e-4 20.151 0.10136 20 20.2180
40 4 1.887666e-3 41.809 0.12182 10 10.1595
40 8 4.552111e-3 93.766 0.14516 5 5.1151
40 10 6.031955e-3 122.623 0.15328 4 4.1033
40 16 1.087275e-2 - 0.17130 2.5 2.5818
100 2 2.387166e-4 9.655 0.07879 50 50.3219
100 8 1.419505e-3 32.680 0.11492 12.5 12.6767
100 16 3.431960e-3 71.923 0.13733 6.25 6.3781
100 32 8.225209e-3 165.392 0.16259 3.125 3.2165
"""


def agrees(got: float, printed: str) -> bool:
    digits = printed.split("e")[0]
    exponent = int(printed.split("e")[1]) if "e" in printed else 0
    half = 0.5 * 10 ** (exponent - len(digits.partition(".")[2]))
    return printed == "-" or abs(got - float(printed)) <= half * 1.000001


def convergence_s(flows: int) -> float:
    """The published upper bound at 40 Gbit/s: all gaps below 10 % of the fair share."""
    capacity, additive, kmax = 40e9, 40e6, KMAX_KB * 8e3
    cycles = (-1 + math.sqrt(1 + 8 * kmax / (flows * additive * TAU_ALPHA))) / 2

    def length(alpha: float) -> float:
        return 2 + (cycles / 2 + capacity / (2 * flows * additive)) * alpha

    low, high = 0.0, 1.0
    for _ in range(200):
        a = (low + high) / 2
        low, high = (a, high) if (1 - G) ** (length(a) - 1) * ((1 - G) * a + G) > a else (low, a)
    return TAU_ALPHA * length(a) * math.log(0.1 / flows) / math.log(1 - a / 2)


CONVERGENCE = {2: "0.096901", 4: "0.063592", 8: "0.04124", 10: "0.035894", 16: "0.02692", 20: "0.023562",
               32: "0.017972", 50: "0.014118", 64: "0.012452", 100: "0.010089"}  # fmt: skip


def main() -> int:
    for line in PRINTED.split("\n"):
        if not line:
            continue
        capacity, flows, *printed = line.split()
        point = fixed_point(float(capacity), int(flows))
        report(all(agrees(got, want) for got, want in zip(point, printed)),
               f"fluid_model_{capacity}_gbit_{flows}_flows_has_every_printed_digit", str(point))  # fmt: skip
    for flows, want in CONVERGENCE.items():
        report(agrees(convergence_s(flows), want), f"convergence_bound_of_{flows}_flows_has_every_printed_digit",
               f"{convergence_s(flows):.7f}")  # fmt: skip
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
