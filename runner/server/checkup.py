"""Examine a server: what works, what does not, and what to do about each."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from msgspec import Struct

from runner.core import GIB
from runner.core.errors import RaiError
from runner.core.units import DAY_S
from runner.database.store import open_store
from runner.doctor.finding import Finding, Health
from runner.engines import strict
from runner.jobhost import channel
from runner.jobhost.client import SocketHost
from runner.remote.connection import ServerConnection
from runner.report import size
from runner.scheduling.roles import ServerRules
from runner.server import certifying, cluster_checkup, paths, reached, rules
from runner.server.paths import ServerFolder
from runner.server.reached import ReachedAt
from runner.wire.host import HostFacts

SOON_S = 30 * DAY_S
DOCKER = Path("/var/run/docker.sock")


class PeerProcess(Struct, frozen=True):
    """The process that listens at a Unix socket: its number, user, and groups."""

    pid: int
    uid: int
    gids: frozenset[int]


def examine(
    folder: ServerFolder, environ: Mapping[str, str], jobs: Path | None
) -> list[Finding]:
    """Return the findings about everything that a server needs."""
    at = reached.read(folder)
    listens = Path(at.socket) if at else paths.socket(None, folder, environ)
    host_at = paths.jobs_socket(jobs or (Path(at.jobs) if at else None), listens)
    known, found = _rules(folder)
    found += [_folder(folder), *_store(folder, environ)]
    found.append(_server(listens))
    facts, host = _host(host_at)
    found += host
    found += _users(peer(listens), peer(host_at))
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
            found = channel.credentials(probe)
        except OSError:
            return None
    groups = frozenset({found.gid, *_groups(found.pid)})
    return PeerProcess(found.pid, found.uid, groups)


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
    secret = (folder.root, folder.database, folder.key)
    bad = [str(path) for path in secret if path.exists() and _is_open(path)]
    if bad:
        text = f"others may read {', '.join(bad)}"
        return _bad("folder", text, f"chmod go= {' '.join(bad)}")
    return Finding("folder", Health.OK, f"{folder.root}, closed to other users")


def _is_open(path: Path) -> bool:
    return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)


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


def _host(at: Path) -> tuple[HostFacts | None, list[Finding]]:
    try:
        facts = SocketHost(at).facts()
    except RaiError as error:
        advice = "`rai server serve` starts one; under systemd: rai-jobs.service"
        return None, [_bad("job host", str(error), advice)]
    found = []
    for problem in facts.problems:
        found.append(_bad("job host", problem.message, problem.hint))
    if not facts.engines and not facts.problems:
        advice = "as the job host's user: rai doctor"
        found.append(_bad("engines", "none of them serves", advice))
    if not found:
        text = f"rai {facts.version} at {at}: {', '.join(facts.engines)}"
        found.append(Finding("job host", Health.OK, text))
    found += limits(facts)
    found += cluster_checkup.examine(facts) if facts.in_slurm else []
    for gpu in facts.gpus:
        name = f"{gpu.name} {gpu.uuid}"
        if gpu.out:
            advice = f"see to it, then: rai server gpu clear {gpu.uuid}"
            found.append(Finding("gpu", Health.NOTE, f"{name}: {gpu.out}", advice))
        else:
            found.append(Finding("gpu", Health.OK, name))
    return facts, found


def limits(facts: HostFacts) -> list[Finding]:
    """Return the limits that the engines do not enforce. Pure."""
    found = []
    for line in facts.unenforced:
        local = line.startswith("local") and "memory" in line
        advice = strict.GROUPS.replace("rai ...", "rai server serve ...")
        text = f"not enforced by the engine {line}"
        found.append(Finding("limits", Health.NOTE, text, advice if local else ""))
    return found


def _users(server: PeerProcess | None, host: PeerProcess | None) -> list[Finding]:
    """Return what the users of the two processes could do to each other."""
    found = []
    if server and host:
        if server.uid == host.uid:
            who = "root" if server.uid == 0 else "one user"
            text = f"the server and the job host are {who}"
            advice = "`rai server units` makes them users of their own"
            found.append(Finding("users", Health.NOTE, text, advice))
        else:
            found.append(Finding("users", Health.OK, "the server's, and the jobs'"))
    if server and server.uid and (reach := _reaches(DOCKER, server)):
        text = f"the server's own user may use {reach}, and so become root"
        advice = "take it out of the group docker; only the job host needs that"
        found.append(Finding("docker", Health.NOTE, text, advice))
    if host and "/session-" in _read(f"/proc/{host.pid}/cgroup"):
        text = "the job host is part of a login, and may end with it"
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


def _disk(folder: ServerFolder, known: ServerRules, facts: HostFacts | None) -> Finding:
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
    return str(path) if may_write(facts, who.uid, who.gids) else ""


def _groups(pid: int) -> list[int]:
    lines = _read(f"/proc/{pid}/status").splitlines()
    found = next((one for one in lines if one.startswith("Groups:")), "")
    return [int(word) for word in found.split()[1:]]


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _bad(subject: str, text: str, advice: str) -> Finding:
    return Finding(subject, Health.MISSING, text, advice)
