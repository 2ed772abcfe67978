"""Find the sandbox that works on this machine, and write its command line."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path, PurePosixPath

from msgspec import Struct
from msgspec.structs import asdict

from runner.core import Limits, Profile
from runner.core.errors import EngineError
from runner.engines.folders import temporary
from runner.engines.imageless import Owner
from runner.engines.local.layout import (
    FIRST,
    HOSTNAME,
    TIME,
    Layout,
    host,
    lay_out,
)
from runner.engines.local.seccomp import provide, write_guards
from runner.pack import source
from runner.system import process

OWNER = (10001, 10001)
"""The user and group that root changes to, which no machine uses."""

TRY = (
    "test -w /build && test -w /tmp && ! test -w /src && ! test -w /usr"
    ' && test -r /proc/self/stat && test -x "$1"'
)
TRY_S = 10.0

PROGRAMS = {"bubblewrap": "bwrap", "unshare": "unshare"}
"""The kinds of sandbox, in the order in which they are tried, and their programs."""

INIT = Path(__file__).with_name("init.py")

FIRST_PROCESS = 'exec 3>&2 2>/dev/null; (exec "$@" 2>&3 3>&-); exit $?'
"""The first process: wait for the command, so that its usage is counted.

Where the commands are of the same user its shell is ``FIRST``. They could trace one of
a program that they may read, and end the sandbox with it.
"""

MOUNT_OVERLAY = (
    'mount -t overlay overlay -o "ro,lowerdir=$1:/usr/bin" /usr/bin'
    ' && shift && exec "$@"'
)

FILTER_AT = 9
"""The descriptor from which bubblewrap reads the filter of system calls."""

OPEN_FILTER = f'exec {FILTER_AT}<"$1" && shift && exec "$@"'


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
            return bwrap_argv(layout, me, command)
        return unshare_argv(layout, me, host().python, command)


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
        tried = lay_out(
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


def unshare_argv(
    layout: Layout, me: tuple[int, int], python: Path, command: Sequence[str]
) -> list[str]:
    """Return the command line by ``unshare``; ``me`` are the caller's ids."""
    return [
        # Dies with the rai process.
        *("setpriv", "--pdeathsig", "KILL", "--"),
        *("unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"),
        *([] if layout.owner else ["--user", "--map-root-user"]),
        *([] if layout.network else ["--net"]),
        *("--", str(python), "-I", "-S", str(INIT), _layout_text(layout, me)),
        *command,
    ]


def _layout_text(layout: Layout, me: tuple[int, int]) -> str:
    """Return the layout as JSON for the sandbox's first process."""
    binds = [(bind.source, bind.target, bind.writable) for bind in layout.binds]
    return json.dumps(asdict(layout) | {"binds": binds, "me": me, "hostname": HOSTNAME})


def bwrap_argv(
    layout: Layout, me: tuple[int, int], command: Sequence[str]
) -> list[str]:
    """Return the command line by bubblewrap; ``me`` are the caller's ids."""
    user = ["--unshare-user", "--uid", str(me[0]), "--gid", str(me[1])]
    return [
        *(
            ["/bin/sh", "-c", OPEN_FILTER, "rai", layout.filter]
            if layout.filter
            else []
        ),
        *_overlay(layout),
        "bwrap",
        *([] if layout.owner else user),
        *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *([] if layout.network else ["--unshare-net"]),
        *_files(layout),
        *("--hostname", HOSTNAME, "--chdir", "/build", "--die-with-parent"),
        "--as-pid-1",
        *("--cap-drop", "ALL"),
        *_capabilities(layout),
        *(["--seccomp", str(FILTER_AT)] if layout.filter else []),
        *("--", "/bin/sh" if layout.owner else FIRST, "-c", FIRST_PROCESS, "rai"),
        *_become(layout),
        *command,
    ]


def _overlay(layout: Layout) -> list[str]:
    """Return the words that first mount an overlay on /usr/bin, in a namespace."""
    if layout.overlay is None:
        return []
    user = [] if layout.owner else ["--map-root-user"]
    return [
        *("unshare", "--mount", *user, "--", "/bin/sh", "-c", MOUNT_OVERLAY, "rai"),
        layout.overlay,
    ]


def _files(layout: Layout) -> list[str]:
    words: list[str] = []
    for folder in layout.folders:
        words += ["--dir", folder]
    for bind in layout.binds:
        kind = "--bind" if bind.writable else "--ro-bind"
        words += [*_parents(bind.target), kind, bind.source, bind.target]
    for path, target in layout.links:
        words += [*_parents(path), "--symlink", target, path]
    words += ["--proc", "/proc", "--dev", "/dev"]
    for path in layout.devices:
        words += [*_parents(path), "--dev-bind", path, path]
    words += ["--perms", "1777", "--size", str(layout.shm_bytes), "--tmpfs", "/dev/shm"]
    return [*words, "--remount-ro", "/dev", "--remount-ro", "/"]


def _parents(path: str) -> list[str]:
    """Return options that make a path's parents, which bwrap makes for root only."""
    above = reversed(PurePosixPath(path).parents[:-1])
    return [word for folder in above for word in ("--dir", str(folder))]


def _capabilities(layout: Layout) -> list[str]:
    """Return options that leave root only the capabilities to change its user."""
    needed = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP") if layout.owner else ()
    return [word for name in needed for word in ("--cap-add", name)]


def _become(layout: Layout) -> list[str]:
    """Return the words that change root to the run's user, without a way back.

    The first process stays root: bubblewrap could not kill another user's.
    """
    if layout.owner is None:
        return []
    uid, gid = layout.owner
    groups = ",".join(map(str, layout.groups))
    return [
        *("setpriv", f"--reuid={uid}", f"--regid={gid}"),
        f"--groups={groups}" if groups else "--clear-groups",
        *("--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--"),
    ]
