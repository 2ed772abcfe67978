"""The sides of a bench, folders or commits: read, checked and ready to start."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from runner import engines
from runner.core import GIB, Gpu, Problem, Reason, Severity
from runner.core.errors import BusyError, Cancel, EngineError, RaiError, UsageError
from runner.core.screen import printable
from runner.core.work import Caps
from runner.engines import Choice
from runner.engines.base import Engine
from runner.execution import prepare
from runner.execution.prepare import Options, Prepared, in_ci
from runner.pack import git
from runner.pack import source as sources
from runner.pack.git import ProjectCommit
from runner.pack.meter import ArchiveMeter, DamagedError, OverCapsError
from runner.system import trees

LABELS = "ABCDEFGH"
"""The sides' names in messages; the first is what the others are compared with."""

COMMIT_CAPS = Caps(total_bytes=2 * GIB, members=200_000, file_bytes=2 * GIB)
"""What a commit may hold. The settings limit what of it a run may send."""

_POINTER = b"version https://git-lfs.github.com/spec/v1\n"
_POINTER_BYTES = 1024
"""Git LFS writes shorter pointers only (docs/spec.md of git-lfs)."""

_WHOLE_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class BenchSource(Struct, frozen=True):
    """One side: ``commit``, else the project's folder or build file at ``path``.

    ``instead`` says that it takes the place of a commit that is not there.
    """

    path: Path
    commit: ProjectCommit | None = None
    instead: str = ""

    @property
    def shown(self) -> str:
        """What it is, for a message."""
        if self.commit is None:
            return f"the folder {printable(str(self.path))}"
        name, short = printable(self.commit.asked), self.commit.short
        return f"commit {short}" + ("" if short.startswith(name) else f" ({name})")

    @property
    def brief(self) -> str:
        """What it is, for a headline: seven digits of a commit, or a folder's name."""
        if self.commit is None:
            return f"folder {printable(self.path.resolve().name)}"
        return self.commit.short[:7]


class BenchSides(Struct, frozen=True):
    """All sides in order: what they are, their requests and their engines.

    ``warnings`` are those of all, each once, with the side's name where they differ.
    """

    sources: tuple[BenchSource, ...]
    prepared: tuple[Prepared, ...]
    choices: tuple[Choice, ...]
    warnings: tuple[Problem, ...] = ()

    @property
    def budget_s(self) -> float:
        """How long the pairs may take together."""
        return min(side.request.budget_s for side in self.prepared)


def source(text: str | None, project: Path) -> BenchSource:
    """Return the side that a word names; without one it is the project as it is now.

    A word with a slash, ``.`` or ``..`` is a path if there is one; another word is a
    commit of the project's repository, or else a folder. The whole id of a commit that
    the repository lacks stands for HEAD's parent: CI systems name the commit before a
    push by zeros where a branch is new, and one that is gone after a forced push.

    Raises:
        UsageError: it is neither, or both.
    """
    if text is None:
        return BenchSource(project)
    path = Path(text)
    exists = bool(text) and path.exists()
    if exists and ("/" in text or text in (".", "..")):
        return BenchSource(path)
    folder = project if project.is_dir() else project.parent
    try:
        found = git.find(folder, text)
    except UsageError:
        if exists:
            return BenchSource(path)
        raise
    if found is not None and exists:
        hint = f"./{text} is the folder, {found.short} the commit"
        raise UsageError(Problem(f"{text} is a folder and a commit", hint=hint))
    if found is not None:
        return BenchSource(project, found)
    if exists:
        return BenchSource(path)
    unknown = git.unknown(project, text)
    if not _WHOLE_ID.fullmatch(text):
        raise UsageError(unknown)
    why = f"commit {text[:10]} is not in this repository: its branch was rewritten"
    if not text.strip("0"):
        why = "there is no earlier commit (its id is all zeros): the branch is new"
    if parent := git.find(folder, "HEAD^"):
        return BenchSource(project, parent, f"{why}; comparing with HEAD^ in its place")
    raise UsageError(Problem(f"{why}, and HEAD has no parent here", hint=unknown.hint))


