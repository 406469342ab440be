# SPDX-License-Identifier: BSD-2-Clause
"""quench in a guest with soft-RoCE learns the pairs of that guest's QPs from its RDMA stack: with CM
ids, and without CM from the QPNs and the frames. The rdma tool of both ends says what is true."""
import json
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lab"))
from agent import Agent  # noqa: E402
from endpoints import IPV4, MACS, Endpoint, Gateway, await_listening  # noqa: E402
from frames import BLAST, Way, cnp_frame  # noqa: E402
from guest import Command, Guests  # noqa: E402
from image import Image  # noqa: E402
from lab import expect, expect_equal, wait_until  # noqa: E402
from loop_cases import CONNECT_S, CONNECTS_MAX, MEEK, host_policy  # noqa: E402
from results import Results  # noqa: E402
from rxe_cases import TOS_ROCE_ECT  # noqa: E402
from wire import Flow, Pair  # noqa: E402

PROGRAM, QPS, SECONDS, CLIENT_S = "ib_write_bw", 2, 60, 90
EVERY_S = 10  # LOCAL_QPS_EVERY_MS of the agent
LATE_S = 5  # an emulated guest, and the questions to it
LOOK_S = 0.3
CONNECTED_S = 20
CONNECTED = {"RTR", "RTS", "SQD"}
NOBODY_QPN = 0xABCDEF
TO_A = Way(MACS["b"], MACS["a"], IPV4["b"], IPV4["a"])


class Qp(NamedTuple):
    qpn: int
    peer_qpn: int


def connected_qps(end: Endpoint) -> set[Qp]:
    """By the rdma tool."""
    rows = json.loads(end.guest.run("rdma -j resource show qp"))
    return {Qp(row["lqpn"], row["rqpn"]) for row in rows if row["type"] == "RC" and row["state"] in CONNECTED}


class Fixture:
    """Two guests on a plain bridge; quench runs in a alone, whose QPs send."""

    def __init__(self, lab: Gateway, a: Endpoint, b: Endpoint):
        self.lab, self.a, self.b = lab, a, b

    @property
    def ends(self) -> tuple[Endpoint, Endpoint]:
        return self.a, self.b

    @contextmanager
    def traffic(self, options: str) -> Iterator[None]:
        """a writes to b until the caller is done."""
        client = self._connect(f"exec timeout {CLIENT_S} {PROGRAM} {options} -q {QPS} -s 65536 -D {SECONDS}")
        try:
            wait_until(self._is_connected, CONNECTED_S, "connected QPs", every_s=LOOK_S)
            yield
            expect(not client.done(), "the traffic ended too early")
        finally:
            self._end()

    def _connect(self, command: str) -> Command:
        """rdma_cm under emulation fails to connect now and then."""
        for _ in range(CONNECTS_MAX):
            server = self.b.guest.start(command.format(gid=self.b.gid))
            await_listening(self.b.guest, PROGRAM, [server])
            client = self.a.guest.start(f"{MEEK}; {command.format(gid=self.a.gid)} {IPV4['b']}")
            time.sleep(CONNECT_S)
            if not client.done():
                return client
            self._end()
        return client

    def _is_connected(self) -> bool:
        return all(len(connected_qps(end)) >= QPS for end in self.ends)

    def _end(self) -> None:
        for end in self.ends:
            end.guest.try_run(f"killall {PROGRAM}; while pidof {PROGRAM}; do usleep 50000; done")

    def true_pairs(self) -> set[Pair]:
        """Both directions; each end's rdma tool must say the same. perftest has one more QP with CM."""
        mine = connected_qps(self.a)
        expect_equal(connected_qps(self.b), {Qp(qp.peer_qpn, qp.qpn) for qp in mine}, "QPs of b")
        a, b = IPV4["a"], IPV4["b"]
        there = {Pair(Flow(a, b, qp.peer_qpn), qp.qpn) for qp in mine}
        return there | {Pair(Flow(b, a, qp.qpn), qp.peer_qpn) for qp in mine}


def pairs_of_netlink(agent: Agent) -> set[Pair]:
    return {pair for pair, source in flows_of(agent).items() if source == "netlink"}


