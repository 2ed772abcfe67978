"""Who owns containers and volumes, by their labels or Slurm job; remove the rest."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec.structs import replace

from runner.core.errors import EngineError
from runner.engines.cgroup import NO_JOB, JobShare, common_group, share, strangers
from runner.engines.docker.client import FAILURES, Client, connect, failing
from runner.engines.docker.client import removed as gone
from runner.engines.docker.endpoint import Endpoint, probe
from runner.engines.docker.facts import Info, is_here
from runner.engines.docker.usage import measured_by_root
from runner.system import machine
from runner.system.machine import ProcessIdentity

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


GROUPS = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")

STALE_S = 600.0
"""A job has groups in its own but for a moment at its start and its end."""


def of_this_process(info: Info, endpoint: Endpoint) -> JobShare:
    """Return what this process's Slurm job leaves a container of an engine.

    Podman and an engine of an ordinary user are left as they are: they may start
    containers in the job by themselves, and may lack the rights for limits.
    """
    rootless = "name=rootless" in (info.get("SecurityOptions") or ())
    if rootless or "BuildahVersion" in info or not is_here(info, endpoint):
        return NO_JOB
    found = share(os.environ, os.sched_getaffinity(0), info.get("NCPU") or 0)
    return replace(found, group=_group(info)) if found.job else found


def tidy(group: str) -> None:
    """Remove the empty groups that an engine made for a job where Slurm has none.

    In version 1 it makes the job's path in each hierarchy, and leaves it there. Remove
    those of other jobs too, which ended with their worker killed: Slurm cannot remove a
    job's group while a container is in it.
    """
    if not group:
        return
    with suppress(OSError):
        for hierarchy in strangers(OWN.read_text()):
            folder = GROUPS / hierarchy / group.lstrip("/")
            while folder != GROUPS / hierarchy:
                _remove(folder)
                folder = folder.parent
    for folder in _of_other_jobs(PurePosixPath(group)):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > STALE_S:
                _remove(folder)


def _of_other_jobs(group: PurePosixPath) -> Iterator[Path]:
    by_user = group.parent.name.startswith("uid_")
    around = group.parent.parent if by_user else group.parent
    for top in (GROUPS, *GROUPS.glob("*/")):
        folder = top / str(around).lstrip("/")
        for found in folder.glob("uid_*/job_*" if by_user else "job_*"):
            if found.name != group.name:
                yield found


def _remove(folder: Path) -> None:
    with suppress(OSError):  # it has groups or processes, or was never made
        folder.rmdir()


def _group(info: Info) -> str:
    """Return the group for a container; "" where it cannot be the job's.

    An engine that has systemd make its groups takes none but a slice of systemd. In
    version 1 only root can tidy up.
    """
    if info.get("CgroupDriver") != "cgroupfs":
        return ""
    if str(info.get("CgroupVersion") or "1") == "1" and not measured_by_root():
        return ""
    with suppress(OSError):
        return common_group(OWN.read_text())
    return ""
