"""Files of a build folder that a report needs: profiles, and what a project says."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from runner import archive
from runner.commandline import programs
from runner.core import Limits, RunRecord
from runner.core.errors import RaiError
from runner.core.kernel_shapes import FILE
from runner.core.kernel_shapes_reader import MOST_BYTES as MOST_SHAPES_BYTES
from runner.store.paths import RunPaths

MOST_TRACE_BYTES = 512 << 20
MOST_TRACES_BYTES = 1 << 30
MOST_TRACES = 32
"""What is unpacked of one run; a profile of a million launches has about 100 MB."""

MOST_NAMED = 20
"""The most files that are named as not read; the others are counted."""

_ROOT = "build"
_SURE = (".nvprof", ".sqlite")
_TRACE = re.compile(r"(.*[^A-Za-z0-9])?traces?\.json(\.gz)?", re.ASCII)
"""Such as `trace.json`, and `HOST_1.2.pt.trace.json.gz`, as PyTorch calls its own."""

_WORD = re.compile(r"[^\s\"'=;|&()<>]+")


class BuildFiles:
    """What is wanted of an archive, what was taken, and what was left there.

    A file is wanted if it is a profile by its suffix or by the record, or a JSON file
    that a profiler's command names or whose name ends with ``trace.json``. Nothing of
    it is read outside of the archive.
    """

    def __init__(self, record: RunRecord) -> None:
        self.taken: dict[str, int] = {}
        self._problems: list[str] = []
        self._more = 0
        self._left = MOST_TRACES_BYTES
        self._room = MOST_TRACES
        self._profiles = {
            file.path for command in record.commands for file in command.profile_files
        }
        self._named = {
            posixpath.basename(word)
            for command in record.commands
            if programs.tools(command.text)
            for word in _WORD.findall(command.text)
            if word.endswith(".json")
        }

    @property
    def problems(self) -> tuple[str, ...]:
        """Return which files are not read, and why."""
        more = (f"{self._more} more files are not read",) if self._more else ()
        return (*self._problems, *more)

    def take(self, name: str, size: int) -> bool:
        """Whether to unpack a file; what is taken, and what is too large, is noted."""
        if self._wanted(name, size):
            self.taken[name] = size
            return True
        return False

    def _wanted(self, name: str, size: int) -> bool:
        if name == FILE:
            return self._fits(name, size, MOST_SHAPES_BYTES)
        if not self.is_trace(name):
            return False
        if self._room == 0:
            return self._leave(f"{name} is not shown: over {MOST_TRACES} profiles")
        if not self._fits(name, size, MOST_TRACE_BYTES):
            return False
        if size > self._left:
            most = f"{MOST_TRACES_BYTES >> 20} MiB"
            return self._leave(f"{name} is not read: all profiles have over {most}")
        self._room -= 1
        self._left -= size
        return True

    def is_trace(self, name: str) -> bool:
        """Whether a file may be what a profiler recorded over time."""
        base = posixpath.basename(name)
        suffix = posixpath.splitext(base)[1]
        if base in self._named or _TRACE.fullmatch(base):
            return name != FILE
        return suffix in _SURE or (name in self._profiles and suffix == "")

    def _fits(self, name: str, size: int, most: int) -> bool:
        if size <= most:
            return True
        return self._leave(f"{name} is not read: it has over {most >> 20} MiB")

    def _leave(self, why: str) -> bool:
        """Note why a file is not wanted."""
        if len(self._problems) < MOST_NAMED:
            self._problems.append(why)
        else:
            self._more += 1
        return False


def unpack(
    paths: RunPaths, record: RunRecord, into: Path
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Unpack the files into an empty folder; return their names, and what went wrong.

    Names are in order of the alphabet.
    """
    if not paths.build.exists():
        why = f"the run has no build folder, so no profile's file and no {FILE}"
        return (), (why,) if record.state.final else ()
    wanted = BuildFiles(record)
    caps = archive.build_caps(record.limits or Limits())
    failed: tuple[str, ...] = ()
    try:
        archive.pick(paths.build, into, wanted.take, caps, _ROOT)
    except (OSError, RaiError) as error:
        failed = (f"the build folder cannot be read: {error}",)
    found = (name for name, size in wanted.taken.items() if _whole(into / name, size))
    return tuple(sorted(found)), (*wanted.problems, *failed)


def _whole(path: Path, size: int) -> bool:
    """Return whether a file was unpacked to its end."""
    try:
        return path.lstat().st_size == size
    except OSError:
        return False
