"""What a run must not leave on this machine, looked for from outside."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from runner.core import GIB, Limits
from runner.engines import cgroup
from tests.hostile.case import Case, Ended, Site
from tests.hostile.columns import Column
from tests.hostile.family import below, children

if TYPE_CHECKING:
    import docker

PR_SET_CHILD_SUBREAPER = 36
GROUPS = Path("/sys/fs/cgroup")
BOUND = Limits(pids=1500, memory_bytes=6 * GIB)
"""What a run of an ordinary user gets here at most, whatever is enforced."""

KEPT = {
    *("events.jsonl", "record.json", "stdout.log", "stderr.log", "source.tar.zst"),
    *("build.tar.zst", "spec.yml", "parcel.json", "holder.json", "cancel", "tag"),
}
"""The files that the folder of an ended run may have."""

AT_HOME = {"runs", "data", "outputs", "pruned.json"}
"""What RAI_HOME may have, the index apart."""

OF_A_CASE = {
    *("project", "home", "rai", "tmp", "outside", "output"),
    *("stdout", "stderr", "then-stdout", "then-stderr"),
    *("policy.yml", "etc", "etc-work", "held"),
}
"""What the folder of a case may have."""


@contextmanager
def adopted() -> Iterator[None]:
    """Become the parent of all processes that lose theirs, so that they are found."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = set(children(os.getpid()))
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
        _wait(lambda: not _orphans(before), 3.0)
        left = [_named(pid) for pid in _orphans(before)]
        for pid in _orphans(before):
            for each in (*below(pid), pid):
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)
            os.waitpid(pid, 0)
        assert not left, f"processes stay: {left}"
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@contextmanager
def bounded(column: Column) -> Iterator[list[str]]:
    """Yield words before a command line that keep this machine from harm.

    What is not enforced for an ordinary user has a bound of the test's own.
    """
    if column.user == "root" or not cgroup.available():
        yield []
        return
    group = cgroup.Group("hostile", BOUND)
    try:
        join = "".join(f"echo 0 > {file}; " for file in group.joins)
        yield ["sh", "-c", f'{join}exec "$@"', "sh"]
    finally:
        group.close()


def check(case: Case, ended: Ended) -> None:
    """Assert that a run left nothing, and wrote nothing outside of RAI_HOME."""
    site = ended.site
    ids = [p.name for p in (site.rai_home / "runs").glob("*") if p.name != ".trash"]
    _wait(lambda: not _left(site, ids), case.after_s)
    left = _left(site, ids)
    assert not left, f"it leaves {left}"


def _left(site: Site, ids: list[str]) -> list[str]:
    found = [f"{path} in the temporary folder" for path in site.tmp.iterdir()]
    found += [str(p) for i in ids for p in Path("/tmp").glob(f"rai-{i}*")]
    found += [
        f"group {folder}/{name}"
        for folder, names, _ in os.walk(GROUPS)  # others' groups may go meanwhile
        for name in names
        if any(name.startswith(f"rai-{i}") for i in ids)
    ]
    found += [f"mount {m}" for m in _mounts() if str(site.root) in m]
    found += [str(p) for p in site.root.iterdir() if p.name not in OF_A_CASE]
    found += [str(p) for p in site.outside.iterdir() if p.name != "secret"]
    found += [str(p) for p in site.home.iterdir()]
    found += list(_in_rai_home(site))
    found += list(_on_engine(site, ids))
    return found


def _in_rai_home(site: Site) -> Iterator[str]:
    for path in site.rai_home.iterdir():
        if path.name not in AT_HOME:
            yield str(path)
    for run in (site.rai_home / "runs").glob("*"):
        yield from (str(p) for p in run.iterdir() if p.name not in KEPT)
        holder = run / "holder.json"
        if holder.exists() and _locked(holder):
            yield f"lock on {holder}"
    for part in (site.rai_home / "data").rglob("*.part*"):
        yield str(part)


def _locked(file: Path) -> bool:
    with file.open("rb") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _on_engine(site: Site, ids: list[str]) -> Iterator[str]:
    """Yield what has a label of the run, or ``rai-test=MARK``."""
    client = _client() if site.column.startswith("docker") else None
    if client is None:
        return
    for label in [*(f"rai.run={i}" for i in ids), f"rai-test={site.mark}"]:
        ours = {"label": label}
        for each in client.containers(all=True, filters=ours):
            yield f"container {each['Names']} ({label})"
        for each in client.volumes(filters=ours)["Volumes"] or ():
            yield f"volume {each['Name']} ({label})"
        for each in client.networks(filters=ours):
            yield f"network {each['Name']} ({label})"


def remove_images(site: Site) -> None:
    """Remove the images that a case's project built: those with its label."""
    client = _client()
    for _ in range(3):
        ours = {"label": f"rai-test={site.mark}"}
        for each in client.images(all=True, filters=ours) if client else ():
            with suppress(Exception):  # a child of another, which goes first
                client.remove_image(each["Id"], force=True)


@cache
def _client() -> docker.APIClient | None:
    import docker

    try:
        client = docker.APIClient()
        client.ping()
    except docker.errors.DockerException:
        return None
    return client


def _mounts() -> list[str]:
    return Path("/proc/self/mountinfo").read_text().splitlines()


def _orphans(before: set[int]) -> list[int]:
    """Return the new children of this process that have not ended; reap the others."""
    found = [pid for pid in children(os.getpid()) if pid not in before]
    living = []
    for pid in found:
        with suppress(ChildProcessError):
            done, _ = os.waitpid(pid, os.WNOHANG)
            if not done:
                living.append(pid)
    return living


def _named(pid: int) -> str:
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return json.dumps(b" ".join(words).decode(errors="replace")[:200])
    return str(pid)


def _wait(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
