"""Examine a server: what works, what does not, and what to do about each."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path

from runner.client.connection import HttpRequest, ServerConnection
from runner.core import GIB
from runner.core.errors import RaiError
from runner.core.quantities import DAY_S, size
from runner.core.wire import Capacity
from runner.engines import base
from runner.engines.doctor import Finding, Health
from runner.server import listening, paths, rules, workers
from runner.server.database import open_store
from runner.server.decision import NOT_LOOKED
from runner.server.listening import PeerProcess
from runner.server.paths import ReachedAt, ServerFolder, sqlite_url
from runner.server.scheduling import ServerRules

SOON_S = 30 * DAY_S
DOCKER = Path("/var/run/docker.sock")
SHARED = frozenset(
    (
        *("nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb3", "9p"),
        *("glusterfs", "panfs", "pvfs2", "wekafs", "afs", "virtiofs", "gfs2", "ocfs2"),
    )
)
"""Types of file systems that several machines may have at once."""


def examine(folder: ServerFolder, environ: Mapping[str, str]) -> list[Finding]:
    """Return the findings about everything that a server needs."""
    at = folder.reached_at()
    listens = Path(at.socket) if at else paths.socket(None, folder, environ)
    facts = workers.kept(folder.home_of_runs())
    known, read = _rules(folder)
    return [
        read,
        _folder(folder),
        *_store(folder, environ),
        _server(listens),
        *_capacity(facts),
        *_users(listens, at),
        *(_certificate(Path(at.certificate)) if at and at.certificate else ()),
        _disk(folder, known, facts),
    ]


def well(found: Collection[Finding]) -> bool:
    """Whether nothing of it keeps the server from serving."""
    return all(one.state is not Health.MISSING for one in found)


def _ok(subject: str, text: str) -> Finding:
    return Finding(subject, Health.OK, text)


def _note(subject: str, text: str, advice: str = "") -> Finding:
    return Finding(subject, Health.NOTE, text, advice)


def _bad(subject: str, text: str, advice: str) -> Finding:
    return Finding(subject, Health.MISSING, text, advice)


def _rules(folder: ServerFolder) -> tuple[ServerRules, Finding]:
    try:
        found = rules.read(folder.rules)
    except RaiError as error:
        advice = "mend it; a server that runs keeps what it read when it started"
        return ServerRules(), _bad("server.yml", str(error), advice)
    return found, _ok("server.yml", f"{folder.rules}: {', '.join(found.roles)}")


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
        advice = f"chmod go= {' '.join(bad)}"
        return _bad("folder", f"others may read {', '.join(bad)}", advice)
    return _ok("folder", f"{folder.root}, closed to other users")


def _store(folder: ServerFolder, environ: Mapping[str, str]) -> Iterator[Finding]:
    try:
        url = folder.database_url(environ)
        if url == sqlite_url(folder.database) and not folder.database.exists():
            text = "it is empty: the server has never been started"
            yield _note("store", text, "rai server serve")
            return
        with closing(open_store(url, upgrade=False)) as store:
            store.check()
            why, left = store.drained(), len(store.unfinished())
    except RaiError as error:
        yield _bad("store", str(error), "see that the database runs")
        return
    kind = "SQLite" if url.startswith("sqlite") else "PostgreSQL"
    yield _ok("store", f"{kind}; {left} runs wait or run")
    if why:
        advice = "`rai server drain --off` starts runs again"
        yield _note("queue", f"drained: {why}", advice)


def _server(listens: Path) -> Finding:
    try:
        connection = ServerConnection(f"unix://{listens}")
        with connection.send(HttpRequest("GET", "/healthz")) as answer:
            body = answer.body.read(200).decode(errors="replace").strip()
    except RaiError as error:
        return _bad("server", str(error), "start it: rai server serve")
    if answer.status == 200:
        return _ok("server", f"serves at unix://{listens}")
    return _bad("server", f"it is not well: {body}", "see the lines below, its log")


def _capacity(facts: Capacity | None) -> Iterator[Finding]:
    if facts is None:
        yield _bad("engines", NOT_LOOKED, "start it: rai server serve")
        return
    for problem in facts.problems:
        yield _bad("engines", problem.message, problem.hint)
    if facts.engines and not facts.problems:
        yield _ok("engines", ", ".join(facts.engines))
    elif not facts.problems:
        yield _bad("engines", "none can serve", "as the workers' user: rai doctor")
    if facts.in_slurm:
        yield _shared(facts.home)
    yield from limits(facts)
    for gpu in facts.gpus:
        name = f"{gpu.name} {gpu.uuid}"
        advice = f"see to it, then: rai server gpu clear {gpu.uuid}"
        text = f"{name}: {gpu.out}"
        yield _note("gpu", text, advice) if gpu.out else _ok("gpu", name)


def limits(facts: Capacity) -> Iterator[Finding]:
    """Yield the limits that the engines do not enforce. Pure."""
    advice = base.GROUPS.replace("rai ...", "rai server serve ...")
    if why := facts.unranked:
        yield _note("submissions", f"those that are ranked are refused: {why}", advice)
    for line in facts.unenforced:
        local = line.startswith("local") and "memory" in line
        text = f"not enforced by the engine {line}"
        yield _note("limits", text, advice if local else "")


def file_system(device: int, mounts: str) -> str:
    """Return the type of a device's file system; "" where that is not known. Pure.

    ``mounts`` is the text of /proc/self/mountinfo (proc_pid_mountinfo(5)).
    """
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        if before.split(" ")[2:3] == [number]:
            return after.split(" ")[0]
    return ""


def _shared(home: str) -> Finding:
    """Find out whether the nodes of a cluster can see the runs."""
    kind = ""
    with suppress(OSError):
        kind = file_system(Path(home).stat().st_dev, _read("/proc/self/mountinfo"))
    text = f"{home} is on {kind or 'a file system of unknown type'}"
    if kind in SHARED or kind.startswith("fuse."):
        return _ok("folder of runs", text)
    text += ": each node has to see it under this name"
    advice = "if they do not, serve with --state on the file system that they share"
    return _note("folder of runs", text, advice)


def _users(listens: Path, at: ReachedAt | None) -> Iterator[Finding]:
    """Yield what the server's user, and the workers', could do to each other."""
    server = None
    with suppress(OSError):
        server = listening.server_at(listens)
    if at and at.workers:
        yield _ok("users", f"workers have a user of their own, by {at.workers}")
        if server and server.uid and _may_write(DOCKER, server):
            text = f"the server's own user may use {DOCKER}, and so become root"
            advice = (
                "take it out of the group docker; only the workers' user needs that"
            )
            yield _note("docker", text, advice)
    elif server:
        who = "root" if server.uid == 0 else "one user"
        advice = "`rai server units` makes them users of their own"
        yield _note("users", f"the server and its workers are {who}", advice)
    if server and "/session-" in _read(f"/proc/{server.pid}/cgroup"):
        text = "the server and its workers are part of a login, and may end with it"
        advice = "`rai server units`, or `loginctl enable-linger`"
        yield _note("systemd", text, advice)


def _may_write(path: Path, who: PeerProcess) -> bool:
    """Whether the user of a process, with its groups, may write to a file."""
    try:
        facts = path.stat()
    except OSError:
        return False
    lines = _read(f"/proc/{who.pid}/status").splitlines()
    named = next((one for one in lines if one.startswith("Groups:")), "")
    bit = stat.S_IWOTH
    if facts.st_uid == who.uid:
        bit = stat.S_IWUSR
    elif facts.st_gid in (who.gid, *map(int, named.split()[1:])):
        bit = stat.S_IWGRP
    return bool(facts.st_mode & bit)


def _certificate(file: Path) -> Iterator[Finding]:
    try:
        shown, ends_at = listening.fingerprint(file), listening.ends_at(file)
    except RaiError as error:
        yield _bad("certificate", str(error), "see --tls of `rai server serve`")
        return
    left_s = ends_at - time.time()
    until = time.strftime("%Y-%m-%d", time.gmtime(ends_at))
    text, advice = f"good until {until}; {shown}", "replace it and restart the server"
    if left_s <= 0:
        yield _bad("certificate", f"it ended on {until}", advice)
    elif left_s < SOON_S:
        yield _note("certificate", text, advice)
    else:
        yield _ok("certificate", text)


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
    return _ok("disk", text)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
