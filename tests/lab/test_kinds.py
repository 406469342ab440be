#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""One answer everywhere: each frame of the vectors, once over a cable. The agent behind it counts the
kinds that the vectors say, and so does `quench analyze` in a capture of the same frames.

What differs by design: kind `infiniband` exists in captures only, and no cable carries it. The agent
drops what is MAC control, as its port ends the pause domain, so the capture is made at the sender. And
who a TCP connection has been is remembered by both: the frames that make one iWARP come last.
"""
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / room) for room in ("lab", "oracle")]
import iwarp  # noqa: E402
from frames import TESTS, Injector, Tap  # noqa: E402
from lab import QUENCH, Cases, Lab, LabError, expect, expect_equal, run  # noqa: E402

VECTORS = ("frames.txt", "formats.txt")
ETH_HEADER_BYTES = 14  # the kernel sends nothing shorter
CAPTURES_ONLY = "infiniband"
SEEN_S = 5


class Vector(NamedTuple):
    name: str
    kind: str
    frame: bytes


def read_vectors() -> list[Vector]:
    """All rows, those that make a TCP connection iWARP at the end."""
    vectors = []
    for name in VECTORS:
        for line in (TESTS / "vectors" / name).read_text().splitlines():
            words = line.split()
            if words and not line.startswith("#"):
                vectors.append(Vector(words[0], words[1], bytes.fromhex(words[-1])))
    return sorted(vectors, key=lambda vector: vector.kind == "iwarp")


def kinds_counted(lab: Lab) -> Counter[str]:
    """Frames by kind that came in at gw's port to h1."""
    counts: Counter[str] = Counter()
    for name, labels, value in lab.metrics("gw").samples:
        if name == "quench_frames_total" and labels["port"] == "h1":
            counts[labels["kind"]] += int(value)
    return counts


def send(lab: Lab, vectors: list[Vector]) -> None:
    """By way of the queues, where a capture sees them."""
    injector = Injector(lab, "h1", "eth0", bypass=False)
    try:
        for vector in vectors:
            try:
                injector.send(vector.frame)
            except OSError as fault:
                raise LabError(f"{vector.name}, {len(vector.frame)} bytes: {fault}") from fault
    finally:
        injector.close()


def grown(lab: Lab, before: Counter[str], frames: int) -> Counter[str]:
    """What has been counted since, when so many frames have come in, or time is over."""
    deadline = time.monotonic() + SEEN_S
    while True:
        growth = kinds_counted(lab) - before
        if growth.total() >= frames or time.monotonic() > deadline:
            return growth
        time.sleep(0.05)


def report(path: Path) -> dict:
    return json.loads(run(QUENCH, "analyze", "--json", path))


def analyzed(path: Path) -> Counter[str]:
    frames = report(path)["frames"]
    return Counter({kind: count for kind, count in frames.items() if count and kind != "total"})


def test_kinds(cases: Cases, lab: Lab) -> None:
    vectors = read_vectors()
    sent = [vector for vector in vectors if len(vector.frame) >= ETH_HEADER_BYTES]
    wanted = Counter(vector.kind for vector in sent)
    tap = Tap(lab, "h1", "eth0", direction="out")
    before = kinds_counted(lab)
    send(lab, sent)
    counted = grown(lab, before, len(sent))
    tap.wait(lambda frames: len(frames) >= len(sent), "frames are missing")
    captured = tap.finish()

    with cases.case("vectors_have_every_kind_that_a_cable_carries"):
        expect_equal(set(wanted), set(before) - {CAPTURES_ONLY}, "kinds")
        expect_equal({vector.kind for vector in vectors} - set(wanted), set(), "kinds of frames too short")
        cases.note(f"{len(sent)} of {len(vectors)} frames sent")
    with cases.case("agent_counts_each_kind_as_often_as_the_vectors_have_it"):
        expect_equal(dict(counted), dict(wanted), "frames by kind")
        cases.note(", ".join(f"{kind} {count}" for kind, count in sorted(counted.items())))
    with cases.case("analyze_counts_the_same_in_a_capture_of_the_same_frames"):
        expect(captured == [vector.frame for vector in sent], "the capture has other frames")
        expect_equal(dict(analyzed(tap.path)), dict(wanted), "frames by kind")


def ways_of(rows: list[dict], opcodes: str) -> dict[tuple, tuple]:
    """Frames, bytes and opcodes of each direction of an iWARP connection."""
    ends = ("src", "src_port", "dst", "dst_port")
    return {tuple(row[end] for end in ends): (row["packets"], row["bytes"], row[opcodes]) for row in rows}


def test_iwarp(cases: Cases, lab: Lab) -> None:
    """Connections with an FPDU in each segment, with markers and without: the opcode of the one that a
    segment begins with is then that of all."""
    wishes = ((0, 0), (iwarp.MARKERS, iwarp.MARKERS), (iwarp.MARKERS, 0), (0, iwarp.MARKERS))
    talks = [iwarp.Connection(i, ipv, *wish) for ipv in (4, 6) for i, wish in enumerate(wishes, 10 * ipv)]
    frames: list[bytes] = []
    tap = Tap(lab, "h1", "eth0", direction="out")
    for talk in talks:  # one at a time: the capture's ring holds some hundred frames
        more = iwarp.talk(talk, packed=False).frames
        frames += more
        send(lab, [Vector(f"segment {i}", "iwarp", frame) for i, frame in enumerate(more)])
        tap.wait(lambda caught: len(caught) >= len(frames), "frames are missing")
    expect(tap.finish() == frames, "the capture has other frames")
    theirs = ways_of(report(tap.path)["iwarp"], "opcodes")

    def ours() -> dict[tuple, tuple]:
        command = (QUENCH, "flows", "--instance", lab.instance("gw"), "--json")
        return {way: row for way, row in ways_of(json.loads(run(*command))["iwarp"], "segments").items()
                if way in theirs}  # fmt: skip

    with cases.case("agent_knows_what_iwarp_connections_do_as_analyze_does"):
        expect_equal(len(theirs), 2 * len(talks), "directions")
        expect(all(sum(opcodes.values()) > 1 for _, _, opcodes in theirs.values()), theirs)
        deadline = time.monotonic() + SEEN_S
        while ours() != theirs and time.monotonic() < deadline:
            time.sleep(0.05)
        expect_equal(ours(), theirs, "directions of iWARP")
    with cases.case("flows_in_text_name_the_opcodes"):
        text = run(QUENCH, "flows", "--instance", lab.instance("gw"))
        expect("iWARP 10.1.0.1 port 40040 > 10.1.0.2 port 7471" in text and "read_request 1" in text, text)


def main() -> int:
    cases = Cases()
    started = time.monotonic()
    with Lab(senders=2) as lab:
        lab.start_agent("gw")
        lab.wait_ready("gw")
        test_kinds(cases, lab)
        test_iwarp(cases, lab)
        lab.stop_quench()
    print(f"{time.monotonic() - started:.1f} s")
    return cases.exit_code()


if __name__ == "__main__":
    sys.exit(main())
