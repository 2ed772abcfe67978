"""What a container uses: counters of its control group, and the engine's disk."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from runner.core import Profile, Workspace
from runner.engines.disk import DiskMeter, FreeSpace, Pace
from runner.engines.docker.attach import ask
from runner.engines.docker.client import FAILURES, Client, UnusableError, explained

PROCESSES = Path("/proc")
PRINT_TIME_S = 5.0
_ROOT = "/sys/fs/cgroup"
_FIRST_VERSION = {
    "cpuacct": ("cpuacct.usage",),
    "memory": (
        "memory.max_usage_in_bytes",
        "memory.usage_in_bytes",
        "memory.oom_control",
    ),
    "pids": ("pids.events", "pids.current"),
}
_SECOND_VERSION = (
    "cpu.stat",
    "memory.peak",
    "memory.current",
    "memory.events",
    "pids.events",
    "pids.current",
)
_NAMES = [f"{group}/{n}" for group, names in _FIRST_VERSION.items() for n in names]
_PRINT_ALL = (
    f"cd {_ROOT} && for f in {' '.join((*_NAMES, *_SECOND_VERSION))}; do "
    '[ -r "$f" ] && echo "= ${f##*/}" && cat "$f"; done'
)


class Counters(Struct, frozen=True):
    """Usage since the container's start; None where the kernel does not count it."""

    cpu_s: float | None = None
    memory_bytes: int | None = None
    peak_memory_bytes: int | None = None
    memory_kills: int = 0
    refused_forks: int = 0
    processes: int | None = None


class CounterReader:
    """A reader of one running container's counters."""

    def __init__(self, client: Client, container: str) -> None:
        self._client, self._container = client, container
        self._files = _files_here(client, container)

    def read(self) -> Counters:
        """Return the counters as they are now."""
        if self._files:
            return parse({file.name: _text(file) for file in self._files})
        printed = ""
        with contextlib.suppress(*FAILURES):
            command = ["/bin/sh", "-c", _PRINT_ALL]
            printed = ask(self._client, self._container, command, PRINT_TIME_S)
        return parse(_sections(printed))

    def quick(self) -> Counters | None:
        """Return the counters if they are files here; a command would take long."""
        return self.read() if self._files else None


def parse(files: dict[str, str]) -> Counters:
    """Parse the texts of the files, by their names, of cgroup v1 or v2."""
    nanoseconds = _number(files.get("cpuacct.usage", ""))
    microseconds = _field(files.get("cpu.stat", ""), "usage_usec")
    cpu_s = None
    if nanoseconds is not None:
        cpu_s = nanoseconds / 1e9
    elif microseconds is not None:
        cpu_s = microseconds / 1e6
    peak = files.get("memory.max_usage_in_bytes") or files.get("memory.peak", "")
    memory = files.get("memory.usage_in_bytes") or files.get("memory.current", "")
    kills = files.get("memory.oom_control") or files.get("memory.events", "")
    return Counters(
        cpu_s,
        _number(memory),
        _number(peak),
        _field(kills, "oom_kill") or 0,
        _field(files.get("pids.events", ""), "max") or 0,
        _number(files.get("pids.current", "")),
    )


def _files_here(client: Client, container: str) -> list[Path]:
    """Return the counters' files, if the container runs on this machine."""
    try:
        pid = client.inspect_container(container)["State"]["Pid"]
    except FAILURES:
        return []
    files: list[Path] = []
    for folder, name in _groups(pid, container):
        names = _FIRST_VERSION.get(name, ()) if name else _SECOND_VERSION
        files += [folder / each for each in names]
    return [file for file in files if file.exists()]


def groups_of(pid: int, container: str) -> list[Path]:
    """Return the folders of a container's control groups, if it runs on this machine.

    ``pid`` is its first process, as the engine says.
    """
    return [folder for folder, _ in _groups(pid, container)]


def _groups(pid: int, container: str) -> Iterator[tuple[Path, str]]:
    """Yield the folder of each group and the controller's name, "" for version 2."""
    try:
        text = (PROCESSES / str(pid) / "cgroup").read_text()
    except OSError:
        return
    for line in text.splitlines():
        _, groups, path = line.split(":", 2)
        if container not in path:
            continue  # not the container's: that pid is another machine's
        for group in groups.split(","):
            yield Path(f"{_ROOT}/{group}{path}"), group


