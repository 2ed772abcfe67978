"""Run what was prepared, in this process or detached; seal it for any place."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from msgspec.structs import replace

from runner import engines, pack
from runner.core import Place, Problem, Reason, RunRecord, RunRequest
from runner.core import events as ev
from runner.core.errors import Cancel, EngineError, NotAllowedError, RaiError
from runner.core.request import Terms
from runner.engines import Choice
from runner.engines.base import Engine, WithResult
from runner.execution import job, local, places
from runner.execution.job import GoOn
from runner.execution.preparation import Preparation
from runner.execution.prepare import Prepared, in_ci, opened
from runner.execution.project import folder_project
from runner.pack import Caps, PackCache, Project, SealedProject, datafiles
from runner.store import home as homes
from runner.store import prune, removal, run_files, runs
from runner.store import settings as stored
from runner.store.claim import Claim
from runner.store.paths import Home, RunPaths
from runner.store.prune import Retention
from runner.store.runs import Tail
from runner.store.settings import Settings
from runner.system import files
from runner.system.process import Detached

CANCEL_POLL_S = 0.2


def start(
    prepared: Prepared,
    cache: PackCache | None = None,
    choice: Choice | None = None,
    go_on: GoOn | None = None,
) -> Run:
    """Choose the engine, make the run's folder and claim it; run nothing yet.

    ``cache`` saves reading files of the project that an earlier run packed. ``choice``
    is an engine that was chosen before. ``go_on`` says after each round whether another
    follows, given how many there were; without it the request does.

    Raises:
        EngineError: no engine can run it here (no_engine); no folder is made.
        ConfigError: the home folder cannot be made.
        UsageError: a run that it shall wait for is not known.
    """
    prepared, choice, home = ready(prepared, choice)
    with files.naming(home.root):
        paths = runs.create(home)
        claim = Claim(paths)
    return Run(prepared, paths, choice.engines, home, claim, cache, go_on)


def ready(
    prepared: Prepared, choice: Choice | None = None
) -> tuple[Prepared, Choice, Home]:
    """Choose the engine, open the home folder and find the runs to wait for.

    ``choice`` is that of the client, which was made just before.
    """
    settings, request = prepared.settings, prepared.request
    choice = choice or _engine(prepared)
    # A node of a cluster leaves it to others to look for runs that were lost.
    on_node = prepared.parcel is not None and run_files.read_submission(prepared.parcel)
    opened = homes.make if on_node else places.open_home
    home = opened(settings.home)
    after = tuple(homes.find(home, text).id for text in request.asked.after)
    asked = replace(request.asked, after=after)
    request = replace(request, asked=asked, why=choice.why)
    return replace(prepared, request=request), choice, home


def preparation(
    prepared: Prepared,
    engines: Sequence[Engine],
    home: Home,
    paths: RunPaths,
    cancel: Cancel,
    cache: PackCache | None = None,
) -> Preparation:
    """Return what a job in ``paths`` needs; a sealed project is unpacked there."""
    settings, folder = prepared.settings, prepared.request.project
    sealed = prepared.parcel
    project: Project = folder_project(
        folder, settings, cache, prepared.staged, prepared.commit
    )
    if sealed is not None:
        asked, caps = prepared.request.asked, settings.project_caps
        project = SealedProject(sealed.source, asked, paths.unpacked, caps)
    # The folder of another machine's user is not this machine's of that name.
    origin = folder if sealed is not None and not prepared.request.asked.sent else None
    own = folder if prepared.staged is not None else project.folder
    return Preparation(
        prepared.request,
        project,
        engines,
        paths,
        datafiles.DataPlaces(settings.data_dir, own, home.data, origin),
        cancel,
        download=settings.download,
        data_size=settings.keep_size,
    )


def resume(paths: RunPaths, claim: Claim, asked: RunRequest) -> Run:
    """Begin a sealed run in its own folder, as a worker does.

    Raises:
        RaiError: as for ``reopen`` and ``start``.
    """
    terms = asked.terms
    chosen = engines.chosen(terms.engines, terms.why) if terms.engines else None
    prepared, choice, home = ready(opened(paths, asked), chosen)
    return Run(prepared, paths, choice.engines, home, claim)


def _engine(prepared: Prepared) -> Choice:
    request, wanted = prepared.request, prepared.settings.engine
    sent = request.asked.sent
    if sent and wanted == engines.UNCONFINED:
        text = f"a project that somebody sent is not run with the {wanted} engine"
        raise NotAllowedError(Problem(text, hint="docker and local confine it"))
    try:
        return engines.choose(wanted, request.spec, ci=in_ci() or sent)
    except EngineError as error:
        if not request.replays or wanted == "auto":
            raise
        text = f"run {request.replays} cannot be run again with the {wanted} engine"
        other = Problem(text, hint="--engine auto uses one that works here")
        raise EngineError(*error.problems, other, reason=error.reason) from error


class StartedRun:
    """What is known of a run once it has a folder, wherever it runs."""

    def __init__(self, prepared: Prepared, paths: RunPaths) -> None:
        self._prepared, self.paths = prepared, paths

    @property
    def id(self) -> str:
        """The run's id."""
        return self.paths.id

    @property
    def project(self) -> Path:
        """The project's folder."""
        return self._prepared.request.project

    @property
    def places(self) -> dict[int, Place | None]:
        """Where in the build file each command stands, by its index."""
        return {n: c.place for n, c in enumerate(self._prepared.request.spec.commands)}

    @property
    def build_caps(self) -> Caps:
        """The ceilings of the run's build folder."""
        return pack.build_caps(self._prepared.request.spec.limits)

    @property
    def record(self) -> RunRecord:
        """The run's record as it is now."""
        return homes.record_of(self.paths)


