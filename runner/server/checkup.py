"""Examine a server: what works, what does not, and what to do about each."""

from __future__ import annotations

import os
import re
import shutil
import socket
import stat
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from runner.core import GIB
from runner.core.errors import RaiError
from runner.core.units import DAY_S
from runner.database import open_store
from runner.doctor.finding import Finding, Health
from runner.engines import strict
from runner.remote.connection import ServerConnection
from runner.report import size
from runner.scheduling.queue import ServerRules
from runner.server import (
    certifying,
    listening,
    paths,
    reached,
    rules,
    workers,
)
from runner.server.listening import PeerProcess
from runner.server.paths import ServerFolder
from runner.server.reached import ReachedAt
from runner.wire.capacity import Capacity

SOON_S = 30 * DAY_S
DOCKER = Path("/var/run/docker.sock")
SHARED = frozenset(
    (
        *("nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb3", "9p"),
        *("glusterfs", "panfs", "pvfs2", "wekafs", "afs", "virtiofs", "gfs2", "ocfs2"),
    )
)
"""Types of file systems that several machines may have at once."""

MOUNTS = Path("/proc/self/mountinfo")


def examine(folder: ServerFolder, environ: Mapping[str, str]) -> list[Finding]:
    """Return the findings about everything that a server needs."""
    at = reached.read(folder)
    listens = Path(at.socket) if at else paths.socket(None, folder, environ)
    known, found = _rules(folder)
    found += [_folder(folder), *_store(folder, environ)]
    found.append(_server(listens))
    facts = workers.kept(reached.home(folder))
    found += _capacity(facts)
    found += _users(peer(listens), at)
    found += _certificate(at)
    found.append(_disk(folder, known, facts))
    return found


def well(found: Collection[Finding]) -> bool:
    """Whether nothing of it keeps the server from serving."""
    return all(one.state is not Health.MISSING for one in found)


