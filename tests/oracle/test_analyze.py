#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""`quench analyze` against tshark (opcode, QPN, PSN), scapy and icrc.py (every ICRC), on the captures
and the vectors; the formats that it reads and refuses; its outputs; a live port.

Run from the root of the repository, as root (for the port). Prints a line for each check, exits 1 when
one failed.
"""
import csv
import gzip
import json
import logging
import os
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from pathlib import Path
from typing import Callable, NamedTuple, Optional

logging.getLogger("scapy").setLevel(logging.CRITICAL)
from scapy.contrib.roce import BTH  # noqa: E402
from scapy.layers.inet import IP  # noqa: E402
from scapy.layers.l2 import Ether  # noqa: E402
from scapy.utils import RawPcapReader  # noqa: E402

import check_cnps  # noqa: E402
import icrc  # noqa: E402
import iwarp  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
QUENCH = Path(os.environ.get("QUENCH") or ROOT / "build/quench")
CAPTURES, VECTORS = ROOT / "tests/captures", ROOT / "tests/vectors"
ETHERNET, SLL, SLL2, ERF, INFINIBAND = 1, 113, 276, 197, 247
NANO, MICRO = 0xA1B23C4D, 0xA1B2C3D4
PYTHON = "/usr/bin/python3"
START_S = 1_700_000_000
OK, FAILED, USAGE = 0, 1, 2
HAS_BTH = ("rocev1", "rocev2", "cnp", "cm", "unknown_opcode", "infiniband")
PROMISED = {"total", "rocev1", "rocev2", "iwarp", "infiniband", "cnp", "cm", "pfc", "pause", "malformed",
            "truncated", "fragment", "other"}
FLOW_KEYS = {"src", "dst", "dst_qpn", "peer_qpn", "packets", "bytes", "ce", "cnp", "nak",
             "retransmissions", "psn_gaps", "naks"}

# What is in each capture: frames by kind (others are 0), and the QP pairs that it teaches.
EXPECTED: dict[str, tuple[dict[str, int], set[tuple]]] = {
    "802.1ad_QinQ.pcap": ({"other": 2}, set()),
    "IPv4Frag.pcap": ({"fragment": 3}, set()),
    "QinQ_802.1_AD.pcapng": ({"other": 1}, set()),
    "dcb_ets.pcap": ({"other": 67}, set()),
    "dcb_pfc.pcap": ({"other": 5}, set()),
    "gso-ipv4-vxlan-ipv4.pcap": ({"other": 1}, set()),
    "infiniband.pcap": (
        {"infiniband": 43},
        {("LID 1", 0xFC0407, "LID 4", 0x870408, "cm"), ("LID 2", 0x6C004B, "LID 4", 0x890408, "cm"),
         ("LID 2", 0x6C004A, "LID 4", 0x890407, "cm")}),
    "rxe-6.1.0-rping-v4.pcap": ({"rocev2": 36, "cm": 5}, {("10.99.0.1", 0x11, "10.99.0.2", 0x11, "cm")}),
    "rxe-6.1.0-rping-v6.pcap": ({"rocev2": 36, "cm": 5}, {("fd99::1", 0x12, "fd99::2", 0x12, "cm")}),
    "rxe-6.1.0-writebw-R-v4.pcap": (
        {"rocev2": 89, "cm": 10},
        {("10.99.0.1", 0x13, "10.99.0.2", 0x13, "cm"), ("10.99.0.1", 0x14, "10.99.0.2", 0x14, "cm")}),
    "rxe-7.3.4-readbw-v4.pcap": ({"rocev2": 25}, {("10.99.0.1", 0x17, "10.99.0.2", 0x17, "ack")}),
}

failures = 0


def check(name: str, good: bool, detail: object = "") -> None:
    global failures
    failures += not good
    print(f"ok - {name}" if good else f"not ok - {name}: {detail}", flush=True)


class Answer(NamedTuple):
    """What a run of the command left."""

    code: int
    out: str
    err: str

    def doc(self) -> dict:
        return json.loads(self.out)


def analyze(*argv: object, stdin: Optional[bytes] = None, **rest) -> Answer:
    done = subprocess.run([QUENCH, "analyze", *map(str, argv)], input=stdin, capture_output=True, **rest)
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


def report(*argv: object, **rest) -> dict:
    """The JSON document of a run that must succeed."""
    answer = analyze("--json", *argv, **rest)
    if answer.code:
        raise RuntimeError(f"analyze {argv}: {answer.code} {answer.err}")
    return answer.doc()


def frame_rows(directory: Path, capture: Path) -> list[dict]:
    """The lines of --frames."""
    path = directory / "frames.csv"
    answer = analyze("--frames", path, capture)
    if answer.code:
        raise RuntimeError(answer.err)
    return list(csv.DictReader(path.open()))


def vector_rows(name: str) -> list[list[str]]:
    lines = (VECTORS / name).read_text().splitlines()
    return [line.split() for line in lines if line and not line.startswith("#")]


def pcap(frames: list[bytes], link: int = ETHERNET, magic: int = NANO, order: str = "<",
         step_ns: int = 10_000, wire: Optional[list[int]] = None) -> bytes:
    """A capture file: frames one step apart."""
    out = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262144, link)]
    for number, frame in enumerate(frames):
        fraction = number * step_ns // (1 if magic == NANO else 1000)
        length = wire[number] if wire else len(frame)
        unit = 10**9 if magic == NANO else 10**6
        at = START_S + fraction // unit, fraction % unit
        out.append(struct.pack(order + "IIII", *at, len(frame), length) + frame)
    return b"".join(out)


def pcapng_block(order: str, kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    length = len(body) + 12
    return struct.pack(order + "II", kind, length) + body + struct.pack(order + "I", length)


def pcapng(frames: list[bytes], link: int = ETHERNET, order: str = "<", step_ns: int = 10_000) -> bytes:
    resolution = struct.pack(order + "HHB3xHH", 9, 1, 9, 0, 0)  # if_tsresol: nanoseconds
    out = [pcapng_block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1)),
           pcapng_block(order, 1, struct.pack(order + "HHI", link, 0, 262144) + resolution)]
    for number, frame in enumerate(frames):
        at = START_S * 10**9 + number * step_ns
        head = struct.pack(order + "IIIII", 0, at >> 32, at & 0xFFFFFFFF, len(frame), len(frame))
        out.append(pcapng_block(order, 6, head + frame))
    return b"".join(out)


def frames_of(path: Path) -> list[bytes]:
    return [bytes(data) for data, _ in RawPcapReader(str(path))]


def scapy_icrc(frame: bytes) -> Optional[bytes]:
    """The ICRC by scapy, which knows IPv4 and no tunnels."""
    packet = Ether(check_cnps.without_padding(frame))
    return packet[BTH].compute_icrc(b"") if IP in packet and BTH in packet else None


# Against the oracles


def tshark_rows(capture: Path) -> list[tuple[str, str, str]]:
    """Opcode, QPN and PSN of each frame as tshark reads them; empty where it sees no BTH."""
    fields = ["infiniband.bth.opcode", "infiniband.bth.destqp", "infiniband.bth.psn"]
    command = ["tshark", "-n", "-r", capture, "-d", "udp.port==4791,infiniband", "-T", "fields",
               "-E", "separator=,", *(word for field in fields for word in ("-e", field))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [tuple(line.split(",")) for line in done.stdout.splitlines()]


def check_tshark(name: str, rows: list[dict], capture: Path) -> None:
    theirs, wrong = tshark_rows(capture), []
    for row, (opcode, qpn, psn) in zip(rows, theirs):
        ours = (row["opcode"], row["dst_qpn"], row["psn"]) if row["kind"] in HAS_BTH else None
        read = (opcode, str(int(qpn, 16)), psn) if opcode else None
        if ours != read:
            wrong.append((row["frame"], row["kind"], ours, read))
    good = len(rows) == len(theirs) and not wrong
    check(f"tshark agrees on opcode, QPN and PSN: {name}, {len(rows)} frames", good, wrong[:3])


def native_verdict(record: bytes) -> str:
    """The ICRC of native InfiniBand in an ERF record (IBTA vol. 1, 7.8.1): over the LRH, of which the
    virtual lane is masked, or over ones in its place when a GRH follows, masked as for RoCEv1."""
    packet = bytearray(record[16:])
    bth = 48 if packet[1] & 3 == 3 else 8
    end = (struct.unpack_from("!H", packet, 4)[0] & 0x7FF) * 4
    carried = bytes(packet[end - 4 : end])
    if bth == 48:
        packet[:8] = b"\xff" * 8
        packet[8:16] = bytes([packet[8] | 0x0F]) + b"\xff" * 3 + packet[12:15] + b"\xff"
    packet[0] |= 0xF0
    packet[bth + 4] = 0xFF
    return "ok" if struct.pack("<I", zlib.crc32(packet[: end - 4])) == carried else "bad"


def verdict(row: dict, frame: bytes) -> str:
    """What an oracle says of a frame that has a BTH."""
    if row["kind"] == "infiniband":
        return native_verdict(frame)
    should = icrc.icrc(frame)
    if should is None:
        return "unverifiable"
    return "ok" if should == icrc.carried(frame) else "bad"


def check_icrcs(name: str, rows: list[dict], frames: list[bytes]) -> None:
    with_bth = [(row, frame) for row, frame in zip(rows, frames) if row["kind"] in HAS_BTH]
    wrong = [row["frame"] for row, frame in with_bth if row["icrc"] != verdict(row, frame)]
    wrong += [row["frame"] for row in rows if row["kind"] not in HAS_BTH and row["icrc"] != "none"]
    for row, frame in with_bth:
        known_to_scapy = row["icrc"] != "unverifiable" and row["kind"] != "infiniband" and not row["tunnel"]
        theirs = scapy_icrc(frame) if known_to_scapy else None
        if theirs is not None and (theirs == icrc.carried(frame)) != (row["icrc"] == "ok"):
            wrong.append(row["frame"])
    check(f"scapy and icrc.py agree on every ICRC: {name}, {len(with_bth)} ICRCs", not wrong, wrong[:5])


def check_counts(name: str, doc: dict) -> None:
    kinds, pairs = EXPECTED[name]
    got = {kind: count for kind, count in doc["frames"].items() if count and kind != "total"}
    check(f"frames of {name}", got == kinds and doc["frames"]["total"] == sum(kinds.values()), doc["frames"])
    roce = sum(kinds.get(kind, 0) for kind in HAS_BTH)
    right = {"checked": roce, "ok": roce, "bad": 0, "unverifiable": 0}
    check(f"ICRCs of {name}", doc["icrc"] == right, doc["icrc"])
    errors = [finding for finding in doc["findings"] if finding["severity"] == "error"]
    check(f"no errors in {name}", not errors, errors)
    learned = {(f["dst"], f["dst_qpn"], f["src"], f["peer_qpn"], f["pair_source"])
               for f in doc["flows"] if f["dst"] < f["src"]}
    check(f"QP pairs of {name}", learned == pairs, learned)


def check_captures(directory: Path) -> None:
    names = {path.name for path in CAPTURES.glob("*.pcap*")}
    check("every capture has its expected counts", names == set(EXPECTED), names ^ set(EXPECTED))
    for name in sorted(names):
        path = CAPTURES / name
        check_counts(name, report(path))
        rows = frame_rows(directory, path)
        check_tshark(name, rows, path)
        check_icrcs(name, rows, frames_of(path))


def check_vectors(directory: Path) -> None:
    """The frames of the vector files, in one capture."""
    for name in ("icrc.txt", "cm.txt", "frames.txt", "formats.txt"):
        # start frames of MPA last: what they make of a connection would change other rows
        rows = sorted(vector_rows(name), key=lambda row: row[1] == "iwarp")
        frames = [bytes.fromhex(row[-1]) for row in rows]
        path = directory / "vectors.pcap"
        path.write_bytes(pcap(frames))
        got = frame_rows(directory, path)
        if name != "cm.txt":
            wrong = [(r[0], g["kind"]) for r, g in zip(rows, got) if r[1] != g["kind"]]
            check(f"kinds of {name}", len(got) == len(frames) and not wrong, wrong[:3])
        check_icrcs(name, got, frames)
        if name in ("icrc.txt", "cm.txt"):  # the others break frames in which tshark reads on
            check_tshark(name, got, path)


# iWARP


def tshark_opcodes(capture: Path) -> dict[tuple, Counter[str]]:
    """RDMAP opcodes by source and destination port, as tshark reads them."""
    fields = ("tcp.srcport", "tcp.dstport", "iwarp_rdma.opcode")
    command = ["tshark", "-n", "-r", capture, "-T", "fields", "-E", "separator=;",
               *(word for field in fields for word in ("-e", field))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[tuple, Counter[str]] = {}
    for line in done.stdout.splitlines():
        src, dst, opcodes = line.split(";")
        names = [iwarp.NAMES[int(word, 16)] for word in opcodes.split(",") if word]
        found.setdefault((int(src), int(dst)), Counter()).update(names)
    return found


def tshark_crcs(capture: Path) -> tuple[int, int]:
    """FPDUs whose CRC is right and wrong to tshark."""
    command = ["tshark", "-n", "-r", capture, "-O", "iwarp_mpa", "-V"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return text.count("(Good CRC32)"), text.count("(Bad CRC32")


def start_told(connection: iwarp.Connection, frame: str) -> dict:
    flags, revision = connection.starts[frame]
    words = {"markers": iwarp.MARKERS, "crc": iwarp.CRC, "reject": iwarp.REJECT}
    return {"frame": frame, "revision": revision, **{word: bool(flags & bit) for word, bit in words.items()}}


def check_iwarp_way(way: dict, stream: iwarp.Stream, start: dict, theirs: Optional[Counter]) -> None:
    name = f"iWARP {way['src']}:{way['src_port']} > {way['dst']}:{way['dst_port']}"
    check(f"{name}: start frame", way["start"] == start, way)
    check(f"{name}: opcodes", way["opcodes"] == dict(stream.opcodes), (way["opcodes"], stream.opcodes))
    if theirs is not None:
        same = way["opcodes"] == dict(theirs)
        check(f"{name}: opcodes as tshark reads them", same, (way["opcodes"], theirs))


def check_iwarp(directory: Path) -> None:
    """Opcodes of every connection against what was built, and where it can read them against tshark."""
    path = directory / "iwarp.pcap"
    connections = list(iwarp.connections())
    path.write_bytes(pcap([frame for connection in connections for frame in connection.frames]))
    doc, theirs = report(path), tshark_opcodes(path)
    ways = {(way["src_port"], way["dst_port"]): way for way in doc["iwarp"]}
    check("iWARP: every connection, both ways", len(ways) == 2 * len(connections), sorted(ways))
    segments = sum(len(connection.frames) - 2 for connection in connections)  # before MPA is no iWARP
    check("iWARP: every segment from the start frame on", doc["frames"]["iwarp"] == segments, doc["frames"])
    for connection in connections:
        for stream, frame in ((connection.a, "request"), (connection.b, "reply")):
            read = theirs[stream.ports] if connection.known_to_tshark else None
            check_iwarp_way(ways[stream.ports], stream, start_told(connection, frame), read)
    text = analyze(path).out
    more = f"... and {2 * len(connections) - 20} more directions of iWARP connections"
    check("text: says how many iWARP connections it leaves out", more in text, text)
    known = [c for c in connections if c.known_to_tshark and c.starts["request"][0] & iwarp.CRC]
    path.write_bytes(pcap([frame for connection in known for frame in connection.frames]))
    text = analyze(path).out
    words = ("iWARP from", "request,markers,crc", "reply,crc,reject", "terminate 1")
    check("text: has iWARP connections with opcodes and flags", all(word in text for word in words), text)
    good, bad = tshark_crcs(path)
    sent = sum(sum(stream.opcodes.values()) for c in known for stream in (c.a, c.b))
    check("iWARP: tshark finds every CRC that was built right", (good, bad) == (sent, 0), (good, bad, sent))


# Ports


def check_ports(directory: Path) -> None:
    """Each port option: what is found with it, and is not without, or the other way round."""
    files = ("frames.txt", "formats.txt")
    rows = {row[0]: bytes.fromhex(row[-1]) for name in files for row in vector_rows(name)}
    path = directory / "ports.pcap"

    def found(frame: bytes, *options: object) -> tuple[str, str]:
        path.write_bytes(pcap([frame]))
        doc = report(*options, path)
        kind = next(kind for kind, count in doc["frames"].items() if count and kind != "total")
        return kind, next((name for name, count in doc["tunnels"].items() if count), "")

    roce, vxlan, geneve = rows["v4_send_only"], rows["vxlan_v4"], rows["geneve_v4"]
    segment = iwarp.talk(iwarp.Connection(1, 4, 0, 0)).frames[4]
    cases: list[tuple[bytes, list, tuple[str, str]]] = [
        (roce, [], ("rocev2", "")), (roce, ["--roce-port", 4792], ("other", "")),
        (to_port(roce, 4792), [], ("other", "")),
        (vxlan, [], ("rocev2", "vxlan")), (vxlan, ["--vxlan-port", 5000], ("other", "")),
        (vxlan, ["--vxlan-port", 5000, "--vxlan-port", 4789], ("rocev2", "vxlan")),
        (to_port(vxlan, 5000), ["--vxlan-port", 5000], ("rocev2", "vxlan")),
        (geneve, [], ("rocev2", "geneve")), (geneve, ["--geneve-port", "off"], ("other", "")),
        (to_port(geneve, 0x1234), ["--geneve-port", "0x1234"], ("rocev2", "geneve")),
        (segment, [], ("other", "")), (segment, ["--iwarp-port", 9, "--iwarp-port", 7471], ("iwarp", "")),
        (segment, ["--iwarp-port", iwarp.FIRST_PORT + 1], ("iwarp", "")),
        (segment, ["--iwarp-port", 9], ("other", "")),
    ]  # fmt: skip
    for frame, options, right in cases:
        got = found(frame, *options)
        check(f"ports: {' '.join(map(str, options)) or 'none given'}: {' in '.join(filter(None, right))}",
              got == right, got)  # fmt: skip
    moved = to_port(roce, 4792)
    path.write_bytes(pcap([moved]))
    doc = report("--roce-port", 4792, path)
    good = doc["frames"]["rocev2"] == 1 and doc["icrc"]["checked"] == 1
    check("ports: --roce-port 4792: rocev2, with its ICRC judged", good, (doc["frames"], doc["icrc"]))


POLICY = """version: 1
classes:
  - {name: roce, priority: 3, dscp: [26], pcp: [3], kind: lossless, limit: 1MiB}
  - {name: bulk, priority: 1, dscp: [10], pcp: [1], kind: lossy, limit: 1MiB}
