#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""A lab of network namespaces: senders h1..hN, a gateway gw with one bottleneck, a receiver r1.

    h_i:eth0 (10.0.i.1) -- h_i:gw (10.0.i.254) -- routed -- gw:r1 (10.0.100.254) -- r1:eth0 (10.0.100.1)

As a module: `with Lab(senders=4) as lab:` makes it, and takes away everything in it whatever ends
the block; further options, the fields of Fabric, make its variants. As a command: `lab.py up`,
`lab.py down NAME`, `lab.py sweep`.
"""
import argparse
import ctypes
import http.client
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Callable, Iterator, NamedTuple, Optional, TypeVar

ROOT = Path(__file__).resolve().parents[2]
QUENCH = Path(os.environ.get("QUENCH") or ROOT / "build/quench")  # another build, as with sanitizers
RCPEER = ROOT / "build/lab/rcpeer"
QMON = ROOT / "build/lab/qmon"
POLICY = ROOT / "policies/lab.yaml"
LABS = Path("/run/quench-lab")
RUN_FILES = Path("/run/quench")  # sockets and state of all agents of the machine

BOTTLENECK_BPS = 200_000_000
HOST_OVERLOAD = 4  # the hosts together can send this many times what the bottleneck takes
RETURN_BPS = 1_000_000_000  # ports that only ACKs and CNPs leave by
BUFFER_BYTES_PER_SENDER = 192 * 1024
BUFFER_BYTES_MAX = 2 * 1024 * 1024
HOST_BUFFER_BYTES = 2 * 1024 * 1024  # holds every window
ETHERNET_BYTES_MAX = 14 + 8  # the header with two tags
FRAME_BYTES_MAX = 1500 + ETHERNET_BYTES_MAX
ROCE_MTU_MAX = 4200  # holds the largest path MTU, 4096, with all headers over IPv4 and IPv6
PATH_MTUS = (4096, 2048, 1024, 512, 256)
PATH_HEADER_BYTES_MAX = 40 + 8 + 12 + 16 + 4  # IPv6, UDP, BTH, RETH, ICRC
RECEIVER_ADDRESS = "10.0.100.1"
NOISE_PORT = 5001
NOISE_UDP_MBIT = 10  # that others send beside RoCE, and TCP as fast as it goes
METRICS_PORT = 9842  # of lab.yaml's observe.listen; each namespace has a loopback of its own

KMIN_FRAMES = 10  # of the longest, at least
MIN_RATE_FRAME_S = 0.010  # a QP that is slowed to the end sends a frame within this time

READY_S = 30
STOP_S = 15
CLONE_NEWNET = 0x40000000

T = TypeVar("T")


class LabError(Exception):
    """Something in the lab did not do what it must."""


class Port(NamedTuple):
    """A row of a policy's `ports`."""

    name: str
    role: str
    rate_bps: int = 0  # 0: none given
    keys: str = ""  # further keys, as in the policy: "notify: true"

    def row(self) -> str:
        keys = [f"name: {self.name}", f"role: {self.role}"]
        keys += [f"rate: {self.rate_bps // 1000}kbit"] if self.rate_bps else []
        return "  - {" + ", ".join(keys + ([self.keys] if self.keys else [])) + "}\n"


