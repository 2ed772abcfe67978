"""What a run left behind, read for a report or a comparison, bounded."""

from __future__ import annotations

import posixpath
import re
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from runner import pack
from runner.core import MIB, Limits, RunRecord, kernel_shapes
from runner.core.errors import RaiError
from runner.core.events import Output
from runner.core.evidence import OutputEnds, RunEvidence, Timeline, Trace
from runner.core.kernel_shapes import FILE, KernelShapes
from runner.core.work import Caps
from runner.figures import traces
from runner.report.diff_nouns import DiffSide
from runner.report.reported import readable
from runner.spec import commandline
from runner.store import run_files, runs
from runner.store.paths import RunPaths
from runner.store.runs import Tail
from runner.system import files

FEWEST_SPANS = 5000
"""A timeline has so many at least, however many profiles there are."""

MOST_CPU_S = 60.0
"""After so much work no further profile is read; a million records take 4 s."""

MOST_BYTES = 1 << 20
"""Of all commands of a run together, which share it equally."""

PART_BYTES = 16 << 10
"""The most of a command's beginning, and of its end."""

MOST_TRACE_BYTES = 512 << 20
MOST_TRACES_BYTES = 1 << 30
MOST_TRACES = 32
"""What is unpacked of one run; a profile of a million launches has about 100 MB."""

MOST_NAMED = 20
"""The most files that are named as not read; the others are counted."""

MOST_SPEC_BYTES = 1 << 20

CAPS = Caps(total_bytes=256 * MIB, members=20_000, file_bytes=256 * MIB)
"""Larger projects are compared as wholes, by the checksums of their archives."""

_ROOT = "build"
_SURE = (".nvprof", ".sqlite")
_TRACE = re.compile(r"(.*[^A-Za-z0-9])?traces?\.json(\.gz)?", re.ASCII)
"""Such as `trace.json`, and `HOST_1.2.pt.trace.json.gz`, as PyTorch calls its own."""

_WORD = re.compile(r"[^\s\"'=;|&()<>]+")


class FoundEvidence(Struct, frozen=True):
    """A run, and the timelines of its profiles by their names in the build folder."""

    run: RunEvidence
    timelines: Mapping[str, Timeline]


def read(
    paths: RunPaths,
    record: RunRecord,
    away: str = "",
    *,
    timelines: bool = False,
) -> FoundEvidence:
    """Return what a run left behind.

    What cannot be read is among the problems, and the rest stands. Timelines are read
    only if wanted.
    """
    printed, problems = outputs(paths, [c.index for c in record.first_round])
    with TemporaryDirectory(prefix="rai-report-") as folder:
        into = Path(folder)
        names, unread = unpack(paths, record, into)
        found, wrong = _shapes(into) if FILE in names else (None, ())
        traced = [name for name in names if name != FILE]
        sums, drawn, unreadable = profiles(into, traced, timelines=timelines)
    run = RunEvidence(
        record,
        run_files.read_tag(paths),
        run_files.read_note(paths),
        away,
        printed,
        found,
        sums,
        runs.measurement_of(paths),
        (*problems, *unread, *wrong, *unreadable),
    )
    return FoundEvidence(run, drawn)


def read_side(
    before: RunPaths, after: RunPaths, old: RunRecord, new: RunRecord
) -> tuple[DiffSide, DiffSide]:
    """Return both runs with their build files and the checksums of their files.

    What cannot be read, as it was removed or is too large, is None.
    """
    same = old.archive_sha256 == new.archive_sha256 and bool(old.archive_sha256)
    one: Mapping[str, str] | None = {}
    other: Mapping[str, str] | None = {}
    if not same:
        one, other = _read_checksums(before), _read_checksums(after)
    return (
        DiffSide(old, run_files.read_tag(before), _read_spec(before), one),
        DiffSide(new, run_files.read_tag(after), _read_spec(after), other),
    )


def _shapes(folder: Path) -> tuple[KernelShapes | None, tuple[str, ...]]:
    """Return what the file says, and what is wrong with it."""
    try:
        data = files.read_below(folder, FILE, kernel_shapes.MOST_BYTES)
    except OSError as error:
        return None, (f"{FILE} cannot be read: {error.strerror}",)
    found, problems = kernel_shapes.read(data)
    return found, tuple(problem.message for problem in problems)