ports:
  - {name: eth0, role: monitor}
protocols: {roce_port: 4792, vxlan_ports: [5000], iwarp_ports: [7471]}
"""


def check_policy(directory: Path) -> None:
    """-c: what the policy makes of RoCE, and its ports, over which options go."""
    rows = {row[0]: bytes.fromhex(row[-1]) for row in vector_rows("frames.txt") + vector_rows("formats.txt")}
    good, bad, path = directory / "good.yaml", directory / "bad.yaml", directory / "policy.pcap"
    good.write_text(POLICY)
    bad.write_text(POLICY + "nonsense: 1\n")
    by_dscp = {"roce": 26, "bulk": 10, "none": 46}
    frames = {name: Ether(rows["v4_send_only"]) for name in by_dscp}
    for name, dscp in by_dscp.items():
        frames[name][IP].tos = dscp << 2 | 2
        del frames[name][IP].chksum
    tagged = Ether(bytes(frames["roce"])[:12] + bytes.fromhex("81002000") + bytes(frames["roce"])[12:])
    codes = ("roce_unclassed", "roce_lossy", "trust_disagrees")

    def found(*sent: Ether) -> dict[str, list[int]]:
        path.write_bytes(pcap([bytes(frame) for frame in sent]))
        doc = report("-c", good, "--roce-port", 4791, path)
        return {row["code"]: row["frames"] for row in doc["findings"] if row["code"] in codes}

    for sent, right in (
        ([frames["roce"]], {}),
        ([frames["roce"], frames["bulk"]], {"roce_lossy": [2]}),
        ([frames["none"], frames["roce"]], {"roce_unclassed": [1]}),
        ([frames["roce"], tagged], {"trust_disagrees": [2]}),
    ):
        got = found(*sent)
        check(f"policy: {len(sent)} frames: {', '.join(right) or 'nothing to say'}", got == right, got)
    roce, vxlan = rows["v4_send_only"], rows["vxlan_v4"]
    path.write_bytes(pcap([roce, to_port(roce, 4792), to_port(vxlan, 5000)]))
    kinds = [report(*options, path)["frames"]["rocev2"] for options in
             ([], ["-c", good], ["-c", good, "--roce-port", 4791])]  # fmt: skip
    check("policy: its ports, and options over them", kinds == [1, 1, 2], kinds)
    got = analyze("-c", bad, path)
    check("policy: with a fault", got.code == 3 and f"{bad}:8:1: nonsense" in got.err, got)


def to_port(frame: bytes, port: int) -> bytes:
    """An untagged frame of UDP over IPv4 without options, to another port."""
    return frame[:36] + struct.pack("!H", port) + frame[38:]


# Formats


def sll(frame: bytes) -> bytes:
    return struct.pack("!HHH", 0, 1, 6) + frame[6:12] + b"\0\0" + frame[12:14] + frame[14:]


def sll2(frame: bytes) -> bytes:
    return frame[12:14] + struct.pack("!HIHBB", 0, 2, 1, 0, 6) + frame[6:12] + b"\0\0" + frame[14:]


def erf(frame: bytes, kind: int = 2, extensions: int = 0) -> bytes:
    flag = 0x80 if extensions else 0
    more = b"".join(bytes([0x80 if i + 1 < extensions else 0]) + bytes(7) for i in range(extensions))
    length = 16 + len(more) + 2 + len(frame)
    head = struct.pack("<Q", 0) + struct.pack("!BBHHH", kind | flag, 0, length, 0, len(frame))
    return head + more + b"\0\0" + frame


def told(doc: dict) -> tuple:
    """What does not depend on the file's form."""
    flows = [{k: v for k, v in flow.items()} for flow in doc["flows"]]
    return doc["frames"], doc["icrc"], flows, doc["capture"]["duration_s"], doc["capture"]["start_ns"]


