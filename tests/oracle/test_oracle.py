#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The oracles judged themselves: icrc.py against the vectors, scapy and real captures, and
check_cnps.py against CNPs that are right and that are wrong in one way each.

Run from the root of the repository. Prints a line for each check, exits 1 when one failed.
"""
import json
import logging
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Callable, Iterator, Optional

logging.getLogger("scapy").setLevel(logging.CRITICAL)
from scapy.contrib.roce import BTH, cnp  # noqa: E402
from scapy.layers.inet import IP, UDP  # noqa: E402
from scapy.layers.l2 import Ether  # noqa: E402

import check_cnps  # noqa: E402
import formats  # noqa: E402
import icrc  # noqa: E402

TESTS = Path(__file__).resolve().parent.parent
VECTORS, CAPTURES = TESTS / "vectors", TESTS / "captures"
CHECK_CNPS, ICRC_PY = TESTS / "oracle/check_cnps.py", TESTS / "oracle/icrc.py"
WITH_ICRC = ("rocev2", "rocev1", "cnp", "cm", "unknown_opcode")
WITHOUT_ICRC = ("other", "fragment", "truncated", "pfc", "pause", "iwarp", "macsec", "too_many_headers")
NOT_SEALED = ("headers_whole_payload_cut", "headers_whole_icrc_cut", "other_protocol_at_4791")

failures = 0


def check(name: str, good: bool, detail: str = "") -> None:
    global failures
    failures += not good
    print(f"ok - {name}" if good else f"not ok - {name}: {detail}")


def rows(name: str) -> Iterator[list[str]]:
    for line in (VECTORS / name).read_text().splitlines():
        if line and not line.startswith("#"):
            yield line.split()


def scapy_icrc(frame: bytes) -> Optional[bytes]:
    """The ICRC by scapy, which knows IPv4 only."""
    packet = Ether(check_cnps.without_padding(frame))
    if BTH not in packet or not isinstance(packet[BTH].underlayer.underlayer, IP):
        return None
    return packet[BTH].compute_icrc(b"")


def changed(frame: bytes, at: int, mask: int) -> bytes:
    return frame[:at] + bytes([frame[at] ^ mask]) + frame[at + 1 :]


def mask_faults(frame: bytes) -> list[int]:
    """Flip each bit up to the ICRC: the ICRC may stay only where the standard masks the field. The
    bits that change what the frame is, or where it ends, are left out."""
    span = icrc.locate(frame)
    if span.version == 4:
        masked = {span.l3 + at: 0xFF for at in (1, 8, 10, 11)}
    else:
        masked = {span.l3: 0x0F, **{span.l3 + at: 0xFF for at in (1, 2, 3, 7)}}
    if span.udp is not None:
        masked.update({span.udp + 6: 0xFF, span.udp + 7: 0xFF})
    masked[span.bth + 4] = 0xFF
    should, faults = icrc.icrc(frame), []
    for at in range(span.l3, span.end - icrc.ICRC_BYTES):
        for bit in range(8):
            flipped = changed(frame, at, 1 << bit)
            if icrc.locate(flipped) != span:
                continue
            stays = icrc.icrc(flipped) == should
            if stays != bool(masked.get(at, 0) & 1 << bit):
                faults.append(at)
    return faults


def check_vectors() -> None:
    for name, _, _, _, _, _, wire, frame_hex in rows("icrc.txt"):
        frame = bytes.fromhex(frame_hex)
        got = icrc.icrc(frame)
        check(f"icrc.py {name}", got is not None and got.hex() == wire, f"got {got and got.hex()}")
        theirs = scapy_icrc(frame)
        if theirs is not None:
            check(f"scapy {name}", theirs.hex() == wire, f"got {theirs.hex()}")
        faults = mask_faults(frame)
        check(f"mask {name}", not faults, f"wrong at bytes {sorted(set(faults))}")


def check_frames() -> None:
    """What the files call RoCE carries a right ICRC, in scapy's eyes too."""
    frames = [(r[0], r[1], r[-1]) for name in ("frames.txt", "formats.txt") for r in rows(name)]
    frames += [(r[0], "cm", r[-1]) for r in rows("cm.txt")]
    for name, kind, frame_hex in frames:
        if kind not in WITH_ICRC or name in NOT_SEALED:
            continue
        frame = bytes.fromhex(frame_hex)
        should, carried = icrc.icrc(frame), icrc.carried(frame)
        theirs = scapy_icrc(frame)
        good = should is not None and should == carried and theirs in (None, carried)
        check(f"frame {name}", good, f"carried {carried}, icrc.py {should}, scapy {theirs}")


