# SPDX-License-Identifier: BSD-2-Clause
"""Guests with soft-RoCE at the ports of a gateway on this machine's kernel, and what is seen there.

    a (10.99.0.1, fd99::1) -- tapa [gw: br0] tapb -- b (10.99.0.2, fd99::2)
                                        tapc -- c, where there is a third
"""
import json
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lab"))
from guest import Command, Guest, Network  # noqa: E402
from image import Image  # noqa: E402
from lab import Fabric, Job, Lab, Port, expect, expect_equal, lab_policy, run, wait_until  # noqa: E402
from wire import Flow, Pair, Wire  # noqa: E402

FREE_BPS = 1_000_000_000  # far above what an emulated guest sends
SNAP_BYTES, RING_KB = 9216, 65536
SETTLE_S = 10
ROCE = "udp port 4791"
TAP_FRAMES = 10000  # that may wait for a guest, which can be slow
MTU_MAX = 4500  # of the guests' interfaces

IPV4 = {"a": "10.99.0.1", "b": "10.99.0.2", "c": "10.99.0.3"}
IPV6 = {"a": "fd99::1", "b": "fd99::2", "c": "fd99::3"}
MACS = {"a": "52:54:00:00:00:01", "b": "52:54:00:00:00:02", "c": "52:54:00:00:00:03"}

ENDPOINT_UP = """
sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.eth0.accept_dad=0
ip link set eth0 up; ip addr add {ipv4}/24 dev eth0; ip addr add {ipv6}/64 dev eth0 nodad
ip link set eth0 mtu 1500
modprobe rdma_rxe && modprobe rdma_ucm && rdma link add rxe0 type rxe netdev eth0 || exit 1
cd /sys/class/infiniband/rxe0/ports/1/gids
until i=$(grep -l 0000:0000:0000:0000:0000:ffff *) && ip -6 addr show dev eth0 | grep -q fe80; do
	usleep 50000
done
echo $i
"""

# A server listens when it sleeps where one waits for connections: nothing that it prints says so.
LISTENING = """
for pid in $(pidof {program}); do cat /proc/$pid/wchan; echo; done | grep -cE 'ucma|csk|futex'
"""
LISTEN_S = 30


def await_listening(guest: Guest, program: str, servers: list[Command]) -> None:
    """Wait until all of them take connections."""

    def listen() -> bool:
        ended = next((server for server in servers if server.done()), None)
        expect(not ended, f"{program} ended: {ended.wait().text.strip()[-300:]}" if ended else "")
        return guest.try_run(LISTENING.format(program=program)).text.strip() == str(len(servers))

    wait_until(listen, LISTEN_S, f"{guest.name}: {program} does not listen")


class Gateway(Lab):
    """The lab's gateway alone: a bridge between taps, where guests are plugged in."""

    def __init__(self, *ends: str) -> None:
        super().__init__(bridged=True)
        self.nodes, self.numbers = self.gateways, {}
        self.ends = ends

    def _build(self) -> None:
        super()._build()
        for end in self.ends:
            self.run("gw", "ip", "tuntap", "add", f"tap{end}", "mode", "tap")
            self.ip("gw", f"link set tap{end} txqueuelen {TAP_FRAMES} master br0 up")

    def set_mtu(self, mtu: int) -> None:
        self.fabric = Fabric(bridged=True, mtu=mtu)
        self.base_policy = lab_policy(self.fabric)
        self.ip("gw", *(f"link set {device} mtu {mtu}" for device in (*(f"tap{e}" for e in self.ends), "br0")))

    def guest(self, image: Image, name: str, end: str, directory: Path) -> Guest:
        """One whose eth0 is this end."""
        return Guest(image, name, directory, Network(self.namespace("gw"), f"tap{end}", MACS[end], MTU_MAX))

    def start_gateway(self, **rates_bps: int) -> None:
        """An agent; ends without a rate leave freely."""
        ports = [Port(f"tap{end}", "gateway", rates_bps.get(end, FREE_BPS)) for end in self.ends]
        self.start_gateway_ports(ports)

    def start_gateway_ports(self, ports: list[Port]) -> None:
        self.start_agent("gw", ports)
        modes = {port["name"]: port["xdp_mode"] for port in self.wait_ready("gw")["ports"]}
        expect_equal(set(modes.values()), {"native"}, f"XDP modes {modes}")

    def port(self, end: str) -> dict:
        """What the agent says of the port there."""
        return next(port for port in self.status("gw")["ports"] if port["name"] == f"tap{end}")

    def link(self, device: str) -> dict:
        """Statistics of a device, as ip shows them."""
        return json.loads(run("ip", "-n", self.namespace("gw"), "-s", "-j", "link", "show", device))[0]["stats64"]

    def capture(self, path: Path, end: str = "b", expression: str = ROCE) -> "CaptureJob":
        return CaptureJob(self, path, end, expression)