def flow_bytes(doc: dict) -> set[tuple]:
    return {(flow["src"], flow["dst_qpn"], flow["peer_qpn"], flow["bytes"]) for flow in doc["flows"]}


def check_formats(directory: Path) -> None:
    frames = frames_of(CAPTURES / "rxe-6.1.0-writebw-R-v4.pcap")
    reference = pcap(frames)
    path = directory / "t.pcap"
    path.write_bytes(reference)
    right = told(report(path))
    check("format pcap: nanoseconds are kept", round(right[3] * 1e9) == (len(frames) - 1) * 10_000, right[3])
    forms: dict[str, bytes] = {
        "pcap big-endian": pcap(frames, order=">"),
        "pcap microseconds": pcap(frames, magic=MICRO),
        "pcap microseconds, big-endian": pcap(frames, magic=MICRO, order=">"),
        "pcapng": pcapng(frames),
        "pcapng big-endian": pcapng(frames, order=">"),
        "pcap gzip": gzip.compress(reference),
        "pcapng gzip": gzip.compress(pcapng(frames)),
        "pcap gzip in two members": gzip.compress(reference[:5000]) + gzip.compress(reference[5000:]),
        "Linux cooked": pcap([sll(f) for f in frames], link=SLL),
        "Linux cooked v2": pcap([sll2(f) for f in frames], link=SLL2),
        "ERF": pcap([erf(f) for f in frames], link=ERF),
        "ERF, colour and extension headers": pcap([erf(f, 11, 3) for f in frames], link=ERF),
        "ERF in pcapng": pcapng([erf(f) for f in frames], link=ERF),
    }
    for name, content in forms.items():
        path.write_bytes(content)
        got = analyze("--json", path)
        check(f"format {name}", got.code == OK and told(got.doc()) == right, got.err or got.out[:300])
    path.write_bytes(gzip.compress(pcap([bytes(9000)] * 1000)))
    doc = report(path)
    whole = doc["frames"]["total"] == 1000 and doc["capture"]["complete"]
    check("format gzip, 9 MB out of a few KB", whole, doc)
    for name, content in (("pcap", reference), ("gzip", forms["pcap gzip"])):
        got = analyze("--json", "-", stdin=content)
        check(f"format {name} from standard input", got.code == OK and told(got.doc()) == right, got.err)


