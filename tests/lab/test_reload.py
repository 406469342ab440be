#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The policy file taken again by live agents: nothing lost, rates kept, nothing leaked, and the old
policy in force when the new one cannot be followed.

    tests/lab/test_reload.py [--reloads N]
"""
import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from demo import Losses, loss_results, traffic_results  # noqa: E402
from lab import (  # noqa: E402
    METRICS_PORT, QUENCH,
    Cases, Footprint, Lab, LabError, expect, expect_equal, policy_with, run, wait_until,
)  # fmt: skip
from test_pfc import Bench, ROCE, pfc_policy, with_speed  # noqa: E402

EXIT_OK, EXIT_FAILED, EXIT_POLICY = 0, 1, 3
VARIANTS = ({}, {"kmin": "20KB", "kmax": "250KB"}, {"additive_rate": "300kbit"}, {"interval": "900us"})


def reload(lab: Lab, node: str) -> subprocess.CompletedProcess:
    command = [str(QUENCH), "reload", "--instance", lab.instance(node)]
    return subprocess.run(command, capture_output=True, text=True)


def write(lab: Lab, node: str, text: str) -> None:
    """Another text for the agent's file, ports as they were."""
    base, lab.base_policy = lab.base_policy, text
    lab.write_policy(node, with_speed(lab.default_ports(node)))
    lab.base_policy = base


def leaks(lab: Lab) -> dict[str, int]:
    """What an agent could leave more of with each reload."""
    qdiscs = lab.run("gw", "tc", "qdisc", "show")
    classes = sum(lab.run("gw", "tc", "class", "show", "dev", port).count("\n") for port in ("r1", "h1"))
    filters = lab.run("gw", "tc", "filter", "show", "dev", "r1").count("\n")
    return {
        "qdiscs": qdiscs.count("\n"), "classes": classes, "filters": filters,
        "pins": sum(1 for _ in (lab.directory / "bpf").rglob("*")),
    }  # fmt: skip


def test_under_load(cases: Cases, lab: Lab, reloads: int) -> None:
    seconds = max(4.0, reloads * 0.05 + 2)
    before, found, feet = Losses(lab), leaks(lab), Footprint(lab)
    traffic = lab.start_traffic(seconds)
    time.sleep(max(0.0, traffic.start_epoch - time.time()) + 1)
    with cases.case(f"reload_{reloads}_times_under_load_loses_nothing"):
        for i in range(reloads):
            for node in ("gw", "h1"):
                write(lab, node, policy_with(lab.base_policy, **VARIANTS[i % len(VARIANTS)]))
                done = reload(lab, node)
                expect_equal((done.returncode, done.stderr), (EXIT_OK, ""), f"reload {i} of {node}")
        expect(traffic.start_epoch + seconds > time.time(), "the traffic ended before the reloads did")
        traffic.finish()
        after = Losses(lab)
        ends = traffic_results(lab, traffic)
        result = loss_results(lab, before, after, ends)
        cases.note(f"goodput {ends['goodput_share']:.1%}, {ends['frames_sent']} frames")
        for key in ("gateway_drops", "host_drops", "lost_before_quench", "frames_missing"):
            expect_equal(result[key], 0, key)
        expect_equal((ends["naks"], ends["order_violations"]), (0, 0), "NAKs, order violations")
    with cases.case("reload_leaks_nothing"):
        expect(all(found.values()), f"nothing to compare: {found}")
        expect_equal(leaks(lab), found, "queues, filters and pins")
        expect_equal(Footprint(lab).fds, feet.fds, "descriptors")
        growth = Footprint(lab).growth_kb(feet)
        cases.note(f"memory grew by {max(growth.values())} KB")
        expect(max(growth.values()) < 1024, f"memory grew: {growth}")


