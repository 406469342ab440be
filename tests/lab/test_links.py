#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Links and queues that others change under the agent: what is so right afterwards, and what it says."""
import errno
import json
import re
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Callable, Iterator, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
from frames import Injector, Way, data_frame  # noqa: E402
from lab import (  # noqa: E402
    BOTTLENECK_BPS, QUENCH, RECEIVER_ADDRESS, RETURN_BPS,
    Cases, Footprint, Lab, LabError, Metrics, Port, Traffic,
    expect, expect_equal, in_namespace, run, wait_until,
)  # fmt: skip

FLAPS, SLOW_FLAPS = 200, 5  # the slow ones last until the agent has seen them
RECREATIONS = 20
FRAMES_GO_ON = 200  # that many more must leave a port
SOON_S = 5
NEXT_LOOK_S = 12  # what nothing tells the agent, it finds when it looks next
RSS_GROWTH_MAX_KB = 1024
MTU, LARGE_MTU = 1500, 4200

GONE, BACK = "the interface is gone", "is back; set up again"
MADE_AGAIN = "somebody deleted queues of ours; made again"
FILTER_MADE_AGAIN = "somebody deleted our filter; made again"
BEST_EFFORT_CLASS = 0x90000030  # of quench's tree
GUEST = "h9"  # a namespace that comes and goes

# In the tree of gw's port r1: the leaf of what came in by h1, and the gate of the class.
LEAF, GATE = "parent 9020:3", "parent 9000:10"


# What is so


def frames_out(lab: Lab, device: str) -> int:
    return json.loads(lab.run("gw", "ip", "-s", "-j", "link", "show", device))[0]["stats64"]["tx"]["packets"]


def expect_frames_go_on(lab: Lab, device: str = "r1") -> None:
    start = frames_out(lab, device)
    wait_until(lambda: frames_out(lab, device) >= start + FRAMES_GO_ON, SOON_S, f"frames out of {device}")


def queues(lab: Lab, node: str, device: str) -> list[str]:
    """The port's tree and its filter, as tc prints them, without what differs from time to time: the
    frames that passed an HTB while it was made, before its classes were, are counted as direct."""
    script = "; ".join(f"tc {what} show dev {device}" for what in ("qdisc", "class", "filter"))
    text = re.sub(r" (refcnt|id|direct_packets_stat) \d+", "", lab.run(node, "sh", "-c", script))
    return sorted(line.strip() for line in text.splitlines())


def expect_classifier(lines: list[str]) -> None:
    expect(any("quench_root" in line for line in lines), f"no filter of ours among {lines}")


def port_status(lab: Lab, node: str, name: str) -> dict:
    ports = {port["name"]: port for port in (lab.status(node) or {"ports": []})["ports"]}
    return ports[name]


def is_whole(lab: Lab, node: str, device: str, wanted: list[str]) -> bool:
    """Are all queues, the filter and the program there?"""
    port = port_status(lab, node, device)
    return queues(lab, node, device) == wanted and (port["state"], port["xdp_mode"]) == ("up", "native")


def wait_whole(lab: Lab, node: str, device: str, wanted: list[str], seconds: float = SOON_S) -> None:
    def missing() -> str:
        have = queues(lab, node, device)
        return f"{port_status(lab, node, device)}, missing {[x for x in wanted if x not in have][:2]}"

    try:
        wait_until(lambda: is_whole(lab, node, device, wanted), seconds, f"port {device} whole again")
    except LabError as fault:
        raise LabError(f"{fault}: {missing()}") from None


def wait_depth_known(lab: Lab, device: str = "r1") -> None:
    """Frames pass, and each finds out how deep its queue is."""

    def unknown() -> int:
        return lab.metrics("gw").total("quench_depth_unknown_total", port=device)

    def known() -> bool:
        before = unknown()
        expect_frames_go_on(lab, device)
        return unknown() == before

    wait_until(known, SOON_S, f"depth of {device} known again")


class Events:
    """What an agent tells from now on."""

    def __init__(self, lab: Lab, node: str):
        self.lab, self.node = lab, node
        self.first = len(self._all()) and self._all()[-1]["number"] + 1

    def _all(self) -> list[dict]:
        answer = run(QUENCH, "events", "--instance", self.lab.instance(self.node), "--json")
        return json.loads(answer)["events"]

    def texts(self, about: str = "") -> list[str]:
        return [e["text"] for e in self._all() if e["number"] >= self.first and about in e["text"]]

    def wait(self, text: str) -> None:
        wait_until(lambda: self.texts(text), SOON_S, f"event '{text}', not {self.texts()}")

    def expect(self, *texts: str) -> None:
        """These and no others, in this order."""
        expect_equal(self.texts(), list(texts), "events")


