#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""ICRC oracle: the invariant CRC of RoCE frames, from the standard's text and zlib's CRC-32 only.

Reads frames as hex, one a line, and prints for each "ICRC_HEX ok|bad|none": the ICRC that the
frame should carry (wire order), and whether it does; "- none" for a frame that has no ICRC or
ends before it. Exits 1 when one was bad.

It shares no code with quench or scapy: it is here to judge both. IBTA vol. 1, 7.8.1, and annex 17.
"""
import struct
import sys
import zlib
from typing import NamedTuple, Optional

TAG_TYPES = (0x8100, 0x88A8, 0x9100)
ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_ROCE_V1 = 0x0800, 0x86DD, 0x8915
PROTO_UDP, NEXT_HEADER_BTH, ROCE_PORT = 17, 0x1B, 4791
BTH_BYTES, ICRC_BYTES = 12, 4


class Span(NamedTuple):
    """Where things are in a frame: the network header, the UDP header, the BTH, the IP packet's end."""

    l3: int
    udp: Optional[int]  # None behind a GRH
    bth: int
    end: int
    version: int  # 4, or 6 for IPv6 and the GRH


def skip_tags(frame: bytes) -> tuple[int, int]:
    """The ethertype behind all VLAN tags and the offset of what follows it."""
    at = 12
    (ethertype,) = struct.unpack_from("!H", frame, at)
    while ethertype in TAG_TYPES:
        at += 4
        (ethertype,) = struct.unpack_from("!H", frame, at)
    return ethertype, at + 2


def udp_is_roce(frame: bytes, udp: int) -> bool:
    return struct.unpack_from("!H", frame, udp + 2)[0] == ROCE_PORT


def locate_ipv4(frame: bytes, l3: int) -> Optional[Span]:
    version_ihl, _, total_len, _, frag, _, proto = struct.unpack_from("!BBHHHBB", frame, l3)
    udp = l3 + 4 * (version_ihl & 15)
    if version_ihl >> 4 != 4 or udp < l3 + 20 or proto != PROTO_UDP or frag & 0x3FFF:
        return None
    if not udp_is_roce(frame, udp):
        return None
    return Span(l3, udp, udp + 8, l3 + total_len, 4)


def locate_ipv6(frame: bytes, l3: int, grh: bool) -> Optional[Span]:
    first, payload_len, next_header = struct.unpack_from("!IHB", frame, l3)
    upper = l3 + 40
    if first >> 28 != 6 or next_header != (NEXT_HEADER_BTH if grh else PROTO_UDP):
        return None
    if grh:
        return Span(l3, None, upper, upper + payload_len, 6)
    if not udp_is_roce(frame, upper):
        return None
    return Span(l3, upper, upper + 8, upper + payload_len, 6)


def locate(frame: bytes) -> Optional[Span]:
    """Where the parts of a RoCE frame are; None when it is no whole RoCE frame."""
    try:
        ethertype, l3 = skip_tags(frame)
        if ethertype == ETHERTYPE_IPV4:
            span = locate_ipv4(frame, l3)
        elif ethertype in (ETHERTYPE_IPV6, ETHERTYPE_ROCE_V1):
            span = locate_ipv6(frame, l3, ethertype == ETHERTYPE_ROCE_V1)
        else:
            return None
    except struct.error:
        return None
    if span is None or span.end > len(frame) or span.bth + BTH_BYTES + ICRC_BYTES > span.end:
        return None
    return span


def masked(frame: bytes, span: Span) -> bytes:
    """The bytes that the ICRC covers: what routers and switches may change is set to ones."""
    covered = bytearray(frame[: span.end - ICRC_BYTES])
    if span.version == 4:
        variable = [span.l3 + 1, span.l3 + 8, span.l3 + 10, span.l3 + 11]  # TOS, TTL, checksum
    else:
        covered[span.l3] |= 0x0F  # the version stays
        variable = [span.l3 + 1, span.l3 + 2, span.l3 + 3, span.l3 + 7]  # class, label, hop limit
    if span.udp is not None:
        variable += [span.udp + 6, span.udp + 7]  # checksum
    variable.append(span.bth + 4)  # FECN, BECN, reserved
    for at in variable:
        covered[at] = 0xFF
    return bytes(covered[span.l3 :])


def icrc(frame: bytes) -> Optional[bytes]:
    """The ICRC that the frame should carry, four bytes in wire order; None when it carries none."""
    span = locate(frame)
    if span is None:
        return None
    link_header = b"\xff" * 8  # an InfiniBand local route header, all of it variable
    return struct.pack("<I", zlib.crc32(link_header + masked(frame, span)))


def carried(frame: bytes) -> Optional[bytes]:
    """The ICRC that the frame does carry."""
    span = locate(frame)
    return None if span is None else frame[span.end - ICRC_BYTES : span.end]


def main() -> int:
    bad = 0
    for line in sys.stdin:
        if not line.strip():
            continue
        frame = bytes.fromhex(line.strip())
        should = icrc(frame)
        if should is None:
            print("- none")
            continue
        good = should == carried(frame)
        bad += not good
        print(should.hex(), "ok" if good else "bad")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