def check_other_frames() -> None:
    """icrc.py gives no ICRC for what is cut short or is no RoCE."""
    for row in [row for name in ("frames.txt", "formats.txt") for row in rows(name)]:
        if row[1] in WITHOUT_ICRC or row[0].endswith("_cut"):
            check(f"no icrc {row[0]}", icrc.icrc(bytes.fromhex(row[-1])) is None)


def check_formats() -> None:
    """The committed frames are those that scapy builds."""
    have, made = (VECTORS / "formats.txt").read_text(), formats.text()
    differ = [a.split()[0] for a, b in zip(have.splitlines(), made.splitlines()) if a != b]
    check("formats.txt is what formats.py makes", have == made, f"other rows: {differ[:3]}")


def check_captures() -> None:
    for path in sorted(CAPTURES.glob("rxe-*.pcap")):
        frames = [frame for _, frame in check_cnps.Capture(str(path)).frames()]
        roce = [frame for frame in frames if check_cnps.find_transport(frame) is not None]
        bad = [f for f in roce if icrc.icrc(f) is None or icrc.icrc(f) != icrc.carried(f)]
        theirs = [f for f in roce if scapy_icrc(f) not in (None, icrc.carried(f))]
        detail = f"{len(roce)} RoCE frames of {len(frames)}, {len(bad)} bad, by scapy {len(theirs)}"
        check(f"capture {path.name}, {len(roce)} frames", bool(roce) and not bad and not theirs, detail)


def run(command: list, text: str = "") -> tuple[int, str]:
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    return done.returncode, done.stdout


