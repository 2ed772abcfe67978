"""Remove the containers and volumes of runs whose process is gone."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from runner.core.errors import EngineError
from runner.engines.docker import owner
from runner.engines.docker.client import FAILURES, Client, connect, failing
from runner.engines.docker.client import removed as gone
from runner.engines.docker.endpoint import probe
from runner.machine import ProcessIdentity

ANSWER_S = 10.0
"""How long the engine may take for each call about a run that is removed."""


def reap(client: Client, me: ProcessIdentity) -> list[str]:
    """Remove abandoned containers, then volumes; return their names.

    ``me`` is the identity of this process. What cannot be removed now is left
    to the next call.
    """
    ours = {"label": owner.OWNER}
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
    ours = {"label": f"{owner.RUN}={run_id}"}
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
    return owner.abandoned(found["Labels"] or {}, me, time.time())


def _removed(remove: Callable[..., None], name: str) -> bool:
    with contextlib.suppress(*FAILURES):
        remove(name, force=True)
        return True
    return False
