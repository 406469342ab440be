# SPDX-License-Identifier: BSD-2-Clause
"""A guest under QEMU's software emulation, and the commands that run in it."""
import base64
import re
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, Optional

from image import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lab"))
from lab import LabError  # noqa: E402

LIFE_S = 600  # of a guest, whatever happens
BOOT_S = 60
BOOTS_MAX = 3  # emulated kernels have been seen to die while they boot
COMMAND_S = 60
STOP_S = 20
PATIENCE_S = 20  # without a word about what is waited for
MEMORY_MB = 448
TAIL_LINES = 5


class Network(NamedTuple):
    """Where a guest's eth0 is plugged in."""

    namespace: str
    tap: str
    mac: str
    mtu: int = 1500


class Answer(NamedTuple):
    status: int
    text: str


class Command:
    """A command that runs in a guest."""

    def __init__(self, guest: "Guest", number: str, text: str):
        self.guest, self.number, self.text = guest, number, text

    def wait(self, seconds: float = COMMAND_S) -> Answer:
        return self.guest.answer(self.number, seconds, self.text)

    def done(self) -> bool:
        return self.guest.has_answered(self.number)

    def result(self, seconds: float = COMMAND_S) -> str:
        """What it printed; its end must be a good one."""
        answer = self.wait(seconds)
        if answer.status:
            text = "; ".join(answer.text.strip().splitlines()[-TAIL_LINES:])
            raise LabError(f"{self.guest.name}: {self.text}: exit status {answer.status}: {text}")
        return answer.text


class Guest:
    """One guest, between launch and stop. Its console goes to a file."""

    def __init__(self, image: Image, name: str, directory: Path, network: Optional[Network] = None):
        self.image, self.name, self.network = image, name, network
        self.console = directory / f"console-{name}"
        self.boots = 0
        self.boot_s = 0.0
        self._commands = 0

    def _command_line(self, port: int) -> list[str]:
        enter = ["ip", "netns", "exec", self.network.namespace] if self.network else []
        line = [
            *("setpriv", "--pdeathsig", "TERM", *enter, "timeout", "-k", "5", str(LIFE_S)),
            *("qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-smp", "1", "-m", str(MEMORY_MB)),
            *("-display", "none", "-nodefaults", "-no-user-config", "-monitor", "none", "-no-reboot"),
            *("-kernel", str(self.image.vmlinuz), "-initrd", str(self.image.initramfs)),
            *("-append", "console=ttyS0 panic=-1 quiet mitigations=off nokaslr tsc=reliable"),
            *("-serial", "stdio", "-chardev", f"socket,id=commands,fd={port}"),
            *("-device", "virtio-serial-pci", "-device", "virtserialport,chardev=commands,nr=1"),
        ]
        if not self.network:
            line += ["-netdev", "user,id=n0,restrict=on,ipv6=off", "-device", "virtio-net-pci,netdev=n0"]
        else:
            device = f"virtio-net-pci,netdev=n0,mac={self.network.mac},host_mtu={self.network.mtu}"
            line += ["-netdev", f"tap,id=n0,ifname={self.network.tap},script=no,downscript=no"]
            line += ["-device", device]
        return line

    def launch(self) -> None:
        self.boots += 1
        self.started = time.monotonic()
        self._answers: dict[str, Answer] = {}
        self._arrival = threading.Condition()
        self._socket, theirs = socket.socketpair()
        with theirs, open(self.console, "w") as console:
            self._process = subprocess.Popen(
                self._command_line(theirs.fileno()), pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        threading.Thread(target=self._listen, args=[self._socket.makefile("rb")], daemon=True).start()

    def wait_ready(self) -> str:
        """Wait until it takes commands, and boot it again if it does not. Returns its kernel's release."""
        while True:
            try:
                release = self.answer("ready", BOOT_S, "boot").text.strip()
                self.boot_s = time.monotonic() - self.started
                return release
            except LabError as fault:
                print(f"   {fault}", flush=True)
                self.kill()
                if self.boots == BOOTS_MAX:
                    raise
            self.launch()

    def _listen(self, lines) -> None:
        """Take answers until the guest is gone."""
        answers, arrival = self._answers, self._arrival
        with lines:
            for line in lines:
                found = re.fullmatch(rb"(\w+) (\d+) (\S*)\s*", line)
                with arrival:
                    if found:
                        text = base64.b64decode(found[3]).decode(errors="replace")
                        answers[found[1].decode()] = Answer(int(found[2]), text)
                    arrival.notify_all()
        with arrival:
            answers["gone"] = Answer(1, "")
            arrival.notify_all()

    def answer(self, number: str, seconds: float, what: str) -> Answer:
        """Wait for it, with a line now and then where it takes long."""
        began, waited, came = time.monotonic(), 0.0, None
        while not came and waited < seconds:
            with self._arrival:
                came = self._arrival.wait_for(
                    lambda: self._answers.keys() & {number, "gone"}, timeout=min(seconds - waited, PATIENCE_S)
                )
            waited = time.monotonic() - began
            if not came:
                print(f"   {self.name}: {what.strip().splitlines()[0]}: {waited:.0f} s", flush=True)
        if number in self._answers:
            return self._answers[number]
        why = "the guest is gone" if came else f"no answer within {seconds} s"
        raise LabError(f"{self.name}: {what}: {why}; console: {self.console_tail()}")

    def has_answered(self, number: str) -> bool:
        with self._arrival:
            return bool(self._answers.keys() & {number, "gone"})

    def console_tail(self) -> str:
        lines = self.console.read_text(errors="replace").split("\n")
        return " | ".join([line.strip() for line in lines if line.strip()][-TAIL_LINES:])

    def start(self, text: str) -> Command:
        """Start a command of the guest's shell."""
        self._commands += 1
        number = str(self._commands)
        self._socket.sendall(f"{number} {base64.b64encode(text.encode()).decode()}\n".encode())
        return Command(self, number, text)

    def run(self, text: str, seconds: float = COMMAND_S) -> str:
        return self.start(text).result(seconds)

    def try_run(self, text: str, seconds: float = COMMAND_S) -> Answer:
        return self.start(text).wait(seconds)

    def write(self, path: str, text: str) -> None:
        self.run(f"cat >{path} <<'END_OF_FILE'\n{text}\nEND_OF_FILE")

    def stop(self) -> None:
        """Power off, or end it where it does not."""
        try:
            self._socket.sendall(b"quit\n")
            self._process.wait(STOP_S)
        except (OSError, subprocess.TimeoutExpired):
            pass
        self.kill()

    def kill(self) -> None:
        self._process.terminate()  # timeout(1) hands this on, and kills what ignores it
        self._process.wait()
        self._socket.close()


class Guests(ExitStack):
    """Guests that run at the same time, and are gone afterwards."""

    def boot(self, *guests: Guest) -> None:
        for guest in guests:
            guest.launch()
            self.callback(guest.stop)
        for guest in guests:
            release = guest.wait_ready()
            again = f", boot {guest.boots}" if guest.boots > 1 else ""
            print(f"   {guest.name}: Linux {release} after {guest.boot_s:.1f} s{again}", flush=True)
