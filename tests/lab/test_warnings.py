#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""What would otherwise stay silent: a NIC that takes off the VLAN tags that a port's policy goes by, and
RoCE in classes where it fares badly. Said at start, in events, in `quench status` and in the metrics.
"""
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from frames import ECT0, Injector, Tag, Way, data_frame  # noqa: E402
from lab import QUENCH, Cases, Lab, Port, expect, expect_equal, wait_until  # noqa: E402

POLICY = """version: 1
classes:
  - {name: roce, priority: 3, dscp: [26], pcp: [3], kind: lossless, limit: 1MiB}
  - {name: bulk, priority: 1, dscp: [10], pcp: [1], kind: lossy, limit: 1MiB}
"""
REMEDY = "ethtool -K h1 rx-vlan-offload off rx-vlan-stag-hw-parse off"
HIDDEN, UNCLASSED, LOSSY, DISAGREES = "tags_hidden", "roce_unclassed", "roce_lossy", "trust_disagrees"
SEEN_S = 5


def monitor(trust: str) -> Port:
    return Port("h1", "monitor", keys=f"trust: {trust}")


def start(lab: Lab, trust: str) -> str:
    """An agent that looks at h1's cable; what it has said so far."""
    job = lab.start_agent("gw", [monitor(trust)])
    lab.wait_ready("gw")
    return job.errors()


def warnings(lab: Lab) -> dict[str, str]:
    (port,) = lab.status("gw")["ports"]
    return {warning["code"]: warning["text"] for warning in port["warnings"]}


def status_text(lab: Lab) -> str:
    return lab.run("gw", QUENCH, "status", "--instance", lab.instance("gw"))


def test_hidden_tags(cases: Cases, lab: Lab) -> None:
    """A veth offers these offloads as NICs do, and has them on at first."""
    for trust in ("pcp", "pcp-dscp"):
        said = start(lab, trust)
        with cases.case(f"trust_{trust}_behind_rx_vlan_offload_is_said_with_the_remedy"):
            expect("port h1: " in said and REMEDY in said, said)
            expect(REMEDY in warnings(lab)[HIDDEN], warnings(lab))
            expect(REMEDY in status_text(lab), status_text(lab))
            expect_equal(lab.metrics("gw").total("quench_tags_hidden", port="h1"), 1, "the metric")
        lab.stop_quench()
    start(lab, "pcp")
    with cases.case("remedy_is_noticed"):
        lab.run("gw", *REMEDY.split())
        wait_until(lambda: HIDDEN not in warnings(lab), SEEN_S, "the warning stays")
        expect("leaves VLAN tags" in lab.agents["gw"].errors(), lab.agents["gw"].errors())
    with cases.case("offload_that_is_switched_on_later_is_said"):
        lab.run("gw", "ethtool", "-K", "h1", "rx-vlan-stag-hw-parse", "on")
        wait_until(lambda: HIDDEN in warnings(lab), SEEN_S, "no warning")
    lab.stop_quench()
    said = start(lab, "dscp")
    with cases.case("trust_in_dscp_needs_no_tags"):
        expect("ethtool" not in said and not warnings(lab), (said, warnings(lab)))
    with cases.case("reload_to_trust_in_pcp_is_said"):
        lab.write_policy("gw", [monitor("pcp")])
        lab.run("gw", QUENCH, "reload", "--instance", lab.instance("gw"))
        expect(HIDDEN in warnings(lab), warnings(lab))
    lab.stop_quench()


def classes_counted(lab: Lab) -> dict[str, int]:
    samples = lab.metrics("gw").samples
    return {labels["class"]: int(n) for name, labels, n in samples if name == "quench_roce_frames_total"}


def test_classes(cases: Cases, lab: Lab) -> None:
    way = Way("02:00:00:00:00:01", "02:00:00:00:00:02", "10.9.0.1", "10.9.0.2")
    start(lab, "dscp")
    injector = Injector(lab, "h1", "eth0")
    with cases.case("roce_where_policy_wants_it_is_no_warning"):
        injector.send(*[data_frame(way, 0x11, psn, tos=26 << 2 | ECT0) for psn in range(3)])
        wait_until(lambda: classes_counted(lab)["roce"] == 3, SEEN_S, "frames are missing")
        expect_equal(warnings(lab), {}, "warnings")
    with cases.case("roce_in_a_lossy_class_in_none_and_of_two_minds_is_said"):
        injector.send(*[data_frame(way, 0x12, psn, tos=10 << 2 | ECT0) for psn in range(4)])
        injector.send(*[data_frame(way, 0x13, psn, tos=46 << 2 | ECT0) for psn in range(5)])
        injector.send(data_frame(way, 0x14, 0, tos=26 << 2 | ECT0, tags=(Tag(5, pcp=1),)))
        wait_until(lambda: sum(classes_counted(lab).values()) == 13, SEEN_S, "frames are missing")
        expect_equal(classes_counted(lab), {"roce": 4, "bulk": 4, "(none)": 5}, "frames by class")
        said = warnings(lab)
        expect_equal({code: text.split()[0] for code, text in said.items()},
                     {UNCLASSED: "5", LOSSY: "4", DISAGREES: "1"}, "warnings")  # fmt: skip
        text = status_text(lab)
        expect(all(f"h1: {warning}" in text for warning in said.values()), text)
    with cases.case("flows_say_their_class"):
        wanted = {0x11: "roce", 0x12: "bulk", 0x13: None, 0x14: "roce"}
        expect_equal({flow["dst_qpn"]: flow["class"] for flow in lab.flows("gw")}, wanted, "classes")
    injector.close()
    lab.stop_quench()


def main() -> int:
    cases = Cases()
    started = time.monotonic()
    with Lab(senders=1) as lab:
        lab.base_policy = POLICY
        test_hidden_tags(cases, lab)
        test_classes(cases, lab)
    print(f"{time.monotonic() - started:.1f} s")
    return cases.exit_code()


if __name__ == "__main__":
    sys.exit(main())