def port_events(*texts: str, port: str = "r1") -> list[str]:
    return [f"port {port}: {text}" for text in texts]


# Up and down


def set_link(lab: Lab, *states: str) -> None:
    """The neighbour beyond a port that goes down is forgotten by the kernel."""
    commands = [f"link set r1 {state}" for state in states]
    if states[-1] == "up":
        commands.append(f"neigh replace {RECEIVER_ADDRESS} lladdr 02:00:00:00:64:01 nud permanent dev r1")
    lab.ip("gw", *commands)


def test_flaps(cases: Cases, lab: Lab, whole: list[str]) -> None:
    with cases.case("port_down_and_up_is_one_event_each_and_nothing_is_missing"):
        events = Events(lab, "gw")
        set_link(lab, "down")
        events.wait("link down")
        expect_equal(port_status(lab, "gw", "r1")["state"], "up", "state of an interface that is there")
        set_link(lab, "up")
        events.wait("link up")
        wait_whole(lab, "gw", "r1", whole)
        wait_depth_known(lab)
        events.expect(*port_events("link down", "link up"))
    with cases.case("port_whose_peer_goes_down_and_up_is_one_event_each_and_nothing_is_missing"):
        events = Events(lab, "gw")
        lab.ip("r1", "link set eth0 down")
        events.wait("link down")
        lab.ip(
            "r1",
            "link set eth0 up",
            "neigh replace 10.0.100.254 lladdr 02:00:00:00:64:fe nud permanent dev eth0",
            "route replace default via 10.0.100.254",
        )
        events.wait("link up")
        wait_whole(lab, "gw", "r1", whole)
        wait_depth_known(lab)
        events.expect(*port_events("link down", "link up"))
    with cases.case(f"port_that_flaps_{FLAPS}_times_under_traffic_is_whole_after_each"):
        events, started = Events(lab, "gw"), time.monotonic()
        try:
            for number in range(FLAPS):
                flap(lab, events, number)
                expect(is_whole(lab, "gw", "r1", whole), f"after flap {number}: {queues(lab, 'gw', 'r1')}")
        finally:
            set_link(lab, "up")
        cases.note(f"{FLAPS / (time.monotonic() - started):.1f} flaps a second")
    with cases.case(f"port_that_flapped_{FLAPS}_times_forwards_knows_its_depth_and_has_told_of_flaps_only"):
        wait_depth_known(lab)
        texts = events.texts()
        cases.note(f"{len(texts)} events")
        expect(set(texts) <= set(port_events("link down", "link up")), f"events {sorted(set(texts))}")
        expect(all(a != b for a, b in zip(texts, texts[1:])), "twice down, or twice up, in a row")
        expect(2 * SLOW_FLAPS <= len(texts) <= 2 * FLAPS, f"{len(texts)} events")


