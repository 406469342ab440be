#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Rules about the source tree itself: pure directories stay pure, every file says its licence."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PURE = ("agent/policy", "agent/control", "agent/analyze")
# what a pure directory may include: its own, the shared headers, and the C library less clocks and I/O
PURE_INCLUDES = re.compile(r"((policy|control|analyze|quench)/\w+\.h|qerr\.h|yaml\.h|uthash\.h|utlist\.h|"
                           r"libdeflate\.h|(ctype|errno|fnmatch|inttypes|limits|math|stdarg|stdbool|stddef|stdint|stdio|"
                           r"stdlib|string|arpa/inet|net/if|netinet/in|linux/types)\.h)")
# policy_load reads its file, and nothing else does
READS_A_FILE = ("agent/policy/parse.c", {"fcntl.h", "unistd.h", "sys/stat.h", "open"})
IMPURE_CALLS = re.compile(r"\b(clock_gettime|gettimeofday|socket|open|ioctl|syscall)\s*\(")
SOURCES = (".c", ".h", ".py", ".sh")
failed = False


def report(ok: bool, name: str, detail: str = "") -> None:
    global failed
    print(f"{'ok' if ok else 'not ok'} - {name}{': ' + detail if detail and not ok else ''}")
    failed |= not ok


def files() -> list[pathlib.Path]:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT,
                            capture_output=True, text=True)
    if listed.returncode:
        return [p for p in ROOT.rglob("*") if p.is_file() and "build" not in p.parts]
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


def impurities(path: pathlib.Path) -> list[str]:
    text, where = path.read_text(), str(path.relative_to(ROOT))
    allowed = READS_A_FILE[1] if where == READS_A_FILE[0] else set()
    found = [(name, "includes") for name in re.findall(r'^#include [<"](.+)[>"]', text, re.M)
             if not PURE_INCLUDES.fullmatch(name)]
    found += [(name, "calls") for name in IMPURE_CALLS.findall(text)]
    return [f"{where} {verb} {name}" for name, verb in found if name not in allowed]


def main() -> int:
    all_files = files()
    for directory in PURE:
        found = [fault for path in all_files if str(path.relative_to(ROOT)).startswith(directory + "/")
                 for fault in impurities(path)]
        report(not found, f"{directory}_has_no_io_and_no_clock", "; ".join(found[:3]))
    missing = [str(path.relative_to(ROOT)) for path in all_files if path.suffix in SOURCES
               and "SPDX-License-Identifier" not in "".join(path.open().readlines()[:3])]
    report(not missing, "every_source_names_its_licence", ", ".join(missing[:3]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
