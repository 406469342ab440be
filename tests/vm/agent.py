# SPDX-License-Identifier: BSD-2-Clause
"""quench in a guest."""
import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lab"))
from guest import Command, Guest  # noqa: E402
from lab import METRICS_PORT, LabError, Metrics, policy_with, wait_until  # noqa: E402

READY_S = 20  # for an agent whose programs an emulated verifier looks at


def without_cnps(policy: str) -> str:
    """The policy for a host that reacts, but makes no CNPs itself."""
    return policy_with(re.sub(r"^    ecn:\n(      .*\n)+", "", policy, flags=re.M), generate="off")


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

    def ask_status(self) -> Command:
        """The same, as a command that runs while its caller does other things."""
        return self.guest.start("quench status --json")

    def flows(self) -> list[dict]:
        return self._ask("flows")["flows"]

    def metrics(self) -> Metrics:
        return Metrics(self.guest.run(f"wget -q -O - http://127.0.0.1:{METRICS_PORT}/metrics"))

    def stop(self) -> str:
        """End it, and return what it printed."""
        self.guest.try_run("kill $(cat /run/agent)")
        return self._command.result()