class Run(StartedRun):
    """A run of this process; ``events`` runs it, and can be called once."""

    def __init__(
        self,
        prepared: Prepared,
        paths: RunPaths,
        engines: tuple[Engine, ...],
        home: Home,
        claim: Claim,
        cache: PackCache | None = None,
        go_on: GoOn | None = None,
    ) -> None:
        super().__init__(prepared, paths)
        self._engines, self._home, self._claim = engines, home, claim
        self._cache, self._go_on = cache, go_on

    @property
    def wants_gpu(self) -> bool:
        """Whether it may hold GPUs until it has ended."""
        return self._prepared.request.spec.gpu is not None

    def events(
        self, cancel: Cancel, beside: str = ""
    ) -> Generator[ev.Event, None, None]:
        """Run it and yield what happens; the last event is Finished.

        Closing the iterator early ends the run and records it as cancelled. ``beside``
        is the id of the run that is measured beside this one, if any.
        """
        request = replace(self._prepared.request, beside=beside)
        prepared = replace(self._prepared, request=request)
        ready = preparation(
            prepared, self._engines, self._home, self.paths, cancel, self._cache
        )
        running = job.run(ready, self._go_on)
        with self._claim, _cancelled_by(self.paths, cancel), closing(running) as events:
            yield from events


@contextmanager
def _cancelled_by(paths: RunPaths, cancel: Cancel) -> Iterator[None]:
    """Cancel the run once anybody asks for that in its folder."""
    over, on_node = threading.Event(), paths.handed.exists()

    def watch() -> None:
        while not over.wait(CANCEL_POLL_S):
            if paths.cancel.exists():
                cancel.request()
                return
            # Only another machine can have done so: here the run has ended then.
            if on_node and paths.record.exists():
                cancel.request("another machine had recorded the run as lost")
                return

    threading.Thread(target=watch, name="rai-cancel", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def detach(
    prepared: Prepared, loading: Detached | None = None
) -> Generator[ev.Event, None, RunPaths]:
    """Seal the project, and hand the run to a worker; yield what packing tells.

    ``loading`` is a worker that was started before, to load its modules.

    Returns the run's folder as soon as the worker has the engine, the GPUs and a plan
    for the image. If that fails the last event is Finished, with the reason. If the
    caller leaves before, or packing fails, no run remains, or it is cancelled.

    Raises:
        RaiError: as for ``session.start``; or the worker refused the run, or failed.
    """
    prepared, choice, home = ready(prepared)
    paths = runs.create(home)
    worker = local.LocalWorker(paths, loading)
    try:
        asked = yield from sealed(prepared, paths)
    except BaseException:
        worker.dismiss()
        discard(home, paths)
        raise
    try:
        names = tuple(engine.name for engine in choice.engines)
        settings = stored.variables(prepared.settings)
        terms = Terms(settings, names, choice.why)
        answer = worker.begin(replace(asked, terms=terms))
    except BaseException:
        with suppress(FileNotFoundError):
            places.of(paths).cancel(paths)
        raise
    if answer.reason is not None:
        discard(home, paths)
        raise RaiError(*answer.problems, reason=answer.reason)
    if answer.ended:
        yield from (event for _, event in Tail(paths).events())
    return paths


def discard(home: Home, paths: RunPaths) -> None:
    """Remove the folder of a run that does not begin."""
    removal.discard(home.runs, paths.id)
    removal.empty(home.runs)


def sealed(
    prepared: Prepared,
    paths: RunPaths,
    cache: pack.PackCache | None = None,
    check: Callable[[], None] = lambda: None,
) -> Generator[ev.Event, None, RunRequest]:
    """Pack and seal the project in a run's folder; yield what packing tells.

    ``check`` is called after each event, and raises what ends the packing. Return what
    is asked, with the facts of the packed project.
    """
    request = prepared.request
    project = folder_project(request.project, prepared.settings, cache)
    git, packing = project.git(), WithResult(project.pack(paths.source))
    warnings: list[str] = []
    for event in packing:
        if isinstance(event, ev.Warned):
            warnings.append(event.text)
        yield event
        check()
    archive, told = packing.result, tuple(warnings)
    return pack.seal(request.asked, archive, git, paths.parcel, told)


def go_on(cancel: Cancel, paths: RunPaths | None = None, *, until: str) -> None:
    """Raise RaiError if somebody asked for the run's end ``until`` it has begun."""
    if cancel.requested or (paths is not None and paths.cancel.exists()):
        text = f"stopped before the run was {until}; nothing of it is kept"
        raise RaiError(text, reason=Reason.CANCELLED, advice="")


def tidy(settings: Settings, spare: str = "") -> list[str]:
    """Remove old runs as the settings say, at most once a day; return what to tell.

    ``spare`` is a run that is needed, and stays.

    Raises:
        ConfigError: the home folder cannot be made, or its disk is full.
    """
    keep = Retention(settings.keep_for, settings.keep_size, settings.keep_size)
    return prune.by_policy(settings.home, keep, spare=spare)
