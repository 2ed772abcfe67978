"""Facts about this machine and its user, and processes that this one did not start."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import signal
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from runner import __version__
from runner.core import Machine

_PID = re.compile("[0-9]{1,9}")
_TAG = re.compile(r"-([0-9]*)\.([0-9]{1,9})\.([0-9]+)(?=-|$)")


class ProcessIdentity(Struct, frozen=True):
    """The identity of one process among those of all machines.

    ``host`` is a checksum of machine id and host name, so that two containers of one
    image are two hosts; ``pid`` is a number in the process ``namespace``; ``started``
    tells the process from a later one with the same number.
    """

    host: str
    boot: str
    namespace: str
    pid: int
    started: str

    def __str__(self) -> str:
        words = (self.host, self.boot, self.namespace, str(self.pid), self.started)
        return "/".join(words)

    @classmethod
    def parse(cls, text: str) -> ProcessIdentity | None:
        """Parse what ``str`` returned; return None for anything else."""
        match text.split("/"):
            case [host, boot, namespace, pid, started] if _PID.fullmatch(pid):
                return cls(host, boot, namespace, int(pid), started)
        return None

    @property
    def tag(self) -> str:
        """Its namespace, number and start, for the names of files on one machine."""
        return f"{_digits(self.namespace)}.{self.pid}.{self.started}"

    def is_within_reach_of(self, other: ProcessIdentity) -> bool:
        """Whether ``pid`` names this process for ``other``, too."""
        mine = (self.host, self.boot, self.namespace)
        return mine == (other.host, other.boot, other.namespace)


def this_process() -> ProcessIdentity:
    """Return the identity of this process."""
    boot = _line("/proc/sys/kernel/random/boot_id")
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = ""
    pid = os.getpid()
    seen = _line("/etc/machine-id") + platform.node()
    host = hashlib.sha256(seen.encode()).hexdigest()[:12]
    return ProcessIdentity(host, boot, namespace, pid, _start_time(pid) or "")


def is_alive(process: ProcessIdentity) -> bool:
    """Whether a process within reach still runs; a zombie does not."""

    if Path("/proc/self/stat").exists():
        return _start_time(process.pid) == process.started
    with contextlib.suppress(PermissionError):
        try:
            os.kill(process.pid, 0)
        except ProcessLookupError:
            return False
    return True


def has_ended(name: str) -> bool:
    """Whether a file's name has the ``tag`` of a process that ended.

    That of another process namespace may be alive for all that this one can tell.
    """
    found = _TAG.search(name)
    me = this_process()
    if found is None or found[1] != _digits(me.namespace):
        return False
    owner = ProcessIdentity(me.host, me.boot, me.namespace, int(found[2]), found[3])
    return not is_alive(owner)


def tagged(name: str) -> bool:
    """Whether a file's name has the ``tag`` of a process."""
    return _TAG.search(name) is not None


def describe() -> Machine:
    """Return the facts about this machine for a record."""
    return Machine(
        host=platform.node(),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        cpu=_cpu(),
        cores=cores(),
        memory_bytes=_memory(),
        python=platform.python_version(),
        rai=__version__,
    )


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def architecture() -> str:
    """Return the architecture of this machine's processor, as its kernel names it."""
    return platform.machine()


def emulates(name: str) -> bool:
    """Whether the kernel runs another architecture's programs by an emulator."""
    return _line(f"/proc/sys/fs/binfmt_misc/{name}").startswith("enabled")


def user() -> str:
    """Return the name of the user whose rights this process has, or its number."""
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"user {os.geteuid()}"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if "model name" in line]
    return names[0] if names else platform.machine()


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return 0


def _stat(pid: int) -> list[str]:
    """Return what /proc/PID/stat has after the program's name; [] if it has ended.

    The name in parentheses may hold anything, a parenthesis or a blank too.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def _start_time(pid: int) -> str | None:
    """Return when a process started, in clock ticks; None if it has ended."""
    found = _stat(pid)
    return found[19] if found and found[0] not in "ZX" else None


def _digits(text: str) -> str:
    return re.sub(r"\D", "", text)


def _line(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


MOST = 1000
"""More processes than this are not looked at."""


Usage = tuple[float | None, int | None]
"""Seconds of CPU so far and bytes of memory now; None where that is not known."""

PR_SET_PDEATHSIG = 1


def kill_marked(name: str, value: str) -> None:
    """Kill this machine's processes that have ``name=value`` in their environment.

    This finds processes that left their group and session, if this user may see them.
    """
    mark = f"{name}={value}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """Return the ids of a process's descendants, nearest first; Linux only."""
    found: list[int] = []
    todo = [pid]
    while todo:
        one = todo.pop(0)
        children = _line(f"/proc/{one}/task/{one}/children")
        below = [int(word) for word in children.split()]
        found += below
        todo += below
    return found


def used(pid: int) -> Usage:
    """Return what a process and its descendants use, with those that they waited for.

    Memory that several share is counted for each.
    """
    found = [stat for one in (pid, *descendants(pid)[:MOST]) if (stat := _stat(one))]
    if not found:
        return None, None
    # User's and system's time, its own and of the children that it waited for.
    ticks = sum(int(word) for stat in found for word in stat[11:15])
    pages = sum(int(stat[21]) for stat in found)
    return ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE")


def end_with_parent() -> None:
    """Have the kernel send this process SIGTERM when its parent ends.

    A shell that is ended leaves its programs alone, and a CI system kills these
    without a warning later (prctl(2), PR_SET_PDEATHSIG). Nothing is done where the
    kernel cannot do this. Programs that this process starts are not told.
    """
    import ctypes  # few need it

    parent = os.getppid()
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:  # it ended before it was asked for
        os.kill(os.getpid(), signal.SIGTERM)


def apart(call: Callable[[], object]) -> bool:
    """Do a call in a copy of this process; return whether it raised nothing.

    This process may have no other threads. What is printed there is not shown; whoever
    needs the error makes the call again.
    """
    child = os.fork()
    if child == 0:
        status = 1
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            for stream in (1, 2):
                os.dup2(null, stream)
            call()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0
