"""The process that owns a container or a volume, as its labels name it."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

from runner import machine
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