class CaptureJob:
    """tcpdump at a tap; at b's, everything between a and b passes."""

    def __init__(self, lab: Lab, path: Path, end: str, expression: str):
        self.path = path
        self.job: Job = lab.start(
            "gw", path.stem, "tcpdump", "-Z", "root", "-n", "-U", "--immediate-mode", "-i", f"tap{end}",
            "-s", SNAP_BYTES, "-B", RING_KB, "-w", path, expression,
        )  # fmt: skip
        wait_until(lambda: "listening on" in self.job.errors(), SETTLE_S, "tcpdump")

    def close(self) -> Path:
        """The file with all that it saw."""
        size = -1
        while size != self.path.stat().st_size:
            size = self.path.stat().st_size
            time.sleep(0.3)
        self.job.stop()
        self.job.wait()
        expect("\n0 packets dropped by kernel" in self.job.errors(), self.job.errors())
        return self.path

    def finish(self) -> Wire:
        return Wire(self.close())


class Endpoint:
    """A guest with rxe0."""

    def __init__(self, guest: Guest, name: str):
        self.guest, self.name = guest, name
        up = ENDPOINT_UP.format(ipv4=IPV4[name], ipv6=IPV6[name])
        self.gid = int(guest.run(up))
        self.addresses = (IPV4[name], IPV6[name], link_local(guest))

    def set_mtu(self, mtu: int) -> int:
        """Of Ethernet; returns the path MTU that rxe makes of it."""
        self.guest.run(f"ip link set eth0 mtu {mtu}")
        return int(re.search(r"active_mtu:\s+(\d+)", self.guest.run("ibv_devinfo -d rxe0"))[1])

    def counters(self) -> dict[str, int]:
        """rxe's own."""
        text = self.guest.run("cd /sys/class/infiniband/rxe0/ports/1/hw_counters; grep . *")
        return {name: int(value) for name, value in (line.split(":") for line in text.split())}


def link_local(guest: Guest) -> str:
    return re.search(r"inet6 (fe80\S+)/", guest.run("ip -6 addr show dev eth0"))[1]


class Seen:
    """What the gateway's quench says. It is asked while a test runs, too: pairs last as long as their
    connection."""

    def __init__(self, lab: Gateway):
        self.lab = lab
        self.pairs: set[Pair] = set()

    def look(self) -> dict[Flow, dict]:
        flows = {Flow(f["src"], f["dst"], f["dst_qpn"]): f for f in self.lab.flows("gw")}
        for flow, row in flows.items():
            if row["pair_source"] == "cm":
                self.pairs.add(Pair(flow, row["peer_qpn"]))
        return flows

    def cm_frames(self, port: str) -> int:
        """CM messages belong to no flow."""
        return self.lab.metrics("gw").total("quench_frames_total", kind="cm", port=port)

    def frames_from(self, end: "Endpoint") -> int:
        """Every RoCE frame that came from there."""
        flows = self.look()
        data = sum(row["packets"] for flow, row in flows.items() if flow.src in end.addresses)
        return data + self.cm_frames(f"tap{end.name}")
