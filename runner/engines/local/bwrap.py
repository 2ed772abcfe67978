"""The command line of a bubblewrap sandbox. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from runner.engines.local.layout import FIRST, HOSTNAME, Layout

INIT = 'exec 3>&2 2>/dev/null; (exec "$@" 2>&3 3>&-); exit $?'
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


def argv(layout: Layout, me: tuple[int, int], command: Sequence[str]) -> list[str]:
    """Return the command line; ``me`` are the caller's user and group ids."""
    return [
        *_open_filter(layout),
        *_overlay(layout),
        "bwrap",
        *_namespaces(layout, me),
        *_files(layout),
        *("--hostname", HOSTNAME, "--chdir", "/build", "--die-with-parent"),
        "--as-pid-1",
        *("--cap-drop", "ALL"),
        *_capabilities(layout),
        *(["--seccomp", str(FILTER_AT)] if layout.filter else []),
        *("--", "/bin/sh" if layout.owner else FIRST, "-c", INIT, "rai"),
        *_become(layout),
        *command,
    ]


def _open_filter(layout: Layout) -> list[str]:
    """Return the words that first open the filter of system calls."""
    if layout.filter is None:
        return []
    return ["/bin/sh", "-c", OPEN_FILTER, "rai", layout.filter]


def _overlay(layout: Layout) -> list[str]:
    """Return the words that first mount an overlay on /usr/bin, in a namespace."""
    if layout.overlay is None:
        return []
    user = [] if layout.owner else ["--map-root-user"]
    return [
        *("unshare", "--mount", *user, "--", "/bin/sh", "-c", MOUNT_OVERLAY, "rai"),
        layout.overlay,
    ]


def _namespaces(layout: Layout, me: tuple[int, int]) -> list[str]:
    user = ["--unshare-user", "--uid", str(me[0]), "--gid", str(me[1])]
    return [
        *([] if layout.owner else user),
        *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *([] if layout.network else ["--unshare-net"]),
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