def flows_of(agent: Agent) -> dict[Pair, str]:
    """What pairs the flows are shown with, and who told."""
    rows = agent.flows()
    return {Pair(Flow(f["src"], f["dst"], f["dst_qpn"]), f["peer_qpn"]): f["pair_source"] for f in rows}


def wait_learned(fixture: Fixture, agent: Agent, seconds: float) -> float:
    """Until the agent has all whose frames it sees; that it has no others. Returns how long it took."""
    began, wanted = time.monotonic(), fixture.true_pairs()

    def learned() -> bool:
        sources = flows_of(agent)
        found = {pair for pair, source in sources.items() if source == "netlink"}
        expect(found <= wanted, f"wrong pairs: {found - wanted}")
        seen = {pair.flow for pair in sources} & {pair.flow for pair in wanted}
        return len(found) >= 2 * QPS and seen == {pair.flow for pair in found}

    wait_until(learned, seconds, "pairs by netlink", every_s=LOOK_S)
    return time.monotonic() - began


def pairs_without_cm(fixture: Fixture, agent: Agent, results: Results) -> None:
    """QP numbers come from the kernel, addresses from frames both ways. With the QPs they end."""
    with fixture.traffic(f"-x {{gid}} --tclass={TOS_ROCE_ECT}"):
        took = wait_learned(fixture, agent, EVERY_S + LATE_S)
    results.figure("learned_s", round(took, 1))
    wait_until(lambda: not pairs_of_netlink(agent), EVERY_S + LATE_S, "no pair is left", every_s=LOOK_S)


def unknown_pair_makes_haste(fixture: Fixture, agent: Agent, results: Results) -> None:
    """The QPs are gone just after a look; a CNP of which nothing is known does not wait for the next."""
    frame = cnp_frame(TO_A, NOBODY_QPN).hex()

    def send_cnp() -> bool:
        fixture.lab.run("gw", BLAST, "-d", "tapa", "-n", "1", frame)
        return not pairs_of_netlink(agent)

    with fixture.traffic(f"-x {{gid}} --tclass={TOS_ROCE_ECT}"):
        wait_until(lambda: pairs_of_netlink(agent), EVERY_S + LATE_S, "pairs by netlink", every_s=LOOK_S)
        began = time.monotonic()
    wait_until(send_cnp, EVERY_S, "no pair is left", every_s=LOOK_S)
    took = time.monotonic() - began
    expect(took < EVERY_S - LATE_S, f"{took:.1f} s after the look before")
    results.figure("ended_s", round(took, 1))


def pairs_of_older_connections(fixture: Fixture, results: Results) -> None:
    """Connected by CM before the agent came, which has seen no message of it: there at its first look."""
    with fixture.traffic(f"-R --tos={TOS_ROCE_ECT}"):
        agent = Agent(fixture.a.guest, host_policy(False))
        try:
            agent.status()
            results.figure("learned_s", round(wait_learned(fixture, agent, LATE_S), 1))
        finally:
            agent.stop()


def run_cases(results: Results, image: Image, directory: Path, _: bool) -> None:
    """All cases between two guests of one boot."""
    kernel, endpoint = image.release, f"rxe of {image.release}"
    with Gateway("a", "b") as lab, Guests() as guests:
        fixture = None
        with results.on(kernel, endpoint, "two_ends_of_pairs_come_up"):
            ends = [lab.guest(image, f"pairs-{name}", name, directory) for name in lab.ends]
            guests.boot(*ends)
            fixture = Fixture(lab, *(Endpoint(guest, name) for guest, name in zip(ends, lab.ends)))
        if not fixture:
            return
        with results.on(kernel, endpoint, "netlink_tells_pairs_of_older_connections"):
            pairs_of_older_connections(fixture, results)
        agent = Agent(fixture.a.guest, host_policy(False))
        try:
            with results.on(kernel, endpoint, "netlink_tells_pairs_without_cm_while_they_last"):
                pairs_without_cm(fixture, agent, results)
            with results.on(kernel, endpoint, "cnp_of_an_unknown_pair_makes_netlink_tell_at_once"):
                unknown_pair_makes_haste(fixture, agent, results)
        finally:
            agent.stop()
