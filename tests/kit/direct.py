"""Queue runs at a server without a program for each: quick, and by hundreds."""

from __future__ import annotations

import secrets
from pathlib import Path

from msgspec.structs import replace

from runner.client.api import ServerClient
from runner.client.bounds import MirrorBounds
from runner.core.wire import QueueState, RemoteRun
from runner.execution.copies import Follower
from runner.execution.handover import upload
from runner.store.paths import RunPaths
from tests.kit.begun import SealedProject, packed
from tests.kit.site import Person
from tests.kit.waiting import until

MOST = 1 << 30
BOUNDS = MirrorBounds(MOST, MOST)


def seal(folder: Path, commands: str, resources: str = "") -> SealedProject:
    """Write a project whose build has these commands (a list in YAML), and pack it.

    ``resources`` is a mapping in YAML.
    """
    project = folder / "project"
    project.mkdir(parents=True)
    spec = f"rai:\n  version: 0.2\ncommands:\n  build: {commands}\n"
    spec += f"resources: {resources}\n" if resources else ""
    (project / "rai_build.yml").write_text(spec)
    return packed(project, folder)


def queue(client: ServerClient, made: SealedProject, run: str = "") -> str:
    """Send a project, unless the server has it, and queue a run of it."""
    run = run or secrets.token_hex(5)
    sent = upload(client, made.source)
    client.put_run(run, replace(made.asked, upload=sent))
    return run


def ended(client: ServerClient, run: str, within_s: float = 120.0) -> RemoteRun:
    """Return a run once it has ended."""
    until(lambda: client.run(run).state is QueueState.ENDED, f"{run} goes on", within_s)
    return client.run(run)


def follow(person: Person, run: str, patience_s: float = 0.0) -> Follower:
    """Copy a run into the home of a person, until it ends."""
    paths = RunPaths(person.runs / run)
    paths.root.mkdir(parents=True, exist_ok=True)
    follower = Follower(paths, lambda: person.client(patience_s), BOUNDS)
    follower.start()
    return follower
