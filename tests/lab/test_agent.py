#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The agent's life: what it says while it runs, and what is left when it stops, also under traffic."""
import json
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Callable

sys.path.insert(0, str(Path(__file__).resolve().parent))
from lab import (  # noqa: E402
    BOTTLENECK_BPS, HOST_OVERLOAD, READY_S, RECEIVER_ADDRESS, RUN_FILES,
    Cases, Lab, Port, Traffic, expect, expect_equal, policy_with, wait_until,
)  # fmt: skip

SENDERS = 2
ADDRESS = {"h1": "10.0.1.1", "h2": "10.0.2.1", "r1": RECEIVER_ADDRESS}
ROOT_QDISC = "qdisc htb 9000: "
FRAMES_GO_ON = 500  # that many more must leave a port
LIMIT = "1MiB"  # more than all windows: what is lost here is lost by starting and stopping
SHORT_LIMIT = {"kmin": "10KB", "kmax": "20KB", "limit": "32KiB"}  # a fraction of a window
# The kernel drops what comes while it replaces a root qdisc: so much of what two hosts can send.
REPLACED_S = 0.025
LOST_MAX = int(REPLACED_S * HOST_OVERLOAD * BOTTLENECK_BPS / 8 / 1082)

STATUS_KEYS = {"version", "instance", "ports", "classes", "qps_limited", "policy"}
PORT_KEYS = {"name", "role", "xdp_mode", "occupancy_bytes"}
POLICY_KEYS = {"path", "loaded_at", "result"}
FLOW_KEYS = {
    "src", "dst", "dst_qpn", "peer_qpn", "pair_source", "packets", "bytes", "ce", "cnp", "nak",
    "retransmissions", "psn_gaps", "rate_bps", "naks", "rnr", "dscp", "packet_bytes_max", "ecn", "operations",
    "class",
}  # fmt: skip
XDP_MODES = {"native": 1, "generic": 2}  # as `ip -j link` says it

# What is done to an agent so that it ends.
Ending = Callable[[Lab, str], None]


def by_signal(number: signal.Signals) -> Ending:
    return lambda lab, node: lab.agents[node].process.send_signal(number)


def by_release(lab: Lab, node: str) -> None:
    expect_equal(lab.release(node), "", "what release said")


STOPS: dict[str, Ending] = {
    "sigterm": by_signal(signal.SIGTERM),
    "sigint": by_signal(signal.SIGINT),
    "release": by_release,
}


def end_agent(lab: Lab, node: str, ending: Ending) -> None:
    """End the agent, which must go in peace."""
    job = lab.agents[node]
    ending(lab, node)
    job.wait()
    del lab.agents[node]


def end_agents(lab: Lab, ending: Ending) -> None:
    for node in list(lab.agents):
        end_agent(lab, node, ending)


def expect_nothing_left(lab: Lab, before: dict) -> None:
    left = lab.left_behind(before)
    expect(not left, f"left behind: {left}")


def frames_sent(lab: Lab, node: str, device: str) -> int:
    return json.loads(lab.run(node, "ip", "-s", "-j", "link", "show", device))[0]["stats64"]["tx"]["packets"]


def expect_frames_go_on(lab: Lab, node: str, device: str) -> None:
    start = frames_sent(lab, node, device)
    wait_until(
        lambda: frames_sent(lab, node, device) >= start + FRAMES_GO_ON, 10, f"frames out of {node}:{device}"
    )


def flowing_traffic(lab: Lab, seconds: float) -> Traffic:
    """Traffic that has begun."""
    traffic = lab.start_traffic(seconds)
    expect_frames_go_on(lab, "gw", "r1")
    return traffic


def expect_lost(cases: Cases, traffic: Traffic, most: int) -> None:
    """At most so many frames never came. Each may cost a window of retransmissions."""
    lost = sum(flow["frames_lost"] for flow in traffic.received["flows"])
    cases.note(f"{lost} of {sum(s['frames_sent'] for s in traffic.sent)} frames lost")
    expect(lost <= most, f"{lost} frames lost, more than {most}")
    expect_equal([s["frames_unacked"] for s in traffic.sent], [0] * SENDERS, "frames that never came")


