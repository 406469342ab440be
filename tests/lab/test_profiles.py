#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Every profile in policies/ on a machine: applied, read back with tc, and gone again."""
import re
import sys
from pathlib import Path
from typing import Optional

sys.path.insert(0, str(Path(__file__).resolve().parent))
from lab import QUENCH, ROOT, Cases, Lab, expect, expect_equal  # noqa: E402

PORTS = ("eth0", "eth1")
CLASS = r"^class htb (9000:\w+) .*prio (\d+) quantum (\d+) rate (\S+) ceil (\S+) "
STRICT, AUTO = "strict", "auto"

# What each profile says of a port: its rate, and the share of each class; None: no queues.
PROFILES: dict[str, Optional[tuple[float, list]]] = {
    "lossless-roce": (25e9, [50]),
    "broadcom": (25e9, [50]),
    "azure": (25e9, [15, 15, 14, 14, 14]),
    "huawei": (25e9, [50, 20, STRICT]),
    "gaudi": (100e9, [40, 40]),
    "storage": (25e9, [30, 50, 1]),
    "ai-training-pfc-only": (100e9, [80]),
    "lossy-ecn-only": (25e9, [50]),
    "lab": (200e6, [AUTO]),
    "monitor": None,
}


def classes(lab: Lab, device: str) -> dict[str, dict]:
    """The classes of the root qdisc as tc prints them, by id; rates in bit/s."""
    printed = lab.run("gw", "tc", "-d", "class", "show", "dev", device)
    return {
        found[1]: {"prio": int(found[2]), "quantum": int(found[3]), "rate": bit_per_s(found[4]),
                   "ceil": bit_per_s(found[5])}
        for found in re.finditer(CLASS, printed, flags=re.M)
    }  # fmt: skip


def bit_per_s(text: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)([KMG]?)bit", text).groups()
    return float(number) * {"": 1, "K": 1e3, "M": 1e6, "G": 1e9}[unit]


def expected_rates(rate: float, shares: list) -> dict[str, float]:
    """By the rule in policies/README.md, in bit/s: classes, CNPs and pauses, best effort."""
    left = 90 - sum(s for s in shares if isinstance(s, int))
    parts = sum(not isinstance(s, int) for s in shares)
    rates = {f"9000:1{c:x}": rate * (s if isinstance(s, int) else left * 8 / 9 / parts) / 100
             for c, s in enumerate(shares)}  # fmt: skip
    rates["9000:20"] = rate / 10
    rates["9000:30"] = rate - sum(rates.values())
    return rates


def check_tree(lab: Lab, rate: float, shares: list) -> None:
    found = classes(lab, "eth0")
    for handle, wanted in expected_rates(rate, shares).items():
        expect(handle in found, f"no class {handle} among {sorted(found)}")
        is_bps = found[handle]["rate"]
        expect(abs(is_bps / wanted - 1) < 1e-3, f"{handle} has {is_bps} bit/s, not {wanted:.0f}")
        expect_equal(found[handle]["ceil"], rate, f"what {handle} may borrow up to")
    prios = [found[f"9000:1{c:x}"]["prio"] for c in range(len(shares))]
    expect_equal(prios, [1 if s == STRICT else 2 for s in shares], "who is asked first")
    shared = [h for c, h in enumerate(expected_rates(rate, shares)) if c < len(shares) and shares[c] != STRICT]
    least = min(shared, key=lambda handle: found[handle]["rate"])
    for handle in shared:
        quanta, rates = (found[handle][key] / found[least][key] for key in ("quantum", "rate"))
        expect(abs(quanta / rates - 1) < 0.01, f"{handle} borrows {quanta} times as much as {least}, not {rates}")
    expect_equal([found[h]["prio"] for h in ("9000:20", "9000:30")], [0, 3], "CNPs first, best effort last")


def test_profile(cases: Cases, lab: Lab, before: dict, name: str) -> None:
    with cases.case(f"profile_{name}_applies_reads_back_and_leaves_nothing"):
        lab.agents["gw"] = lab.start(
            "gw", name, QUENCH, "run", "-c", ROOT / f"policies/{name}.yaml", "--instance", lab.instance("gw")
        )
        status = lab.wait_ready("gw")
        profile = PROFILES[name]
        if profile:
            check_tree(lab, *profile)
        else:
            expect_equal(classes(lab, "eth0"), {}, "queues of a monitor")
        expect_equal({port["xdp_mode"] for port in status["ports"]}, {"native"}, "XDP")
        lab.stop_quench()
        left = lab.left_behind(before)
        expect(not left, f"left behind: {left}")


def main() -> int:
    cases = Cases()
    with Lab(senders=1) as lab:
        for port in PORTS:
            lab.ip("gw", f"link add {port} mtu 4200 type veth peer name {port}p mtu 4200",
                   f"link set {port} up", f"link set {port}p up")  # fmt: skip
        before = lab.state()
        with cases.case("profiles_are_all_applied_here"):
            expect_equal({p.stem for p in (ROOT / "policies").glob("*.yaml")}, set(PROFILES), "profiles")
        for name in PROFILES:
            test_profile(cases, lab, before, name)
            lab.stop_quench()
    return cases.exit_code()


if __name__ == "__main__":
    sys.exit(main())
