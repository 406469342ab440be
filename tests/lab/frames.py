# SPDX-License-Identifier: BSD-2-Clause
"""RoCE frames made by hand, put on a cable of the lab, and caught there."""
import ipaddress
import json
import re
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Callable, NamedTuple, Optional

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "lab"), str(TESTS / "oracle")]
import icrc as icrc_oracle  # noqa: E402
from lab import ROOT, Job, Lab, LabError, in_namespace, wait_until  # noqa: E402

BLAST = ROOT / "build/lab/blast"
CHECK_CNPS = TESTS / "oracle/check_cnps.py"
PYTHON = "/usr/bin/python3"  # the one that Debian's scapy belongs to

ROCE_PORT = icrc_oracle.ROCE_PORT
OP_SEND_ONLY, OP_ACK, OP_UD_SEND_ONLY, OP_CNP = 0x04, 0x11, 0x64, 0x81
DSCP_ROCE, DSCP_CNP = 26, 48
NOT_ECT, ECT1, ECT0, CE = range(4)
TOS_CE = DSCP_ROCE << 2 | CE
BECN = 0x40
QPN_CM = 1
CTAG, STAG = 0x8100, 0x88A8
PACKET_QDISC_BYPASS = 20  # of <linux/if_packet.h>
SOL_PACKET = 263
FRAME_BYTES_MIN = 60


class Tag(NamedTuple):
    """A VLAN tag."""

    vid: int
    pcp: int = 3
    type: int = CTAG


class Way(NamedTuple):
    """From where to where a frame goes, on the cable and beyond."""

    src_mac: str
    dst_mac: str
    src: str
    dst: str
    port: int = 0xC000  # UDP source port

    def back(self) -> "Way":
        return Way(self.dst_mac, self.src_mac, self.dst, self.src, self.port)


def mac_bytes(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))


def checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071)."""
    total = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def pseudo_header(src: bytes, dst: bytes, length: int) -> bytes:
    if len(src) == 4:
        return src + dst + struct.pack("!BBH", 0, socket.IPPROTO_UDP, length)
    return src + dst + struct.pack("!II", length, socket.IPPROTO_UDP)


def bth(opcode: int, qpn: int, psn: int = 0, ecn: int = 0, pkey: int = 0xFFFF) -> bytes:
    return struct.pack("!BBHII", opcode, 0x40 if opcode != OP_CNP else 0, pkey, ecn << 24 | qpn, psn)


def ip_header(way: Way, tos: int, length: int, options: bytes) -> bytes:
    src, dst = (ipaddress.ip_address(a).packed for a in (way.src, way.dst))
    if len(src) == 16:
        return struct.pack("!IHBB", 6 << 28 | tos << 20, length, socket.IPPROTO_UDP, 64) + src + dst
    ihl = 5 + len(options) // 4
    head = struct.pack("!BBHHHBB", 4 << 4 | ihl, tos, ihl * 4 + length, 0, 0x4000, 64, socket.IPPROTO_UDP)
    check = checksum(head + b"\0\0" + src + dst + options)
    return head + struct.pack("!H", check) + src + dst + options


def roce_frame(
    way: Way, transport: bytes, tos: int = TOS_CE, tags: tuple[Tag, ...] = (), options: bytes = b"",
    udp_checksum: bool = False,
) -> bytes:  # fmt: skip
    """An RoCEv2 frame around a BTH and what follows it; the ICRC is icrc.py's."""
    length = 8 + len(transport) + icrc_oracle.ICRC_BYTES
    ip = ip_header(way, tos, length, options)
    types = [tag.type for tag in tags] + [0x86DD if ip[0] >> 4 == 6 else 0x0800]
    link = mac_bytes(way.dst_mac) + mac_bytes(way.src_mac) + struct.pack("!H", types[0])
    for tag, following in zip(tags, types[1:]):
        link += struct.pack("!HH", tag.pcp << 13 | tag.vid, following)
    udp = struct.pack("!HHHH", way.port, ROCE_PORT, length, 0)
    icrc = icrc_oracle.icrc(link + ip + udp + transport + bytes(4))
    if icrc is None:
        raise LabError("not a RoCE frame")
    if udp_checksum:
        src, dst = (ipaddress.ip_address(a).packed for a in (way.src, way.dst))
        check = checksum(pseudo_header(src, dst, length) + udp + transport + icrc) or 0xFFFF
        udp = udp[:6] + struct.pack("!H", check)
    return (link + ip + udp + transport + icrc).ljust(FRAME_BYTES_MIN, b"\0")


def data_frame(way: Way, qpn: int, psn: int = 0, payload_bytes: int = 256, **rest) -> bytes:
    """A message of one frame to the QP; CE unless told otherwise."""
    return roce_frame(way, bth(OP_SEND_ONLY, qpn, psn) + bytes(payload_bytes), **rest)


def ack_frame(way: Way, qpn: int, **rest) -> bytes:
    return roce_frame(way, bth(OP_ACK, qpn) + struct.pack("!I", 1), **rest)


def cm_frame(way: Way, **rest) -> bytes:
    """A connection manager's message, of no kind that anybody knows."""
    deth = struct.pack("!II", 0x80010000, QPN_CM)
    return roce_frame(way, bth(OP_UD_SEND_ONLY, QPN_CM) + deth + bytes(256), **rest)