# Stopping


def test_stop(cases: Cases, lab: Lab, before: dict) -> None:
    for name, ending in STOPS.items():
        with cases.case(f"agent_{name}_without_traffic_leaves_the_machine_as_it_was"):
            lab.start_quench()
            expect(lab.left_behind(before), "the agents changed nothing")
            end_agents(lab, ending)
            expect_nothing_left(lab, before)


def test_stop_under_traffic(cases: Cases, lab: Lab, before: dict) -> None:
    """The agent of one node stops; when traffic is over, the others do."""
    for (name, ending), node in zip(STOPS.items(), ("gw", "h1", "gw")):
        device = "r1" if node == "gw" else "eth0"
        with cases.case(f"agent_{name}_in_{node}_under_traffic_lets_frames_go_on_and_leaves_nothing"):
            lab.start_quench()
            traffic = flowing_traffic(lab, 8)
            end_agent(lab, node, ending)
            left = [what for what in lab.left_behind(before) if what.startswith(f"{node}:")]
            expect(not left, f"left behind under traffic: {left}")
            expect_frames_go_on(lab, node, device)
            traffic.finish()
            end_agents(lab, ending)
            expect_nothing_left(lab, before)
            expect_lost(cases, traffic, LOST_MAX)


def kill_agents(lab: Lab, nodes: list[str]) -> None:
    for node in nodes:
        job = lab.agents.pop(node)
        job.process.kill()
        job.process.wait(READY_S)


def test_kill(cases: Cases, lab: Lab, before: dict) -> None:
    with cases.case("agents_killed_under_traffic_lose_nothing_and_frames_go_on_through_their_queues"):
        lab.start_quench()
        traffic = flowing_traffic(lab, 2)
        kill_agents(lab, ["gw", "h1"])
        expect_frames_go_on(lab, "gw", "r1")
        expect_frames_go_on(lab, "h1", "eth0")
        for node in ("gw", "h1"):
            expect(ROOT_QDISC in lab.run(node, "tc", "qdisc"), f"{node}: the queues are gone")
        traffic.finish()
        expect_lost(cases, traffic, 0)

    traffic = flowing_traffic(lab, 8)
    with cases.case("release_after_kill_under_traffic_cleans_up_and_frames_go_on"):
        expect_equal(lab.release("h1"), "", "what release said")
        left = [what for what in lab.left_behind(before) if what.startswith("h1:")]
        expect(not left, f"left behind: {left}")
        expect_frames_go_on(lab, "h1", "eth0")

    with cases.case("run_after_kill_under_traffic_takes_over"):
        job = lab.start_agent("gw")
        lab.wait_ready("gw")
        expect("quench: taking over from an agent that died\n" in job.errors(), job.errors())
        expect_frames_go_on(lab, "gw", "r1")
        expect(lab.metrics("gw").total("quench_frames_total", kind="rocev2") > 0, "it sees no frames")

    with cases.case("release_and_run_after_kill_under_traffic_lose_few_frames"):
        traffic.finish()
        expect_lost(cases, traffic, 3 * LOST_MAX)  # a root qdisc off, one off, one on

    with cases.case("agents_stopped_after_a_kill_leave_the_machine_as_it_was"):
        lab.stop_quench()
        expect_nothing_left(lab, before)

    with cases.case("release_after_kill_leaves_the_machine_as_it_was"):
        lab.start_quench()
        nodes = list(lab.agents)
        kill_agents(lab, nodes)
        for node in nodes:
            expect_equal(lab.release(node), "", "what release said")
        expect_nothing_left(lab, before)


