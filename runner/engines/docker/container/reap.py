"""Remove the containers and volumes of runs whose process is gone."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any

from runner.engines.docker import owner
from runner.engines.docker.client import FAILURES, Client
from runner.machine import ProcessIdentity


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


def _abandoned(found: Mapping[str, Any], me: ProcessIdentity) -> bool:
    return owner.abandoned(found["Labels"] or {}, me, time.time())


def _removed(remove: Callable[..., None], name: str) -> bool:
    with contextlib.suppress(*FAILURES):
        remove(name, force=True)
        return True
    return False