def run(*argv: object, stdin: Optional[str] = None) -> str:
    """Run a command to its end and return its output."""
    command = [str(a) for a in argv]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True)
    if done.returncode:
        raise LabError(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def wait_until(condition: Callable[[], Optional[T]], seconds: float, what: str, every_s: float = 0.05) -> T:
    """Poll until the condition gives something true, and return that."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise LabError(f"{what}: not within {seconds} s")
        time.sleep(every_s)


def in_namespace(namespace: str, call: Callable[[], T]) -> T:
    """Call in a thread that has entered the network namespace: its sockets belong there."""
    results: list[T] = []
    faults: list[BaseException] = []

    def enter() -> None:
        try:
            with open(f"/run/netns/{namespace}") as handle:
                if ctypes.CDLL(None, use_errno=True).setns(handle.fileno(), CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), f"setns {namespace}")
            results.append(call())
        except BaseException as fault:
            faults.append(fault)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if faults:
        raise faults[0]
    return results[0]


class Metrics:
    """One scrape of /metrics."""

    LINE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)", re.M)
    LABEL = re.compile(r'(\w+)="([^"]*)"')

    def __init__(self, text: str):
        self.samples = [
            (name, dict(self.LABEL.findall(labels)), float(value))
            for name, labels, value in self.LINE.findall(text)
        ]

    def total(self, name: str, **labels: str) -> int:
        """The sum over all label values but those given. A metric that is not there is a fault."""
        values = [(have, value) for n, have, value in self.samples if n == name]
        if not values:
            raise LabError(f"/metrics has no {name}")
        return int(sum(value for have, value in values if labels.items() <= have.items()))


@dataclass(frozen=True)
class Fabric:
    """What a lab is made of. Its defaults are the lab that everything else is a variant of."""

    senders: int = 4  # through each bottleneck
    ipv: int = 4
    bridged: bool = False
    mtu: int = 1500  # of Ethernet
    notify: bool = False  # the gateway makes the CNPs, and there is no agent at the receivers
    gateways: int = 1
    noise: bool = False  # TCP and plain UDP beside RoCE

    def __post_init__(self) -> None:
        possible = (
            (1 <= self.senders <= 32, f"{self.senders} senders: 1 to 32 are possible"),
            (self.ipv in (4, 6), f"IP version {self.ipv}: 4 and 6 are possible"),
            (1280 <= self.mtu <= 9000, f"an MTU of {self.mtu}: 1280 to 9000 are possible"),
            (self.gateways in (1, 2), f"{self.gateways} gateways: 1 and 2 are possible"),
            (self.gateways == 1 or not self.bridged, "two gateways route, they do not bridge"),
            (self.gateways == 1 or self.senders % 2 == 0, "two gateways need an even number of senders"),
            (not self.noise or self.senders > 1, "others beside RoCE need two senders or more"),
        )
        for holds, text in possible:
            if not holds:
                raise LabError(text)

    @property
    def path_mtu(self) -> int:
        """What RoCE makes of the Ethernet MTU: its next size below, 4096 at most."""
        return next(size for size in PATH_MTUS if size + PATH_HEADER_BYTES_MAX <= self.mtu)

    @property
    def frame_bytes_max(self) -> int:
        return self.mtu + ETHERNET_BYTES_MAX

    @property
    def buffer_bytes(self) -> int:
        """Of a bottleneck: in proportion to the senders and to their frames, up to a bound."""
        wanted = BUFFER_BYTES_PER_SENDER * self.senders * roce_frame_bytes_max(self.mtu) // FRAME_BYTES_MAX
        return min(wanted, BUFFER_BYTES_MAX) // 1024 * 1024

    def text(self) -> str:
        """What of it is not as in the lab that it is a variant of, and the number of senders."""
        parts = [f"senders: {self.senders}"]
        for name in ("ipv", "mtu", "gateways"):
            if getattr(self, name) != getattr(Fabric, name):
                parts.append(f"{name}: {getattr(self, name)}")
        return ", ".join(parts + [name for name in ("bridged", "notify", "noise") if getattr(self, name)])


def add_fabric_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--senders", type=int, default=Fabric.senders, metavar="N")
    parser.add_argument("--ipv", type=int, default=Fabric.ipv, metavar="4|6", help="IP version")
    parser.add_argument("--bridged", action="store_true", help="the gateway bridges instead of routing")
    parser.add_argument("--mtu", type=int, default=Fabric.mtu, metavar="BYTES", help="of Ethernet")
    parser.add_argument("--notify", action="store_true", help="the gateway makes the CNPs, not the receiver")
    parser.add_argument("--gateways", type=int, default=Fabric.gateways, metavar="1|2",
                        help="2: a bottleneck at each, and senders through one or both")  # fmt: skip
    parser.add_argument("--noise", action="store_true", help="TCP and plain UDP beside RoCE")


def fabric_of(args: argparse.Namespace) -> Fabric:
    return Fabric(**{name: getattr(args, name) for name in Fabric.__dataclass_fields__})


def fabric_options(fabric: Fabric) -> list[str]:
    """The options of a command line that make this fabric."""
    options = []
    for name in Fabric.__dataclass_fields__:
        value = getattr(fabric, name)
        if value is True:
            options.append(f"--{name}")
        elif value is not False:
            options += [f"--{name}", str(value)]
    return options


@dataclass
class Job:
    """A process in one of the namespaces. What it prints goes to files of the lab."""

    name: str
    process: subprocess.Popen
    out: Path
    err: Path

    def alive(self) -> bool:
        return self.process.poll() is None

    def errors(self) -> str:
        return self.err.read_text(errors="replace")

    def last_line(self) -> str:
        """The last whole line on standard error: how far it is."""
        lines = self.errors().split("\n")
        return lines[-2] if len(lines) > 1 else ""

    def stop(self) -> None:
        if self.alive():
            self.process.terminate()

    def wait(self, seconds: float = STOP_S) -> None:
        """Wait for the end, which must be a good one."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise LabError(f"{self.name}: still runs after {seconds} s") from None
        if status:
            raise LabError(f"{self.name}: exit status {status}: {self.errors().strip()[-500:]}")

    def report(self, seconds: float = STOP_S) -> dict:
        """The JSON document that it leaves on standard output."""
        self.wait(seconds)
        return json.loads(self.out.read_text())


@dataclass
class Traffic:
    """One QP from each sender to its receiver."""

    listeners: list[Job]
    senders: list[Job]
    start_epoch: float
    seconds: float
    received: dict = field(default_factory=dict)  # the listeners' reports in one
    sent: list[dict] = field(default_factory=list)

    LATE_START_S = 0.2

    @property
    def listener(self) -> Job:
        return self.listeners[0]

    def finish(self) -> None:
        """Wait for the senders' last acknowledgements, then take all reports."""
        self.sent = [job.report(self.seconds + STOP_S) for job in self.senders]
        for job in self.listeners:
            job.stop()
        reports = [job.report() for job in self.listeners]
        self.received = {
            "flows": [flow for report in reports for flow in report["flows"]],
            **{key: sum(report[key] for report in reports) for key in ("icrc_bad", "socket_drops")},
        }
        late = max(s["start_epoch"] for s in self.sent) - self.start_epoch
        if late > self.LATE_START_S:
            raise LabError(f"a sender began {late:.1f} s late: the run says nothing")

    def stop(self) -> None:
        for job in [*self.senders, *self.listeners]:
            job.stop()

    def pairs(self) -> list[dict]:
        """The QP pairs in the form that check_cnps.py reads."""
        return [
            {
                "a": flow["src"], "a_qpn": flow["peer_qpn"], "a_port": flow["udp_src_port"],
                "b": flow["dst"], "b_qpn": flow["qpn"],
            }
            for flow in self.received["flows"]
        ]  # fmt: skip


class Lab:
    """The namespaces and all that runs in them. A node is "gw", "r1" or "h1".. here, and with two
    gateways "gw2" and "r2" too.

    Two gateways, with N senders through each bottleneck, h the first N/2 of them:

        h     ── gw ══ gw2 ══ r1      through both
        next  ── gw ══ gw2 ── r2      through the first
        last         ─ gw2 ══ r1      through the second
    """

    def __init__(
        self, senders: int = Fabric.senders, name: Optional[str] = None, quench: Path = QUENCH,
        **options: object,
    ):  # fmt: skip
        self.fabric = Fabric(senders, **options)
        self.name = name or os.environ.get("LAB") or f"q{os.getpid()}"
        two = self.fabric.gateways == 2
        self.hosts = [f"h{i}" for i in range(1, (senders * 3 // 2 if two else senders) + 1)]
        self.gateways = ["gw", "gw2"] if two else ["gw"]
        self.receivers = ["r1", "r2"] if two else ["r1"]
        self.nodes = [*self.gateways, *self.receivers, *self.hosts]
        self.bridged = self.fabric.bridged
        self.quench = quench
        self.host_bps = HOST_OVERLOAD * BOTTLENECK_BPS // senders
        self.buffer_bytes = self.fabric.buffer_bytes
        self.base_policy = lab_policy(self.fabric)
        self.numbers = {  # in addresses
            **{host: i for i, host in enumerate(self.hosts, 1)},
            **{receiver: 100 + i for i, receiver in enumerate(self.receivers)},
        }
        self.directory = LABS / self.name
        self.agents: dict[str, Job] = {}
        self.jobs: list[Job] = []

    # Who is where

    def path_of(self, host: str) -> tuple[str, str]:
        """The gateway that a sender enters by, and its receiver."""
        if len(self.gateways) == 1:
            return "gw", "r1"
        third = self.hosts.index(host) * 3 // len(self.hosts)
        return (("gw", "r1"), ("gw", "r2"), ("gw2", "r1"))[third]

    def gateway_of(self, node: str) -> str:
        return self.gateways[-1] if node in self.receivers else self.path_of(node)[0]

    def bottlenecks(self) -> list[tuple[str, str]]:
        """Gateway and port of each."""
        return [("gw", "gw2"), ("gw2", "r1")] if len(self.gateways) == 2 else [("gw", "r1")]

    def passes(self, host: str, gateway: str) -> bool:
        """Is the bottleneck of this gateway on the sender's way?"""
        enters, receiver = self.path_of(host)
        return enters == gateway or (gateway != "gw" and receiver == "r1")

    def address(self, node: str) -> str:
        return self._address(self.numbers[node], 1)

    def _address(self, subnet: int, host: int) -> str:
        return f"fd00:0:0:{subnet}::{host}" if self.fabric.ipv == 6 else f"10.0.{subnet}.{host}"

    # Coming and going

    def __enter__(self) -> "Lab":
        sweep()
        exit_on_signals()
        self._claim()
        try:
            self._build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Take everything away; a signal does not cut it short."""
        with signals_held():
            for job in self.jobs:
                job.stop()
            take_away(self.name)
            for job in self.jobs:
                job.process.wait()

    def _claim(self) -> None:
        LABS.mkdir(exist_ok=True)
        try:
            self.directory.mkdir()
        except FileExistsError:
            raise LabError(f"{self.name}: there is such a lab already") from None
        (self.directory / "owner").write_text(process_identity(os.getpid()) or "")

    def _build(self) -> None:
        bpf = self.directory / "bpf"
        bpf.mkdir()
        run("mount", "-t", "bpf", "bpf", bpf)
        for node in self.nodes:
            run("ip", "netns", "add", self.namespace(node))
            self._set_ip_up(node)
            self.ip(node, "link set lo up")
        if self.bridged:
            self.ip("gw", "link add br0 type bridge mcast_snooping 0", f"link set br0 mtu {self.fabric.mtu} up")
        for node, number in self.numbers.items():
            self._connect(node, number)
            if self.bridged:
                self._bridge(node, number)
            else:
                self._route(node, number)
        if len(self.gateways) == 2:
            self._connect_gateways()

    def _set_ip_up(self, node: str) -> None:
        """Only what is asked for crosses a cable: where IPv6 is on, no address comes by itself, none
        is probed, and no router is looked for."""
        quiet = {"accept_dad": 0, "dad_transmits": 0, "addr_gen_mode": 1, "router_solicitations": 0,
                 "accept_ra": 0, "disable_ipv6": 0}  # fmt: skip
        for key, value in (quiet if self.fabric.ipv == 6 else {"disable_ipv6": 1}).items():
            for scope in ("all", "default"):
                self.sysctl(node, f"net/ipv6/conf/{scope}/{key}", value)
        if node in self.gateways and not self.bridged:
            forwarding = "ipv6/conf/all/forwarding" if self.fabric.ipv == 6 else "ipv4/ip_forward"
            self.sysctl(node, f"net/{forwarding}", 1)

    def _cable(self, node: str, device: str, number: int, gateway: str, port: str) -> dict[str, str]:
        """A cable from the node's device to the gateway's port; returns the address of each end."""
        mac = {device: f"02:00:00:00:{number:02x}:01", port: f"02:00:00:00:{number:02x}:fe"}
        self.ip(
            node,
            f"link add {device} address {mac[device]} type veth peer name {port} "
            f"address {mac[port]} netns {self.namespace(gateway)}",
            f"link set {device} mtu {self.fabric.mtu} up",
        )
        self.ip(gateway, f"link set {port} mtu {self.fabric.mtu} up")
        self._keep_order(node, device)
        self._keep_order(gateway, port)
        return mac

    def _connect(self, node: str, number: int) -> None:
        self._cable(node, "eth0", number, self.gateway_of(node), node)

    def _set_subnet(self, node: str, device: str, own: str, other: str, other_mac: str) -> None:
        """Address one end of a cable, and tell it of the other, so that it never needs to ask."""
        bits, nodad = (64, " nodad") if self.fabric.ipv == 6 else (24, "")
        self.ip(
            node,
            f"addr add {own}/{bits} dev {device}{nodad}",
            f"neigh add {other} lladdr {other_mac} nud permanent dev {device}",
        )

    def _route(self, node: str, number: int) -> None:
        """A subnet for each cable, in which the gateway is the way to all others."""
        own, gateway = self._address(number, 1), self._address(number, 254)
        mac = f"02:00:00:00:{number:02x}"
        self._set_subnet(node, "eth0", own, gateway, f"{mac}:fe")
        self._set_subnet(self.gateway_of(node), node, gateway, own, f"{mac}:01")
        self.ip(node, f"route add default via {gateway}")

    def _connect_gateways(self) -> None:
        number = 200
        mac = self._cable("gw2", "gw", number, "gw", "gw2")
        first, second = self._address(number, 254), self._address(number, 1)
        self._set_subnet("gw", "gw2", first, second, mac["gw"])
        self._set_subnet("gw2", "gw", second, first, mac["gw2"])
        self.ip("gw", f"route add default via {second}")
        self.ip("gw2", f"route add default via {first}")

    def _bridge(self, node: str, own: int) -> None:
        """Put the cable into br0: all hosts in one subnet, known to each other and to the bridge."""
        bits, nodad = (32, " nodad") if self.fabric.ipv == 6 else (16, "")
        neighbours = [
            f"neigh add {self._address(n, 1)} lladdr 02:00:00:00:{n:02x}:01 nud permanent dev eth0"
            for n in self.numbers.values()
            if n != own
        ]
        self.ip(node, f"addr add {self._address(own, 1)}/{bits} dev eth0{nodad}", *neighbours)
        self.ip("gw", f"link set {node} master br0")
        self.run("gw", "bridge", "fdb", "add", f"02:00:00:00:{own:02x}:01", "dev", node, "master", "static")

    def _keep_order(self, node: str, device: str) -> None:
        """GRO gives a veth a receive ring, as XDP does, unless its peer has TSO. Without a ring its
        frames wait at whichever CPU happened to send, and overtake each other."""
        self.run(node, "ethtool", "-K", device, "gro", "on", "tso", "off")

    # Commands

    def namespace(self, node: str) -> str:
        return f"{self.name}-{node}"

    def instance(self, node: str) -> str:
        """The name of the agent there."""
        return self.namespace(node)

    def command(self, node: str, *argv: object) -> list[str]:
        """A command line that runs argv in the node, with the lab's bpffs at /sys/fs/bpf."""
        enter = 'mount --bind "$0" /sys/fs/bpf && exec "$@"'
        bpf = self.directory / "bpf"
        return [
            "ip", "netns", "exec", self.namespace(node),
            "sh", "-c", enter, str(bpf), *[str(a) for a in argv],
        ]  # fmt: skip

    def run(self, node: str, *argv: object) -> str:
        return run(*self.command(node, *argv))

    def ip(self, node: str, *lines: str) -> None:
        run("ip", "-n", self.namespace(node), "-batch", "-", stdin="\n".join(lines) + "\n")

    def tc(self, node: str, *lines: str) -> None:
        run("tc", "-n", self.namespace(node), "-batch", "-", stdin="\n".join(lines) + "\n")

    def sysctl(self, node: str, path: str, value: int) -> None:
        in_namespace(self.namespace(node), lambda: Path("/proc/sys", path).write_text(f"{value}\n"))

    def start(self, node: str, name: str, *argv: object) -> Job:
        """Start a process in the node. It is told to end when this process dies."""
        out, err = self.directory / f"{name}.out", self.directory / f"{name}.err"
        command = ["setpriv", "--pdeathsig", "TERM", *self.command(node, *argv)]
        with open(out, "w") as o, open(err, "w") as e:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=o, stderr=e, start_new_session=True
            )
        job = Job(f"{name} in {node}", process, out, err)
        self.jobs.append(job)
        return job

    # Without quench

    def shape_plain(self) -> None:
        """The same rates and buffers as with quench, from the kernel's own queues alone."""
        quantum = self.fabric.frame_bytes_max
        for gateway, port in self.bottlenecks():
            self.tc(gateway, *shaper(port, BOTTLENECK_BPS, self.buffer_bytes, quantum))
        for host in self.hosts:
            self.tc(host, *shaper("eth0", self.host_bps, HOST_BUFFER_BYTES, quantum))

    # With quench

    def default_ports(self, node: str) -> list[Port]:
        if node in self.receivers:
            return [Port("eth0", "host", RETURN_BPS)]
        if node in self.hosts:
            return [Port("eth0", "host", self.host_bps)]
        bottleneck = dict(self.bottlenecks())[node]
        others = [n for n in self.numbers if self.gateway_of(n) == node and n != bottleneck]
        others += [gateway for gateway in self.gateways if gateway not in (node, bottleneck)]
        keys = "notify: true" if self.fabric.notify else ""
        return [
            Port(bottleneck, "gateway", BOTTLENECK_BPS, keys),
            *[Port(other, "gateway", RETURN_BPS) for other in others],
        ]

    def write_policy(self, node: str, ports: list[Port]) -> Path:
        path = self.directory / f"{node}.yaml"
        path.write_text(self.base_policy + "ports:\n" + "".join(port.row() for port in ports))
        return path

    def start_agent(self, node: str, ports: Optional[list[Port]] = None) -> Job:
        """Start the agent of a node; wait_ready says when it works."""
        policy = self.write_policy(node, ports or self.default_ports(node))
        instance = self.instance(node)
        job = self.start(node, f"quench-{node}", self.quench, "run", "-c", policy, "--instance", instance)
        self.agents[node] = job
        return job

    def wait_ready(self, node: str) -> dict:
        return wait_until(lambda: self.status(node), READY_S, f"the agent in {node} does not answer")

    def status(self, node: str) -> Optional[dict]:
        """What the agent says of itself; None when it does not answer."""
        job = self.agents[node]
        if not job.alive():
            raise LabError(f"{job.name} ended: {job.errors().strip()[-500:]}")
        command = [str(self.quench), "status", "--instance", self.instance(node), "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
        return None if done.returncode else json.loads(done.stdout)

    def flows(self, node: str) -> list[dict]:
        """Every flow that the agent of the node knows."""
        return json.loads(run(self.quench, "flows", "--instance", self.instance(node), "--json"))["flows"]

    def release(self, node: str) -> str:
        """`quench release` of the agent there, dead or alive."""
        return self.run(node, self.quench, "release", "--instance", self.instance(node))

    def start_quench(self, **ports: list[Port]) -> None:
        """An agent in every node; one with an empty list of ports gets none."""
        if self.fabric.notify:
            ports = {**{receiver: [] for receiver in self.receivers}, **ports}
        nodes = [node for node in self.nodes if ports.get(node) != []]
        for node in nodes:
            self.start_agent(node, ports.get(node))
        for node in nodes:
            self.wait_ready(node)

    def stop_quench(self) -> None:
        for job in self.agents.values():
            job.stop()
        for job in self.agents.values():
            job.wait()
        self.agents.clear()

    def get(self, node: str, port: int, path: str) -> str:
        """What a web server on the node's loopback answers."""

        def request() -> str:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", path)
            response = connection.getresponse()
            if response.status != 200:
                raise LabError(f"{path} of {node}: {response.status}")
            return response.read().decode()

        return in_namespace(self.namespace(node), request)

    def metrics(self, node: str) -> Metrics:
        return Metrics(self.get(node, METRICS_PORT, "/metrics"))

    # What is to be seen

    def state(self) -> dict[str, str]:
        """Whatever an agent could leave behind, as the tools print it."""
        commands = ("tc qdisc", "tc filter", "ip -br link", "bpftool net")
        script = "set -e; " + "; ".join(f"echo '# {c}'; {c}" for c in commands)
        state = {
            "pins": "".join(f"{p}\n" for p in sorted((self.directory / "bpf").glob("quench/v*/*"))),
            "files": "".join(f"{p}\n" for p in sorted(RUN_FILES.glob(f"{self.name}-*"))),
        }
        for node in self.nodes:
            printed = re.split(r"^# (.+)\n", self.run(node, "sh", "-c", script), flags=re.M)
            state |= {f"{node}: {c}": text for c, text in zip(printed[1::2], printed[2::2])}
        return state

    def left_behind(self, before: dict[str, str]) -> list[str]:
        """The parts of state() that are not what they were."""
        after = self.state()
        return [what for what in before if before[what] != after[what]]

    def start_listener(self, *options: object, node: str = "r1") -> Job:
        return self.start(node, f"listen-{node}", RCPEER, "listen", "-d", "eth0", *options)

    def start_sender(self, host: str, seconds: float, qpn_base: int, *options: object) -> Job:
        return self.start(
            host, f"send-{host}", RCPEER, "send", "-d", "eth0", "-c", self.address(self.path_of(host)[1]),
            "--qpn-base", qpn_base, "--duration", seconds, "--progress", *options,
        )  # fmt: skip

    def start_traffic(
        self, seconds: float, message_bytes: int = 65536, mtu: Optional[int] = None,
        hosts: Optional[list[str]] = None, options: tuple = (),
    ) -> Traffic:  # fmt: skip
        """Connect one QP from each host, all to send from the same full second on."""
        listeners = [self.start_listener(node=receiver) for receiver in self.receivers]
        start_epoch = math.ceil(time.time() + 1)
        senders = [
            self.start_sender(
                host, seconds, 0x10000 + 0x100 * self.numbers[host], "--message", message_bytes,
                "--mtu", mtu or self.fabric.path_mtu, "--start-at", start_epoch, *options,
            )
            for host in hosts or self.hosts
        ]  # fmt: skip
        return Traffic(listeners, senders, start_epoch, seconds)

    def start_noise(self, seconds: float) -> list[Job]:
        """TCP from the first sender and plain UDP from the last to r1, whose sink comes first."""
        sink = self.start("r1", "sink", RCPEER, "sink", "--port", NOISE_PORT)
        listening = ("ss", f"-{self.fabric.ipv}", "-Hltn", f"sport = :{NOISE_PORT}")
        wait_until(lambda: self.run("r1", *listening), READY_S, f"{sink.name} does not listen")
        noises = (("tcp", self.hosts[0], ["--tcp"]), ("udp", self.hosts[-1], ["--udp", NOISE_UDP_MBIT]))
        return [sink] + [
            self.start(
                host, f"noise-{kind}", RCPEER, "noise", "-c", self.address("r1"), "--port", NOISE_PORT,
                "--duration", seconds, *options,
            )
            for kind, host, options in noises
        ]  # fmt: skip


def roce_frame_bytes_max(mtu: int) -> int:
    """The longest frame of RoCE with two tags: it uses no more of an MTU than its own largest."""
    return min(mtu, ROCE_MTU_MAX) + ETHERNET_BYTES_MAX


def lab_policy(fabric: Fabric) -> str:
    """policies/lab.yaml without its ports, which are its last section, and with the lab's buffer."""
    text = re.sub(r"^ports:.*\Z", "", POLICY.read_text(), flags=re.M | re.S)
    text = policy_with(text, limit=f"{fabric.buffer_bytes // 1024}KiB")
    return scaled_policy(text, BOTTLENECK_BPS, fabric.senders, fabric.mtu, fabric.gateways)


def scaled_policy(text: str, bottleneck_bps: int, senders: int, mtu: int, in_a_row: int = 1) -> str:
    """The policy of lab.yaml for another bottleneck, number of senders, MTU, and number of
    bottlenecks in a row, by the rule that stands there."""
    speed = bottleneck_bps / BOTTLENECK_BPS
    frame_bytes = roce_frame_bytes_max(mtu)
    size = max(speed, KMIN_FRAMES * frame_bytes / policy_number(text, "kmin"))
    wait = size / speed
    factors = {
        "kmin": size, "kmax": size,
        "interval": wait * in_a_row, "alpha_timer": wait * in_a_row, "increase_timer": wait,
        "additive_rate": speed * wait * min(1, Fabric.senders / senders),
        "min_rate": speed,
    }  # fmt: skip
    for key, factor in factors.items():
        text = policy_scaled(text, key, factor)
    frame_kbit = math.ceil(frame_bytes * 8 / MIN_RATE_FRAME_S / 1000)
    if policy_number(text, "min_rate") < frame_kbit * 1000:
        text = policy_with(text, min_rate=f"{frame_kbit}kbit")
    return text


# What a scaled number is written in, without fractions, and how many of that a unit is.
UNITS = {
    "B": ("B", 1), "KB": ("B", 1000), "KiB": ("B", 1024), "MiB": ("B", 1024**2),
    "ns": ("ns", 1), "us": ("ns", 1000), "ms": ("ns", 10**6), "s": ("ns", 10**9),
    "kbit": ("kbit", 1), "Mbit": ("kbit", 1000), "Gbit": ("kbit", 10**6),
}  # fmt: skip


def policy_value(text: str, key: str) -> tuple[float, str]:
    """A number of the policy and its unit."""
    found = re.findall(rf"^ +{key}: *([\d.]+)([A-Za-z]+)\b", text, flags=re.M)
    if len(found) != 1 or found[0][1] not in UNITS:
        raise LabError(f"the policy has no single {key} with a known unit")
    return float(found[0][0]), found[0][1]


def policy_number(text: str, key: str) -> int:
    """The same in bytes, nanoseconds or bit/s."""
    number, unit = policy_value(text, key)
    base, times = UNITS[unit]
    return round(number * times * (1000 if base == "kbit" else 1))


def policy_scaled(text: str, key: str, factor: float) -> str:
    number, unit = policy_value(text, key)
    base, times = UNITS[unit]
    return text if factor == 1 else policy_with(text, **{key: f"{round(number * times * factor)}{base}"})


def policy_with(text: str, **values: object) -> str:
    """The policy with other values of some of its keys."""
    for key, value in values.items():
        text, found = re.subn(rf"^( +{key}:) *\S+", rf"\1 {value}", text, flags=re.M)
        if found != 1:
            raise LabError(f"the policy has {key} {found} times, not once")
    return text


def policy_with_pfc(text: str, xoff: str, xon: str) -> str:
    """The policy with PFC in its only class."""
    marks = f"pfc: {{xoff: {xoff}, xon: {xon}}}"
    text, found = re.subn(r"^( +)(limit: \S+.*)$", rf"\1\2\n\1{marks}", text, flags=re.M)
    if found != 1:
        raise LabError(f"the policy has {found} classes with a limit, not one")
    return text


def shaper(device: str, rate_bps: int, buffer_bytes: int, quantum: int = FRAME_BYTES_MAX) -> list[str]:
    """An HTB of one class with a bfifo, as lines for tc. A burst is what 1 ms sends."""
    burst = rate_bps // 8 // 1000
    return [
        f"qdisc add dev {device} root handle 1: htb default 1",
        f"class add dev {device} parent 1: classid 1:1 htb rate {rate_bps}bit ceil {rate_bps}bit "
        f"burst {burst}b cburst {burst}b quantum {quantum}",
        f"qdisc add dev {device} parent 1:1 handle 10: bfifo limit {buffer_bytes}",
    ]


# Nothing stays


def process_identity(pid: int) -> Optional[str]:
    """A pid and its start time, which no later process shares; None when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return f"{pid} {stat.rpartition(')')[2].split()[19]}"


def owner_of(name: str) -> Optional[int]:
    """The pid of the process that the lab belongs to, if that is still there."""
    try:
        identity = (LABS / name / "owner").read_text()
        pid = int(identity.split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return pid if process_identity(pid) == identity else None


def namespaces_of(name: str) -> list[str]:
    names = [line.split()[0] for line in run("ip", "netns", "list").splitlines() if line.strip()]
    return [n for n in names if re.fullmatch(re.escape(name) + r"-(gw2?|r[12]|h\d+)", n)]


def processes_of(name: str) -> list[int]:
    return [int(p) for n in namespaces_of(name) for p in run("ip", "netns", "pids", n).split()]


def end_processes(name: str) -> None:
    """End whatever still runs in the lab's namespaces, each by its pid."""
    for sig, seconds in ((signal.SIGTERM, STOP_S), (signal.SIGKILL, STOP_S)):
        for pid in processes_of(name):
            try:
                os.kill(pid, sig)
            except ProcessLookupError:
                pass
        try:
            wait_until(lambda: not running(processes_of(name)), seconds, "processes")
            return
        except LabError:
            continue
    raise LabError(f"{name}: processes {processes_of(name)} cannot be ended")


def running(pids: list[int]) -> list[int]:
    """Those that are more than an entry which nobody has waited for yet."""

    def state(pid: int) -> str:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return "X"

    return [pid for pid in pids if state(pid) not in "XZ"]


def take_away(name: str) -> None:
    """Remove what a lab of this name consists of, as far as it exists."""
    directory = LABS / name
    end_processes(name)
    for namespace in namespaces_of(name):
        run("ip", "netns", "del", namespace)
    if os.path.ismount(directory / "bpf"):
        run("umount", directory / "bpf")
    for path in RUN_FILES.glob(f"{name}-*.s*"):  # of agents that were killed
        path.unlink(missing_ok=True)
    shutil.rmtree(directory, ignore_errors=True)


def lab_names() -> Iterator[str]:
    if LABS.is_dir():
        yield from sorted(p.name for p in LABS.iterdir() if p.is_dir())


def sweep() -> list[str]:
    """Take away the labs whose owner is gone, as after a kill -9."""
    gone = [name for name in lab_names() if owner_of(name) is None]
    for name in gone:
        take_away(name)
    return gone


ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def exit_on_signals() -> None:
    """Let a signal that ends the process unwind it, so that what is open gets closed."""

    def leave(number: int, _: object) -> None:
        sys.exit(128 + number)

    for number in ENDING_SIGNALS:
        signal.signal(number, leave)


class signals_held:
    """Within this block the ending signals wait."""

    def __enter__(self) -> None:
        self.before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)

    def __exit__(self, *_: object) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self.before)


# Tests


class Cases:
    """Named cases of a test program, each a with block: it fails when something in it is raised."""

    FAULTS = (LabError, OSError, ValueError, KeyError, IndexError, TypeError, subprocess.TimeoutExpired)

    def __init__(self) -> None:
        self.failed = 0
        self.seen: list[str] = []  # numbers worth showing, of the case that runs

    @contextmanager
    def case(self, name: str) -> Iterator[None]:
        self.seen = []
        try:
            yield
        except self.FAULTS as fault:
            self.failed += 1
            text = str(fault) if isinstance(fault, LabError) else repr(fault)
            print(f"not ok - {name}: {'; '.join(text.splitlines())}", flush=True)
        else:
            print(f"ok - {name}{f' ({self.seen_text()})' if self.seen else ''}", flush=True)

    def note(self, text: str) -> None:
        self.seen.append(text)

    def seen_text(self) -> str:
        return ", ".join(self.seen)

    def exit_code(self) -> int:
        return 1 if self.failed else 0


def expect(holds: object, detail: object) -> None:
    if not holds:
        raise LabError(str(detail))


def expect_equal(found: object, wanted: object, what: str) -> None:
    expect(found == wanted, f"{what}: {found!r}, not {wanted!r}")


# What an agent needs


class Footprint:
    """Descriptors and memory of each agent."""

    def __init__(self, lab: Lab):
        self.pids = {node: job.process.pid for node, job in lab.agents.items()}
        self.fds = {node: len(os.listdir(f"/proc/{pid}/fd")) for node, pid in self.pids.items()}
        self.rss_kb = {node: self._rss_kb(pid) for node, pid in self.pids.items()}

    @staticmethod
    def _rss_kb(pid: int) -> int:
        return int(re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M)[1])

    def growth_kb(self, before: "Footprint") -> dict[str, int]:
        return {node: kb - before.rss_kb[node] for node, kb in self.rss_kb.items()}


# The command


def guide(lab: Lab) -> str:
    """How to look around in a lab that is up."""
    gw, script = lab.namespace("gw"), Path(__file__).resolve()
    lines = [
        f"The lab {lab.name} is up. To look around:",
        f"  {QUENCH} status --instance {lab.instance('gw')}",
        f"  {QUENCH} flows --instance {lab.instance('h1')}",
        f"  ip netns exec {gw} curl -s http://127.0.0.1:{METRICS_PORT}/metrics",
        f"  tc -n {gw} -s qdisc show dev r1",
        f"  ip netns exec {gw} tcpdump -ni h1 'udp port 4791 and udp[8] = 0x81'",
        "To end it:",
        f"  {script} down {lab.name}",
    ]
    return "\n".join(lines)


def up(args: argparse.Namespace) -> int:
    """Keep a lab up until a signal comes."""
    with Lab(name=args.name, **asdict(fabric_of(args))) as lab:
        if args.plain:
            lab.shape_plain()
        else:
            lab.start_quench()
        print(guide(lab), flush=True)
        while True:
            if args.traffic:
                keep_sending(lab)
            else:
                signal.pause()


def keep_sending(lab: Lab) -> None:
    """One round of traffic, which somebody who looks around may well break."""
    others = list(lab.jobs)
    try:
        lab.start_traffic(seconds=60).finish()
    except LabError as fault:
        print(f"lab: {fault}", file=sys.stderr, flush=True)
    for job in lab.jobs[len(others) :]:
        job.stop()
        job.process.wait()
    lab.jobs = others


def down(args: argparse.Namespace) -> int:
    if args.name not in lab_names():
        raise LabError(f"{args.name}: no such lab; there are: {' '.join(lab_names()) or 'none'}")
    pid = owner_of(args.name)
    if pid:
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: args.name not in lab_names(), 3 * STOP_S, f"end of {args.name}")
    else:
        take_away(args.name)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="A lab of network namespaces for quench.")
    commands = parser.add_subparsers(dest="command", required=True)
    p = commands.add_parser("up", help="make a lab and keep it until a signal comes")
    p.add_argument("--name", help="default: LAB from the environment, else q and the pid")
    add_fabric_options(p)
    p.add_argument("--plain", action="store_true", help="the kernel's queues, no quench")
    p.add_argument("--traffic", action="store_true", help="and traffic, again and again")
    p.set_defaults(call=up)
    p = commands.add_parser("down", help="end a lab")
    p.add_argument("name")
    p.set_defaults(call=down)
    p = commands.add_parser("sweep", help="take away labs whose owner is gone")
    p.set_defaults(call=lambda _: print(*sweep(), sep="\n"))
    args = parser.parse_args()
    try:
        return args.call(args) or 0
    except LabError as fault:
        print(f"lab: {fault}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