def flap(lab: Lab, events: Events, number: int) -> None:
    """The kernel itself takes up to a second to say that a link which was down runs again."""

    def wait_last(text: str) -> None:
        wait_until(lambda: events.texts()[-1:] in ([], port_events(text)), SOON_S, f"last event '{text}'")

    if number % (FLAPS // SLOW_FLAPS):
        return set_link(lab, "down", "up")
    wait_last("link up")
    told = len(events.texts())
    set_link(lab, "down")
    wait_until(lambda: len(events.texts()) > told, SOON_S, "event 'link down'")
    return set_link(lab, "up")


def test_mtu(cases: Cases, lab: Lab, whole: list[str]) -> None:
    with cases.case("mtu_up_and_down_changes_the_queues_in_place_and_is_one_event_each"):
        events = Events(lab, "gw")
        lab.ip("gw", f"link set r1 mtu {LARGE_MTU}")
        events.wait(f"MTU is {LARGE_MTU} now")
        changed = queues(lab, "gw", "r1")
        expect_classifier(changed)
        expect(changed != whole and len(changed) == len(whole), f"queues at MTU {LARGE_MTU}: {changed}")
        wait_depth_known(lab)
        lab.ip("gw", f"link set r1 mtu {MTU}")
        events.wait(f"MTU is {MTU} now")
        wait_whole(lab, "gw", "r1", whole)
        wait_depth_known(lab)
        events.expect(*port_events(f"MTU is {LARGE_MTU} now, was {MTU}; queues follow",
                                   f"MTU is {MTU} now, was {LARGE_MTU}; queues follow"))  # fmt: skip


# Queues that somebody deletes


class Deletion(NamedTuple):
    """What somebody deletes with tc, and what the agent says of it."""

    command: str
    told: str = MADE_AGAIN


DELETIONS = {
    "leaf": Deletion(f"qdisc del dev r1 {LEAF}"),
    "class": Deletion("class del dev r1 classid 9020:3"),
    "gate": Deletion(f"qdisc del dev r1 {GATE}"),
    "root": Deletion("qdisc del dev r1 root"),
    "filter": Deletion("filter del dev r1 parent 9000:", FILTER_MADE_AGAIN),
}


def test_deletions(cases: Cases, lab: Lab, whole: list[str]) -> None:
    for what, deletion in DELETIONS.items():
        with cases.case(f"foreign_deletion_of_the_{what}_is_mended_and_told_once"):
            events = Events(lab, "gw")
            lab.tc("gw", deletion.command)
            started = time.monotonic()
            wait_whole(lab, "gw", "r1", whole, NEXT_LOOK_S)
            cases.note(f"{time.monotonic() - started:.1f} s")
            wait_depth_known(lab)
            have_a_look(lab)  # finds nothing more
            expect_frames_go_on(lab)
            events.expect(*port_events(deletion.told))
        make_whole(lab, whole)


def have_a_look(lab: Lab) -> None:
    """The agent compares its ports whenever something about a link changes."""
    lab.ip("gw", f"link set r1 alias look-{time.monotonic_ns()}")


def make_whole(lab: Lab, whole: list[str]) -> None:
    """For the cases that follow one that failed: what the agent never overlooks is a root of its own
    that goes."""
    if is_whole(lab, "gw", "r1", whole):
        return
    for command in ("del dev r1 root", "add dev r1 root handle 9000: htb", "del dev r1 root"):
        try:
            lab.tc("gw", f"qdisc {command}")
        except LabError:
            pass  # the agent was there first
    wait_whole(lab, "gw", "r1", whole)


def root_kind(lab: Lab) -> str:
    qdiscs = json.loads(lab.run("gw", "tc", "-j", "qdisc", "show", "dev", "r1"))
    return next(q["kind"] for q in qdiscs if q.get("root"))


def test_foreign_root(cases: Cases, lab: Lab, whole: list[str]) -> None:
    events = Events(lab, "gw")
    with cases.case("foreign_root_qdisc_is_left_alone_and_named_once"):
        lab.tc("gw", "qdisc replace dev r1 root handle 77: bfifo limit 1000000")
        events.wait("bfifo")
        for _ in range(3):
            have_a_look(lab)
            expect_frames_go_on(lab)
        expect_equal(root_kind(lab), "bfifo", "root qdisc")
        texts = events.texts()
        cases.note(f"'{texts[0]}'")
        expect_equal(len(texts), 1, f"events {texts}: number")
    with cases.case("foreign_root_qdisc_that_goes_is_followed_by_our_queues"):
        lab.tc("gw", "qdisc del dev r1 root")
        started = time.monotonic()
        wait_whole(lab, "gw", "r1", whole, NEXT_LOOK_S)
        cases.note(f"{time.monotonic() - started:.1f} s")
        wait_depth_known(lab)
    make_whole(lab, whole)
    lab.ip("gw", 'link set r1 alias ""')


def test_no_repair(cases: Cases, lab: Lab) -> None:
    """The agent of gw is a new one, whose policy says `repair: false`."""
    whole, events = queues(lab, "gw", "r1"), Events(lab, "gw")
    for what in ("leaf", "root"):
        with cases.case(f"foreign_deletion_of_the_{what}_without_repair_stays_and_is_told_once"):
            lab.tc("gw", DELETIONS[what].command)
            wait_until(events.texts, SOON_S, "event")
            have_a_look(lab)
            expect_frames_go_on(lab)
            expect(queues(lab, "gw", "r1") != whole, "the queues were made again")
            events.expect("a queue of ours was deleted; it stays so (repair: false)")
            events = Events(lab, "gw")
    lab.ip("gw", 'link set r1 alias ""')


# Interfaces that go and come


def cable(lab: Lab, node: str, number: int) -> None:
    """A cable like the lab's own, from node:eth0 to gw:node, which is not there."""
    mac = f"02:00:00:00:{number:02x}"
    lab.ip(
        node,
        f"link add eth0 address {mac}:01 type veth peer name {node} address {mac}:fe "
        f"netns {lab.namespace('gw')}",
        "link set eth0 up",
        f"addr add 10.0.{number}.1/24 dev eth0",
        f"neigh add 10.0.{number}.254 lladdr {mac}:fe nud permanent dev eth0",
        f"route add default via 10.0.{number}.254",
    )
    lab.ip(
        "gw",
        f"link set {node} up",
        f"addr add 10.0.{number}.254/24 dev {node}",
        f"neigh add 10.0.{number}.1 lladdr {mac}:01 nud permanent dev {node}",
    )


def series_of(metrics: Metrics, port: str) -> dict[tuple, float]:
    return {
        (name, *sorted(labels.items())): value
        for name, labels, value in metrics.samples
        if labels.get("port") == port
    }


def expect_no_counter_back(before: dict[tuple, float], after: dict[tuple, float]) -> None:
    expect_equal(sorted(after), sorted(before), "series of the port")
    counters = [key for key in before if key[0].endswith("_total")]
    back = {key: (before[key], after[key]) for key in counters if after[key] < before[key]}
    expect(not back, f"counters that went back: {back}")


def send_some(lab: Lab, node: str, number: int, count: int) -> None:
    """Frames to r1 that the gateway sees arrive."""
    mac = f"02:00:00:00:{number:02x}"
    injector = Injector(lab, node, "eth0")
    way = Way(f"{mac}:01", f"{mac}:fe", f"10.0.{number}.1", RECEIVER_ADDRESS)
    injector.send(*[data_frame(way, 0x99)] * count)
    injector.close()


def rocev2_frames(lab: Lab, port: str) -> int:
    return lab.metrics("gw").total("quench_frames_total", port=port, kind="rocev2")


def recreate(lab: Lab, whole: dict[str, list[str]]) -> None:
    """h2's cable goes and comes again; both ends have an agent."""
    send_some(lab, "h2", 2, 10)
    before = lab.metrics("gw")
    events = {node: Events(lab, node) for node in ("gw", "h2")}
    lab.ip("gw", "link del h2")
    events["gw"].wait(GONE)
    events["h2"].wait(GONE)
    expect_equal(port_status(lab, "gw", "h2")["state"], "gone", "state")
    expect_equal(series_of(lab.metrics("gw"), "h2"), {}, "series of a port that is gone")
    cable(lab, "h2", 2)
    wait_whole(lab, "gw", "h2", whole["gw"])
    wait_whole(lab, "h2", "eth0", whole["h2"])
    expect_no_counter_back(series_of(before, "h2"), series_of(lab.metrics("gw"), "h2"))
    seen = rocev2_frames(lab, "h2")
    send_some(lab, "h2", 2, 10)
    wait_until(lambda: rocev2_frames(lab, "h2") == seen + 10, SOON_S, "frames by the new interface")
    events["gw"].wait("h2: " + BACK)
    expect_equal(events["gw"].texts("port h2: ")[:2], port_events(GONE, BACK, port="h2"), "events")
    expect_equal(events["h2"].texts()[:2], port_events(GONE, BACK, port="eth0"), "events of h2")
    texts = [text for node in events for text in events[node].texts()]
    others = [text for text in texts if not re.search("gone|is back|link ", text)]
    expect(not others, f"events {others}")


def test_recreated(cases: Cases, lab: Lab) -> None:
    whole = {"gw": queues(lab, "gw", "h2"), "h2": queues(lab, "h2", "eth0")}
    with cases.case(f"interface_deleted_and_made_again_{RECREATIONS}_times_is_set_up_again_each_time"):
        started = time.monotonic()
        for _ in range(RECREATIONS):
            recreate(lab, whole)
        cases.note(f"{(time.monotonic() - started) / RECREATIONS:.2f} s each")
        expect_frames_go_on(lab)


def test_another_kind(cases: Cases, lab: Lab) -> None:
    whole = {"gw": queues(lab, "gw", "h2"), "h2": queues(lab, "h2", "eth0")}
    with cases.case("interface_that_comes_back_as_a_bridge_is_refused_once_until_it_is_a_cable_again"):
        events = Events(lab, "gw")
        lab.ip("gw", "link del h2")
        events.wait(GONE)
        lab.ip("gw", "link add h2 type bridge", "link set h2 up")
        events.wait("h2: no frames wait on an interface of kind bridge")
        qdiscs = lab.run("gw", "tc", "qdisc", "show", "dev", "h2")
        expect("htb" not in qdiscs, f"the bridge has queues of ours: {qdiscs}")
        lab.ip("gw", "link del h2")
        wait_until(lambda: len(events.texts("h2: " + GONE)) == 2, SOON_S, "the bridge is gone")
        cable(lab, "h2", 2)
        wait_whole(lab, "gw", "h2", whole["gw"])
        wait_whole(lab, "h2", "eth0", whole["h2"])
        expect_equal(len(events.texts("of kind bridge")), 1, "times it was told")


def drop_some(lab: Lab, device: str) -> None:
    """Frames for best effort while its queue holds nothing: HTB goes by a priority that names a class."""
    leaf = f"qdisc change dev {device} parent 9000:30 handle 9031: bfifo limit"
    shown = json.loads(lab.run("gw", "tc", "-j", "qdisc", "show", "dev", device, "handle", "9031:"))

    def send() -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, struct.pack("=I", BEST_EFFORT_CLASS))
            s.bind((device, 0))
            for _ in range(10):
                try:
                    s.send(bytes(64))
                except OSError as refused:
                    expect_equal(refused.errno, errno.ENOBUFS, "what the kernel says of a dropped frame")

    lab.tc("gw", f"{leaf} 1")
    in_namespace(lab.namespace("gw"), send)
    lab.tc("gw", f"{leaf} {shown[0]['options']['limit']}")


