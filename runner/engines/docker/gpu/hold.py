"""Lock a GPU of another machine by a container that has the GPU's name.

A lock file on this machine would not keep other machines' runs from that GPU, but the
engine gives a name to one container at a time. The container is never started. Its
labels name its owner, so that the lock of a dead process can be taken over.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from functools import partial

from runner import machine
from runner.core import Gpu, Problem
from runner.core.errors import BusyError, EngineError
from runner.engines.docker import owner
from runner.engines.docker.client import (
    FAILURES,
    APIError,
    Client,
    NotFound,
    failing,
    removed,
)

CONFLICT = 409
HOLD_S = 86400.0
"""After this time other machines' runs, which cannot see the owner, may take over."""

TRIES, PAUSE_S = 50, 0.1
"""Other runs may remove, at the same time, what is in the way or used here."""


@contextlib.contextmanager
def hold(client: Client, gpu: Gpu, run_id: str) -> Iterator[None]:
    """Keep a GPU for one run; raise BusyError if another run has it."""
    name = "rai-gpu-" + re.sub(r"[^a-zA-Z0-9_.-]", "-", gpu.uuid)
    with failing(f"keep GPU {gpu.uuid} for this run"):
        try:
            held = _taken(client, name, gpu, run_id)
        except FAILURES:
            _let_go(client, name, run_id)
            raise
    try:
        yield
    finally:
        removed(partial(client.remove_container, force=True), held)


def _let_go(client: Client, name: str, run_id: str) -> None:
    """Remove a run's own container, which may exist though the answer was lost."""
    with contextlib.suppress(*FAILURES):
        found = client.inspect_container(name)
        if (found["Config"]["Labels"] or {}).get(owner.RUN) == run_id:
            removed(partial(client.remove_container, force=True), found["Id"])


def _taken(client: Client, name: str, gpu: Gpu, run_id: str) -> str:
    for _ in range(TRIES):
        try:
            made = client.create_container(
                _any_image(client),
                name=name,
                entrypoint=["/never-started"],
                labels=owner.labels(run_id, HOLD_S),
                host_config=client.create_host_config(network_mode="none"),
            )
        except NotFound:  # the image was removed a moment ago
            continue
        except APIError as error:
            if error.status_code != CONFLICT:
                raise
            _remove_abandoned(client, name, gpu)
            continue
        identity: str = made["Id"]
        return identity
    raise BusyError(_busy(gpu, "another run"))


def _any_image(client: Client) -> str:
    """Return any image of the engine: nothing in it is run."""
    found = client.images(quiet=True)
    if not found:
        raise EngineError("the engine has no image, which locking its GPUs needs")
    identity: str = found[0]
    return identity


def _remove_abandoned(client: Client, name: str, gpu: Gpu) -> None:
    """Remove the container if its owner is gone; raise BusyError if it is not."""
    try:
        found = client.inspect_container(name)
    except NotFound:
        return  # removed a moment ago
    labels = found["Config"]["Labels"] or {}
    if not owner.abandoned(labels, machine.this_process(), time.time()):
        since = found["Created"].partition(".")[0].replace("T", " ")
        run = labels.get(owner.RUN, "another")
        raise BusyError(_busy(gpu, f"run {run} since {since} UTC"))
    try:
        # By its id: the name may be another run's by now.
        client.remove_container(found["Id"], force=True)
    except NotFound:
        return
    except APIError as error:
        if error.status_code != CONFLICT:
            raise
        time.sleep(PAUSE_S)  # another run is removing it


def _busy(gpu: Gpu, holder: str) -> Problem:
    return Problem(f"GPU {gpu.index} ({gpu.name}, {gpu.uuid}) is held by {holder}")
