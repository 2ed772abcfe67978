"""The network of a container: no private address, where this user can see to that."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runner import process
from runner.core import Problem, Reason
from runner.core.errors import EngineError
from runner.core.policy import PrivateTarget
from runner.engines import private
from runner.engines.docker.client import Client, failing
from runner.engines.docker.container.meter import PROCESSES, groups_of

CLOSE_S = 10.0
MOST_BYTES = 1 << 16
HINT = "load the kernel module nf_tables, or leave the network off"


def connect(client: Client, container: str, targets: Sequence[PrivateTarget]) -> None:
    """Close a running container to private addresses; then connect it to the bridge.

    It was started without a network, so that nothing in it was connected before.
    ``targets`` are what a policy opens.

    Raises:
        EngineError: the kernel does not take the rules; it stays unconnected.
    """
    with failing("connect the container"):
        found = client.inspect_container(container)
        rules = private.rules_here(private.name_servers(_resolver(found)), targets)
        _close(found, rules)
        client.disconnect_container_from_network(container, "none")
        client.connect_container_to_network(container, "bridge")


def _resolver(found: dict[str, Any]) -> str:
    with Path(found["ResolvConfPath"]).open(errors="replace") as file:
        return file.read(MOST_BYTES)


def _close(found: dict[str, Any], rules: private.Reach) -> None:
    pid = found["State"]["Pid"]
    if not groups_of(pid, found["Id"]):
        raise EngineError("the container has no process on this machine")
    namespace = str(PROCESSES / str(pid) / "ns" / "net")
    done = process.run(private.command(rules, namespace), timeout_s=CLOSE_S)
    if done.exit_code:
        why = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        text = f"private addresses cannot be closed to the run: {why}"
        raise EngineError(Problem(text, hint=HINT), reason=Reason.NO_ENGINE)