def queue_drops(lab: Lab) -> int:
    return lab.metrics("gw").total("quench_queue_drops_total", port="h2")


def test_counters(cases: Cases, lab: Lab) -> None:
    whole = {"gw": queues(lab, "gw", "h2"), "h2": queues(lab, "h2", "eth0")}
    with cases.case("counters_of_a_port_do_not_go_back_when_its_queues_are_made_again"):
        drop_some(lab, "h2")
        before = series_of(lab.metrics("gw"), "h2")
        expect(queue_drops(lab) >= 10, "nothing was dropped: the case says nothing")
        lab.tc("gw", "qdisc del dev h2 root")
        wait_whole(lab, "gw", "h2", whole["gw"])
        expect_no_counter_back(before, series_of(lab.metrics("gw"), "h2"))
    with cases.case("counters_of_a_port_do_not_go_back_when_its_interface_is_made_again"):
        drop_some(lab, "h2")
        expect(queue_drops(lab) >= 10, "nothing was dropped: the case says nothing")
        recreate(lab, whole)


def make_guest(lab: Lab) -> None:
    run("ip", "netns", "add", lab.namespace(GUEST))
    lab.sysctl(GUEST, "net/ipv6/conf/all/disable_ipv6", 1)
    cable(lab, GUEST, 9)


