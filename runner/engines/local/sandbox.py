"""Which sandbox works on this machine: found by really trying one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

from runner import process
from runner.archive import source
from runner.core import Limits, Profile
from runner.core.errors import EngineError
from runner.engines.folders import temporary
from runner.engines.local import bwrap
from runner.engines.local.host import TIME, host
from runner.engines.local.layout import Layout, Owner, layout
from runner.engines.local.tools import provide

OWNER = (10001, 10001)
"""Whom root becomes: no one that a machine knows."""

TRY = (
    "test -w /build && test -w /tmp && ! test -w /src && ! test -w /usr"
    ' && test -r /proc/self/stat && test -x "$1"'
)
TRY_S = 10.0

PROGRAMS = {"bubblewrap": "bwrap", "unshare": "unshare"}
"""The kinds of sandbox in the order in which they are tried, and what makes them."""


class Sandbox(Struct, frozen=True):
    """One way to make a sandbox: bubblewrap, or unshare.

    ``time`` says where GNU time is: "host", "overlay" (over /usr/bin) or "named".
    """

    kind: str
    owner: Owner | None
    time: str = "host"

    def argv(self, layout: Layout, command: Sequence[str]) -> list[str]:
        """Give the words that run a command in a sandbox of that layout."""
        me = (os.getuid(), os.getgid())
        if self.kind == "bubblewrap":
            return bwrap.argv(layout, me, command)
        from runner.engines.local import unshare

        return unshare.argv(layout, me, host().python, command)


@cache
def version(kind: str) -> str:
    """Ask the program that makes such a sandbox for its version."""
    said = process.run([PROGRAMS[kind], "--version"], timeout_s=TRY_S).stdout
    return said.decode().split()[-1] if said else ""


class Search(Struct, frozen=True):
    """What the trials came to: a sandbox, or why each did not work."""

    sandbox: Sandbox | None
    failures: tuple[str, ...] = ()


@cache
def find(kind: str | None = None, time: Path = TIME) -> Search:
    """Try bubblewrap, then unshare (or the given one alone); the first that works.

    ``time`` is where GNU time is looked for.
    """
    owner = OWNER if os.getuid() == 0 else None
    needs_time = not os.access(time, os.X_OK)
    failures: list[str] = []
    for candidate in [kind] if kind else PROGRAMS:
        for way in ("overlay", "named") if needs_time else ("host",):
            sandbox = Sandbox(candidate, owner, way)
            failure = _failure(sandbox)
            if failure is None:
                return Search(sandbox)
        failures.append(f"{candidate}: {failure}")
    return Search(None, tuple(failures))


def _failure(sandbox: Sandbox) -> str | None:
    """Run a trifle in such a sandbox; say why it does not work, None when it does."""
    if shutil.which(PROGRAMS[sandbox.kind]) is None:
        return "not installed"
    with temporary("trial") as folders:
        provide(folders, host(), time=sandbox.time != "host")
        if sandbox.owner:
            source.change_owner(folders.build, sandbox.owner)
            source.change_owner(folders.scratch, sandbox.owner)
        tried = layout(
            folders,
            host(),
            limits=Limits(),
            profile=Profile.STRICT,
            owner=sandbox.owner,
            overlay=sandbox.time == "overlay",
        )
        command = ["/bin/sh", "-c", TRY, "rai", str(host().python)]
        try:
            done = process.run(sandbox.argv(tried, command), timeout_s=TRY_S)
        except EngineError as error:
            return str(error)
    if done.exit_code == 0:
        return None
    said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    return said or "a file is not protected as it should be, or Python is not reached"
