"""Examine the cluster of a server's job host: what its nodes share."""

from __future__ import annotations

import re
from pathlib import Path

from runner.doctor.finding import Finding, Health
from runner.wire.host import HostFacts

SHARED = frozenset(
    (
        *("nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb3", "9p"),
        *("glusterfs", "panfs", "pvfs2", "wekafs", "afs", "virtiofs", "gfs2", "ocfs2"),
    )
)
"""Types of file systems that several machines may have at once."""

MOUNTS = Path("/proc/self/mountinfo")


def examine(facts: HostFacts) -> list[Finding]:
    """Return the findings about a cluster: whether its nodes can see the runs."""
    return [_shared(facts.home, file_system(facts.home, _mounts()))]


def file_system(path: str, mounts: str) -> str:
    """Return the type of the file system of a path; "" where that is not known. Pure.

    ``mounts`` is the text of /proc/self/mountinfo (proc_pid_mountinfo(5)).
    """
    longest, found = "", ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")[0]
        if len(fields) < 5 or not kind:
            continue
        at = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), fields[4])
        below = f"{path}/".startswith(f"{at.rstrip('/')}/")
        if below and len(at) >= len(longest):  # the last of one place is on top
            longest, found = at, kind
    return found


def _shared(home: str, kind: str) -> Finding:
    text = f"{home} is on {kind or 'a file system of unknown type'}"
    if kind in SHARED or kind.startswith("fuse."):
        return Finding("folder of runs", Health.OK, text)
    text += ": each node has to see it under this name"
    advice = "if they do not, serve with --state on the file system that they share"
    return Finding("folder of runs", Health.NOTE, text, advice)


def _mounts() -> str:
    try:
        return MOUNTS.read_text(errors="surrogateescape")
    except OSError:
        return ""
