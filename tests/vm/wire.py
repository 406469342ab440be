# SPDX-License-Identifier: BSD-2-Clause
"""What a capture says of the RoCE frames on a wire; read by the oracles, which share no code with quench."""
import ipaddress
import sys
from collections import Counter
from pathlib import Path
from typing import Iterator, NamedTuple

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "oracle"), str(TESTS / "lab")]
import icrc  # noqa: E402
from check_cnps import OP_CNP, OP_UD_SEND_ONLY, Capture, Pairs, find_transport  # noqa: E402
from lab import run  # noqa: E402

ECN_MASK, CE = 3, 3
# IBTA vol. 1, 9.2.1: operation of an opcode's lower bits, transport in its upper three
OPERATIONS = {
    **dict.fromkeys(range(0x00, 0x06), "send"),
    **dict.fromkeys(range(0x06, 0x0C), "write"),
    0x0C: "read_request",
    **dict.fromkeys(range(0x0D, 0x11), "read_response"),
    0x11: "ack",
}


class Flow(NamedTuple):
    src: str
    dst: str
    qpn: int


class Pair(NamedTuple):
    """Frames from src to dst's QPN come from src's peer QPN."""

    flow: Flow
    peer_qpn: int


class Wire:
    """One capture file."""

    def __init__(self, path: Path):
        self.frames = self.bad_icrcs = self.ce = self.bad_ce = self.cnps = 0
        self.packets: Counter[Flow] = Counter()
        self.bytes: Counter[Flow] = Counter()
        self.operations: dict[Flow, set[str]] = {}
        self.opcodes: Counter[tuple[Flow, int]] = Counter()
        self._pairs = Pairs()
        for _, frame in Capture(str(path)).frames():
            self._take(frame)

    def _take(self, frame: bytes) -> None:
        span = icrc.locate(frame)
        transport = find_transport(frame)
        if span is None or transport is None:
            return
        src, dst = (str(ipaddress.ip_address(a)) for a in (transport.src, transport.dst))
        opcode, qpn = frame[span.bth], int.from_bytes(frame[span.bth + 5 : span.bth + 8], "big")
        flow = Flow(src, dst, qpn)
        good = icrc.icrc(frame) == icrc.carried(frame)
        traffic_class = int.from_bytes(frame[span.l3 : span.l3 + 2], "big") >> (4 if span.version == 6 else 0)
        is_ce = traffic_class & ECN_MASK == CE
        self.frames += 1
        self.bad_icrcs += not good
        self.ce += is_ce
        self.bad_ce += is_ce and not good
        self.cnps += opcode == OP_CNP
        self.packets[flow] += 1
        self.bytes[flow] += span.end - span.l3
        self.opcodes[flow, opcode] += 1
        self.operations.setdefault(flow, set()).add(OPERATIONS.get(opcode & 0x1F, "other"))
        if opcode == OP_UD_SEND_ONLY and qpn == 1:
            self._pairs.learn_cm(frame, transport)

    def sent_by(self, *addresses: str) -> int:
        return sum(packets for flow, packets in self.packets.items() if flow.src in addresses)

    def pairs(self) -> Iterator[Pair]:
        """What CM messages connected, in both directions."""
        for (src, dst), qpns in self._pairs.qpns.items():
            for src_qpn, dst_qpn in qpns.items():
                ends = (str(ipaddress.ip_address(a)) for a in (src, dst))
                yield Pair(Flow(*ends, dst_qpn), src_qpn)


TSHARK_FIELDS = ("ip.src", "ipv6.src", "ip.dst", "ipv6.dst", "infiniband.bth.destqp", "infiniband.bth.opcode")


def tshark_opcodes(path: Path) -> Counter[tuple[Flow, int]]:
    """The frames of each flow and opcode as tshark reads them."""
    command = ["tshark", "-n", "-r", path, "-d", "udp.port==4791,infiniband", "-T", "fields",
               "-E", "separator=,", "-E", "occurrence=f", *(w for field in TSHARK_FIELDS for w in ("-e", field))]
    lines = run(*command).splitlines()
    found: Counter[tuple[Flow, int]] = Counter()
    for src4, src6, dst4, dst6, qpn, opcode in (line.split(",") for line in lines):
        found[Flow(src4 or src6, dst4 or dst6, int(qpn, 16)), int(opcode)] += 1
    return found
