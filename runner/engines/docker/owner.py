"""Who owns a container or a volume, by its labels; remove what nobody owns any more."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from runner import machine
from runner.core.errors import EngineError
from runner.engines.docker.client import FAILURES, Client, connect, failing
from runner.engines.docker.client import removed as gone
from runner.engines.docker.endpoint import probe
from runner.machine import ProcessIdentity

RUN = "rai.run"
OWNER = "rai.owner"
DEADLINE = "rai.deadline"
STRANGERS_GRACE_S = 3600.0
_SECONDS = re.compile("[0-9]{1,18}")


def labels(run_id: str, time_s: float) -> dict[str, str]:
    """Return the labels for the containers and volumes of a run of ``time_s``."""
    deadline = str(int(time.time() + time_s))
    owner = str(machine.this_process())
    return {RUN: run_id, OWNER: owner, DEADLINE: deadline}


def abandoned(found: Mapping[str, str], me: ProcessIdentity, now: float) -> bool:
    """Whether the owner of an object with these labels is gone.

    An owner on this machine is looked up by its pid. An object of any other owner is
    abandoned STRANGERS_GRACE_S after its deadline.
    """
    owner = ProcessIdentity.parse(found.get(OWNER, ""))
    if owner is None:
        return False
    if owner.is_within_reach_of(me):
        return not machine.is_alive(owner)
    deadline = found.get(DEADLINE, "")
    return (
        bool(_SECONDS.fullmatch(deadline)) and now > int(deadline) + STRANGERS_GRACE_S
    )


ANSWER_S = 10.0
"""How long the engine may take for each call about a run that is removed."""


def reap(client: Client, me: ProcessIdentity) -> list[str]:
    """Remove abandoned containers, then volumes; return their names.

    ``me`` is the identity of this process. What cannot be removed now is left
    to the next call.
    """
    ours = {"label": OWNER}
    removed: list[str] = []
    with contextlib.suppress(*FAILURES):
        for found in client.containers(all=True, filters=ours):
            if _abandoned(found, me) and _removed(client.remove_container, found["Id"]):
                removed.append(found["Names"][0].lstrip("/"))
        for found in client.volumes(filters=ours)["Volumes"] or ():
            if _abandoned(found, me) and _removed(client.remove_volume, found["Name"]):
                removed.append(found["Name"])
    return removed


def remove_run(run_id: str) -> None:
    """Remove what a run that is over left on the engine.

    Raises:
        EngineError: the engine does not answer, or something stays.
    """
    asked = probe(os.environ)
    if asked.problem:
        raise EngineError(asked.problem)
    ours = {"label": f"{RUN}={run_id}"}
    client = connect(asked, ANSWER_S)
    with contextlib.closing(client), failing("remove what the run left"):
        containers = client.containers(all=True, filters=ours)
        remove = partial(client.remove_container, force=True)
        kept = [c["Id"] for c in containers if not gone(remove, c["Id"])]
        volumes = [v["Name"] for v in client.volumes(filters=ours)["Volumes"] or ()]
        kept += [name for name in volumes if not gone(client.remove_volume, name)]
    if kept:
        raise EngineError(f"the Docker Engine does not remove {', '.join(kept)}")


def _abandoned(found: Mapping[str, Any], me: ProcessIdentity) -> bool:
    return abandoned(found["Labels"] or {}, me, time.time())


def _removed(remove: Callable[..., None], name: str) -> bool:
    with contextlib.suppress(*FAILURES):
        remove(name, force=True)
        return True
    return False