def check_infiniband_link(directory: Path) -> None:
    path = directory / "ib.pcap"
    records = frames_of(CAPTURES / "infiniband.pcap")
    path.write_bytes(pcap([record[16:] for record in records], link=INFINIBAND))
    doc, same = report(path), report(CAPTURES / "infiniband.pcap")
    alike = told(doc)[:2] == told(same)[:2] and flow_bytes(doc) == flow_bytes(same)
    check("format InfiniBand: as in ERF records", alike, doc["frames"])


def check_pause_in_cooked(directory: Path) -> None:
    """Cooked headers have lost the group that MAC control went to."""
    pfc = bytes.fromhex("0180c2000001" "020000000009" "8808" "0101" "0008" "000000000000ffff" + "00" * 34)
    for name, wrap, link in (("SLL", sll, SLL), ("SLL2", sll2, SLL2)):
        record = bytearray(wrap(pfc))
        record[1 if link == SLL else 10] = 2  # multicast
        (directory / "t.pcap").write_bytes(pcap([bytes(record)], link=link))
        doc = report(directory / "t.pcap")
        good = doc["frames"]["pfc"] == 1 and doc["pause"][0]["src"] == "02:00:00:00:00:09"
        check(f"PFC in {name}", good, doc["frames"])


def check_refusals(directory: Path) -> None:
    for number, word in ((105, "802.11"), (101, "Raw IP"), (50, "PPP"), (228, "IPv4"), (299, "unknown")):
        path = directory / f"link-{number}.pcap"
        path.write_bytes(pcap([bytes(64)], link=number))
        got = analyze(path)
        named = all(text in got.err for text in (str(path), word, str(number), "Ethernet"))
        check(f"refuses link type {number} by name", got.code == FAILED and not got.out and named, got)