def test_guest(cases: Cases, lab: Lab) -> None:
    whole = queues(lab, "gw", GUEST)
    with cases.case("namespace_of_a_peer_that_is_deleted_takes_its_port_and_no_other"):
        events = Events(lab, "gw")
        run("ip", "netns", "del", lab.namespace(GUEST))
        events.wait(f"{GUEST}: {GONE}")
        expect_equal(port_status(lab, "gw", GUEST)["state"], "gone", "state")
        expect_equal(series_of(lab.metrics("gw"), GUEST), {}, "series of a port that is gone")
        expect_equal(port_status(lab, "gw", "r1")["state"], "up", "state of another port")
        expect_frames_go_on(lab)
    with cases.case("namespace_of_a_peer_that_is_made_again_gets_its_port_again"):
        make_guest(lab)
        wait_whole(lab, "gw", GUEST, whole)
        events.wait(f"{GUEST}: {BACK}")
        expect_equal(events.texts()[:2], port_events(GONE, BACK, port=GUEST), "events")


def test_own_namespace(cases: Cases, lab: Lab) -> None:
    with cases.case("namespace_of_the_agent_that_loses_its_name_leaves_it_working_until_it_is_told_to_end"):
        job = lab.agents.pop("h2")
        run("ip", "netns", "del", lab.namespace("h2"))
        answer = json.loads(run(QUENCH, "status", "--instance", lab.instance("h2"), "--json"))
        expect_equal([port["state"] for port in answer["ports"]], ["up"], "states")
        job.stop()
        job.wait()
        expect(not list(lab.directory.glob(f"bpf/quench/v*/{lab.instance('h2')}")), "it left its pins")


