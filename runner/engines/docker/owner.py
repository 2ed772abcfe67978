"""The process that owns a container or a volume, as its labels name it."""

from __future__ import annotations

import hashlib
import os
import platform
import time
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

RUN = "rai.run"
OWNER = "rai.owner"
DEADLINE = "rai.deadline"
STRANGERS_GRACE_S = 3600.0


class Owner(Struct, frozen=True):
    """The identity of one process among those of all machines.

    ``host`` is a checksum of machine id and host name, so that two containers of one
    image are two hosts; ``pid`` is a number in the process ``namespace``.
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
    def parse(cls, text: str) -> Owner | None:
        """Parse a label; return None if it is not an owner's."""
        match text.split("/"):
            case [host, boot, namespace, pid, started] if pid.isdigit():
                return cls(host, boot, namespace, int(pid), started)
        return None


def here() -> Owner:
    """Return the identity of this process."""
    machine = _line("/etc/machine-id") + platform.node()
    boot = _line("/proc/sys/kernel/random/boot_id")
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = ""
    pid = os.getpid()
    host = hashlib.sha256(machine.encode()).hexdigest()[:12]
    return Owner(host, boot, namespace, pid, _start_time(pid) or "")


def labels(run_id: str, time_s: float) -> dict[str, str]:
    """Return the labels for the containers and volumes of a run of ``time_s``."""
    deadline = str(int(time.time() + time_s))
    return {RUN: run_id, OWNER: str(here()), DEADLINE: deadline}


def abandoned(found: Mapping[str, str], me: Owner, now: float) -> bool:
    """Whether the owner of an object with these labels is gone.

    An owner on this machine is looked up by its pid. An object of any other owner is
    abandoned STRANGERS_GRACE_S after its deadline.
    """
    owner = Owner.parse(found.get(OWNER, ""))
    if owner is None:
        return False
    if (owner.host, owner.boot, owner.namespace) == (me.host, me.boot, me.namespace):
        return not _alive(owner)
    deadline = found.get(DEADLINE, "")
    return deadline.isdigit() and now > int(deadline) + STRANGERS_GRACE_S


def _alive(owner: Owner) -> bool:
    if os.name == "nt":  # where signal 0 would end the process
        return True
    if Path("/proc/self/stat").exists():
        return _start_time(owner.pid) == owner.started
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _start_time(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name in parentheses may contain blanks; the time is the 20th field after it.
    return stat.rpartition(")")[2].split()[19]


def _line(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