def check_damage(directory: Path) -> None:
    frames = frames_of(CAPTURES / "rxe-6.1.0-rping-v4.pcap")
    whole = pcap(frames)
    path = directory / "damaged.pcap"
    rows: list[tuple[str, bytes, int]] = [
        ("cut in a frame", whole[:-3], len(frames) - 1),
        ("cut in a record's header", whole[: -len(frames[-1]) - 5], len(frames) - 1),
        ("gzip cut", gzip.compress(whole)[:-40], -1),
        ("gzip cut behind its data", gzip.compress(whole)[:-8], len(frames)),
        ("gzip damaged", gzip.compress(whole)[:-200] + b"\xff" * 9 + gzip.compress(whole)[-191:], -1),
        ("pcapng cut", pcapng(frames)[:-9], len(frames) - 1),
        ("a length of 4 GB", whole[:32] + b"\xff\xff\xff\xff" + whole[36:], 0),
    ]
    for name, content, read in rows:
        path.write_bytes(content)
        got = analyze("--json", path)
        good = got.code == FAILED and str(path) in got.err and got.err.count("\n") == 1
        doc = got.doc() if got.out else {"frames": {"total": None}, "capture": {"complete": None}}
        good = good and doc["capture"]["complete"] is False and read in (-1, doc["frames"]["total"])
        check(f"damage, {name}: told, and what came before is shown", good, got)