# What it costs


def test_footprint(cases: Cases, lab: Lab, before: Footprint) -> None:
    with cases.case("agent_has_no_more_descriptors_and_memory_after_all_that"):
        # connections of those who asked close by and by
        wait_until(lambda: Footprint(lab).fds == before.fds, SOON_S,
                   f"descriptors as before ({before.fds}), not {Footprint(lab).fds}")  # fmt: skip
        growth = Footprint(lab).growth_kb(before)
        cases.note(f"descriptors {before.fds}, memory grew by {growth} KB of {before.rss_kb}")
        expect(max(growth.values()) <= RSS_GROWTH_MAX_KB, f"memory grew by {growth} KB")


# An agent that took over from a dead one


def restart_gateway(lab: Lab, ports: list[Port], kill: bool) -> None:
    job = lab.agents.pop("gw")
    if kill:
        job.process.kill()
        job.process.wait()
    else:
        job.stop()
        job.wait()
    job = lab.start_agent("gw", ports)
    lab.wait_ready("gw")
    expect_equal("taking over" in job.errors(), kill, "took over")


def guarded(cases: Cases, test: Callable, *args: object) -> None:
    """A test that cannot go on fails as a case, and the next one runs."""
    try:
        test(cases, *args)
    except LabError as fault:
        with cases.case(f"{test.__name__}_can_go_on"):
            raise fault


def test_took_over(cases: Cases, lab: Lab, ports: list[Port]) -> None:
    whole = {"gw": queues(lab, "gw", "h2"), "h2": queues(lab, "h2", "eth0")}
    with cases.case("interface_deleted_and_made_again_under_an_agent_that_took_over_is_set_up_again"):
        restart_gateway(lab, ports, kill=True)
        wait_whole(lab, "gw", "h2", whole["gw"])
        for _ in range(3):
            recreate(lab, whole)


def run_all(cases: Cases, lab: Lab, ports: list[Port]) -> Iterator[Traffic]:
    """All tests, beside traffic from h1."""
    lab.start_agent("gw", ports)
    for node in ("r1", "h1", "h2"):
        lab.start_agent(node)
    for node in lab.agents:
        lab.wait_ready(node)
    traffic = lab.start_traffic(600, hosts=["h1"])
    yield traffic
    expect_frames_go_on(lab)
    whole = queues(lab, "gw", "r1")
    expect_classifier(whole)
    for node in lab.agents:  # the first answers need memory that the later ones use again
        lab.metrics(node)
        lab.flows(node)
    before = Footprint(lab)
    for test in (test_flaps, test_mtu, test_deletions, test_foreign_root):
        guarded(cases, test, lab, whole)
    guarded(cases, test_recreated, lab)
    guarded(cases, test_another_kind, lab)
    guarded(cases, test_counters, lab)
    guarded(cases, test_guest, lab)
    guarded(cases, test_footprint, lab, before)
    guarded(cases, test_took_over, lab, ports)
    lab.base_policy += "repair: false\n"
    restart_gateway(lab, ports, kill=False)
    guarded(cases, test_no_repair, lab)
    guarded(cases, test_own_namespace, lab)


def main() -> int:
    cases = Cases()
    started = time.monotonic()
    with Lab(senders=2) as lab:
        make_guest(lab)
        bottleneck = Port("r1", "gateway", BOTTLENECK_BPS)
        ports = [bottleneck, *[Port(host, "gateway", RETURN_BPS) for host in (*lab.hosts, GUEST)]]
        for traffic in run_all(cases, lab, ports):
            pass
        traffic.stop()
    print(f"{time.monotonic() - started:.1f} s")
    return cases.exit_code()


if __name__ == "__main__":
    sys.exit(main())
