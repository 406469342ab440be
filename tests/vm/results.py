# SPDX-License-Identifier: BSD-2-Clause
"""Cases in the guests: their lines, their sum, and a record for build/vm.json."""
import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lab"))
from lab import Cases, LabError  # noqa: E402
from tables import tables  # noqa: E402

PACKAGES_CASE, IMAGE_CASE = "packages_are_there", "image_is_made"


class Results(Cases):
    """Cases, each with what it ran on."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[dict] = []
        self.figures: dict[str, object] = {}

    @contextmanager
    def on(self, kernel: str, endpoint: str, name: str) -> Iterator[None]:
        """A case on a kernel, with an endpoint: who makes the RDMA frames, "none" where nobody does."""
        failed, self.figures = self.failed, {}
        with self.case(f"{name} [{kernel}]"):
            yield
        self._record(kernel, endpoint, name, "failed" if self.failed > failed else "passed")

    def figure(self, name: str, value: object) -> None:
        """A number of the case that runs, shown and recorded."""
        self.figures[name] = value
        self.note(f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}")

    def fail(self, kernel: str, name: str, why: object) -> None:
        """A case that came to nothing before it began."""
        with self.on(kernel, "none", name):
            raise LabError(str(why))

    def skip(self, kernel: str, why: object) -> None:
        print(f"skip - {kernel}: {why}", flush=True)
        self.figures = {"why": str(why)}
        self._record(kernel, "none", PACKAGES_CASE, "skipped")

    def _record(self, kernel: str, endpoint: str, name: str, result: str) -> None:
        self.rows.append(
            {"kernel": kernel, "endpoint": endpoint, "case": name, "result": result, "figures": self.figures}
        )

    def count(self, result: str) -> int:
        return sum(row["result"] == result for row in self.rows)

    def write(self, path: Path) -> None:
        """The record, and beside it as .md what it comes to, which is printed as well."""
        path.write_text(json.dumps(self.rows, indent=1) + "\n")
        text = tables(self.rows)
        path.with_suffix(".md").write_text(text)
        if text:
            print(f"\n{text}", flush=True)

    def finish(self) -> int:
        """Print the sum, as tests/run.py does."""
        if self.count("skipped"):
            print(f"{self.count('skipped')} skipped")
        print(f"{self.count('passed')} passed, {self.count('failed')} failed")
        return self.exit_code()