def check_unreadable(directory: Path) -> None:
    for name, content in (("empty", b""), ("text", b"hello, world\n" * 9), ("header cut", pcap([])[:23])):
        path = directory / "bad.pcap"
        path.write_bytes(content)
        got = analyze("--json", path)
        check(f"unreadable, {name}", got.code == FAILED and not got.out and str(path) in got.err, got)
    for path in (directory, directory / "missing.pcap"):
        got = analyze("--json", path)
        check(f"unreadable, {path.name}", got.code == FAILED and not got.out and str(path) in got.err, got)
    got = analyze("-i", "nosuchport0")
    check("no such port", got.code == FAILED and "nosuchport0" in got.err and not got.out, got)
    capture = CAPTURES / "dcb_pfc.pcap"
    for option in ("--csv", "--frames", "--plot"):
        got = analyze(option, "/proc/nowhere/x", capture)
        check(f"{option} that cannot be written", got.code == FAILED and "/proc/nowhere/x" in got.err, got)
    with open("/dev/full", "w") as full:
        done = subprocess.run([QUENCH, "analyze", "--json", capture], stdout=full, stderr=subprocess.PIPE)
    check("a report that cannot be written", done.returncode == FAILED and b"written" in done.stderr, done)


def check_usage() -> None:
    capture = str(CAPTURES / "dcb_pfc.pcap")
    for words in ([], [capture, capture], [capture, "-i", "lo"], ["--interval", "5", capture], ["--nonsense"],
                  ["--interval", "0ms", capture], ["--interval", "3601s", capture],
                  ["--duration", "1s", capture], ["--count", "-1", capture],
                  ["--speed", "fast", capture], ["--roce-port", "0", capture],
                  ["--roce-port", "65536", capture], ["--roce-port", "4791x", capture],
                  ["--roce-port", "off", capture], ["--vxlan-port", "-1", capture],
                  ["--vxlan-port", "", capture], ["--geneve-port", "6081.5", capture],
                  ["--iwarp-port", "1K", capture], ["--iwarp-port", "7", "--iwarp-port", "7", capture],
                  [word for port in range(1, 6) for word in ("--iwarp-port", str(port))] + [capture],
                  [word for port in range(1, 6) for word in ("--vxlan-port", str(port))] + [capture]):
        got = analyze(*words)
        named = not words or "port" not in words[0] or f"{words[0]}: " in got.err  # by the option
        good = got.code == USAGE and not got.out and bool(got.err) and named
        check(f"usage: analyze {' '.join(words)}", good, got)
    check("usage: --help", analyze("--help").code == OK)
    check("--count stops", report("--count", 2, capture)["frames"]["total"] == 2)