def test_refused(cases: Cases, lab: Lab) -> None:
    good = lab.base_policy

    def kept(name: str, text: str, status: int, said: str) -> None:
        with cases.case(f"reload_of_{name}_keeps_the_old_policy"):
            write(lab, "gw", text)
            done = reload(lab, "gw")
            expect_equal(done.returncode, status, f"exit status ({done.stderr.strip()})")
            expect(re.search(said, done.stderr), f"says: {done.stderr.strip()}")
            status = lab.status("gw")
            expect(status["policy"]["result"] in ("invalid", "refused"), status["policy"])
            expect_equal(lab.metrics("gw").total("quench_policy_last_reload_successful"), 0, "the metric")
            limit = status["classes"][0]["limit_bytes"]
            expect_equal(limit, lab.buffer_bytes, "the limit in force")

    other = policy_with(good, limit="2MiB")
    kept("an_invalid_file", policy_with(other, kmax="1KB"), EXIT_POLICY, r"gw\.yaml:\d+:\d+: classes\[0\]\.ecn\.kmin")
    kept("a_file_that_needs_a_restart", policy_with(other, qp_classes=17), EXIT_FAILED, r"qp_classes.*restart")
    with cases.case("reload_of_a_missing_file_keeps_the_old_policy"):
        (lab.directory / "gw.yaml").unlink()
        done = reload(lab, "gw")
        expect_equal(done.returncode, EXIT_POLICY, f"exit status ({done.stderr.strip()})")
        expect("No such file" in done.stderr, done.stderr)
        write(lab, "gw", good)
    with cases.case("sighup_reloads"):
        write(lab, "gw", other)
        os.kill(lab.agents["gw"].process.pid, signal.SIGHUP)
        wait_until(lambda: lab.status("gw")["classes"][0]["limit_bytes"] == 2 << 20, 3, "the new limit")
        write(lab, "gw", good)
        expect_equal(reload(lab, "gw").returncode, EXIT_OK, "back to the old one")
        shown = lab.run("gw", "tc", "-j", "qdisc", "show", "dev", "r1", "handle", "a001:")
        expect_equal(json.loads(shown)[0]["options"]["limit"], lab.buffer_bytes, "the leaf's limit, as tc has it")


def flow_clock_ns(lab: Lab, node: str) -> int:
    """What the programs date flows by."""
    pin = lab.directory / "bpf/quench/v1" / lab.instance(node) / "conf_map"
    found = json.loads(run("bpftool", "-j", "map", "lookup", "pinned", pin, "key", *[0] * 4))
    return found["formatted"]["value"]["now_ns"]


def test_clock(cases: Cases, lab: Lab) -> None:
    """A flow dated by a clock that went back would be forgotten as one that is long silent."""
    with cases.case("reload_does_not_set_the_clock_of_flows_back"):
        before_ns = time.monotonic_ns()
        expect_equal(reload(lab, "gw").returncode, EXIT_OK, "reload")
        found_ns = flow_clock_ns(lab, "gw")
        expect(found_ns >= before_ns, f"{(before_ns - found_ns) / 1e9:.1f} s ago")


def test_rates(cases: Cases, lab: Lab) -> None:
    with cases.case("reload_keeps_the_rates_of_limited_qps"):
        traffic = lab.start_traffic(5)
        wait_until(lambda: lab.metrics("h1").total("quench_qps_limited"), 5, "h1's QP is not limited")
        wait_until(lambda: lab.metrics("h1").total("quench_cnp_received_total") > 30, 5, "CNPs")
        lowered = []
        for _ in range(20):
            before = rate_of(lab, "h1")
            expect_equal(reload(lab, "h1").returncode, EXIT_OK, "reload")
            after = rate_of(lab, "h1")
            lowered.append(after / before if before and after else 1)
        expect(max(lowered) < 1.5, f"a rate rose by {max(lowered):.2f} with a reload")
        traffic.finish()


def rate_of(lab: Lab, node: str) -> int:
    return max((flow["rate_bps"] or 0 for flow in lab.flows(node)), default=0)


def test_pfc_off(cases: Cases) -> None:
    """Nobody is obeyed any more: what is closed opens."""
    with Lab(senders=2, mtu=4200) as lab:
        lab.base_policy = pfc_policy(lab)
        lab.start_agent("gw", with_speed(lab.default_ports("gw")))
        lab.wait_ready("gw")
        bench = Bench(lab)
        with cases.case("reload_to_no_lossless_class_opens_a_closed_gate"):
            bench.pause({ROCE: 65535})
            bench.wait_closed()
            psns = bench.send(64, 1024)
            write(lab, "gw", lab.base_policy.replace("kind: lossless", "kind: lossy"))
            expect_equal(reload(lab, "gw").returncode, EXIT_OK, "reload")
            expect_equal(bench.receiver.psns(0.5, 2), psns, "frames after the reload")
            bench.pause({ROCE: 65535})
            time.sleep(0.02)
            expect(not bench.gate_is_closed(), "a class that is lossy now is still paused")
        with cases.case("reload_to_lossless_obeys_again"):
            write(lab, "gw", lab.base_policy)
            expect_equal(reload(lab, "gw").returncode, EXIT_OK, "reload")
            bench.pause({ROCE: 65535})
            bench.wait_closed()
            bench.go_on()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reloads", type=int, default=40)
    args = parser.parse_args()
    cases = Cases()
    with Lab(senders=4) as lab:
        lab.start_quench(**{node: with_speed(lab.default_ports(node)) for node in lab.nodes})
        test_under_load(cases, lab, args.reloads)
        test_clock(cases, lab)
        test_rates(cases, lab)
        test_refused(cases, lab)
    test_pfc_off(cases)
    return cases.exit_code()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as fault:
        print(f"not ok - lab: {fault}")
        sys.exit(1)
