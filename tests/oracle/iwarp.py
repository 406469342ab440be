# SPDX-License-Identifier: BSD-2-Clause
"""iWARP connections for captures, built from the RFCs: MPA's start frames, FPDUs with their CRC32c, and
markers (RFC 5044), DDP and RDMAP headers (RFC 5041, 5040, 7306). scapy builds what is below TCP.
"""
import struct
from collections import Counter
from typing import Iterator, Optional

from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

REQUEST, REPLY = b"MPA ID Req Frame", b"MPA ID Rep Frame"
MARKERS, CRC, REJECT = 0x8000, 0x4000, 0x2000
MARKER_BYTES, MARKER_INTERVAL_BYTES = 4, 512
TAGGED, LAST, VERSIONS = 0x8000, 0x4000, 0x0140
WRITE, READ_REQUEST, READ_RESPONSE, SEND, TERMINATE = 0, 1, 2, 3, 7
NAMES = ("write", "read_request", "read_response", "send", "send_invalidate", "send_solicited",
         "send_solicited_invalidate", "terminate", "immediate", "immediate_solicited", "atomic_request",
         "atomic_response")
QUEUES = {READ_REQUEST: 1, TERMINATE: 2, 10: 1, 11: 3}  # the others' untagged buffers are those of queue 0
BODIES = {READ_REQUEST: 28, TERMINATE: 4, 10: 52, 11: 12}  # bytes that an opcode has at least
CRC32C = 0x82F63B78  # reflected
FIRST_PORT = 40000
SEQ_A, SEQ_B = 0xFFFFF000, 5000  # the first of them soon goes past the end


