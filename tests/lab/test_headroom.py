#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""quench headroom: its sums against those of this file, its output, what it refuses, what it measures."""
import json
import math
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Callable, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
from lab import QUENCH, Cases, expect, expect_equal, wait_until  # noqa: E402

QUANTA = {1: 2, 10: 67, 25: 80, 40: 118, 50: 147, 100: 394, 200: 453, 400: 905, 800: 905}
LINK = {"speed": "100G", "cable": "40m", "mtu": "4200"}


class Ended(NamedTuple):
    status: int
    out: str
    err: str


def headroom(*flags: str, **values: object) -> Ended:
    options = [word for key, value in values.items() for word in (f"--{key.replace('_', '-')}", str(value))]
    done = subprocess.run([str(QUENCH), "headroom", *options, *flags], capture_output=True, text=True)
    return Ended(done.returncode, done.stdout, done.stderr)


def answer(**values: object) -> dict:
    ended = headroom("--json", **values)
    expect_equal((ended.status, ended.err), (0, ""), "exit status and errors")
    return json.loads(ended.out)


# The published sums, written down again


def quench(gbit: int, meters: int, mtu: int) -> int:
    around = mtu + 22 + 24 + 84 + (20000 + 2 * 5.13 * meters) * gbit / 8 + QUANTA[gbit] * 64
    return math.ceil(around + 3 * (mtu + 22))


