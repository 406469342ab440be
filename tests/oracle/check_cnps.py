#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Judge every CNP in capture files: its layout, its ICRC and the queue pair it names.

The layout is read by scapy, the ICRC computed by scapy (IPv4; its version 2.5 knows no other) and
by icrc.py. The QPN is checked against a pair file, a JSON list of
    {"a": "ip", "a_qpn": n, "b": "ip", "b_qpn": n}
with, if wanted, "a_port", "b_port" (the UDP source port of the data that a, b sends) and "pkey";
without one, pairs are learned from the CM REQ and REP messages in the captures. A CNP from X to
Y must name Y's QPN of a pair of X and Y, and carry the UDP source port of the data that Y sends
to X on that pair, where the pair file or data frames in the captures tell it.

Prints one JSON object. A CNP counts once under each heading where it fails:
    bad_icrc, bad_layout, bad_qpn (of the wrong host, or of no QP of these hosts), bad_udp_port,
    unknown_pair (these two hosts have no pair)
min_interval_us_per_qp is the least time between two CNPs to one QP within one capture, null when
no QP had two. Exit: 0 all right, 1 a CNP is bad, 2 a file cannot be read.
"""
import argparse
import ipaddress
import json
import logging
import struct
import sys
from collections import defaultdict
from pathlib import Path
from typing import Iterator, NamedTuple, Optional

logging.getLogger("scapy").setLevel(logging.CRITICAL)
from scapy.contrib.roce import BTH, CNPPadding  # noqa: E402
from scapy.layers.inet import IP, UDP  # noqa: E402
from scapy.layers.inet6 import IPv6  # noqa: E402
from scapy.layers.l2 import Ether  # noqa: E402

import icrc as icrc_oracle  # noqa: E402

LINKTYPE_ETHERNET = 1
OP_CNP, OP_UD_SEND_ONLY = 0x81, 0x64
TOS_CNP, TTL_CNP = 0xC0, 64
IP_LENGTH_CNP, UDP_LENGTH_CNP = 60, 40
FAULTS_MAX = 10
DETH_BYTES, MAD_BYTES, CM_CLASS, CM_REQ, CM_REP = 8, 256, 7, 0x10, 0x13


class BadCapture(Exception):
    pass


class Transport(NamedTuple):
    """What the QP bookkeeping needs of a RoCE frame."""

    src: bytes
    dst: bytes
    port: Optional[int]  # UDP source port; None behind a GRH
    bth: int


class Sight(NamedTuple):
    """Where a frame was first seen."""

    capture: str
    number: int


class Capture:
    """A classic pcap file of Ethernet frames."""

    MAGIC = {
        b"\xd4\xc3\xb2\xa1": ("<", 1000), b"\xa1\xb2\xc3\xd4": (">", 1000),
        b"\x4d\x3c\xb2\xa1": ("<", 1), b"\xa1\xb2\x3c\x4d": (">", 1),
    }  # fmt: skip

    def __init__(self, path: str):
        self.path = path
        self.data = Path(path).read_bytes()
        if len(self.data) < 24 or self.data[:4] not in self.MAGIC:
            raise BadCapture(f"{path}: not a classic pcap file")
        self.order, self.fraction_ns = self.MAGIC[self.data[:4]]
        (linktype,) = struct.unpack_from(self.order + "I", self.data, 20)
        if linktype & 0xFFFF != LINKTYPE_ETHERNET:
            raise BadCapture(f"{path}: link type {linktype & 0xffff}, not Ethernet")

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """(time in ns, frame) for each record. A file cut short ends the capture with an error."""
        record = struct.Struct(self.order + "IIII")
        at = 24
        while at < len(self.data):
            if at + 16 > len(self.data):
                raise BadCapture(f"{self.path}: ends within a record header")
            seconds, fraction, captured, _ = record.unpack_from(self.data, at)
            at += 16
            if at + captured > len(self.data):
                raise BadCapture(f"{self.path}: ends within a frame")
            yield seconds * 10**9 + fraction * self.fraction_ns, self.data[at : at + captured]
            at += captured


def find_transport(frame: bytes) -> Optional[Transport]:
    """Find the BTH by the headers that lead to it, whatever the lengths in them say: a CNP with
    wrong lengths must be judged, not overlooked."""
    try:
        ethertype, l3 = icrc_oracle.skip_tags(frame)
        if ethertype == icrc_oracle.ETHERTYPE_IPV4:
            if frame[l3 + 9] != icrc_oracle.PROTO_UDP:
                return None
            addresses, size, upper = l3 + 12, 4, l3 + 4 * (frame[l3] & 15)
        elif ethertype == icrc_oracle.ETHERTYPE_IPV6 and frame[l3 + 6] == icrc_oracle.PROTO_UDP:
            addresses, size, upper = l3 + 8, 16, l3 + 40
        elif ethertype == icrc_oracle.ETHERTYPE_ROCE_V1:
            addresses, size, upper = l3 + 8, 16, l3 + 40
        else:
            return None
        port = None
        if ethertype != icrc_oracle.ETHERTYPE_ROCE_V1:
            port, to = struct.unpack_from("!HH", frame, upper)
            if to != icrc_oracle.ROCE_PORT:
                return None
            upper += 8
    except (struct.error, IndexError):
        return None
    if upper + icrc_oracle.BTH_BYTES > len(frame):
        return None
    src = frame[addresses : addresses + size]
    return Transport(src, frame[addresses + size : addresses + 2 * size], port, upper)


class Pairs:
    """Which QPN of which host talks to which."""

    def __init__(self) -> None:
        self.qpns: dict[tuple[bytes, bytes], dict[int, int]] = defaultdict(dict)
        self.ports: dict[tuple[bytes, bytes, int], set[int]] = defaultdict(set)
        self.pkeys: dict[tuple[bytes, bytes, int], set[int]] = defaultdict(set)
        self.requests: dict[tuple[bytes, int], tuple[bytes, int, int]] = {}

    def add(self, a: bytes, a_qpn: int, b: bytes, b_qpn: int, pkey: int = 0xFFFF) -> None:
        self.qpns[a, b][a_qpn] = b_qpn
        self.qpns[b, a][b_qpn] = a_qpn
        self.pkeys[a, b, b_qpn].add(pkey)
        self.pkeys[b, a, a_qpn].add(pkey)

    def load(self, path: str) -> None:
        for row in json.loads(Path(path).read_text()):
            a = ipaddress.ip_address(row["a"]).packed
            b = ipaddress.ip_address(row["b"]).packed
            self.add(a, row["a_qpn"], b, row["b_qpn"], row.get("pkey", 0xFFFF))
            if "a_port" in row:
                self.ports[a, b, row["b_qpn"]].add(row["a_port"])
            if "b_port" in row:
                self.ports[b, a, row["a_qpn"]].add(row["b_port"])

    def learn_cm(self, frame: bytes, t: Transport) -> None:
        """Take a REQ into account, and with the REP that answers it, the pair (IBTA 12.6)."""
        mad = frame[t.bth + icrc_oracle.BTH_BYTES + DETH_BYTES :][:MAD_BYTES]
        if len(mad) < MAD_BYTES or mad[1] != CM_CLASS:
            return
        (attribute,) = struct.unpack_from("!H", mad, 16)
        local, remote = struct.unpack_from("!II", mad, 24)
        if attribute == CM_REQ:
            (pkey,) = struct.unpack_from("!H", mad, 72)
            self.requests[t.src, local] = t.dst, int.from_bytes(mad[56:59], "big"), pkey
        elif attribute == CM_REP and (t.dst, remote) in self.requests:
            responder, qpn, pkey = self.requests[t.dst, remote]
            if responder == t.src:
                self.add(t.dst, qpn, t.src, int.from_bytes(mad[36:39], "big"), pkey)

    def note_data(self, t: Transport, qpn: int, pkey: int) -> None:
        if t.port is not None:
            self.ports[t.src, t.dst, qpn].add(t.port)
            self.pkeys[t.src, t.dst, qpn].add(pkey)


class Traffic:
    """All that the captures hold, the CNPs as distinct frames with the number of each."""

    def __init__(self, pairs: Pairs, learn: bool):
        self.pairs, self.learn = pairs, learn
        self.count: dict[bytes, int] = defaultdict(int)
        self.first: dict[bytes, Sight] = {}
        self.min_interval_ns: Optional[int] = None

    def read(self, path: str) -> None:
        last: dict[tuple[bytes, bytes, bytes], int] = {}
        for number, (time_ns, frame) in enumerate(Capture(path).frames(), 1):
            t = find_transport(frame)
            if t is None:
                continue
            opcode, qpn = frame[t.bth], frame[t.bth + 5 : t.bth + 8]
            if opcode == OP_CNP:
                self.count[frame] += 1
                self.first.setdefault(frame, Sight(path, number))
                self.note_interval(last, (t.src, t.dst, qpn), time_ns)
            elif opcode == OP_UD_SEND_ONLY and qpn == b"\0\0\1":
                if self.learn:
                    self.pairs.learn_cm(frame, t)
            else:
                pkey = int.from_bytes(frame[t.bth + 2 : t.bth + 4], "big")
                self.pairs.note_data(t, int.from_bytes(qpn, "big"), pkey)

    def note_interval(self, last: dict, qp: tuple, time_ns: int) -> None:
        if qp in last:
            interval = time_ns - last[qp]
            if self.min_interval_ns is None or interval < self.min_interval_ns:
                self.min_interval_ns = interval
        last[qp] = time_ns


def field_faults(layer, name: str, wanted: dict) -> list[str]:
    """Which fields of a scapy layer differ from what they should be."""
    return [
        f"{name}.{field} is {getattr(layer, field)!r}, not {value!r}"
        for field, value in wanted.items()
        if getattr(layer, field) != value
    ]


def network_faults(packet, at_source: bool) -> list[str]:
    """The IP header of a CNP."""
    if IP in packet:
        ip = packet[IP]
        faults = field_faults(
            ip, "IP", {"ihl": 5, "tos": TOS_CNP, "len": IP_LENGTH_CNP, "id": 0, "flags": "DF", "frag": 0}
        )
        hops = ip.ttl
        fresh = ip.copy()
        fresh.chksum = None
        if IP(bytes(fresh)).chksum != ip.chksum:
            faults.append(f"IP header checksum is {ip.chksum:#x}, wrong")
    else:
        ip = packet[IPv6]
        faults = field_faults(ip, "IPv6", {"tc": TOS_CNP, "plen": UDP_LENGTH_CNP, "nh": 17})
        hops = ip.hlim
    if hops > TTL_CNP or (at_source and hops != TTL_CNP):
        faults.append(f"TTL is {hops}, not {TTL_CNP}")
    return faults


def layout_faults(frame: bytes, pkeys: set[int], at_source: bool) -> list[str]:
    """What scapy finds wrong with the CNP, its ICRC aside."""
    packet = Ether(frame)
    if UDP not in packet or BTH not in packet or not (IP in packet or IPv6 in packet):
        return ["scapy finds no IP/UDP/BTH in it"]
    faults = network_faults(packet, at_source)
    faults += field_faults(packet[UDP], "UDP", {"len": UDP_LENGTH_CNP, "chksum": 0, "dport": 4791})
    bth = packet[BTH]
    zero = ("solicited", "migreq", "padcount", "version", "fecn", "resv6", "ackreq", "resv7", "psn")
    faults += field_faults(bth, "BTH", {"opcode": OP_CNP, "becn": 1, **dict.fromkeys(zero, 0)})
    if bth.pkey != 0xFFFF and bth.pkey not in pkeys:
        faults.append(f"BTH.pkey is {bth.pkey:#x}, neither 0xffff nor the flow's")
    if not isinstance(bth.payload, CNPPadding) or bytes(bth.payload)[:16] != bytes(16):
        faults.append("the 16 reserved bytes are not there or not zero")
    return faults


def without_padding(frame: bytes) -> bytes:
    """The frame up to its ICRC: scapy counts Ethernet padding into its own."""
    span = icrc_oracle.locate(frame)
    return frame if span is None else frame[: span.end]


def icrc_faults(frame: bytes) -> list[str]:
    """The ICRC as icrc.py and, over IPv4, scapy compute it."""
    faults = []
    should, carried = icrc_oracle.icrc(frame), icrc_oracle.carried(frame)
    if should is None or should != carried:
        faults.append(f"ICRC is {carried and carried.hex()}, icrc.py says {should and should.hex()}")
    whole = without_padding(frame)
    packet = Ether(whole)
    if IP in packet and BTH in packet:
        packet[BTH].icrc = None
        if bytes(packet) != whole:
            faults.append("scapy rebuilds it with another ICRC")
    return faults


def text_of(address: bytes) -> str:
    return str(ipaddress.ip_address(address))


class Verdict:
    """The counts of the report and the first faults."""

    KINDS = ("bad_icrc", "bad_layout", "bad_qpn", "bad_udp_port", "unknown_pair")

    def __init__(self) -> None:
        self.cnps = 0
        self.bad = dict.fromkeys(self.KINDS, 0)
        self.faults: list[str] = []

    def add(self, kind: str, times: int, where: Sight, texts: list[str]) -> None:
        if not texts:
            return
        self.bad[kind] += times
        if len(self.faults) < FAULTS_MAX:
            again = f" ({times} such frames)" if times > 1 else ""
            text = "; ".join(texts)
            self.faults.append(f"{where.capture} frame {where.number}: {kind}: {text}{again}")


def judge_pair(v: Verdict, pairs: Pairs, t: Transport, qpn: int, times: int, where: Sight) -> None:
    """Does the CNP name the QP that sends, and carry that flow's source port?"""
    receiver, sender = t.src, t.dst  # of the data
    who = f"from {text_of(receiver)} to {text_of(sender)}, QPN {qpn:#x}"
    known = pairs.qpns.get((sender, receiver))
    if not known:
        v.add("unknown_pair", times, where, [f"{who}: these hosts have no pair"])
        return
    if qpn not in known:
        own = qpn in known.values()
        text = "the QPN of the CNP's own sender" if own else "no QPN of its destination"
        v.add("bad_qpn", times, where, [f"{who}: {text}"])
        return
    ports = pairs.ports.get((sender, receiver, known[qpn]))
    if ports and t.port not in ports:
        v.add("bad_udp_port", times, where, [f"{who}: UDP source port {t.port}, data has {sorted(ports)}"])


