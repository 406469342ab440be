# SPDX-License-Identifier: BSD-2-Clause
"""quench in a guest."""
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lab"))
from guest import Guest  # noqa: E402
from lab import LabError, wait_until  # noqa: E402

READY_S = 20  # for an agent whose programs an emulated verifier looks at


class Agent:
    """An agent with this policy, from when it answers until stop."""

    def __init__(self, guest: Guest, policy: str):
        self.guest = guest
        guest.write("/root/policy.yaml", policy)
        self._command = guest.start("echo $$ >/run/agent; exec quench run -c /root/policy.yaml")

    def _ask(self, what: str) -> dict:
        """Its answer, nothing while there is none."""
        if self._command.done():
            raise LabError(f"{self.guest.name}: the agent ended: {self._command.wait().text.strip()}")
        answer = self.guest.try_run(f"quench {what} --json 2>/dev/null")
        return {} if answer.status else json.loads(answer.text)

    def status(self) -> dict:
        return wait_until(lambda: self._ask("status"), READY_S, f"{self.guest.name}: no answer of the agent")

    def ports(self) -> dict[str, dict]:
        return {port["name"]: port for port in self.status()["ports"]}

    def flows(self) -> list[dict]:
        return self._ask("flows")["flows"]

    def stop(self) -> str:
        """End it, and return what it printed."""
        self.guest.try_run("kill $(cat /run/agent)")
        return self._command.result()