def test_rename(cases: Cases, lab: Lab, before: dict) -> None:
    """An interface that was renamed, and whose agent died, is still cleaned."""
    lab.ip("gw", "link add q0 type veth peer name q1", "link set q0 up", "link set q1 up")
    with cases.case("release_after_a_rename_and_a_kill_leaves_nothing"):
        lab.start_agent("gw", [Port("q0", "gateway", BOTTLENECK_BPS)])
        lab.wait_ready("gw")
        expect(ROOT_QDISC in lab.run("gw", "tc", "qdisc", "show", "dev", "q0"), "no queues of ours")
        lab.ip("gw", "link set q0 down", "link set q0 name q9", "link set q9 up")
        kill_agents(lab, ["gw"])
        lab.release("gw")
        expect(ROOT_QDISC not in lab.run("gw", "tc", "qdisc", "show", "dev", "q9"), "our queues are still there")
    lab.ip("gw", "link del q9" if "q9" in lab.run("gw", "ip", "-br", "link") else "link del q0")
    with cases.case("release_after_a_rename_leaves_the_lab_as_it_was"):
        expect_nothing_left(lab, before)


def test_slow_client(cases: Cases, lab: Lab) -> None:
    """Who asks a byte at a time holds nobody up for more than his second."""
    lab.start_agent("gw")
    lab.wait_ready("gw")
    with cases.case("client_that_dawdles_is_let_go"):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(RUN_FILES / f"{lab.instance('gw')}.sock"))
            client.send(b"s")
            started = time.monotonic()
            expect(lab.status("gw"), "no status")
            seconds = time.monotonic() - started
            cases.note(f"{seconds:.1f} s")
            expect(seconds < 2, f"{seconds:.1f} s")
    lab.stop_quench()


# What it says


def test_flows(cases: Cases, lab: Lab) -> None:
    lab.start_quench()
    traffic = flowing_traffic(lab, 8)
    during = {node: flow_table(lab, node) for node in lab.nodes}
    limited = [lab.flows(host) for host in lab.hosts]
    traffic.finish()
    after = {node: flow_table(lab, node) for node in lab.nodes}
    lab.stop_quench()
    ways = ways_of(traffic)

    with cases.case("flows_json_has_every_key"):
        keys = [flow.keys() for table in during.values() for flow in table.values()]
        expect(keys and all(have == FLOW_KEYS for have in keys), keys[:1])

    with cases.case("flows_pairs_learned_from_cm_are_right_in_both_directions"):
        expect_pairs(during, ways, "cm")
        expect(any(flow["rate_bps"] for flows in limited for flow in flows), "no flow has a rate")

    with cases.case("flows_packets_are_exactly_those_sent"):
        for node, key, way in seen_ways(ways, after):
            expect_equal(after[node][key]["packets"], way["frames"], f"{node}: packets of {key}")
        cases.note(f"{sum(way['frames'] for way in ways.values())} frames")

    with cases.case("flows_health_says_what_the_peers_do"):
        for key, way in ways.items():
            flow = after["gw"][key]
            what = (flow["operations"], flow["dscp"], flow["class"], flow["rnr"], sum(flow["naks"].values()))
            wanted = (["write"] if key[1] == RECEIVER_ADDRESS else ["ack"], [26], "roce", 0, way["naks"])
            expect_equal(what, wanted, f"operations, DSCP, class, RNRs, NAKs of {key}")

    with cases.case("flows_naks_gaps_and_retransmissions_agree_with_the_peers"):
        for node, key, way in seen_ways(ways, after):
            flow = after[node][key]
            have = (flow["nak"], flow["psn_gaps"], flow["retransmissions"])
            expect_equal(have, (way["naks"], way["gaps"], way["retransmitted"]), f"{node}: {key}")

    with cases.case("flows_ce_is_exactly_what_the_receiver_counted"):
        for key, way in ways.items():
            expect_equal(after["r1"][key]["ce"], way["ce"], f"CE of {key}")
        ce = sum(way["ce"] for way in ways.values())
        cases.note(f"{ce} CE")
        expect(ce > 0, "nothing was marked: the case says nothing")

    with cases.case("flows_pair_is_unknown_after_the_dreq"):
        sources = {f["pair_source"] for table in after.values() for f in table.values()}
        peers = {f["peer_qpn"] for table in after.values() for f in table.values()}
        expect_equal((sources, peers), ({"unknown"}, {None}), "pair sources and peers")