def cnp_frame(way: Way, qpn: int, tos: int = DSCP_CNP << 2, **rest) -> bytes:
    return roce_frame(way, bth(OP_CNP, qpn, ecn=BECN) + bytes(16), tos=tos, **rest)


def udp_checksum_state(frame: bytes) -> str:
    """What the UDP checksum of a RoCE frame is: "none", "right", "partial" (the pseudo header's
    sum, which the device is to complete) or "wrong"."""
    span = icrc_oracle.locate(frame)
    if span is None or span.udp is None:
        raise LabError("not a RoCEv2 frame")
    size = 4 if span.version == 4 else 16
    at = span.l3 + (12 if span.version == 4 else 8)
    header = pseudo_header(frame[at : at + size], frame[at + size : at + 2 * size], span.end - span.udp)
    (have,) = struct.unpack_from("!H", frame, span.udp + 6)
    if have == 0:
        return "none"
    if checksum(header + frame[span.udp : span.end]) == 0:
        return "right"
    return "partial" if have == ~checksum(header) & 0xFFFF else "wrong"


def tags_of(frame: bytes) -> tuple[Tag, ...]:
    tags, at = [], 12
    while (kind := struct.unpack_from("!H", frame, at)[0]) in icrc_oracle.TAG_TYPES:
        (tci,) = struct.unpack_from("!H", frame, at + 2)
        tags.append(Tag(tci & 0xFFF, tci >> 13, kind))
        at += 4
    return tuple(tags)


def transport_of(frame: bytes) -> Optional[tuple[int, int]]:
    """The opcode and the destination QPN of a RoCE frame; None for any other."""
    span = icrc_oracle.locate(frame)
    if span is None:
        return None
    return frame[span.bth], int.from_bytes(frame[span.bth + 5 : span.bth + 8], "big")


def is_cnp(frame: bytes) -> bool:
    found = transport_of(frame)
    return found is not None and found[0] == OP_CNP


class Injector:
    """Puts frames on the cable at one end of it, past that end's queues. Captures at that end see them
    only if they do not bypass these."""

    def __init__(self, lab: Lab, node: str, device: str, bypass: bool = True):
        self.socket = in_namespace(lab.namespace(node), lambda: self._open(device, bypass))

    @staticmethod
    def _open(device: str, bypass: bool) -> socket.socket:
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        s.bind((device, 0))
        s.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, bypass)
        return s

    def send(self, *frames: bytes) -> None:
        for frame in frames:
            self.socket.send(frame)

    def close(self) -> None:
        self.socket.close()


def start_blast(lab: Lab, node: str, device: str, frames: list[bytes], *options: object) -> Job:
    """Frames in turn, faster than python can and before others get the CPU; see blast.c for the
    options and the report."""
    return lab.start(
        node, f"blast-{node}-{device}", "nice", "-n", -15, BLAST, "-d", device, *options,
        *[frame.hex() for frame in frames],
    )  # fmt: skip


class Tap:
    """tcpdump at a device, for what arrives there, or with "out" leaves."""

    def __init__(self, lab: Lab, node: str, device: str, expression: str = "", direction: str = "in"):
        self.name = f"tap-{node}-{device}"
        self.path = lab.directory / f"{self.name}.pcap"
        self.path.unlink(missing_ok=True)
        self.job = lab.start(
            node, self.name, "tcpdump", "-Z", "root", "-i", device, "-Q", direction, "-w", self.path,
            "-B", "65536", "-U", "--immediate-mode", *([expression] if expression else []),
        )  # fmt: skip
        wait_until(self._listens, 10, f"{self.name} does not capture")

    def _listens(self) -> bool:
        if not self.job.alive():
            raise LabError(f"{self.name}: {self.job.errors().strip()}")
        return "listening on" in self.job.errors()

    def frames(self) -> list[bytes]:
        """All that is in the file so far."""
        data, at, frames = self.path.read_bytes(), 24, []
        while at + 16 <= len(data):
            (captured,) = struct.unpack_from("=8xI", data, at)
            if at + 16 + captured > len(data):
                break
            frames.append(data[at + 16 : at + 16 + captured])
            at += 16 + captured
        return frames

    def cnps(self) -> list[bytes]:
        return [frame for frame in self.frames() if is_cnp(frame)]

    def wait(self, wanted: Callable[[list[bytes]], object], what: str, seconds: float = 10) -> None:
        wait_until(lambda: wanted(self.frames()), seconds, f"{self.name}: {what}")

    def finish(self) -> list[bytes]:
        """Stop and return all that was caught; a capture that lost frames proves nothing."""
        self.job.stop()
        self.job.wait()
        dropped = re.search(r"^(\d+) packets? dropped by kernel", self.job.errors(), re.M)
        if not dropped or dropped[1] != "0":
            raise LabError(f"{self.name}: {dropped[0] if dropped else 'says nothing of drops'}")
        return self.frames()


def judge(lab: Lab, taps: list[Tap], pairs: list[dict], *options: str) -> dict:
    """What an independent reader says of every CNP in finished captures."""
    pair_file = lab.directory / "pairs.json"
    pair_file.write_text(json.dumps(pairs))
    command = [PYTHON, str(CHECK_CNPS), *[str(t.path) for t in taps], "--pairs", str(pair_file), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1) or not done.stdout:
        raise LabError(f"check_cnps.py: {done.stderr.strip()}")
    return json.loads(done.stdout)