def peer(path: Path) -> PeerProcess | None:
    """Return which process listens at a Unix socket; None if none does."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(os.fspath(path))
            return listening.peer(probe)
        except OSError:
            return None


def may_write(facts: os.stat_result, uid: int, gids: Collection[int]) -> bool:
    """Whether a user of these groups may write to a file. Pure."""
    if uid == 0:
        return True
    if facts.st_uid == uid:
        return bool(facts.st_mode & stat.S_IWUSR)
    if facts.st_gid in gids:
        return bool(facts.st_mode & stat.S_IWGRP)
    return bool(facts.st_mode & stat.S_IWOTH)


def _rules(folder: ServerFolder) -> tuple[ServerRules, list[Finding]]:
    try:
        found = rules.read(folder.rules)
    except RaiError as error:
        advice = "mend it; a server that runs keeps what it read when it started"
        return ServerRules(), [_bad("server.yml", str(error), advice)]
    roles = ", ".join(found.roles)
    return found, [Finding("server.yml", Health.OK, f"{folder.rules}: {roles}")]


def _folder(folder: ServerFolder) -> Finding:
    """Find out whether other users may read what only the server may."""
    # What is in the folder is closed with it, unless its mode is for everybody.
    secret = {folder.root: 0o077, folder.database: 0o007, folder.key: 0o077}
    bad = [
        str(path)
        for path, closed in secret.items()
        if path.exists() and path.stat().st_mode & closed
    ]
    if bad:
        text = f"others may read {', '.join(bad)}"
        return _bad("folder", text, f"chmod go= {' '.join(bad)}")
    return Finding("folder", Health.OK, f"{folder.root}, closed to other users")


def _store(folder: ServerFolder, environ: Mapping[str, str]) -> list[Finding]:
    try:
        url = reached.database_url(folder, environ)
        if url == reached.sqlite_url(folder.database) and not folder.database.exists():
            text = "it is empty: the server has never been started"
            return [Finding("store", Health.NOTE, text, "rai server serve")]
        store = open_store(url, upgrade=False)
        try:
            store.check()
            why = store.drained()
            left = len(store.unfinished())
        finally:
            store.close()
    except RaiError as error:
        return [_bad("store", str(error), "see that the database runs")]
    kind = "SQLite" if url.startswith("sqlite") else "PostgreSQL"
    text = f"{kind}; {left} runs wait or run"
    found = [Finding("store", Health.OK, text)]
    if why:
        advice = "`rai server drain --off` starts runs again"
        found.append(Finding("queue", Health.NOTE, f"drained: {why}", advice))
    return found


def _server(listens: Path) -> Finding:
    try:
        answer = ServerConnection(f"unix://{listens}").ask("GET", "/healthz")
    except RaiError as error:
        return _bad("server", str(error), "start it: rai server serve")
    said = answer.body.decode(errors="replace")[:200].strip()
    if answer.status != 200:
        return _bad("server", f"it is not well: {said}", "see the lines below, its log")
    return Finding("server", Health.OK, f"serves at unix://{listens}")


def _capacity(facts: Capacity | None) -> list[Finding]:
    if facts is None:
        text = "the server has not looked at its engines and GPUs yet"
        return [_bad("engines", text, "start it: rai server serve")]
    found = [_bad("engines", p.message, p.hint) for p in facts.problems]
    if not facts.engines and not found:
        found.append(
            _bad("engines", "none can serve", "as the workers' user: rai doctor")
        )
    if not found:
        found.append(Finding("engines", Health.OK, ", ".join(facts.engines)))
    found += [_shared(facts.home)] if facts.in_slurm else []
    found += limits(facts)
    for gpu in facts.gpus:
        name = f"{gpu.name} {gpu.uuid}"
        if gpu.out:
            advice = f"see to it, then: rai server gpu clear {gpu.uuid}"
            found.append(Finding("gpu", Health.NOTE, f"{name}: {gpu.out}", advice))
        else:
            found.append(Finding("gpu", Health.OK, name))
    return found


def limits(facts: Capacity) -> list[Finding]:
    """Return the limits that the engines do not enforce. Pure."""
    found = []
    for line in facts.unenforced:
        local = line.startswith("local") and "memory" in line
        advice = strict.GROUPS.replace("rai ...", "rai server serve ...")
        text = f"not enforced by the engine {line}"
        found.append(Finding("limits", Health.NOTE, text, advice if local else ""))
    return found


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


def _shared(home: str) -> Finding:
    """Find out whether the nodes of a cluster can see the runs."""
    kind = file_system(home, _read("/proc/self/mountinfo"))
    text = f"{home} is on {kind or 'a file system of unknown type'}"
    if kind in SHARED or kind.startswith("fuse."):
        return Finding("folder of runs", Health.OK, text)
    text += ": each node has to see it under this name"
    advice = "if they do not, serve with --state on the file system that they share"
    return Finding("folder of runs", Health.NOTE, text, advice)


def _users(server: PeerProcess | None, at: ReachedAt | None) -> list[Finding]:
    """Return what the server's user, and the workers', could do to each other."""
    found = []
    apart = bool(at and at.workers)
    if at and apart:
        text = f"workers have a user of their own, by {at.workers}"
        found.append(Finding("users", Health.OK, text))
    elif server:
        who = "root" if server.uid == 0 else "one user"
        text = f"the server and its workers are {who}"
        advice = "`rai server units` makes them users of their own"
        found.append(Finding("users", Health.NOTE, text, advice))
    if server and server.uid and apart and (reach := _reaches(DOCKER, server)):
        text = f"the server's own user may use {reach}, and so become root"
        advice = "take it out of the group docker; only the workers' user needs that"
        found.append(Finding("docker", Health.NOTE, text, advice))
    if server and "/session-" in _read(f"/proc/{server.pid}/cgroup"):
        text = "the server and its workers are part of a login, and may end with it"
        advice = "`rai server units`, or `loginctl enable-linger`"
        found.append(Finding("systemd", Health.NOTE, text, advice))
    return found


def _certificate(at: ReachedAt | None) -> list[Finding]:
    if not at or not at.certificate:
        return []
    try:
        facts = certifying.read(Path(at.certificate))
    except RaiError as error:
        return [_bad("certificate", str(error), "see --tls of `rai server serve`")]
    left_s = facts.ends_at - time.time()
    until = time.strftime("%Y-%m-%d", time.gmtime(facts.ends_at))
    advice = "replace it and restart the server"
    if left_s <= 0:
        return [_bad("certificate", f"it ended on {until}", advice)]
    state = Health.NOTE if left_s < SOON_S else Health.OK
    text = f"good until {until}; {facts.fingerprint}"
    return [Finding("certificate", state, text, advice if state != Health.OK else "")]


def _disk(folder: ServerFolder, known: ServerRules, facts: Capacity | None) -> Finding:
    free = shutil.disk_usage(folder.root).free
    text = f"{size(free)} free for uploads"
    if facts:
        free = min(free, facts.disk_free)
        text += f", {size(facts.disk_free)} for runs"
    if free < known.low_disk_bytes:
        least = f"{known.low_disk_bytes / GIB:g} GiB"
        advice = f"below {least} nothing new is taken: free some space"
        return _bad("disk", text, advice)
    return Finding("disk", Health.OK, text)


def _reaches(path: Path, who: PeerProcess) -> str:
    try:
        facts = path.stat()
    except OSError:
        return ""
    lines = _read(f"/proc/{who.pid}/status").splitlines()
    named = next((one for one in lines if one.startswith("Groups:")), "")
    groups = {who.gid, *map(int, named.split()[1:])}
    return str(path) if may_write(facts, who.uid, groups) else ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _bad(subject: str, text: str, advice: str) -> Finding:
    return Finding(subject, Health.MISSING, text, advice)