def test_flows_of_loss(cases: Cases, lab: Lab) -> None:
    """Nobody sends CNPs and the queue is too short. All that was sent still passes hosts and gw."""
    base_policy = lab.base_policy
    lab.base_policy = policy_with(base_policy, **SHORT_LIMIT)
    lab.start_quench(r1=[])
    lab.base_policy = base_policy
    traffic = flowing_traffic(lab, 2)
    traffic.finish()
    tables = {node: flow_table(lab, node) for node in lab.agents}
    lab.stop_quench()
    ways = ways_of(traffic)

    with cases.case("flows_of_loss_count_naks_and_retransmissions_exactly_as_the_peers"):
        for node, key, way in seen_ways(ways, tables):
            flow = tables[node][key]
            have = (flow["packets"], flow["nak"], flow["psn_gaps"], flow["retransmissions"])
            wanted = (way["frames"], way["naks"], 0, way["retransmitted"])
            expect_equal(have, wanted, f"{node}: packets, NAKs, gaps, retransmissions of {key}")
        naks, again = (sum(way[k] for way in ways.values()) for k in ("naks", "retransmitted"))
        cases.note(f"{naks} NAKs, {again} retransmissions")
        expect(naks and again, "nothing was lost: the case says nothing")


def flow_table(lab: Lab, node: str) -> dict[tuple, dict]:
    """The flows of a node by source, destination and QPN, each seen once."""
    flows = lab.flows(node)
    table = {(f["src"], f["dst"], f["dst_qpn"]): f for f in flows}
    expect_equal(len(table), len(flows), f"{node}: flows listed twice")
    return table


def ways_of(traffic: Traffic) -> dict[tuple, dict]:
    """What the peers say of each direction of their QP pairs."""
    received = {(flow["src"], flow["peer_qpn"]): flow for flow in traffic.received["flows"]}
    ways = {}
    for sender in traffic.sent:
        for qp in sender["qps"]:
            far = received[sender["address"], qp["qpn"]]
            ways[sender["address"], RECEIVER_ADDRESS, qp["peer_qpn"]] = {
                "peer": qp["qpn"], "frames": qp["frames_sent"], "naks": 0, "gaps": far["gaps"],
                "retransmitted": qp["frames_retransmitted"], "ce": far["ce"],
            }  # fmt: skip
            ways[RECEIVER_ADDRESS, sender["address"], qp["qpn"]] = {
                "peer": qp["peer_qpn"], "frames": far["acks_sent"] + far["naks_sent"],
                "naks": far["naks_sent"], "gaps": 0, "retransmitted": 0, "ce": qp["acks_ce"],
            }  # fmt: skip
    return ways


def seen_ways(ways: dict, tables: dict) -> list[tuple]:
    """Each way at each node that it passes."""
    passes = []
    for node, table in tables.items():
        for key, way in ways.items():
            if node in ("gw", "r1") or ADDRESS[node] in key:
                expect(key in table, f"{node} does not know {key}")
                passes.append((node, key, way))
    return passes


def expect_pairs(tables: dict, ways: dict, source: str) -> None:
    for node, key, way in seen_ways(ways, tables):
        flow = tables[node][key]
        expect_equal((flow["peer_qpn"], flow["pair_source"]), (way["peer"], source), f"{node}: pair of {key}")