def crc32c(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (CRC32C if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def ulpdu(opcode: int, data: bytes = b"", last: bool = True) -> bytes:
    """DDP's and RDMAP's headers and what they carry."""
    tagged = opcode in (WRITE, READ_RESPONSE)
    control = (TAGGED if tagged else 0) | (LAST if last else 0) | VERSIONS | opcode
    data = data.ljust(BODIES.get(opcode, 0), b"\0")
    if tagged:
        return struct.pack("!HIQ", control, 0x1234, 0x10000) + data
    return struct.pack("!HIIII", control, 0, QUEUES.get(opcode, 0), 1, 0) + data


def start(key: bytes, flags: int, private: bytes = b"", revision: int = 1) -> bytes:
    return key + struct.pack("!HH", flags | revision, len(private)) + private


class Stream:
    """What one side sends, with markers where the other asked for them."""

    def __init__(self, ip: IP, sport: int, dport: int, seq: int):
        self.ip, self.ports, self.seq = ip, (sport, dport), seq
        self.marked_from: Optional[int] = None  # no markers
        self.opcodes: Counter[str] = Counter()
        self.peer: Optional[Stream] = None

    def segment(self, payload: bytes, flags: str = "PA") -> bytes:
        sport, dport = self.ports
        ack = self.peer.seq if self.peer and "A" in flags else 0
        tcp = TCP(sport=sport, dport=dport, seq=self.seq, ack=ack, flags=flags)
        ether = Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")
        frame = bytes(ether / self.ip / tcp / payload)
        self.seq = (self.seq + len(payload) + ("S" in flags)) % 2**32
        return frame.ljust(60, b"\0")

    def marked(self, data: bytes, seq: int, begins: int) -> bytes:
        """Bytes of the FPDU that begins at a sequence number, from seq on, with the markers between them:
        each says how far back that beginning is."""
        out = b""
        for at in range(0, len(data), 4):
            here = (seq + len(out)) % 2**32
            if self.marked_from is not None and (here - self.marked_from) % MARKER_INTERVAL_BYTES == 0:
                out += struct.pack("!HH", 0, (here - begins) % 2**32)
            out += data[at : at + 4]
        return out

    def fpdu(self, body: bytes, seq: int) -> bytes:
        """An FPDU at the sequence number. The CRC covers the markers too (RFC 5044, 4.4)."""
        padded = struct.pack("!H", len(body)) + body
        out = self.marked(padded + bytes(-len(padded) % 4), seq, seq)
        tail = self.marked(bytes(4), (seq + len(out)) % 2**32, seq)
        out += tail[:-4]
        return out + struct.pack("<I", crc32c(out))

    def fpdus(self, *bodies: bytes) -> bytes:
        """FPDUs that follow each other from here on."""
        out = b""
        for body in bodies:
            self.opcodes[NAMES[body[1] & 0xF]] += 1
            out += self.fpdu(body, (self.seq + len(out)) % 2**32)
        return out

    def send(self, *bodies: bytes) -> bytes:
        """A segment with these ULPDUs."""
        return self.segment(self.fpdus(*bodies))


class Connection:
    """Between two hosts, up to full operation; further segments are added to frames."""

    def __init__(self, number: int, ipv: int, request: int, reply: int, revision: int = 1):
        make = IPv6 if ipv == 6 else IP
        a, b = ("fd00::1", "fd00::2") if ipv == 6 else ("10.1.0.1", "10.1.0.2")
        ports = FIRST_PORT + number, 7471
        self.a = Stream(make(src=a, dst=b), *ports, SEQ_A)
        self.b = Stream(make(src=b, dst=a), *reversed(ports), SEQ_B)
        self.a.peer, self.b.peer = self.b, self.a
        self.starts = {"request": (request, revision), "reply": (reply, revision)}
        self.frames = [self.a.segment(b"", "S"), self.b.segment(b"", "SA")]
        private = struct.pack("!HH", 8, 8) if revision == 2 else b"hello, MPA"
        self.frames.append(self.a.segment(start(REQUEST, request, private, revision)))
        self.frames.append(self.b.segment(start(REPLY, reply, private, revision)))
        if reply & MARKERS:  # each asks for what it wants to receive
            self.a.marked_from = self.a.seq
        if request & MARKERS:
            self.b.marked_from = self.b.seq
        # tshark has markers in both directions as soon as one asked for them
        self.known_to_tshark = bool(request & MARKERS) == bool(reply & MARKERS)


def talk(connection: Connection, packed: bool = True) -> Connection:
    """Every opcode, and FPDUs of many lengths; packed: also several in a segment, and one over several."""
    a, b, frames = connection.a, connection.b, connection.frames
    frames += [a.send(ulpdu(opcode, bytes(40 + opcode))) for opcode in range(12) if opcode != TERMINATE]
    frames += [b.send(ulpdu(READ_RESPONSE, bytes(700), last=False)), b.send(ulpdu(READ_RESPONSE, bytes(333)))]
    frames.append(b.segment(b"", "A"))
    frames += [a.send(ulpdu(WRITE, bytes(size))) for size in range(400, 520)]
    if packed:
        sizes = range(480, 500)
        frames += [a.send(ulpdu(SEND, bytes(size)), ulpdu(WRITE, bytes(size + 1))) for size in sizes]
        long = a.fpdus(ulpdu(WRITE, bytes(2500)))
        frames += [a.segment(long[:1448]), a.segment(long[1448:])]
    frames.append(b.send(ulpdu(TERMINATE)))
    return connection


def connections() -> Iterator[Connection]:
    """Of both IP versions, with markers both ways, one way and none."""
    both = MARKERS | CRC
    rows = ((CRC, CRC, True), (0, 0, True), (both, both, False), (both, both, True), (both, CRC, True),
            (CRC, both, True))  # fmt: skip
    number = 0
    for ipv in (4, 6):
        for request, reply, packed in rows:
            number += 1
            connection = talk(Connection(number, ipv, request, reply), packed)
            # and one FPDU in each segment of a marked stream
            connection.known_to_tshark &= not (packed and request & MARKERS)
            yield connection
    yield talk(Connection(number + 1, 4, CRC, CRC, revision=2))
    yield Connection(number + 2, 4, CRC, CRC | REJECT)