def prepared(
    given: Sequence[BenchSource],
    project: Path,
    options: Options,
    area: Path,
    cancel: Cancel,
) -> BenchSides:
    """Write out the commits below ``area``, read all sides and choose their engine.

    Raises:
        RaiError: as for ``prepare.prepare`` and ``engines.choose``; each problem names
            its side.
    """
    found = [
        _prepared(side, project, options, area / label, cancel, label)
        for label, side in zip(LABELS, given, strict=False)
    ]
    longest = [_longest_s(side) for side in found]
    ready = []
    for label, side, own_s in zip(LABELS, found, longest, strict=False):
        # Lists show a side by its label; its container waits for all the others.
        asked = replace(side.request.asked, title=f"bench: {label}")
        request = replace(side.request, asked=asked, idle_s=sum(longest) - own_s)
        ready.append(replace(side, request=request))
    return BenchSides(tuple(given), tuple(ready), _choices(ready), _warnings(ready))


def _prepared(
    side: BenchSource,
    project: Path,
    options: Options,
    into: Path,
    cancel: Cancel,
    label: str,
) -> Prepared:
    files: Path | None = None

    def placed(problem: Problem) -> Problem:
        """Name the commit in place of its folder, which is gone later."""
        if files is None or side.commit is None:
            return problem
        short, folder = side.commit.short, str(files)

        def known(text: str) -> str:
            return text.replace(f"{folder}/", f"{short}:").replace(folder, short)

        place = problem.place and replace(problem.place, file=known(problem.place.file))
        message, hint = known(problem.message), known(problem.hint)
        return replace(problem, message=message, place=place, hint=hint)

    try:
        if side.commit is None:
            return prepare.prepare(side.path, options)
        files = write_out(side.commit, into, cancel)
        name = project.name if project.is_file() else ""
        home = project.parent if project.is_file() else project
        commit = side.commit.state
        found = prepare.staged(files / name, home, options, commit=commit)
    except RaiError as error:
        told = [
            replace(p, message=f"{label}, {side.shown}: {p.message}")
            for p in map(placed, error.problems)
        ]
        raise RaiError(*told, reason=error.reason, advice=error.advice) from error
    hint = f"`git worktree add FOLDER {side.commit.short}`, and name that folder"
    lacking = [
        Problem(f"{side.shown} {text}", hint=hint, severity=Severity.WARNING)
        for text in _lacking(side.commit, files)
    ]
    return replace(found, warnings=(*map(placed, found.warnings), *lacking))


def _lacking(commit: ProjectCommit, files: Path) -> Iterator[str]:
    """Yield what the files of a commit lack that a checkout has."""
    if commit.submodules:
        yield "has submodules, whose files are left out"
    if count := _pointers(files):
        kept = "file that Git LFS keeps" if count == 1 else "files in Git LFS"
        yield f"has {count} {kept}, of which it holds only pointers"


def _pointers(folder: Path) -> int:
    """Return how many files of a commit are pointers of Git LFS."""
    count = 0
    for entry in trees.entries(folder):
        if stat.S_ISREG(entry.info.st_mode) and entry.info.st_size < _POINTER_BYTES:
            with open(trees.opened(entry), "rb") as file:  # noqa: PTH123 - a descriptor
                count += file.read(len(_POINTER)) == _POINTER
    return count


def write_out(commit: ProjectCommit, into: Path, cancel: Cancel) -> Path:
    """Write a commit's files to a new folder; return the project's folder in it.

    Raises:
        UsageError: it cannot be read, is hostile, or holds more than ``COMMIT_CAPS``.
        RaiError: it was cancelled (cancelled).
    """
    into.mkdir()
    packed, meter = into / "commit.tar", ArchiveMeter(COMMIT_CAPS)
    files = into / "files"
    files.mkdir()
    try:
        pieces = git.files_of(commit, COMMIT_CAPS.total_bytes, cancel)
        with packed.open("wb") as file, closing(pieces):
            for piece in pieces:
                meter.feed(piece)
                file.write(piece)
        with packed.open("rb") as stream:
            sources.unpack(stream, files)
    except (OverCapsError, DamagedError) as error:
        raise UsageError(f"commit {commit.short} {error}") from error
    except EngineError as error:
        text = "; ".join(problem.message for problem in error.problems)
        raise UsageError(f"commit {commit.short}: {text}") from error
    finally:
        packed.unlink(missing_ok=True)
    return files / commit.folder


