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
ETHERTYPE_BRIDGED, ERSPAN_2, ERSPAN_3 = 0x6558, 0x88BE, 0x22EB
PROTO_UDP, PROTO_GRE, NEXT_HEADER_BTH, ROCE_PORT = 17, 47, 0x1B, 4791
VXLAN_PORTS, GENEVE_PORT = (4789, 8472), 6081
IPV6_OPTIONS, IPV6_FRAGMENT, IPV6_HEADERS_MAX = (0, 43, 60), 44, 4
GRE_CHECKSUM, GRE_ROUTING, GRE_KEY, GRE_SEQUENCE, GRE_VERSION = 0x8000, 0x4000, 0x2000, 0x1000, 0x0007
BTH_BYTES, ICRC_BYTES = 12, 4


class Span(NamedTuple):
    """Where things are in a frame: the network header, the UDP header, the BTH, the IP packet's end."""

    l3: int
    udp: Optional[int]  # None behind a GRH
    bth: int
    end: int
    version: int  # 4, or 6 for IPv6 and the GRH


def skip_tags(frame: bytes, at: int = 12) -> tuple[int, int]:
    """The ethertype behind all VLAN tags and the offset of what follows it."""
    (ethertype,) = struct.unpack_from("!H", frame, at)
    while ethertype in TAG_TYPES:
        at += 4
        (ethertype,) = struct.unpack_from("!H", frame, at)
    return ethertype, at + 2


def locate_inside(frame: bytes, ethertype: int, at: int) -> Optional[Span]:
    """What a tunnel carries: an Ethernet frame, or what the ethertype says."""
    if ethertype == ETHERTYPE_BRIDGED:
        ethertype, at = skip_tags(frame, at + 12)
    return locate_type(frame, ethertype, at, True)


def locate_gre(frame: bytes, gre: int) -> Optional[Span]:
    flags, ethertype = struct.unpack_from("!HH", frame, gre)
    if flags & (GRE_ROUTING | GRE_VERSION):
        return None
    at = gre + 4 + 4 * sum(bool(flags & bit) for bit in (GRE_CHECKSUM, GRE_KEY, GRE_SEQUENCE))
    if ethertype == ERSPAN_2:
        return locate_inside(frame, ETHERTYPE_BRIDGED, at + (8 if flags & GRE_SEQUENCE else 0))
    if ethertype == ERSPAN_3:
        (kind,) = struct.unpack_from("!H", frame, at + 10)  # P, 5 bits of frame type, ..., 1 bit: more
        if kind & 0x7C00:
            return None
        return locate_inside(frame, ETHERTYPE_BRIDGED, at + 12 + 8 * (kind & 1))
    return locate_inside(frame, ethertype, at)


def locate_udp(frame: bytes, l3: int, udp: int, end: int, version: int, inside: bool) -> Optional[Span]:
    (port,) = struct.unpack_from("!H", frame, udp + 2)
    if port == ROCE_PORT:
        return Span(l3, udp, udp + 8, end, version)
    if inside:
        return None
    first, ethertype = struct.unpack_from("!BxH", frame, udp + 8)
    if port in VXLAN_PORTS and first & 0x08:
        return locate_inside(frame, ETHERTYPE_BRIDGED, udp + 16)
    if port == GENEVE_PORT and not first & 0xC0:
        return locate_inside(frame, ethertype, udp + 16 + 4 * (first & 0x3F))
    return None


def locate_ipv4(frame: bytes, l3: int, inside: bool) -> Optional[Span]:
    version_ihl, _, total_len, _, frag, _, proto = struct.unpack_from("!BBHHHBB", frame, l3)
    upper = l3 + 4 * (version_ihl & 15)
    if version_ihl >> 4 != 4 or upper < l3 + 20 or frag & 0x3FFF:
        return None
    if proto == PROTO_UDP:
        return locate_udp(frame, l3, upper, l3 + total_len, 4, inside)
    return locate_gre(frame, upper) if proto == PROTO_GRE and not inside else None


def skip_ipv6_headers(frame: bytes, next_header: int, at: int) -> tuple[Optional[int], int]:
    """The transport behind the extension headers and where it starts; None for a fragment."""
    for _ in range(IPV6_HEADERS_MAX):
        if next_header not in (*IPV6_OPTIONS, IPV6_FRAGMENT):
            break
        following, length, fragment = struct.unpack_from("!BBH", frame, at)
        if next_header == IPV6_FRAGMENT and fragment & 0xFFF9:
            return None, at
        at += 8 if next_header == IPV6_FRAGMENT else 8 + 8 * length
        next_header = following
    return next_header, at


def locate_ipv6(frame: bytes, l3: int, grh: bool, inside: bool) -> Optional[Span]:
    first, payload_len, next_header = struct.unpack_from("!IHB", frame, l3)
    upper, end = l3 + 40, l3 + 40 + payload_len
    if first >> 28 != 6:
        return None
    if grh:
        return Span(l3, None, upper, end, 6) if next_header == NEXT_HEADER_BTH else None
    transport, upper = skip_ipv6_headers(frame, next_header, upper)
    if transport == PROTO_UDP:
        return locate_udp(frame, l3, upper, end, 6, inside)
    return locate_gre(frame, upper) if transport == PROTO_GRE and not inside else None


def locate_type(frame: bytes, ethertype: int, at: int, inside: bool) -> Optional[Span]:
    if ethertype == ETHERTYPE_IPV4:
        return locate_ipv4(frame, at, inside)
    if ethertype in (ETHERTYPE_IPV6, ETHERTYPE_ROCE_V1):
        return locate_ipv6(frame, at, ethertype == ETHERTYPE_ROCE_V1, inside)
    return None


def locate(frame: bytes) -> Optional[Span]:
    """Where the parts of a RoCE frame are, in a tunnel perhaps; None when it is no whole RoCE frame."""
    try:
        span = locate_type(frame, *skip_tags(frame), False)
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