def _sections(text: str) -> dict[str, str]:
    pieces = re.split(r"^= (\S+)\n", text, flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\s*[0-9]{1,20}\s*", text) else None


def _field(text: str, name: str) -> int | None:
    found = re.search(rf"^{name} ([0-9]{{1,20}})$", text, flags=re.MULTILINE)
    return int(found[1]) if found else None


FIRST_LOOK_S = 1.0
INTERVAL_S = 3.0
GLANCE_S = 0.1
"""How often the free space is looked at, which costs little."""

FAILED_LOOKS = 2
"""Failures in a row that are reported: one may be due to the container's end."""

ONE_AT_A_TIME = "already running"
"""What an engine says that measures for another run."""


def measured_by_root() -> bool:
    """Whether this user may look into the folders of a container of this machine."""
    return os.geteuid() == 0


def outside(
    found: dict[str, Any], limit_bytes: int, *, open_root: bool
) -> tuple[DiskMeter, bool] | None:
    """Return a meter of a running container of this machine; None if there can be none.

    Return also whether it measures all that the container's commands may write to.
    ``found`` is what the engine says of it. With ``open_root`` they may write to its
    whole root.
    """
    if not measured_by_root():
        return None
    groups = groups_of(found["State"]["Pid"], found["Id"])
    lists = [file for group in groups if (file := group / "cgroup.procs").exists()]
    root = PROCESSES / str(found["State"]["Pid"]) / "root"
    mounts = (root.parent / "mountinfo").read_text() if lists else ""
    # Where an image has a link in their place, that would lead to a folder of the host.
    points = {line.split()[4] for line in mounts.splitlines()}
    if not points.issuperset(("/build", "/src")):
        return None
    folders = [root / "build"]
    devices = {folders[0].stat().st_dev}
    layer = None
    if open_root:
        layer = _layer(mounts)
        folders += [root / "src", *([layer] if layer else [])]
        devices |= {root.stat().st_dev, folders[-1].stat().st_dev}

    def processes() -> list[int]:
        return [int(word) for word in lists[0].read_text().split()]

    meter = DiskMeter(folders, limit_bytes, processes, devices)
    return meter, not open_root or layer is not None


def _layer(mounts: str) -> Path | None:
    """Return the folder that holds what is written to an overlay root, if seen here."""
    for line in mounts.splitlines():
        found = re.search(r"[:,]upperdir=([^,]+)", line)
        if line.split()[4] == "/" and found and Path(found[1]).is_dir():
            return Path(found[1])
    return None


class ContainerDiskWatch:
    """A thread that measures a run's writable folders every few seconds.

    ``problem`` says why measuring failed, and is empty if it did not.
    """

    def __init__(self, client: Client, container: str, work: Workspace) -> None:
        self._client, self._container = client, container
        self._limit = work.limits.disk_bytes
        self._open_root = work.profile is Profile.COMPATIBLE
        self._outside: DiskMeter | None = None
        self._space: FreeSpace | None = None
        self._whole = False
        self.problem = ""
        self._failed = 0
        self._full = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @property
    def full(self) -> bool:
        """Whether the limit was exceeded."""
        return self._full.is_set()

    def start(self) -> None:
        """Start measuring."""
        self._thread.start()

    def stop(self) -> None:
        """Stop measuring."""
        self._ended.set()

    def _watch(self) -> None:
        pace = Pace(FIRST_LOOK_S, INTERVAL_S)
        with suppress(OSError, *FAILURES):  # without it, measure at the usual times
            self._find(self._client.inspect_container(self._container))
            if self._space is None:
                folder = Path(self._client.info()["DockerRootDir"])
                self._space = FreeSpace((folder,), self._limit)
        while not self._ended.wait(GLANCE_S):
            if not self._due(pace):
                continue
            began = time.monotonic()
            self._look()
            if self.full:
                return
            pace.measured(began)
            if self._failed == 1:  # again soon, so that a short run reports it too
                pace = Pace(FIRST_LOOK_S, INTERVAL_S)

    def _due(self, pace: Pace) -> bool:
        try:
            return pace.due(self._space)
        except OSError:  # it cannot be looked into any more; a measurement says so
            return pace.due(None)

    def _find(self, found: dict[str, Any]) -> None:
        """Look for the container's folders, unless they were found before."""
        if self._outside is None:
            look = outside(found, self._limit, open_root=self._open_root)
            if look:
                self._outside, self._whole = look
                self._space = self._outside.space

    def _look(self) -> None:
        try:
            if self._used() > self._limit:
                self._full.set()
            self._failed = 0
        except (OSError, *FAILURES) as error:
            if ONE_AT_A_TIME in explained(error):
                return
            self._failed += 1
            if self._failed == FAILED_LOOKS:
                self.problem = explained(error)

    def _used(self) -> int:
        found = self._client.inspect_container(self._container)
        self._find(found)
        used = self._root_layer() if self._open_root and not self._whole else 0
        if used > self._limit:
            return used
        if self._outside:
            return used + self._outside.taken()
        used += self._volumes(found)
        if self._space:
            self._space.measured(used)
        return used

    def _volumes(self, found: dict[str, Any]) -> int:
        """Return the bytes of the run's volumes, as the engine measures them."""
        places = ("/build", "/src") if self._open_root else ("/build",)
        names = {m.get("Name") for m in found["Mounts"] if m["Destination"] in places}
        sdk: Any = self._client  # its df takes no type
        address = sdk._url("/system/df")
        listed = sdk._result(sdk._get(address, params={"type": "volume"}), True)
        sizes = [
            (volume.get("UsageData") or {}).get("Size", -1)
            for volume in listed.get("Volumes") or ()
            if volume["Name"] in names
        ]
        if len(sizes) < len(places) or min(sizes) < 0:
            raise UnusableError("the engine does not tell the size of a volume")
        return sum(sizes)

    def _root_layer(self) -> int:
        filters = {"id": self._container}
        found = self._client.containers(filters=filters, size=True)
        return int(found[0].get("SizeRw", 0)) if found else 0