def check_icrc_command() -> None:
    good = next(rows("icrc.txt"))[-1]
    bad = changed(bytes.fromhex(good), -1 + len(good) // 2, 1).hex()
    got = run([ICRC_PY], f"{good}\n\n{bad}\n0123\n")
    check("icrc.py command", got == (1, "82fd002a ok\n82fd002a bad\n- none\n"), str(got))
    check("icrc.py command, no bad frame", run([ICRC_PY], good)[0] == 0)


# check_cnps.py: hosts A (QPN 0x11) and B (0x12) have one pair, A sends data from port 0xc132.
A, B, A_QPN, B_QPN, PORT = "10.0.1.1", "10.0.2.1", 0x11, 0x12, 0xC132
PAIR = {"a": A, "a_qpn": A_QPN, "b": B, "b_qpn": B_QPN, "a_port": PORT, "pkey": 0x8001}


def make_cnp(src=B, dst=A, qpn=A_QPN, port=PORT, ip=None, bth=None, tail=b"") -> bytes:
    """A right CNP from B to A, but for what is asked."""
    header = {"src": src, "dst": dst, "tos": 0xC0, "id": 0, "flags": "DF", "ttl": 64, **(ip or {})}
    transport = cnp(qpn)
    for field, value in (bth or {}).items():
        setattr(transport, field, value)
    frame = bytes(Ether(src="02:00:00:00:00:02", dst="02:00:00:00:00:01") / IP(**header)
                  / UDP(sport=port, dport=4791, chksum=0) / transport)  # fmt: skip
    return frame + tail


def with_icrc(frame: bytes) -> bytes:
    end = icrc.locate(frame).end
    return frame[: end - 4] + icrc.icrc(frame) + frame[end:]


def make_data(port=PORT) -> bytes:
    return bytes(Ether() / IP(src=A, dst=B, tos=0x6B) / UDP(sport=port, dport=4791, chksum=0)
                 / BTH(opcode=4, dqpn=B_QPN) / b"0123456789abcdef")  # fmt: skip


def write_capture(path: Path, frames: list[bytes], step_us: int = 60, magic: int = 0xA1B2C3D4) -> str:
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", magic, 2, 4, 0, 0, 65535, 1))
        for number, frame in enumerate(frames):
            fraction = number * step_us * (1 if magic == 0xA1B2C3D4 else 1000)
            out.write(struct.pack("<IIII", 1, fraction, len(frame), len(frame)) + frame)
    return str(path)


def v6_cnp(frame_name: str = "v6_cnp_quench") -> bytes:
    return next(bytes.fromhex(r[-1]) for r in rows("frames.txt") if r[0] == frame_name)


BAD_CNPS = [
    ("another DSCP", "bad_layout", make_cnp(ip={"tos": 0x68})),
    ("ECT", "bad_layout", make_cnp(ip={"tos": 0xC2})),
    ("TTL 65", "bad_layout", make_cnp(ip={"ttl": 65})),
    ("without DF", "bad_layout", make_cnp(ip={"flags": 0})),
    ("with an IP id", "bad_layout", make_cnp(ip={"id": 7})),
    ("wrong IP checksum", "bad_layout", make_cnp(ip={"chksum": 0x1234})),
    ("UDP checksum", "bad_layout", changed(make_cnp(), 14 + 20 + 6, 1)),
    ("FECN", "bad_layout", make_cnp(bth={"fecn": 1})),
    ("no BECN", "bad_layout", make_cnp(bth={"becn": 0})),
    ("PSN", "bad_layout", make_cnp(bth={"psn": 1})),
    ("ack request", "bad_layout", make_cnp(bth={"ackreq": 1})),
    ("migration state", "bad_layout", make_cnp(bth={"migreq": 1})),
    ("foreign P_Key", "bad_layout", make_cnp(bth={"pkey": 0x8002})),
    ("reserved bytes not zero", "bad_layout", with_icrc(changed(make_cnp(), 60, 1))),
    ("last byte of ICRC", "bad_icrc", changed(make_cnp(), 73, 1)),
    ("first byte of ICRC", "bad_icrc", changed(make_cnp(), 70, 0x80)),
    ("QPN of the receiver of the data", "bad_qpn", make_cnp(qpn=B_QPN)),
    ("QPN of nobody", "bad_qpn", make_cnp(qpn=0x99)),
    ("right pair, wrong way", "bad_qpn", make_cnp(src=A, dst=B)),
    ("other port than the data", "bad_udp_port", make_cnp(port=PORT + 1)),
    ("unknown hosts", "unknown_pair", make_cnp(dst="10.0.9.9")),
]


def check_bad_cnps(judge: Callable[[list[bytes]], tuple[int, dict]]) -> None:
    for name, kind, frame in BAD_CNPS:
        code, got = judge([make_cnp(), frame])
        counted = {k: got[k] for k in check_cnps.Verdict.KINDS if got[k]}
        good = code == 1 and counted == {kind: 1} and got["cnps"] == 2 and len(got["faults"]) == 1
        check(f"check_cnps finds {name}", good, str(got))


def check_good_cnps(judge: Callable[..., tuple[int, dict]]) -> None:
    good = [make_cnp(), make_cnp(ip={"ttl": 61}), make_cnp(bth={"pkey": 0x8001}),
            make_cnp(tail=bytes(4)), make_cnp()[:12] + bytes.fromhex("8100c064") + make_cnp()[12:],
            make_cnp(src=A, dst=B, qpn=B_QPN)]  # fmt: skip
    code, got = judge(good)
    check("check_cnps accepts right ones", code == 0 and got["cnps"] == len(good), str(got))
    check("check_cnps interval", got["min_interval_us_per_qp"] == 60.0, str(got))
    code, got = judge(good, magic=0xA1B23C4D)
    check("check_cnps interval, ns capture", got["min_interval_us_per_qp"] == 60.0, str(got))
    code, got = judge([make_cnp(ip={"ttl": 63})], options=["--at-source"])
    check("check_cnps TTL at the source", code == 1 and got["bad_layout"] == 1, str(got))


def check_cm_learning(judge: Callable[..., tuple[int, dict]]) -> None:
    """The pair of cm.txt: 192.0.2.1 has 0x1122, 192.0.2.2 has 0x3344."""
    cm = [bytes.fromhex(r[-1]) for r in rows("cm.txt")]
    right = make_cnp("192.0.2.2", "192.0.2.1", 0x1122)
    wrong = make_cnp("192.0.2.2", "192.0.2.1", 0x3344)
    code, got = judge(cm + [right], pairs=False)
    check("check_cnps learns a pair from CM", code == 0 and got["cnps"] == 1, str(got))
    code, got = judge(cm + [wrong, wrong], pairs=False)
    check("check_cnps judges by it", code == 1 and got["bad_qpn"] == 2, str(got))
    code, got = judge([right], pairs=False)
    check("check_cnps without CM knows no pair", code == 1 and got["unknown_pair"] == 1, str(got))


def check_v6_and_ports(judge: Callable[..., tuple[int, dict]]) -> None:
    pair = [{"a": "2001:db8::2", "a_qpn": 0x112233, "b": "2001:db8::1", "b_qpn": 5}]
    code, got = judge([v6_cnp()], pairs=pair)
    check("check_cnps over IPv6", code == 0 and got["cnps"] == 1, str(got))
    code, got = judge([changed(v6_cnp(), 93, 1)], pairs=pair)
    check("check_cnps bad ICRC over IPv6", code == 1 and got["bad_icrc"] == 1, str(got))
    pair = [{k: v for k, v in PAIR.items() if k != "a_port"}]
    code, got = judge([make_data(), make_cnp()], pairs=pair)
    check("check_cnps port of the data", code == 0, str(got))
    code, got = judge([make_cnp(), make_data(PORT + 1)], pairs=pair)
    check("check_cnps port not of the data", code == 1 and got["bad_udp_port"] == 1, str(got))


def check_unreadable(directory: Path) -> None:
    whole = Path(write_capture(directory / "whole.pcap", [make_cnp()])).read_bytes()
    for name, content in (("empty", b""), ("cut", whole[:-1]), ("cut header", whole[:30]),
                          ("other link type", whole[:20] + b"\x71" + whole[21:])):  # fmt: skip
        (directory / "bad.pcap").write_bytes(content)
        code, out = run([CHECK_CNPS, directory / "bad.pcap"])
        check(f"check_cnps refuses a capture: {name}", code == 2 and out == "", f"{code} {out}")


def check_check_cnps() -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)

        def judge(frames, pairs=True, magic=0xA1B2C3D4, options=()) -> tuple[int, dict]:
            """Judge in this process, but for what the command line decides."""
            capture = write_capture(directory / "t.pcap", frames, magic=magic)
            pair_file = directory / "pairs.json"
            pair_file.write_text(json.dumps([PAIR] if pairs is True else pairs or []))
            known = check_cnps.Pairs()
            if pairs:
                known.load(str(pair_file))
            traffic = check_cnps.Traffic(known, learn=not pairs)
            traffic.read(capture)
            verdict = check_cnps.judge(traffic, "--at-source" in options)
            return int(any(verdict.bad.values())), check_cnps.report(traffic, verdict)

        check_good_cnps(judge)
        check_bad_cnps(judge)
        check_cm_learning(judge)
        check_v6_and_ports(judge)
        check_unreadable(directory)
        capture = write_capture(directory / "c.pcap", [make_cnp()] * 3)
        (directory / "pairs.json").write_text(json.dumps([PAIR]))
        code, out = run([CHECK_CNPS, capture, "--pairs", directory / "pairs.json"])
        check("check_cnps command", code == 0 and json.loads(out)["cnps"] == 3, f"{code} {out}")
        code, out = run([CHECK_CNPS, capture])
        check("check_cnps command, no pairs", code == 1 and json.loads(out)["unknown_pair"] == 3, out)


def main() -> int:
    check_vectors()
    check_frames()
    check_other_frames()
    check_formats()
    check_captures()
    check_icrc_command()
    check_check_cnps()
    print(f"{failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