def _warnings(sides: Sequence[Prepared]) -> tuple[Problem, ...]:
    """Return the warnings of all sides, then those of some, which are named."""
    shared = [p for p in sides[0].warnings if all(p in s.warnings for s in sides)]
    apart = [
        replace(problem, message=f"{label}: {problem.message}")
        for label, side in zip(LABELS, sides, strict=False)
        for problem in side.warnings
        if problem not in shared
    ]
    return (*shared, *apart)


def _longest_s(side: Prepared) -> float:
    """Return for how long the others' containers may have to wait for this run."""
    request, limits = side.request, side.request.spec.limits
    image_s = limits.build_time_s + request.asked.gpu_wait_s
    return image_s + 2 * limits.time_s + request.budget_s


def _choices(sides: Sequence[Prepared]) -> tuple[Choice, ...]:
    """Return one engine for all runs, with GPUs that they share.

    Raises:
        EngineError: none works here, or it cannot run another side than the first.
    """
    specs = [side.request.spec for side in sides]
    choice = engines.choose(sides[0].settings.engine, specs[0], ci=in_ci())
    made = [choice.engines]
    for label, spec in zip(LABELS[1:], specs[1:], strict=False):
        made.append(tuple(engines.make(engine.name) for engine in choice.engines))
        if refused := made[-1][0].check(spec):
            told = [replace(p, message=f"{label}: {p.message}") for p in refused]
            of_file = all(problem.place for problem in refused)
            reason = Reason.BAD_SPEC if of_file else Reason.NO_ENGINE
            raise EngineError(*told, reason=reason)
    counts = {spec.gpu.count if spec.gpu else 0 for spec in specs}
    found = shared(made, same=len(counts) == 1)
    return tuple(Choice(each, choice.why) for each in found)


class SharedGpus:
    """The GPUs that the runs of one bench hold together.

    ``same`` says that they ask for as many: then the others get those of the first
    and no others, whichever would be free.
    """

    def __init__(self, *, same: bool) -> None:
        self._same = same
        self._held: dict[str, ExitStack] = {}
        self._users: dict[str, set[str]] = {}

    @contextmanager
    def hold(self, engine: Engine, gpu: Gpu, run_id: str) -> Iterator[None]:
        """Keep a GPU for one of the runs; it is locked until all have let it go.

        Raises:
            BusyError: a run that is not of this bench has it, or another run of this
                bench has others.
        """
        if gpu.uuid not in self._held:
            others = [one for one, runs in self._users.items() if runs - {run_id}]
            if self._same and others:
                held = ", ".join(others)
                raise BusyError(f"the other run of this bench uses GPU {held}")
            with ExitStack() as taking:
                taking.enter_context(engine.hold(gpu, run_id))
                self._held[gpu.uuid] = taking.pop_all()
                self._users[gpu.uuid] = set()
        self._users[gpu.uuid].add(run_id)
        try:
            yield
        finally:
            self._users[gpu.uuid].remove(run_id)
            if not self._users[gpu.uuid]:
                del self._users[gpu.uuid]
                self._held.pop(gpu.uuid).close()


class BenchEngine:
    """An engine that is as another, but for GPUs that it shares."""

    def __init__(self, engine: Engine, shared: SharedGpus) -> None:
        self._engine, self._shared = engine, shared

    def __getattr__(self, name: str) -> object:
        return getattr(self._engine, name)

    def hold(self, gpu: Gpu, run_id: str) -> AbstractContextManager[None]:
        """Keep a GPU for all runs."""
        return self._shared.hold(self._engine, gpu, run_id)


def shared(
    found: Sequence[Sequence[Engine]], *, same: bool
) -> list[tuple[Engine, ...]]:
    """Return the engines of each run, which hold their GPUs together."""
    gpus = SharedGpus(same=same)
    return [
        tuple(cast("Engine", BenchEngine(engine, gpus)) for engine in each)
        for each in found
    ]
