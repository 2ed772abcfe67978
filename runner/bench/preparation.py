"""Both runs of a bench: read, checked and ready to start; nothing runs yet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from runner import engines, session
from runner.bench import sources
from runner.bench.sources import BenchSource
from runner.core import Gpu, Problem, Reason, Severity
from runner.core.cancel import Cancel
from runner.core.errors import BusyError, EngineError, RaiError
from runner.engines import Choice
from runner.engines.base import Engine
from runner.session import Options, Prepared
from runner.session.prepare import in_ci

LABELS = ("A", "B")
"""The sides' names in messages: before and after."""


class BenchSides(Struct, frozen=True):
    """Both sides, A first: what they are, their requests and their engines.

    ``warnings`` are those of both, each once, with the side's name where they differ.
    """

    sources: tuple[BenchSource, BenchSource]
    prepared: tuple[Prepared, Prepared]
    choices: tuple[Choice, Choice]
    warnings: tuple[Problem, ...] = ()

    @property
    def budget_s(self) -> float:
        """How long the pairs may take together."""
        return min(side.request.budget_s for side in self.prepared)


def prepared(
    both: tuple[BenchSource, BenchSource],
    project: Path,
    options: Options,
    area: Path,
    cancel: Cancel,
) -> BenchSides:
    """Write out the commits below ``area``, read both sides and choose their engine.

    Raises:
        RaiError: as for ``session.prepare`` and ``engines.choose``; each problem names
            its side.
    """
    first = _prepared(both[0], project, options, area / "A", cancel, "A")
    second = _prepared(both[1], project, options, area / "B", cancel, "B")
    waits = (_longest_s(second), _longest_s(first))
    sides = (_side(first, "A", waits[0]), _side(second, "B", waits[1]))
    warnings = _told(both, sides)
    return BenchSides(both, sides, _choices(*sides), warnings)


def _prepared(
    side: BenchSource,
    project: Path,
    options: Options,
    into: Path,
    cancel: Cancel,
    label: str,
) -> Prepared:
    if side.commit is None:
        try:
            return session.prepare(side.path, options)
        except RaiError as error:
            raise _of_side(error, label, side, None) from error
    files: Path | None = None
    try:
        files = sources.write_out(side.commit, into, cancel)
        name = project.name if project.is_file() else ""
        home = project.parent if project.is_file() else project
        commit = side.commit.state
        found = session.staged(files / name, home, options, commit=commit)
    except RaiError as error:
        raise _of_side(error, label, side, files) from error
    warnings = [_placed(problem, files, side) for problem in found.warnings]
    hint = f"`git worktree add FOLDER {side.commit.short}`, and name that folder"
    for text in _lacking(side, files):
        warnings.append(Problem(text, hint=hint, severity=Severity.WARNING))
    return replace(found, warnings=tuple(warnings))


def _lacking(side: BenchSource, files: Path) -> Iterator[str]:
    """Yield what the files of a commit lack that a checkout has."""
    if side.commit is not None and side.commit.submodules:
        yield f"{side.shown} has submodules, whose files are left out"
    if count := sources.pointers(files):
        kept = (
            "a file that Git LFS keeps" if count == 1 else f"{count} files in Git LFS"
        )
        yield f"{side.shown} has {kept}, of which it holds only pointers"


def _of_side(
    error: RaiError, label: str, side: BenchSource, files: Path | None
) -> RaiError:
    """Return the error with its side's name, and places that the user knows."""
    placed = [_placed(problem, files, side) for problem in error.problems]
    told = [replace(p, message=f"{label}, {side.shown}: {p.message}") for p in placed]
    return RaiError(*told, reason=error.reason, advice=error.advice)


def _placed(problem: Problem, files: Path | None, side: BenchSource) -> Problem:
    """Return a problem with the commit in place of the folder that it was written to.

    Whoever reads it has no such folder.
    """
    if files is None or side.commit is None:
        return problem
    short = side.commit.short

    def known(text: str) -> str:
        return text.replace(f"{files}/", f"{short}:").replace(str(files), short)

    place = problem.place and replace(problem.place, file=known(problem.place.file))
    message, hint = known(problem.message), known(problem.hint)
    return replace(problem, message=message, place=place, hint=hint)


def _told(
    both: tuple[BenchSource, BenchSource], sides: tuple[Prepared, Prepared]
) -> tuple[Problem, ...]:
    one, other = (list(side.warnings) for side in sides)
    shared = [problem for problem in one if problem in other]
    apart = [
        replace(problem, message=f"{label}: {problem.message}")
        for label, found in zip(LABELS, (one, other), strict=True)
        for problem in found
        if problem not in shared
    ]
    return (*shared, *apart)


def _longest_s(side: Prepared) -> float:
    """Return for how long the other run's container may have to wait for this one."""
    request = side.request
    limits = request.spec.limits
    first_s = limits.build_time_s + request.asked.gpu_wait_s + limits.time_s
    return first_s + request.budget_s + limits.time_s


def _side(side: Prepared, label: str, idle_s: float) -> Prepared:
    """Return a side that lists show by its label, and that waits for the other."""
    asked = replace(side.request.asked, title=f"bench: {label}")
    request = replace(side.request, asked=asked, idle_s=idle_s)
    return replace(side, request=request)


def _choices(first: Prepared, second: Prepared) -> tuple[Choice, Choice]:
    """Return one engine for both runs, with GPUs that they share.

    Raises:
        EngineError: none works here, or it cannot run the second side.
    """
    wanted, spec = first.settings.engine, first.request.spec
    choice = engines.choose(wanted, spec, ci=in_ci())
    others = tuple(engines.make(engine.name) for engine in choice.engines)
    other_spec = second.request.spec
    if refused := others[0].check(other_spec):
        told = [replace(p, message=f"B: {p.message}") for p in refused]
        of_file = all(problem.place for problem in refused)
        reason = Reason.BAD_SPEC if of_file else Reason.NO_ENGINE
        raise EngineError(*told, reason=reason)
    counts = [one.gpu.count if one.gpu else 0 for one in (spec, other_spec)]
    pair = shared(choice.engines, others, same=counts[0] == counts[1])
    return Choice(pair[0], choice.why), Choice(pair[1], choice.why)


class SharedGpus:
    """The GPUs that the runs of one bench hold together.

    ``same`` says that they ask for as many: then the second gets those of the first
    and no others, whichever would be free.
    """

    def __init__(self, *, same: bool) -> None:
        self._same = same
        self._held: dict[str, ExitStack] = {}
        self._users: dict[str, set[str]] = {}

    @contextmanager
    def hold(self, engine: Engine, gpu: Gpu, run_id: str) -> Iterator[None]:
        """Keep a GPU for one of the runs; it is locked until both have let it go.

        Raises:
            BusyError: a run that is not of this bench has it, or the other run of this
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
        """Keep a GPU for both runs."""
        return self._shared.hold(self._engine, gpu, run_id)


def shared(
    engines: tuple[Engine, ...], others: tuple[Engine, ...], *, same: bool
) -> tuple[tuple[Engine, ...], tuple[Engine, ...]]:
    """Return the engines of both runs, which hold their GPUs together."""
    gpus = SharedGpus(same=same)

    def sharing(found: tuple[Engine, ...]) -> tuple[Engine, ...]:
        return tuple(cast("Engine", BenchEngine(engine, gpus)) for engine in found)

    return sharing(engines), sharing(others)
