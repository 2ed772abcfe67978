"""Read what a container has used so far from the counters of its control group.

The engine's statistics are up to a second old and take as long to get. The counters are
read from files on this machine, else by a command in the container.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from runner.engines.docker.attach import ask
from runner.engines.docker.client import FAILURES, Client

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