def judge(traffic: Traffic, at_source: bool) -> Verdict:
    v = Verdict()
    for frame, times in traffic.count.items():
        v.cnps += times
        where = traffic.first[frame]
        t = find_transport(frame)
        if t.port is None:
            v.add("bad_layout", times, where, ["a CNP behind a GRH, which is not defined"])
            continue
        qpn = int.from_bytes(frame[t.bth + 5 : t.bth + 8], "big")
        peer = traffic.pairs.qpns.get((t.dst, t.src), {}).get(qpn)
        pkeys = traffic.pairs.pkeys.get((t.dst, t.src, peer), set())
        v.add("bad_layout", times, where, layout_faults(frame, pkeys, at_source))
        v.add("bad_icrc", times, where, icrc_faults(frame))
        judge_pair(v, traffic.pairs, t, qpn, times, where)
    return v


def report(traffic: Traffic, v: Verdict) -> dict:
    interval = traffic.min_interval_ns
    return {
        "cnps": v.cnps,
        **v.bad,
        "min_interval_us_per_qp": None if interval is None else interval / 1000,
        "faults": v.faults,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Judge every CNP in capture files.")
    parser.add_argument("captures", nargs="+", metavar="CAPTURE.pcap")
    parser.add_argument("--pairs", metavar="FILE.json", help="who has which QPN; else learned from CM")
    parser.add_argument(
        "--at-source", action="store_true", help="captured where the CNPs were made: TTL exactly 64"
    )
    args = parser.parse_args()
    pairs = Pairs()
    try:
        if args.pairs:
            pairs.load(args.pairs)
        traffic = Traffic(pairs, learn=not args.pairs)
        for path in args.captures:
            traffic.read(path)
    except (OSError, ValueError, KeyError, TypeError, BadCapture) as fault:
        print(f"check_cnps: {fault}", file=sys.stderr)
        return 2
    verdict = judge(traffic, args.at_source)
    print(json.dumps(report(traffic, verdict)))
    return 1 if any(verdict.bad.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