# Outputs


def damaged_icrc_capture(directory: Path) -> Path:
    """rping with one frame damaged behind the capture's back, and one cut by it."""
    frames = frames_of(CAPTURES / "rxe-6.1.0-rping-v4.pcap")
    frames[11] = frames[11][:-9] + b"\x55" + frames[11][-8:]
    wire = [len(frame) for frame in frames]
    frames[9] = frames[9][:60]
    path = directory / "findings.pcap"
    path.write_bytes(pcap(frames, wire=wire))
    return path


def check_json(directory: Path) -> None:
    doc = report(damaged_icrc_capture(directory))
    check("JSON: frames has every promised key", PROMISED <= set(doc["frames"]), doc["frames"])
    kinds = sum(count for kind, count in doc["frames"].items() if kind != "total")
    check("JSON: kinds add up", kinds == doc["frames"]["total"] == 41, doc["frames"])
    check("JSON: icrc", doc["icrc"] == {"checked": 40, "ok": 39, "bad": 1, "unverifiable": 1}, doc["icrc"])
    keyed = all(FLOW_KEYS <= set(flow) for flow in doc["flows"])
    check("JSON: flows have every promised key", keyed, doc["flows"])
    found = {finding["code"]: finding for finding in doc["findings"]}
    bad, cut = found.get("icrc_bad", {}), found.get("snaplen", {})
    right = bad.get("frames") == [12] and bad["severity"] == "error"
    check("JSON: a bad ICRC is an error with its frame", right, found)
    right = cut.get("frames") == [10] and cut["count"] == 1
    check("JSON: a cut frame is told with its frame", right, found)
    check("JSON: findings come by severity", doc["findings"][0]["code"] == "icrc_bad", doc["findings"])
    text = analyze(damaged_icrc_capture(directory)).out
    said = all(finding["text"] in text for finding in doc["findings"])
    check("text: has every finding and flow", said and "10.99.0.2" in text and "0x000011" in text, text)


def check_series(directory: Path) -> None:
    path, capture = directory / "series.csv", CAPTURES / "rxe-6.1.0-writebw-R-v4.pcap"
    doc = report("--csv", path, "--interval", "1ms", capture)
    rows = list(csv.DictReader(path.open()))
    for flow in doc["flows"]:
        who = flow["src"], flow["dst"], str(flow["dst_qpn"])
        mine = [row for row in rows if (row["src"], row["dst"], row["dst_qpn"]) == who]
        sums = [sum(int(row[key]) for row in mine) for key in ("packets", "bytes", "ce", "cnp")]
        rates = all(int(row["rate_bps"]) == int(row["bytes"]) * 8000 for row in mine)
        right = [flow[key] for key in ("packets", "bytes", "ce", "cnp")]
        check(f"series of {' > '.join(who)} adds up", rates and sums == right, (sums, right))
    whole = [row for row in rows if row["flow"] == "0"]
    times = [row["time_s"] for row in whole]
    packets = sum(int(row["packets"]) for row in whole)
    check("series of the whole capture adds up", packets == doc["frames"]["rocev2"], whole)
    check("series is in order, each interval once", times == sorted(set(times)), times)


def check_plots(directory: Path) -> None:
    capture = CAPTURES / "rxe-7.3.4-readbw-v4.pcap"
    plots = directory / "plots with a ' in them"
    got = analyze("--plot", plots, "--interval", "100us", capture)
    names = sorted(path.name for path in plots.iterdir()) if plots.is_dir() else []
    images = [name for name in names if (plots / name).read_bytes().startswith(b"\x89PNG")]
    good = got.code == OK and images == ["ce.png", "cnp.png", "pause.png", "rate.png"] and not got.err
    check("--plot draws four PNGs", good, (got.code, got.err, names))
    got = analyze("--plot", plots, capture, env={"PATH": "/nonexistent"})
    check("--plot without gnuplot says so", got.code == FAILED and "gnuplot is not installed" in got.err, got)


def roce_frame(qpn: int, psn: int = 0) -> bytes:
    """A SEND_ONLY of four bytes to the QP."""
    transport = struct.pack("!BBHII", 4, 0, 0xFFFF, qpn, psn) + b"data"
    length = 8 + len(transport) + 4
    ip = struct.pack("!BBHHHBBH", 0x45, 0x6A, 20 + length, 0, 0x4000, 64, 17, 0)
    ip += bytes([10, 0, 0, 1, 10, 0, 0, 2])
    masked = b"\xff" * 8 + ip[:1] + b"\xff" + ip[2:8] + b"\xff" + ip[9:10] + b"\xff\xff" + ip[12:]
    masked += struct.pack("!HHHH", 0xC000, 4791, length, 0xFFFF) + transport[:4] + b"\xff" + transport[5:]
    udp = struct.pack("!HHHH", 0xC000, 4791, length, 0)
    ethernet = bytes.fromhex("0200000000020200000000010800")
    return ethernet + ip + udp + transport + struct.pack("<I", zlib.crc32(masked))


