"""The network of a container: no private address, where this user can see to that."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runner import process
from runner.core.errors import EngineError
from runner.core.policy import PrivateTarget
from runner.engines import private, strict
from runner.engines.docker.client import Client, failing
from runner.engines.docker.container.meter import PROCESSES, groups_of

CLOSE_S = 30.0
MOST_BYTES = 1 << 16


def connect(
    client: Client, container: str, targets: Sequence[PrivateTarget], by: str = ""
) -> str:
    """Close a running container to private addresses; then connect it to the bridge.

    It was started without a network, so that nothing in it was connected before.
    ``targets`` are what a policy opens. Return why it is not closed to them, "" if it
    is; ``by`` is what asks for strict limits, if something does.

    Raises:
        NotAllowedError: it cannot be closed here, and limits are strict.
        EngineError: the engine or the kernel fails; it stays unconnected.
    """
    with failing("connect the container"):
        found = client.inspect_container(container)
        why = _close(found, targets)
        if why and by:
            raise strict.lost("the bar to private addresses", why, by)
        client.disconnect_container_from_network(container, "none")
        client.connect_container_to_network(container, "bridge")
    return why


def _close(found: dict[str, Any], targets: Sequence[PrivateTarget]) -> str:
    """Close a container's namespace; return why that is not possible here, or ""."""
    pid = found["State"]["Pid"]
    if not pid:
        raise EngineError("the container ended as soon as it was started")
    try:
        servers = private.name_servers(_text(Path(found["ResolvConfPath"])))
    except OSError as error:
        return str(error)
    if not groups_of(pid, found["Id"]):
        return "the container has no process that is visible here"
    namespace = str(PROCESSES / str(pid) / "ns" / "net")
    rules = private.rules_here(servers, targets)
    done = process.run(private.command(rules, namespace), timeout_s=CLOSE_S)
    if done.exit_code:  # though ``private.refusal`` found that the kernel takes them
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise EngineError(f"private addresses were not closed: {said}")
    return ""


def _text(file: Path) -> str:
    with file.open(errors="replace") as lines:
        return lines.read(MOST_BYTES)
