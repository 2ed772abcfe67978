"""Find the sandbox that works on this machine, by trying each."""

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
from runner.engines.local import bwrap, unshare
from runner.engines.local.host import TIME, host
from runner.engines.local.layout import Layout, Owner, layout
from runner.engines.local.tools import provide, write_guards

OWNER = (10001, 10001)
"""The user and group that root changes to, which no machine uses."""

TRY = (
    "test -w /build && test -w /tmp && ! test -w /src && ! test -w /usr"
    ' && test -r /proc/self/stat && test -x "$1"'
)
TRY_S = 10.0

PROGRAMS = {"bubblewrap": "bwrap", "unshare": "unshare"}
"""The kinds of sandbox, in the order in which they are tried, and their programs."""


class Sandbox(Struct, frozen=True):
    """One way to make a sandbox: bubblewrap, or unshare.

    ``time`` is where GNU time comes from: "host", "overlay" (rai's replacement in
    /usr/bin) or "named" (the replacement, by another path).
    """

    kind: str
    owner: Owner | None
    time: str = "host"

    def argv(self, layout: Layout, command: Sequence[str]) -> list[str]:
        """Return the command line that runs a command in a sandbox."""
        me = (os.getuid(), os.getgid())
        if self.kind == "bubblewrap":
            return bwrap.argv(layout, me, command)
        return unshare.argv(layout, me, host().python, command)


@cache
def version(kind: str) -> str:
    """Return the version of the program that makes such a sandbox."""
    output = process.run([PROGRAMS[kind], "--version"], timeout_s=TRY_S).stdout
    return output.decode().split()[-1] if output else ""


class Search(Struct, frozen=True):
    """The sandbox that works, or why each kind does not."""

    sandbox: Sandbox | None
    failures: tuple[str, ...] = ()


@cache
def find(kind: str | None = None, time: Path = TIME) -> Search:
    """Return the first of bubblewrap and unshare, or of ``kind`` alone, that works.

    ``time`` is where GNU time may be.
    """
    owner = OWNER if os.getuid() == 0 else None
    needs_time = not os.access(time, os.X_OK)
    failures: list[str] = []
    for candidate in [kind] if kind else PROGRAMS:
        for time_from in ("overlay", "named") if needs_time else ("host",):
            sandbox = Sandbox(candidate, owner, time_from)
            failure = _failure(sandbox)
            if failure is None:
                return Search(sandbox)
        failures.append(f"{candidate}: {failure}")
    return Search(None, tuple(failures))


def _failure(sandbox: Sandbox) -> str | None:
    """Try such a sandbox; return why it does not work, or None."""
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
            filter=write_guards(folders),
        )
        command = ["/bin/sh", "-c", TRY, "rai", str(host().python)]
        try:
            done = process.run(sandbox.argv(tried, command), timeout_s=TRY_S)
        except EngineError as error:
            return str(error)
    if done.exit_code == 0:
        return None
    message = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    return message or "a file in it is not protected, or it does not contain Python"
