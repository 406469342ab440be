#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The promises of the closed loop in the variants of the lab, each in a short run."""
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from demo import measure, quench_run  # noqa: E402
from lab import BOTTLENECK_BPS, NOISE_UDP_MBIT, POLICY, Cases, Fabric, Lab, LabError  # noqa: E402
from lab import expect, expect_equal, lab_policy, policy_number, policy_with, roce_frame_bytes_max, scaled_policy  # noqa: E402
from test_loop import expect_promises, quiet  # noqa: E402

SECONDS = 6
GOODPUT_MIN = 0.90  # a sixth of the run is the second in which the rates find each other
CLASS_SHARE_MIN = 0.80  # what a class has by right, whatever is beside it

VARIANTS = {
    "ipv6": Fabric(ipv=6),
    "bridged": Fabric(bridged=True),
    "mtu_4200": Fabric(mtu=4200),
    "mtu_9000": Fabric(mtu=9000),
    "16_senders": Fabric(senders=16),
    "tcp_and_udp_beside": Fabric(noise=True),
}


def test_variant(cases: Cases, name: str, fabric: Fabric) -> None:
    result = None
    with cases.case(f"{name}_leaves_every_node_as_it_was"):
        result = quench_run(fabric, SECONDS, quiet)
        expect_equal(result["left_behind"], [], "left behind")
    if not result:
        return
    expect_promises(cases, name, result, GOODPUT_MIN)
    if fabric.noise:
        with cases.case(f"{name}_takes_no_more_than_roce_leaves_and_gets_through"):
            share, udp_bps = result["roce_share"], result["udp_bps"]
            cases.note(f"RoCE {share:.3f}, others {result['beside_share']:.3f}")
            expect(share >= CLASS_SHARE_MIN, f"RoCE has {share:.3f}, not {CLASS_SHARE_MIN}")
            expect(result["tcp_bps"] > 0, "no TCP came")
            expect(udp_bps > NOISE_UDP_MBIT * 0.9e6, f"UDP: {udp_bps / 1e6:.1f} of {NOISE_UDP_MBIT} Mbit/s")


def test_at_mark(cases: Cases) -> None:
    """The gateway tells senders as it marks, and keeps what the receiver says about the same marks."""
    with cases.case("at_mark_tells_each_sender_once_and_sooner"), Lab(senders=4) as lab:
        base = lab.base_policy
        for node in lab.nodes:
            lab.base_policy = policy_with(base, generate="at_mark") if node == "gw" else base
            lab.start_agent(node)
        lab.base_policy = base
        for node in lab.nodes:
            lab.wait_ready(node)
        result = measure(lab, SECONDS, quiet)
        gw, r1 = lab.metrics("gw"), lab.metrics("r1")
        sent, echoes = gw.total("quench_cnp_sent_total"), gw.total("quench_drops_total", reason="cnp_echo")
        received = sum(lab.metrics(host).total("quench_cnp_received_total") for host in lab.hosts)
        said = r1.total("quench_cnp_sent_total")
        cases.note(f"{sent} CNPs at the mark, {echoes} of r1's {said} kept, goodput {result['goodput_share']:.3f}")
        expect(sent > 100 and said > 100, "hardly a CNP: the case says nothing")
        expect(received - sent <= 0.05 * said, f"{received} CNPs came to the senders, {sent} were the gateway's")
        expect_equal((result["gateway_drops"], result["naks"], result["cnps_bad"]), (0, 0, 0), "drops, NAKs, bad CNPs")
        expect(result["goodput_share"] >= GOODPUT_MIN, f"goodput {result['goodput_share']:.3f}")


# The scaling rule


def test_rule(cases: Cases) -> None:
    text = POLICY.read_text()
    with cases.case("rule_changes_nothing_in_the_lab_that_it_starts_from"):
        fabric = Fabric()
        expect_equal(scaled_policy(text, BOTTLENECK_BPS, fabric.senders, fabric.mtu), text, "policy")
    with cases.case("rule_scales_sizes_and_rates_with_the_speed_and_keeps_the_times"):
        fast = scaled_policy(text, 10 * BOTTLENECK_BPS, Fabric.senders, Fabric.mtu)
        for key in ("kmin", "kmax", "min_rate", "additive_rate"):
            expect_equal(policy_number(fast, key), 10 * policy_number(text, key), key)
        for key in ("interval", "increase_timer", "alpha_timer"):
            expect_equal(policy_number(fast, key), policy_number(text, key), key)
    with cases.case("rule_makes_room_for_ten_longest_frames_and_sends_one_in_10_ms"):
        for mtu in (1500, 4200, 9000):
            policy, frame = lab_policy(Fabric(mtu=mtu)), roce_frame_bytes_max(mtu)
            expect(policy_number(policy, "kmin") >= 10 * frame, f"kmin at an MTU of {mtu}")
            expect(policy_number(policy, "limit") >= 2 * policy_number(policy, "kmax"), f"limit, {mtu}")
            expect(policy_number(policy, "min_rate") * 0.010 >= 8 * frame, f"min_rate, {mtu}")
    with cases.case("rule_raises_many_senders_no_faster_than_four"):
        many = lab_policy(Fabric(senders=16))
        expect_equal(4 * policy_number(many, "additive_rate"), policy_number(text, "additive_rate"), "R_AI")
    with cases.case("fabrics_that_cannot_be_made_are_refused"):
        for wrong in ({"senders": 0}, {"ipv": 5}, {"mtu": 100}, {"gateways": 2, "bridged": True},
                      {"gateways": 2, "senders": 3}, {"noise": True, "senders": 1}):  # fmt: skip
            expect(refused(wrong), f"{wrong} was taken")


def refused(options: dict) -> bool:
    try:
        Fabric(**options)
    except LabError:
        return True
    return False


def main() -> int:
    cases = Cases()
    started = time.monotonic()
    test_rule(cases)
    for name, fabric in VARIANTS.items():
        test_variant(cases, name, fabric)
    test_at_mark(cases)
    print(f"{time.monotonic() - started:.1f} s")
    return cases.exit_code()


if __name__ == "__main__":
    sys.exit(main())
