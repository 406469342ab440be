#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Makes tests/vectors/formats.txt: a frame in every wrapping, and what a parser must say of it.

    tests/oracle/formats.py > tests/vectors/formats.txt

scapy builds the headers, icrc.py the ICRCs. What must be said of each frame stands beside it, by
hand from the standards: nothing here comes from quench's parser, which the file is there to judge.
"""
import logging
import struct
import sys
from pathlib import Path
from typing import Iterator, NamedTuple, Optional

logging.getLogger("scapy").setLevel(logging.CRITICAL)
from scapy.contrib.erspan import ERSPAN_II, ERSPAN_III, ERSPAN_PlatformSpecific  # noqa: E402
from scapy.contrib.geneve import GENEVE, GeneveOptions  # noqa: E402
from scapy.contrib.mac_control import MACControlClassBasedFlowControl, MACControlPause  # noqa: E402
from scapy.contrib.roce import AETH, BTH, GRH, CNPPadding  # noqa: E402
from scapy.layers.inet import IP, TCP, UDP, IPOption  # noqa: E402
from scapy.layers.inet6 import (  # noqa: E402
    IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, IPv6ExtHdrRouting, Jumbo)
from scapy.layers.l2 import ARP, GRE, Dot1AD, Dot1Q, Ether  # noqa: E402
from scapy.layers.vxlan import VXLAN  # noqa: E402
from scapy.packet import Packet, Raw  # noqa: E402

import icrc  # noqa: E402

V4_A, V4_B, V6_A, V6_B = "192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"
OUTER_A, OUTER_B, OUTER6_A, OUTER6_B = "198.51.100.1", "198.51.100.2", "2001:db8:f::1", "2001:db8:f::2"
SEND_ONLY, WRITE_FIRST, READ_RESPONSE_ONLY, ACK, CNP = 0x04, 0x06, 0x10, 0x11, 0x81
QPN, PSN, SPORT, ROCE_PORT = 0x112233, 0x123456, 0xD00D, 4791
DATA = b"0123456789abcdef"
RECEIVED = f"qpn={QPN:#x},psn={PSN:#x},payload=16"
V4_PAIR, V6_PAIR = f"src={V4_A},dst={V4_B}", f"src={V6_A},dst={V6_B}"
MPA_REQUEST, MPA_REPLY = b"MPA ID Req Frame", b"MPA ID Rep Frame"


class Vector(NamedTuple):
    name: str
    kind: str
    fields: str  # "name=value,...": those that the test looks at
    frame: bytes


def ether(kind: Optional[int] = None) -> Ether:
    header = {"dst": "02:00:00:00:00:02", "src": "02:00:00:00:00:01"}
    return Ether(**header) if kind is None else Ether(**header, type=kind)


def ip4(tos: int = 0x6A, **fields) -> IP:
    return IP(**{"src": V4_A, "dst": V4_B, "tos": tos, "id": 0x1234, "flags": "DF", **fields})


def ip6(tc: int = 0x6A, **fields) -> IPv6:
    return IPv6(**{"src": V6_A, "dst": V6_B, "tc": tc, "fl": 0xABCDE, "hlim": 64, **fields})


def outer4(tos: int = 0, **fields) -> IP:
    return ip4(tos, src=OUTER_A, dst=OUTER_B, **fields)


def outer6(tc: int = 0) -> IPv6:
    return ip6(tc, src=OUTER6_A, dst=OUTER6_B)


def bth(opcode: int = SEND_ONLY, **fields) -> BTH:
    return BTH(**{"opcode": opcode, "dqpn": QPN, "psn": PSN, "icrc": 0, **fields})


def udp(**fields) -> UDP:
    return UDP(**{"sport": SPORT, "dport": ROCE_PORT, "chksum": 0, **fields})


def sealed(frame: Packet) -> bytes:
    """The frame with the ICRC that icrc.py computes."""
    raw = bytes(frame)
    span = icrc.locate(raw)
    assert span is not None
    value = icrc.icrc(raw)
    assert value is not None
    return raw[: span.end - 4] + value + raw[span.end :]


def transport(opcode: int = SEND_ONLY, data: bytes = DATA, **fields) -> Packet:
    """UDP, BTH, payload and room for the ICRC; sport, len and chksum go to UDP."""
    of_udp = {k: fields.pop(k) for k in ("sport", "len", "chksum") if k in fields}
    return udp(**of_udp) / Raw(bytes(bth(opcode, **fields))[:12] + data + bytes(4))


def roce4(tos: int = 0x6A, opcode: int = SEND_ONLY, data: bytes = DATA, **fields) -> bytes:
    """An Ethernet frame with RoCEv2 over IPv4."""
    return sealed(ether() / ip4(tos) / transport(opcode, data, **fields))


def roce6(tc: int = 0x6A, *headers: Packet, **fields) -> bytes:
    return sealed(stack(ether() / ip6(tc), *headers, transport(**fields)))


def roce_v1(tc: int = 0x6A) -> bytes:
    body = bytes(bth())[:12] + DATA + bytes(4)
    a, b = int.from_bytes(bytes.fromhex("20010db8" + "0" * 23 + "1"), "big"), 0x20010DB8 << 96 | 2
    grh = GRH(tclass=tc, paylen=len(body), nexthdr=0x1B, hoplmt=64, sgid=a, dgid=b)
    return sealed(ether(0x8915) / grh / Raw(body))


def cnp4(tos: int = 0xC0) -> bytes:
    return roce4(tos, CNP, bytes(CNPPadding()), becn=1, psn=0)


def stack(*layers: Packet) -> Packet:
    whole = layers[0]
    for layer in layers[1:]:
        whole = whole / layer
    return whole


def cm_rep4() -> bytes:
    """The REP of cm.txt."""
    path = Path(__file__).resolve().parent.parent / "vectors/cm.txt"
    return next(bytes.fromhex(line.split()[-1]) for line in path.read_text().splitlines()
                if line.startswith("rep "))


def tagged(frame: bytes, *tags: Packet) -> bytes:
    """The Ethernet frame with these tags, the outermost first."""
    inside = bytes(stack(*tags, Raw(frame[14:]))) if tags else frame[14:]
    inside = inside[: 4 * len(tags) - 2] + frame[12:14] + inside[4 * len(tags) :]
    kinds = {Dot1Q: b"\x81\x00", Dot1AD: b"\x88\xa8"}
    return frame[:12] + kinds[type(tags[0])] + inside


def vlan(pcp: int, vid: int = 100) -> Dot1Q:
    return Dot1Q(prio=pcp, vlan=vid)


def retyped(frame: bytes, *types: int) -> bytes:
    """The same with other tag types, the outermost first."""
    out = bytearray(frame)
    for i, kind in enumerate(types):
        out[12 + 4 * i : 14 + 4 * i] = struct.pack("!H", kind)
    return bytes(out)


def frames_of_ipv4() -> Iterator[Vector]:
    for sport in (0, 53, 69, 72, 521, 4789, 4791):
        yield Vector(f"source_port_{sport}", "rocev2", f"{RECEIVED},sport={sport}", roce4(sport=sport))
    yield Vector("hisilicon_ack", "rocev2", "opcode=0x11,qpn=0x45,psn=0,syndrome=6,sport=0x48,icrc_off=58",
                 bytes.fromhex("183d5ebf4371183d5ebf51920800450200300000400040112d60c0a84606c0a84604"
                               "004812b7001c00001140ffff000000450000000006000001259cc216"))
    yield Vector("ihl_15_in_60_bytes", "malformed", "bth_off=0",
                 bytes(ether() / ip4(ihl=15, len=46) / Raw(bytes(26))))
    yield Vector("ihl_15_longer_than_the_frame", "truncated", "bth_off=0",
                 bytes(ether() / ip4(ihl=15, len=80) / Raw(bytes(26))))
    spelled = IPOption(b"\x88\x0c" + struct.pack("!HHHH", SPORT, ROCE_PORT, 40, 0) + b"\x04\x40")
    yield Vector("options_spell_a_udp_header", "other", "bth_off=0,l4_off=46",
                 bytes(ether() / ip4(options=[spelled]) / udp(dport=53) / Raw(DATA * 2)))
    at_port = struct.pack("!HH", SPORT, ROCE_PORT) + bytes(60)
    for name, offset, flags in (("later_fragment_spells_roce_ports", 185, 0), ("last_fragment", 8000, 0),
                                ("middle_fragment_spells_roce_ports", 1, "MF")):
        yield Vector(name, "fragment", "bth_off=0,qpn=0",
                     bytes(ether() / ip4(flags=flags, frag=offset, proto=17) / Raw(at_port)))
    whole = bytearray(roce4())
    whole[20] = 0x20
    yield Vector("first_fragment_with_whole_bth", "fragment", "bth_off=0,qpn=0", bytes(whole))
    yield Vector("first_fragment_too_short_for_udp", "fragment", "bth_off=0",
                 bytes(ether() / ip4(flags="MF", proto=17) / Raw(at_port[:4])))
    yield Vector("long_as_offloads_make_them", "rocev2", f"qpn={QPN:#x},payload=1024", roce4(data=DATA * 64))


def frames_of_lengths() -> Iterator[Vector]:
    """Length fields of 0: more than the field holds. Lengths that offloads make are no fault."""
    tcp = TCP(sport=4000, dport=4001, flags="A") / Raw(DATA)
    jumbo = IPv6ExtHdrHopByHop(options=[Jumbo(jumboplen=100000)])
    yield Vector("big_tcp_ipv4", "other", "tcp_payload=54,mpa=none", bytes(ether() / ip4(len=0) / tcp))
    yield Vector("big_tcp_ipv6", "other", "tcp_payload=74", bytes(ether() / ip6(plen=0) / tcp))
    yield Vector("big_tcp_ipv6_jumbo", "other", "tcp_payload=82", bytes(ether() / ip6(plen=0) / jumbo / tcp))
    yield Vector("big_tcp_in_vxlan", "other", "tunnel=vxlan,inner_tos=0x6a",
                 bytes(ether() / outer4(len=0) / udp(dport=4789, len=0) / VXLAN(vni=1) / ether()
                       / ip4(len=0) / tcp))
    yield Vector("big_tcp_in_vxlan_over_ipv6", "other", "tunnel=vxlan,inner_tos=0x6a",
                 bytes(stack(ether(), ip6(0, plen=0), udp(dport=4789, len=0), VXLAN(vni=1), ether(),
                             ip6(plen=0), tcp)))
    yield Vector("tcp_gso_of_64k", "other", "tcp_payload=54", bytes(ether() / ip4(len=65535) / tcp))
    yield Vector("udp_gso_of_64k", "other", "l4_off=34,bth_off=0",
                 bytes(ether() / ip4(len=65535) / udp(dport=443, len=65515) / Raw(DATA)))
    yield Vector("roce_of_length_0", "malformed", "", bytes(ether() / ip4(len=0) / transport(len=0)))
    yield Vector("roce_of_length_0_ipv6", "malformed", "", bytes(ether() / ip6(plen=0) / transport(len=0)))


def frames_of_padding() -> Iterator[Vector]:
    ack = roce4(0x68, ACK, bytes(AETH(syndrome=0x1F, msn=1)))
    short = roce4(data=b"")
    assert len(ack) == 62 and len(short) == 58
    yield Vector("ack_with_trailer", "rocev2", "icrc_off=58,payload=0", ack + bytes(2))
    yield Vector("cnp_with_trailer", "cnp", "icrc_off=70,payload=16", cnp4() + b"\xaa" * 6)
    yield Vector("padded_to_60", "rocev2", "icrc_off=54,payload=0", short + bytes(2))
    yield Vector("padded_with_noise", "rocev2", "icrc_off=54,payload=0", short + b"\x12\xb7" * 20)
    yield Vector("pad_count_3", "rocev2", "payload=13", roce4(padcount=3, data=DATA[:13] + bytes(3)))


def frames_of_bth() -> Iterator[Vector]:
    for byte in (0x10, 0x3F, 0x50, 0x90, 0x40, 0x80, 0xFF):
        fields = {"fecn": byte >> 7, "becn": byte >> 6 & 1, "resv6": byte & 0x3F}
        yield Vector(f"bth_byte_4_is_{byte:02x}", "rocev2", RECEIVED, roce4(**fields))
    aeth = bytes(AETH(syndrome=0x1F, msn=1))
    for migreq in (0, 1):
        for solicited in (0, 1):
            flags = solicited << 7 | migreq << 6
            yield Vector(f"ack_flags_{flags:02x}", "rocev2", f"flags={flags:#x},opcode=0x11,syndrome=0x1f",
                         roce4(0x68, ACK, aeth, migreq=migreq, solicited=solicited))
    for tver in (1, 8, 15):
        yield Vector(f"version_{tver}", "unknown_opcode", f"flags={tver:#x}", roce4(version=tver))
    panic = ether() / ip4(0) / transport(0xFF, b"", dqpn=0xFFFFFF)
    yield Vector("undefined_opcode_ff_of_48_bytes", "unknown_opcode", "opcode=0xff,qpn=0xffffff,syndrome=0",
                 sealed(panic))
    yield Vector("other_protocol_at_4791", "unknown_opcode", "",
                 bytes(ether() / ip4() / udp() / Raw(b"GET / HTTP/1.1\r\nHost: x\r\n")))
    yield Vector("other_protocol_at_4791_too_short", "malformed", "",
                 bytes(ether() / ip4() / udp() / Raw(b"\x04\x40\x00")))
    syndromes = {"ack_no_credit": 0x1F, "ack_credit_3": 0x03, "rnr_nak_timer_0": 0x20,
                 "rnr_nak_timer_31": 0x3F, "reserved_syndrome": 0x40, "nak_psn_sequence": 0x60,
                 "nak_invalid_request": 0x61, "nak_remote_access": 0x62,
                 "nak_remote_operational": 0x63, "nak_invalid_rd_request": 0x64}  # fmt: skip
    for name, syndrome in syndromes.items():
        yield Vector(name, "rocev2", f"syndrome={syndrome:#x},payload=0",
                     roce4(0x68, ACK, bytes(AETH(syndrome=syndrome, msn=7))))
    yield Vector("atomic_ack", "rocev2", "syndrome=0x1f,payload=0", roce4(0x68, 0x12, aeth + bytes(8)))
    yield Vector("rd_ack_behind_rdeth", "rocev2", "syndrome=0x61",
                 roce4(0x68, 0x51, b"\0\0\0\7" + bytes(AETH(syndrome=0x61))))
    yield Vector("xrc_ack", "rocev2", "syndrome=0x62", roce4(0x68, 0xB1, bytes(AETH(syndrome=0x62))))
    yield Vector("read_response_carries_data", "rocev2", "payload=16,opcode=0x10",
                 roce4(0x6A, READ_RESPONSE_ONLY, aeth + DATA))
    yield Vector("write_first_carries_data", "rocev2", "payload=16,opcode=6",
                 roce4(0x6A, WRITE_FIRST, bytes(16) + DATA))


def frames_of_tags() -> Iterator[Vector]:
    plain = roce4()
    yield Vector("priority_tag", "rocev2", f"{RECEIVED},{V4_PAIR},tags=1,pcp=3", tagged(plain, vlan(3, 0)))
    yield Vector("priority_tag_v6", "rocev2", f"{RECEIVED},tags=1,pcp=3", tagged(roce6(), vlan(3, 0)))
    yield Vector("priority_tag_in_service_tag", "rocev2", f"{RECEIVED},tags=2,pcp=5",
                 tagged(plain, Dot1AD(prio=5, vlan=7), vlan(3, 0)))
    yield Vector("untagged_dscp_26", "rocev2", "tags=0,pcp=0xff,tos=0x6a", plain)
    yield Vector("pcp_3_dscp_0", "rocev2", "tags=1,pcp=3,tos=0x02", tagged(roce4(0x02), vlan(3)))
    yield Vector("pcp_0_dscp_26", "rocev2", "tags=1,pcp=0,tos=0x6a", tagged(plain, vlan(0)))
    old = retyped(tagged(plain, vlan(4)), 0x9100)
    yield Vector("old_service_tag_alone", "rocev2", f"{RECEIVED},tags=1,pcp=4", old)
    yield Vector("old_service_tag_and_customer_tag", "rocev2", f"{RECEIVED},tags=2,pcp=4",
                 retyped(tagged(plain, vlan(4), vlan(1)), 0x9100, 0x8100))
    yield Vector("two_old_service_tags", "rocev2", "tags=2,pcp=4",
                 retyped(tagged(plain, vlan(4), vlan(1)), 0x9100, 0x9100))
    three = tagged(plain, Dot1AD(prio=3, vlan=1), vlan(3), vlan(3))
    yield Vector("third_tag_is_no_two_tag_flow", "too_many_tags", "tags=2,pcp=3,qpn=0,src=::,bth_off=0",
                 three)
    yield Vector("third_tag_old", "too_many_tags", "qpn=0",
                 retyped(tagged(plain, vlan(1), vlan(1), vlan(1)), 0x8100, 0x8100, 0x9100))
    pfc = bytes(Ether(dst="01:80:c2:00:00:01", src="02:00:00:00:00:01")
                / MACControlClassBasedFlowControl(c3_enabled=1, c3_pause_time=0xFFFF)).ljust(60, b"\0")
    yield Vector("pfc_priority_tagged", "other", "tags=1", tagged(pfc, vlan(7, 0)))
    yield Vector("macsec", "macsec", "l3=none,bth_off=0",
                 bytes(ether(0x88E5) / Raw(bytes.fromhex("2c00000000010000000000000001") + plain[12:])))
    yield Vector("macsec_in_vlan", "macsec", "tags=1,pcp=3",
                 tagged(bytes(ether(0x88E5) / Raw(bytes(6) + plain[12:])), vlan(3)))


def frames_of_ipv6() -> Iterator[Vector]:
    hop, dest = IPv6ExtHdrHopByHop(), IPv6ExtHdrDestOpt()
    routing = IPv6ExtHdrRouting(type=4, segleft=0, addresses=["2001:db8::9"])
    atomic = IPv6ExtHdrFragment(offset=0, m=0, id=7)
    told = f"{RECEIVED},{V6_PAIR},l3=ipv6,tos=0x6a"
    for name, headers, l4_off in (
        ("v6_hop_by_hop_header", [hop], 62), ("v6_destination_header", [dest], 62),
        ("v6_routing_header", [routing], 78), ("v6_atomic_fragment", [atomic], 62),
        ("v6_two_headers", [hop, dest], 70), ("v6_three_headers", [hop, routing, dest], 94),
        ("v6_four_headers", [hop, dest, routing, dest], 102),
        ("v6_four_headers_with_atomic_fragment", [hop, dest, atomic, dest], 86),
    ):  # fmt: skip
        yield Vector(name, "rocev2", f"{told},l4_off={l4_off}", roce6(0x6A, *headers))
    five = stack(ether() / ip6(), hop, dest, routing, dest, dest, transport())
    yield Vector("v6_five_headers", "too_many_headers", "bth_off=0,qpn=0", bytes(five))
    five = stack(ether() / ip6(), hop, dest, dest, dest, atomic, transport())
    yield Vector("v6_fifth_header_is_a_fragment", "too_many_headers", "bth_off=0", bytes(five))
    yield Vector("v6_many_headers_and_no_udp", "too_many_headers", "",
                 bytes(stack(ether() / ip6(), *[dest] * 20)))
    at_port = Raw(struct.pack("!HH", SPORT, ROCE_PORT) + bytes(60))
    later = IPv6ExtHdrFragment(nh=17, offset=1, m=0, id=7)
    yield Vector("v6_later_fragment_spells_roce_ports", "fragment", "bth_off=0,qpn=0",
                 bytes(ether() / ip6() / later / at_port))
    yield Vector("v6_first_fragment_with_whole_bth", "fragment", "bth_off=0,qpn=0",
                 bytes(ether() / ip6() / IPv6ExtHdrFragment(offset=0, m=1, id=7) / transport()))
    yield Vector("v6_fragment_behind_hop_by_hop", "fragment", "bth_off=0",
                 bytes(stack(ether() / ip6(), hop, later, at_port)))
    largest = IPv6ExtHdrDestOpt(len=255, options=[])
    yield Vector("v6_header_longer_than_the_frame", "truncated", "bth_off=0",
                 bytes(ether() / ip6() / largest / at_port))
    yield Vector("v6_header_past_the_payload_length", "malformed", "bth_off=0",
                 bytes(stack(ether() / ip6(plen=4), hop, transport())))
    for name, nh in (("esp", 50), ("authentication", 51), ("no_next_header", 59), ("mobility", 135)):
        yield Vector(f"v6_{name}", "other", "bth_off=0", bytes(ether() / ip6(nh=nh) / Raw(bytes(48))))
    yield Vector("v6_cnp_behind_a_header", "cnp", f"qpn={QPN:#x},l4_off=62",
                 roce6(0xC0, hop, opcode=CNP, data=bytes(16), becn=1, psn=0))
    yield Vector("v6_tcp_behind_a_header", "iwarp", "mpa=request,l4_off=62,tcp_payload=82",
                 bytes(stack(ether() / ip6(), dest, TCP(sport=9, dport=8), Raw(MPA_REQUEST + bytes(4)))))


def frames_of_tcp() -> Iterator[Vector]:
    ports = TCP(sport=0x1234, dport=0xABCD, flags="PA")
    told = f"qpn={0x1234ABCD:#x},{V4_PAIR},tos=0x6a"
    for name, key, mpa in (("request", MPA_REQUEST, "request"), ("reply", MPA_REPLY, "reply")):
        rest = struct.pack("!HH", 0x4001, 0)
        yield Vector(f"mpa_{name}", "iwarp", f"{told},mpa={mpa},tcp_payload=54,l4_off=34",
                     bytes(ether() / ip4() / ports / Raw(key + rest)))
        yield Vector(f"mpa_{name}_v6", "iwarp", f"mpa={mpa},tcp_payload=74",
                     bytes(ether() / ip6() / ports / Raw(key + rest)))
        with_options = TCP(sport=1, dport=2, options=[("Timestamp", (1, 2)), ("NOP", None), ("NOP", None)])
        yield Vector(f"mpa_{name}_behind_tcp_options", "iwarp", f"mpa={mpa},tcp_payload=66",
                     bytes(ether() / ip4() / with_options / Raw(key + rest)))
        yield Vector(f"mpa_{name}_in_vlan", "iwarp", f"mpa={mpa},tags=1,pcp=4",
                     tagged(bytes(ether() / ip4() / ports / Raw(key + rest)), vlan(4)))
    for name, payload in (("mpa_key_one_letter_off", b"MPA ID Req Framf" + bytes(4)),
                          ("mpa_key_in_small_letters", MPA_REQUEST.lower() + bytes(4)),
                          ("mpa_key_cut", MPA_REQUEST[:15]), ("mpa_key_behind_a_byte", b"x" + MPA_REQUEST),
                          ("tcp_without_payload", b"")):  # fmt: skip
        yield Vector(name, "other", f"{told},mpa=none,tcp_payload=54",
                     bytes(ether() / ip4() / ports / Raw(payload)))
    for words in (0, 4):
        yield Vector(f"tcp_offset_of_{words}_words", "other", "mpa=none,tcp_payload=0",
                     bytes(ether() / ip4() / TCP(dataofs=words) / Raw(MPA_REQUEST)))
    yield Vector("tcp_header_longer_than_the_frame", "other", "mpa=none,tcp_payload=0",
                 bytes(ether() / ip4() / TCP(dataofs=15) / Raw(MPA_REQUEST)))
    yield Vector("mpa_key_over_udp", "other", "mpa=none",
                 bytes(ether() / ip4() / udp(dport=9) / Raw(MPA_REQUEST + bytes(4))))


def vxlan(inner: bytes, port: int = 4789, tos: int = 0, **fields) -> bytes:
    header = VXLAN(**{"vni": 0x123, "flags": 8, **fields})
    return bytes(stack(ether(), outer4(tos), udp(dport=port), header, Raw(inner)))


def geneve(inner: bytes, proto: int = 0x6558, options: int = 0, **fields) -> bytes:
    option = [GeneveOptions(classid=0x102, type=3, data=b"abcd")] * options
    header = GENEVE(**{"vni": 5, "proto": proto, "options": option, "optionlen": 2 * options, **fields})
    return bytes(stack(ether(), outer4(), udp(dport=6081), header, Raw(inner)))


def gre(inner: bytes, proto: int, *extra: Packet, **fields) -> bytes:
    return bytes(stack(ether(), outer4(), GRE(proto=proto, **fields), *extra, Raw(inner)))


def erspan_3(inner: bytes, *extra: Packet, **fields) -> bytes:
    return gre(inner, 0x22EB, ERSPAN_III(p=1, **fields), *extra, seqnum_present=1, sequence_number=1)


def tunnels(inner: bytes) -> Iterator[tuple[str, str, bytes]]:
    """The Ethernet frame in everything that carries one: name, tunnel, frame."""
    yield "vxlan", "vxlan", vxlan(inner)
    yield "vxlan_8472", "vxlan", vxlan(inner, 8472)
    yield "vxlan_over_v6", "vxlan", bytes(
        stack(ether(), outer6(), udp(dport=4789), VXLAN(vni=1, flags=8), Raw(inner)))
    yield "geneve", "geneve", geneve(inner)
    yield "geneve_with_options", "geneve", geneve(inner, options=3)
    yield "gre_bridged", "gre", gre(inner, 0x6558)
    yield "nvgre", "gre", gre(inner, 0x6558, key_present=1, key=0x00112233)
    yield "gre_checksum_key_sequence", "gre", gre(
        inner, 0x6558, chksum_present=1, offset=0, key_present=1, key=1, seqnum_present=1, sequence_number=2)
    yield "gre_over_v6", "gre", bytes(stack(ether(), outer6(), GRE(proto=0x6558), Raw(inner)))
    yield "erspan_1", "erspan", gre(inner, 0x88BE)
    yield "erspan_2", "erspan", gre(
        inner, 0x88BE, ERSPAN_II(ver=1, session_id=9), seqnum_present=1, sequence_number=1)
    yield "erspan_3", "erspan", erspan_3(inner)
    yield "erspan_3_with_subheader", "erspan", erspan_3(inner, ERSPAN_PlatformSpecific(platf_id=1), o=1)


def frames_in_tunnels() -> Iterator[Vector]:
    v4 = f"{RECEIVED},{V4_PAIR},inner_l3=ipv4,inner_tos=0x6a,tos=0,tags=0"
    v6 = f"{RECEIVED},{V6_PAIR},inner_l3=ipv6,inner_tos=0x6b,tos=0"
    aeth = bytes(AETH(syndrome=0x61))
    for name, tunnel, frame in tunnels(roce4()):
        yield Vector(f"{name}_v4", "rocev2", f"tunnel={tunnel},{v4}", frame)
    for name, tunnel, frame in tunnels(roce6(0x6B)):
        yield Vector(f"{name}_v6", "rocev2", f"tunnel={tunnel},{v6}", frame)
    for name, tunnel, frame in tunnels(cnp4()):
        yield Vector(f"{name}_cnp", "cnp", f"tunnel={tunnel},qpn={QPN:#x}", frame)
    for name, tunnel, frame in tunnels(tagged(roce4(0x68, ACK, aeth), Dot1AD(prio=6), vlan(5))):
        yield Vector(f"{name}_of_two_tags", "rocev2", f"tunnel={tunnel},tags=0,pcp=0xff,syndrome=0x61", frame)


def frames_in_one_tunnel() -> Iterator[Vector]:
    """Kinds that do not depend on the tunnel, in VXLAN."""
    pfc = bytes(Ether(dst="01:80:c2:00:00:01", src="02:00:00:00:00:01")
                / MACControlClassBasedFlowControl(c3_enabled=1, c3_pause_time=0xFFFF)).ljust(60, b"\0")
    pause = bytes(Ether(dst="01:80:c2:00:00:01", src="02:00:00:00:00:01")
                  / MACControlPause(pause_time=0xFFFF)).ljust(60, b"\0")  # fmt: skip
    five = stack(ether() / ip6(), *[IPv6ExtHdrDestOpt()] * 5, transport())
    inside = {
        "pfc": ("other", "mac_control_off=0", pfc), "pause": ("other", "mac_control_off=0", pause),
        "cm_rep": ("cm", "qpn=1", cm_rep4()), "arp": ("other", "", bytes(ether() / ARP())),
        "rocev1": ("rocev1", f"inner_l3=grh,inner_tos=0x6a,{RECEIVED}", roce_v1()),
        "tcp_mpa": ("other", "mpa=none,tcp_payload=0",
                    bytes(ether() / ip4() / TCP() / Raw(MPA_REQUEST + bytes(4)))),
        "fragment": ("fragment", "bth_off=0", bytes(ether() / ip4(flags="MF", proto=17) / Raw(bytes(40)))),
        "three_tags": ("too_many_tags", "bth_off=0", tagged(roce4(), vlan(1), vlan(2), vlan(3))),
        "five_ipv6_headers": ("too_many_headers", "bth_off=0", bytes(five)),
        "ipv6_headers": ("rocev2", RECEIVED, roce6(0x6A, IPv6ExtHdrHopByHop(), IPv6ExtHdrDestOpt())),
        "old_service_tag": ("rocev2", RECEIVED, retyped(tagged(roce4(), vlan(1)), 0x9100)),
        "unknown_opcode": ("unknown_opcode", f"qpn={QPN:#x}", roce4(opcode=0xC5)),
        "ihl_4": ("malformed", "bth_off=0", bytes(ether() / ip4(ihl=4) / transport())),
        "macsec": ("macsec", "", bytes(ether(0x88E5) / Raw(bytes(40)))),
        "padding": ("rocev2", "payload=0", roce4(data=b"") + bytes(2)),
        "vxlan": ("other", "bth_off=0", vxlan(roce4())), "geneve": ("other", "bth_off=0", geneve(roce4())),
        "gre": ("other", "bth_off=0", gre(roce4(), 0x6558)),
        "erspan": ("other", "bth_off=0", erspan_3(roce4())),
        "half_an_ethernet_header": ("truncated", "", bytes(7)),
    }  # fmt: skip
    for name, (kind, fields, frame) in inside.items():
        yield Vector(f"in_vxlan_{name}", kind, ",".join(filter(None, ("tunnel=vxlan", fields))), vxlan(frame))
    for name, outer, inner in (("only_inner_ce", 0x00, 0x6B), ("only_outer_ce", 0x6B, 0x68),
                               ("outer_ect_inner_not", 0x02, 0x68), ("outer_not_inner_ect", 0x00, 0x6A),
                               ("both_ce", 0x03, 0x6B)):  # fmt: skip
        yield Vector(f"tunnel_{name}", "rocev2", f"tos={outer:#x},inner_tos={inner:#x}",
                     vxlan(roce4(inner), tos=outer))
    yield Vector("tagged_vxlan_of_tagged", "rocev2", "tags=1,pcp=2,tunnel=vxlan",
                 tagged(vxlan(tagged(roce4(), vlan(6))), vlan(2)))
    yield Vector("vxlan_in_three_tags", "too_many_tags", "tunnel=none,bth_off=0",
                 tagged(vxlan(roce4()), vlan(1), vlan(1), vlan(1)))


def frames_of_odd_tunnels() -> Iterator[Vector]:
    v4, v6 = roce4()[14:], roce6()[14:]
    yield Vector("gre_plain_v4", "rocev2", f"tunnel=gre,{RECEIVED},inner_l3_off=38", gre(v4, 0x0800))
    yield Vector("gre_plain_v6", "rocev2", f"tunnel=gre,{RECEIVED},inner_l3_off=38", gre(v6, 0x86DD))
    yield Vector("gre_plain_v4_with_key", "rocev2", f"tunnel=gre,{RECEIVED},inner_l3_off=42",
                 gre(v4, 0x0800, key_present=1, key=1))
    yield Vector("geneve_plain_v4", "rocev2", f"tunnel=geneve,{RECEIVED},inner_l3_off=50",
                 geneve(v4, 0x0800))
    yield Vector("geneve_plain_v6_with_options", "rocev2", f"tunnel=geneve,{RECEIVED},inner_l3_off=66",
                 geneve(v6, 0x86DD, options=2))
    yield Vector("geneve_with_most_options", "rocev2", f"tunnel=geneve,{RECEIVED}",
                 geneve(roce4(), options=31))
    yield Vector("geneve_options_past_the_end", "truncated", "tunnel=none", geneve(b"", optionlen=63))
    yield Vector("geneve_version_1", "other", "tunnel=none,bth_off=0", geneve(roce4(), version=1))
    yield Vector("geneve_of_arp", "other", "tunnel=geneve,bth_off=0", geneve(bytes(28), 0x0806))
    yield Vector("vxlan_without_vni", "other", "tunnel=none,bth_off=0", vxlan(roce4(), flags=0))
    yield Vector("vxlan_from_4789", "other", "tunnel=none",
                 bytes(stack(ether(), outer4(), udp(sport=4789, dport=53), VXLAN(flags=8), Raw(roce4()))))
    yield Vector("vxlan_gpe_port", "other", "tunnel=none", vxlan(roce4(), 4790))
    yield Vector("vxlan_cut_in_its_header", "truncated", "tunnel=none,bth_off=0", vxlan(b"")[:-3])
    yield Vector("gre_with_routing", "other", "tunnel=none,bth_off=0",
                 gre(roce4(), 0x6558, routing_present=1, offset=0, chksum=0))
    yield Vector("gre_version_1", "other", "tunnel=none,bth_off=0", gre(roce4(), 0x6558, version=1))
    yield Vector("gre_of_mpls", "other", "tunnel=gre,bth_off=0", gre(bytes(40), 0x8847))
    yield Vector("gre_cut_in_its_key", "truncated", "tunnel=none",
                 gre(b"", 0x6558, key_present=1, key=1)[:-2])
    yield Vector("erspan_2_cut_in_its_header", "truncated", "tunnel=none",
                 gre(bytes(5), 0x88BE, seqnum_present=1, sequence_number=1))
    yield Vector("erspan_3_cut_in_its_subheader", "truncated", "tunnel=none", erspan_3(bytes(3), o=1))
    yield Vector("erspan_3_of_an_ip_packet", "other", "tunnel=none", erspan_3(roce4(), ft=2))
    yield Vector("erspan_of_pfc", "other", "tunnel=erspan,mac_control_off=0",
                 erspan_3(bytes.fromhex("0180c200000102000000000188080101") + bytes(44)))
    yield Vector("fragment_of_vxlan", "fragment", "tunnel=none,bth_off=0",
                 bytes(stack(ether(), outer4(flags="MF"), udp(dport=4789), VXLAN(flags=8), Raw(roce4()))))
    yield Vector("gre_in_v6_behind_headers", "rocev2", f"tunnel=gre,{RECEIVED}",
                 bytes(stack(ether(), outer6(), IPv6ExtHdrHopByHop(), GRE(proto=0x0800), Raw(v4))))
    yield Vector("udp_in_ip_in_ip", "other", "tunnel=none,bth_off=0",
                 bytes(ether() / outer4(proto=4) / Raw(v4)))


SECTIONS = (
    ("IPv4: source ports, options, fragments", frames_of_ipv4),
    ("Lengths of 0 and lengths that offloads make", frames_of_lengths),
    ("Ethernet padding is no payload", frames_of_padding),
    ("The base transport header, and the AETH", frames_of_bth),
    ("VLAN tags, MACsec", frames_of_tags),
    ("IPv6 extension headers", frames_of_ipv6),
    ("TCP and MPA", frames_of_tcp),
    ("Frames in every tunnel", frames_in_tunnels),
    ("What a tunnel may carry", frames_in_one_tunnel),
    ("Tunnels that are odd or cut short", frames_of_odd_tunnels),
)

HEAD = """\
# Frames in every format and wrapping, and what a parser must say of them, without the FCS. Those of
# a RoCE kind carry a valid ICRC where the frame is whole. Made by tests/oracle/formats.py.
#
# name            what the frame is called in test output
# kind            the name in WIRE_KINDS (include/quench/wire.h)
# fields          name=value,...: what must be found in it, - for nothing; names are those of
#                 struct wire_frame or of its key
# frame_hex       the frame
#
# name kind fields frame_hex
"""


def text() -> str:
    lines = [HEAD]
    for title, section in SECTIONS:
        lines.append(f"\n# {title}\n")
        lines += [f"{v.name} {v.kind} {v.fields or '-'} {v.frame.hex()}\n" for v in section()]
    return "".join(lines)


if __name__ == "__main__":
    sys.stdout.write(text())
