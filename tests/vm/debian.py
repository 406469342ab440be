# SPDX-License-Identifier: BSD-2-Clause
"""Debian packages for the guests: found in their suites at run time, downloaded once, unpacked.

Nothing of this is installed on the machine. Each source has package lists of its own, so that one
that cannot be reached harms no other.
"""
import subprocess
import time
from pathlib import Path
from typing import NamedTuple, Optional

LISTS_AGE_MAX_S = 6 * 3600
TIMEOUT_S = 30  # for a mirror to answer
APT_S = 300  # for all that one call of apt does
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
MAIN, SECURITY = "http://deb.debian.org/debian", "http://deb.debian.org/debian-security"


class Unreachable(Exception):
    """A source, or a package in it, cannot be had."""


class Source(NamedTuple):
    """Suites that are looked at together."""

    name: str
    suites: tuple[tuple[str, str], ...]  # mirror and suite


STABLE = Source("bookworm", ((MAIN, "bookworm"), (SECURITY, "bookworm-security")))
BACKPORTS = Source("trixie-backports", ((MAIN, "trixie-backports"),))


class Archive:
    """A source with its lists and packages, below a directory that stays from run to run."""

    def __init__(self, source: Source, directory: Path):
        self.source = source
        self.directory = directory / source.name
        self.packages = self.directory / "packages"

    def _apt(self, program: str, *argv: str, cwd: Optional[Path] = None) -> str:
        """Run apt for this source; in the packages' directory it names only those that are not there."""
        options = {
            "Dir::Etc::SourceList": self.directory / "sources.list",
            "Dir::Etc::SourceParts": "-",
            "Dir::State::Lists": self.directory / "lists",
            "Dir::Cache": self.directory / "cache",
            "APT::Sandbox::User": "root",
            "APT::Architecture": "amd64",
            "Acquire::Languages": "none",
            "Acquire::Retries": 2,
            "Acquire::http::Timeout": TIMEOUT_S,
            "APT::Update::Error-Mode": "any",
        }
        command = [program, *(f"-o{key}={value}" for key, value in options.items()), "-qq", *argv]
        call = {"cwd": cwd or self.packages, "capture_output": True, "text": True, "timeout": APT_S}
        try:
            done = subprocess.run(command, **call)
        except subprocess.TimeoutExpired:
            raise Unreachable(f"{self.source.name}: {program} {argv[0]}: not within {APT_S} s") from None
        if done.returncode:
            last = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
            raise Unreachable(f"{self.source.name}: {program} {argv[0]}: {last}")
        return done.stdout

    def update(self) -> None:
        """Fetch the package lists, unless those of a short while ago are there."""
        for path in (self.packages, self.directory / "lists/partial", self.directory / "cache"):
            path.mkdir(parents=True, exist_ok=True)
        text = "".join(f"deb [signed-by={KEYRING}] {uri} {suite} main\n" for uri, suite in self.source.suites)
        stamp, sources = self.directory / "updated", self.directory / "sources.list"
        fresh = stamp.exists() and time.time() - stamp.stat().st_mtime < LISTS_AGE_MAX_S
        if fresh and sources.exists() and sources.read_text() == text:
            return
        sources.write_text(text)
        self._apt("apt-get", "update")
        stamp.touch()

    def with_dependencies(self, package: str, prefix: str) -> list[str]:
        """The package and all that it depends on whose name begins so: images come in one part or in
        several, and their names change with each release."""
        kinds = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")
        found = self._apt("apt-cache", "depends", "--recurse", *(f"--no-{k}" for k in kinds), package)
        names = [line for line in found.splitlines() if line.startswith(prefix)]
        return sorted({package, *names})

    def newest(self, names: list[str]) -> list[Path]:
        """The packages' files, in their newest version; they need not be here."""
        uris = self._apt("apt-get", "download", "--print-uris", *names, cwd=self.directory)
        return [self.packages / line.split()[1] for line in uris.splitlines()]

    def fetch(self, names: list[str]) -> list[Path]:
        """The same, downloaded if they are not here."""
        wanted = self.newest(names)
        missing = [path.name.split("_")[0] for path in wanted if not path.exists()]
        if missing:
            print(f"   {self.source.name}: downloading {' '.join(missing)}", flush=True)
            self._apt("apt-get", "download", *missing)
        gone = [path.name for path in wanted if not path.exists()]
        if gone:
            raise Unreachable(f"{self.source.name}: {' '.join(gone)} did not come")
        return wanted


def unpack(packages: list[Path], directory: Path) -> None:
    """What the packages hold, below the directory."""
    for package in packages:
        subprocess.run(["dpkg-deb", "-x", package, directory], check=True)