def mlx5(gbit: int, meters: int, mtu: int) -> int:
    return (301 + 216 * meters // 100) * max(gbit, 40) + 272 * mtu // 100


def sonic(gbit: int, meters: int, mtu: int) -> int:
    way = max(9100, mtu) + 2 * meters / 1.98e8 * gbit * 1e12 / 8192 + 0.8 * 1024 + QUANTA[gbit] * 64
    return math.ceil((mtu + way * 144 / 64) / 1024) * 1024


def test_sums(cases: Cases) -> None:
    models: dict[str, tuple[Callable[[int, int, int], int], dict]] = {
        "quench": (quench, {"reaction": "20us"}), "mlx5": (mlx5, {}), "sonic": (sonic, {}),
    }  # fmt: skip
    for name, (model, options) in models.items():
        with cases.case(f"sum_of_{name}_equals_its_formula"):
            for gbit, meters, mtu in ((1, 3, 1500), (25, 100, 9000), (100, 40, 4200), (400, 2000, 1024)):
                found = answer(speed=f"{gbit}G", cable=f"{meters}m", mtu=mtu, model=name, **options)
                expect_equal(found["headroom_bytes"], model(gbit, meters, mtu), f"{gbit}G, {meters} m, {mtu}")
                total = sum(part["bytes"] for part in found["parts"])
                expect(total <= found["headroom_bytes"] < total + 1024, f"the parts are {total}")


def test_output(cases: Cases) -> None:
    with cases.case("json_has_what_the_text_has"):
        found = answer(**LINK, limit="20MB", ports=2)
        text = headroom(**LINK, limit="20MB", ports=2).out
        for part in found["parts"]:
            expect(re.search(rf"^  {re.escape(part['what'])} +{part['bytes']:.1f} B$", text, re.M), text)
        for mark in ("headroom", "XOFF", "XON", "limit"):
            expect(re.search(rf"^{mark} +{found[f'{mark.lower()}_bytes']} B ", text, re.M), text)

    with cases.case("limit_holds_mark_and_headroom_of_every_port"):
        found = answer(**LINK, limit="20MB", ports=2)
        expect_equal(2 * (found["xoff_bytes"] + found["headroom_bytes"]), 20_000_000, "XOFF and headroom")
        expect(0 < found["xon_bytes"] < found["xoff_bytes"], found)

    with cases.case("without_limit_the_queue_neither_overflows_nor_runs_dry"):
        found = answer(**LINK, ports=3)
        expect_equal(found["may_run_dry"], False, "may_run_dry")
        tight = answer(**LINK, ports=3, limit=f"{found['limit_bytes'] - 3}B")
        expect_equal(tight["may_run_dry"], True, "may_run_dry with less")


def test_refusals(cases: Cases) -> None:
    wrong = {
        "no_speed": ({"speed": None}, 2, "--speed is missing"),
        "speed_of_a_wrong_unit": ({"speed": "100X"}, 2, "allowed 1Mbit to 1600Gbit"),
        "speed_out_of_range": ({"speed": "2T"}, 2, "allowed 1Mbit to 1600Gbit"),
        "cable_without_a_unit": ({"cable": "40"}, 2, "allowed 0mm to 100km"),
        "mtu_out_of_range": ({"mtu": 10}, 2, "allowed 64 to 65535"),
        "unknown_model": ({"model": "dcqcn"}, 2, "allowed quench, mlx5, sonic, cisco"),
        "option_of_another_model": ({"model": "mlx5", "reaction": "3us"}, 2, "does not take it"),
        "port_mtu_below_mtu": ({"port_mtu": 900}, 2, "allowed 4200 to 65535"),
        "speed_unknown_to_802_3": ({"speed": "200Mbit"}, 1, "give the peer's own"),
        "speed_unknown_to_the_model": ({"speed": "50G", "model": "cisco"}, 1, "10, 25, 40 and 100"),
        "rounds_of_no_measurement": ({"rounds": 20}, 2, "only with --measure"),
        "limit_too_little": ({"limit": "100KB", "ports": 2}, 1, "is too little for 2 ports"),
    }  # fmt: skip
    for name, (changed, status, words) in wrong.items():
        with cases.case(f"{name}_is_refused"):
            values = {key: value for key, value in {**LINK, **changed}.items() if value is not None}
            ended = headroom(**values)
            expect_equal((ended.status, ended.out), (status, ""), f"exit status and output, {ended.err!r}")
            expect(words in ended.err, f"{words!r} is missing in {ended.err!r}")

    with cases.case("limit_that_is_named_as_least_is_taken"):
        least = re.search(r"allowed (\d+B) or more", headroom(**LINK, limit="100KB", ports=2).err)[1]
        expect_equal(headroom(**LINK, limit=least, ports=2).status, 0, f"exit status with {least}")


# Measuring


def agents() -> list[int]:
    """The agents of measurements, and their guardians."""
    found = subprocess.run(["pgrep", "-f", "^quench (run|guardian) .*--instance measure"],
                           capture_output=True, text=True)  # fmt: skip
    return [int(pid) for pid in found.stdout.split()]


def is_clean() -> bool:
    """No process is left, and with them their namespaces are gone; nothing was made outside these."""
    made = [*Path("/run/quench").glob("measure.*"), *Path("/sys/fs/bpf/quench").glob("*/measure"),
            Path("/sys/class/net/from_port")]  # fmt: skip
    return not agents() and not any(path.exists() for path in made)


def test_measuring(cases: Cases) -> None:
    for polls in (False, True):
        with cases.case(f"measured_agent_that_{'polls' if polls else 'sleeps'}_closes_and_opens_its_gate"):
            ended = headroom("--measure", "--json", *(["--poll"] if polls else []), rounds=100)
            expect_equal((ended.status, ended.err), (0, ""), "exit status and errors")
            measured = json.loads(ended.out)["measured"]
            expect_equal((measured["rounds"], measured["polls"]), (100, polls), "rounds, polls")
            for name in ("gate_closed", "gate_opened", "xoff_sent"):
                times = measured[name]
                expect(0 < times["p50_ns"] <= times["p99_ns"] <= times["max_ns"], f"{name}: {times}")
                cases.note(f"{name} {times['p50_ns'] / 1e3:.0f} / {times['p99_ns'] / 1e3:.0f} us")
            expect(measured["xoff_sent"]["max_ns"] <= measured["reaction_ns"], measured)
            expect(measured["gate_closed"]["max_ns"] <= measured["response_ns"], measured)

    with cases.case("measured_reaction_is_in_the_sum"):
        ended = headroom("--measure", "--json", rounds=10, **LINK)
        found = json.loads(ended.out)
        reaction = {part["what"]: part["bytes"] for part in found["parts"]}["quench's reaction"]
        expect_equal(reaction, found["measured"]["reaction_ns"] * 12.5, "bytes at 100 Gbit/s")

    with cases.case("measurement_leaves_nothing"):
        wait_until(is_clean, 5, "the machine as it was")

    with cases.case("measurement_that_is_killed_leaves_nothing"):
        process = subprocess.Popen([str(QUENCH), "headroom", "--measure", "--rounds", "100000"])
        wait_until(agents, 10, "an agent that is measured")
        process.send_signal(signal.SIGKILL)
        process.wait()
        wait_until(is_clean, 5, "the machine as it was")


def main() -> int:
    cases = Cases()
    test_sums(cases)
    test_output(cases)
    test_refusals(cases)
    test_measuring(cases)
    return cases.exit_code()


if __name__ == "__main__":
    sys.exit(main())