def check_bounded_memory(directory: Path) -> None:
    """More flows than there is room for, in little memory: the rest is counted as missed."""
    flows, room = 80_000, 65_536
    path = directory / "many.pcap"
    path.write_bytes(pcap([roce_frame(qpn) for qpn in range(2, 2 + flows)]))

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20))

    sanitized = "san" in QUENCH.parts  # whose shadow memory has no such limit
    doc = report(path, preexec_fn=None if sanitized else limit)
    got = len(doc["flows"]), doc["missed"], doc["icrc"]["ok"]
    check(f"{flows} flows: {room} kept, the others missed", got == (room, flows - room, flows), got)


def check_progress() -> None:
    """Shown after two seconds, on request, where the standard error is no terminal."""
    content = pcap([roce_frame(2, psn) for psn in range(10_000)])
    job = subprocess.Popen([QUENCH, "analyze", "--progress", "--json", "-"], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert job.stdin
    job.stdin.write(content[: len(content) // 10])
    job.stdin.flush()
    time.sleep(2.2)
    out, err = job.communicate(content[len(content) // 10 :])
    good = b"million/s" in err and json.loads(out)["frames"]["total"] == 10_000
    check("progress is shown after two seconds", good, err)
    quiet = analyze("--json", "-", stdin=content)
    check("no progress before", quiet.err == "", quiet.err)


# A port

SENDER = """
import socket, sys
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(("v0", 0))
for line in sys.stdin:
    out.send(bytes.fromhex(line))
"""


class Cable:
    """Two ends of a veth pair in a namespace of their own."""

    def __init__(self) -> None:
        self.namespace = f"quench-analyze-{os.getpid()}"

    def __enter__(self) -> "Cable":
        for command in (f"netns add {self.namespace}",
                        f"-n {self.namespace} link add v0 type veth peer name v1"):
            subprocess.run(["ip", *command.split()], check=True)
        for end in ("v0", "v1"):
            self.run("sysctl", "-q", "-w", f"net.ipv6.conf.{end}.disable_ipv6=1")
            self.run("ip", "link", "set", end, "up")
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["ip", "netns", "del", self.namespace], check=False)

    def command(self, *argv: object) -> list[str]:
        return ["ip", "netns", "exec", self.namespace, *map(str, argv)]

    def run(self, *argv: object) -> str:
        return subprocess.run(self.command(*argv), check=True, capture_output=True, text=True).stdout

    def listen(self, *argv: object) -> subprocess.Popen:
        """Start the command and wait until it listens: its socket is there."""
        command = self.command(QUENCH, "analyze", "--json", "-i", "v1", *argv)
        job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 10
        while "0003" not in self.run("cat", "/proc/net/packet") and job.poll() is None:
            if time.monotonic() > deadline:
                raise RuntimeError("analyze does not listen")
            time.sleep(0.02)
        return job

    def send(self, frames: list[bytes]) -> None:
        lines = "".join(frame.hex() + "\n" for frame in frames)
        subprocess.run(self.command(PYTHON, "-c", SENDER), input=lines, text=True, check=True)

    def sent_by_v1(self) -> int:
        return json.loads(self.run("ip", "-j", "-s", "link", "show", "v1"))[0]["stats64"]["tx"]["packets"]


def check_port() -> None:
    frames = frames_of(CAPTURES / "rxe-6.1.0-writebw-R-v4.pcap")
    right = report(CAPTURES / "rxe-6.1.0-writebw-R-v4.pcap")
    with Cable() as cable:
        job = cable.listen("--count", len(frames))
        cable.send(frames)
        out, err = job.communicate(timeout=20)
        doc = json.loads(out)
        alike = [doc[key] == right[key] for key in ("frames", "icrc", "cm")]
        good = all(alike) and flow_bytes(doc) == flow_bytes(right) and job.returncode == OK
        check("port: the same as from a file", good, (doc, err))
        check("port: its speed is known", doc["capture"]["speed_bps"] == 10**10, doc["capture"])
        check("port: nothing was sent", cable.sent_by_v1() == 0, cable.sent_by_v1())
        started = time.monotonic()
        job = cable.listen("--duration", "300ms")
        job.communicate(timeout=20)
        took = time.monotonic() - started
        check("port: --duration ends it, without a frame", job.returncode == OK and took < 10, took)
        job = cable.listen()
        cable.send(frames[:5])
        job.send_signal(signal.SIGINT)
        out, err = job.communicate(timeout=20)
        good = job.returncode == OK and "flows" in json.loads(out)
        check("port: Ctrl-C ends it with its report", good, err)


def main() -> int:
    checks: list[Callable] = [check_captures, check_vectors, check_iwarp, check_ports, check_policy,
                              check_formats, check_infiniband_link, check_pause_in_cooked, check_refusals,
                              check_damage, check_unreadable, check_json, check_series, check_plots, check_bounded_memory]
    with tempfile.TemporaryDirectory() as name:
        for one in checks:
            one(Path(name))
    check_usage()
    check_progress()
    check_port()
    print(f"{failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