def profiles(
    folder: Path, names: Sequence[str], *, timelines: bool
) -> tuple[tuple[Trace, ...], dict[str, Timeline], tuple[str, ...]]:
    """Return the sums of each file, its timeline if wanted, and what went wrong.

    The timelines share the spans that one may have, and the sums their names.
    """
    sums: list[Trace] = []
    drawn: dict[str, Timeline] = {}
    problems: list[str] = []
    most = max(traces.MOST // max(len(names), 1), FEWEST_SPANS)
    begun = time.process_time()
    for name in names:
        if time.process_time() - begun > MOST_CPU_S:
            problems.append(f"{name} is not read: the profiles before it took too long")
            continue
        try:
            if timelines:
                found, drawn[name] = traces.read(folder / name, name, most, len(names))
            else:
                found = traces.summary(folder / name, name, len(names))
        except (OSError, RaiError) as error:
            problems.append(str(error))
            continue
        sums.append(found)
        problems += [f"{name}: {problem}" for problem in found.problems]
    return tuple(sums), drawn, tuple(problems)


class _Ends:
    """The beginning and the end of one command's output."""

    def __init__(self, most: int) -> None:
        self._most, self.total = most, 0
        self._head, self._tail = bytearray(), bytearray()

    def add(self, data: bytes) -> None:
        """Take in the next piece; forget what is in the middle by now."""
        self.total += len(data)
        room = self._most - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        del self._tail[: -self._most]

    def read(self) -> OutputEnds:
        """Return the output; where it is cut, its parts have whole lines only."""
        head, tail = bytes(self._head), bytes(self._tail)
        if self.total == len(head) + len(tail):
            return OutputEnds(readable(head + tail, whole=True))
        head = head[: head.rfind(b"\n") + 1] or head
        tail = tail[tail.find(b"\n") + 1 :] or tail
        left_out = self.total - len(head) - len(tail)
        ends = (readable(head, whole=True), readable(tail, whole=True))
        return OutputEnds(*ends, left_out)


def outputs(
    paths: RunPaths, commands: Collection[int]
) -> tuple[dict[int, OutputEnds], tuple[str, ...]]:
    """Return what commands printed, by index, and what could not be read.

    Both streams are in it, in the order in which their pieces came.
    """
    each = min(PART_BYTES, MOST_BYTES // 2 // max(len(commands), 1))
    ends = {index: _Ends(each) for index in commands}
    problems = []
    try:
        for _, event in Tail(paths).events(
            lambda _, output: 0 if output.index in ends else output.length
        ):
            if isinstance(event, Output) and event.index in ends:
                ends[event.index].add(event.data)
    except (OSError, ValueError, RaiError) as error:
        problems.append(f"events.jsonl cannot be read to its end: {error}")
    return {n: of.read() for n, of in ends.items() if of.total}, tuple(problems)


class BuildFiles:
    """What is wanted of an archive, what was taken, and what was left there.

    A file is wanted if it is a profile by its suffix or by the record, or a JSON file
    that a profiler's command names or whose name ends with ``trace.json``. Nothing of
    it is read outside of the archive.
    """

    def __init__(self, record: RunRecord) -> None:
        self.taken: dict[str, int] = {}
        self._unread: list[str] = []
        self._more = 0
        self._profiles = {
            file.path for command in record.commands for file in command.profile_files
        }
        self._named = {
            posixpath.basename(word)
            for command in record.commands
            if commandline.tools(command.text)
            for word in _WORD.findall(command.text)
            if word.endswith(".json")
        }

    @property
    def problems(self) -> tuple[str, ...]:
        """Return which files are not read, and why."""
        more = (f"{self._more} more files are not read",) if self._more else ()
        return (*self._unread, *more)

    def take(self, name: str, size: int) -> bool:
        """Whether to unpack a file; what is taken, and what is too large, is noted."""
        traced = [each for other, each in self.taken.items() if other != FILE]
        most, why = kernel_shapes.MOST_BYTES, ""
        if name != FILE:
            most = MOST_TRACE_BYTES
            if not self.is_trace(name):
                return False
            if len(traced) == MOST_TRACES:
                why = f"shown: over {MOST_TRACES} profiles"
            elif size <= most and sum(traced) + size > MOST_TRACES_BYTES:
                why = f"read: all profiles have over {MOST_TRACES_BYTES >> 20} MiB"
        if size > most and not why:
            why = f"read: it has over {most >> 20} MiB"
        if not why:
            self.taken[name] = size
        elif len(self._unread) < MOST_NAMED:
            self._unread.append(f"{name} is not {why}")
        else:
            self._more += 1
        return not why

    def is_trace(self, name: str) -> bool:
        """Whether a file may be what a profiler recorded over time."""
        base = posixpath.basename(name)
        suffix = posixpath.splitext(base)[1]
        if base in self._named or _TRACE.fullmatch(base):
            return name != FILE
        return suffix in _SURE or (name in self._profiles and suffix == "")


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
    caps = pack.build_caps(record.limits or Limits())
    failed: tuple[str, ...] = ()
    try:
        pack.pick(paths.build, into, wanted.take, caps, _ROOT)
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


def _read_spec(paths: RunPaths) -> str | None:
    """Return the text of a run's build file."""
    try:
        data = files.read_below(paths.root, paths.spec.name, MOST_SPEC_BYTES)
    except OSError:
        return None
    return data.decode(errors="replace")


def _read_checksums(paths: RunPaths) -> dict[str, str] | None:
    """Return a checksum of each file of a run's project."""
    try:
        return pack.checksums(paths.source, CAPS)
    except (OSError, RaiError):
        return None