def test_policy_pairs(cases: Cases, lab: Lab) -> None:
    """QPNs that policy knows: no message can end such a pair, so its counts stay to be seen."""
    base_policy = lab.base_policy
    first, listens = 0x10100, 0x20000
    # which of the listener's QPNs a sender gets depends on who comes first: only h1 sends
    lab.base_policy += f"pairs:\n  - {{a: {ADDRESS['h1']}/{first:#x}, b: {RECEIVER_ADDRESS}/{listens:#x}}}\n"
    lab.start_quench()
    lab.base_policy = base_policy
    listener = lab.start_listener("--qpn-base", listens)
    sender = lab.start_sender("h1", 2, first)
    traffic = Traffic([listener], [sender], time.time(), 2)
    traffic.finish()
    tables = {node: flow_table(lab, node) for node in ("h1", "gw", "r1")}
    lab.stop_quench()

    with cases.case("flows_pairs_from_policy_outlive_the_dreq"):
        expect_pairs(tables, ways_of(traffic), "policy")

    with cases.case("flows_cnp_is_exactly_what_the_sender_got"):
        cnps = traffic.sent[0]["cnps"]
        key = (ADDRESS["h1"], RECEIVER_ADDRESS, listens)
        for node in tables:
            expect_equal(tables[node][key]["cnp"], cnps, f"{node}: CNPs")
        cases.note(f"{cnps} CNPs")
        expect(cnps > 0, "there was no CNP: the case says nothing")


def test_status(cases: Cases, lab: Lab) -> None:
    lab.ip("gw", "link add br9 type bridge", "link set br9 up")
    lab.start_agent("gw", [*lab.default_ports("gw"), Port("br9", "monitor", keys="xdp: generic-ok")])
    status = lab.wait_ready("gw")
    ports = {port["name"]: port for port in status["ports"]}

    with cases.case("status_json_has_every_key"):
        expect(status.keys() >= STATUS_KEYS, f"status has {sorted(status)}")
        expect(all(port.keys() >= PORT_KEYS for port in ports.values()), f"ports have {status['ports']}")
        expect(status["policy"].keys() >= POLICY_KEYS, f"policy has {status['policy']}")
        expect_equal(status["instance"], lab.instance("gw"), "instance")
        expect_equal([c["name"] for c in status["classes"]], ["roce"], "classes")
        expect_equal({p["role"] for p in ports.values()}, {"gateway", "monitor"}, "roles")

    with cases.case("status_xdp_mode_is_what_the_kernel_says"):
        links = {link["ifname"]: link for link in json.loads(lab.run("gw", "ip", "-d", "-j", "link"))}
        for name, port in ports.items():
            expect_equal(links[name]["xdp"]["mode"], XDP_MODES[port["xdp_mode"]], f"{name}: mode")

    with cases.case("status_port_without_native_xdp_is_generic_where_the_policy_allows_it"):
        modes = {name: port["xdp_mode"] for name, port in ports.items()}
        expect_equal(modes, {"r1": "native", "h1": "native", "h2": "native", "br9": "generic"}, "modes")
        metrics = lab.metrics("gw")
        native = {name: metrics.total("quench_xdp_native", port=name) for name in ports}
        expect_equal(native, {"r1": 1, "h1": 1, "h2": 1, "br9": 0}, "quench_xdp_native")

    with cases.case("status_xdp_mode_is_none_when_somebody_took_the_program_off"):
        lab.run("gw", "sh", "-c", "bpftool link detach pinned /sys/fs/bpf/quench/v1/*/link_xdp_"
                f"{links['br9']['ifindex']}")  # fmt: skip
        now = {port["name"]: port["xdp_mode"] for port in (lab.status("gw") or {})["ports"]}
        expect_equal(now, {**modes, "br9": "none"}, "modes")

    lab.stop_quench()
    lab.ip("gw", "link del br9")


def main() -> int:
    cases = Cases()
    started = time.monotonic()
    with Lab(senders=SENDERS) as lab:
        lab.base_policy = policy_with(lab.base_policy, limit=LIMIT)
        before = lab.state()
        test_status(cases, lab)
        test_stop(cases, lab, before)
        test_stop_under_traffic(cases, lab, before)
        test_kill(cases, lab, before)
        test_rename(cases, lab, before)
        test_slow_client(cases, lab)
        test_flows(cases, lab)
        test_flows_of_loss(cases, lab)
        test_policy_pairs(cases, lab)
        with cases.case("lab_of_all_these_agents_is_as_it_was"):
            expect_nothing_left(lab, before)
    print(f"{time.monotonic() - started:.1f} s")
    return cases.exit_code()


if __name__ == "__main__":
    sys.exit(main())
