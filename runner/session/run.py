"""Carry out a run: its folder, its events."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from msgspec.structs import replace

from runner import archive, engines, files, job, places
from runner.archive import Caps, PackCache, Project, SealedProject, datafiles
from runner.core import JobRequest, Place, Problem, RunRecord, RunRequest
from runner.core import events as ev
from runner.core.cancel import Cancel
from runner.core.errors import EngineError, NotAllowedError
from runner.engines import Choice
from runner.engines.base import Engine
from runner.job.rounds import GoOn
from runner.session.prepare import Prepared, in_ci, opened
from runner.session.project import folder_project
from runner.store import handed, prune, runs
from runner.store import home as homes
from runner.store.claim import Claim
from runner.store.paths import Home, RunPaths
from runner.store.retention import Retention
from runner.store.settings import Settings

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
    choice, home, request = ready(prepared, choice)
    with files.naming(home.root):
        paths = runs.create(home)
        claim = Claim(paths)
    return Run(prepared, request, choice.engines, home, claim, paths, cache, go_on)


def ready(
    prepared: Prepared, choice: Choice | None = None
) -> tuple[Choice, Home, JobRequest]:
    """Choose the engine, open the home folder and find the runs to wait for.

    ``choice`` is that of the client, which was made just before.
    """
    settings, request = prepared.settings, prepared.request
    choice = choice or _engine(prepared)
    # A node of a cluster leaves it to others to look for runs that were lost.
    on_node = prepared.parcel is not None and handed.read(prepared.parcel)
    opened = homes.make if on_node else places.open_home
    home = opened(settings.home)
    after = tuple(homes.find(home, text).id for text in request.asked.after)
    asked = replace(request.asked, after=after)
    return choice, home, replace(request, asked=asked, why=choice.why)


def sources(
    prepared: Prepared, home: Home, paths: RunPaths, cache: PackCache | None = None
) -> tuple[Project, datafiles.DataPlaces]:
    """Return the project, and where its data files are looked for.

    A sealed project is unpacked in ``paths``.
    """
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
    where = datafiles.DataPlaces(settings.data_dir, own, home.data, origin)
    return project, where


def resume(
    paths: RunPaths,
    claim: Claim,
    asked: RunRequest,
) -> Run:
    """Begin a sealed run in its own folder, as a worker does.

    Raises:
        RaiError: as for ``reopen`` and ``start``.
    """
    prepared = opened(paths, asked)
    terms = asked.terms
    chosen = engines.chosen(terms.engines, terms.why) if terms.engines else None
    choice, home, request = ready(prepared, chosen)
    return Run(prepared, request, choice.engines, home, claim, paths)


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
    """What is known of a run once it has a folder, wherever it is carried out."""

    def __init__(self, prepared: Prepared, paths: RunPaths) -> None:
        self._prepared, self._request = prepared, prepared.request
        self.paths = paths

    @property
    def id(self) -> str:
        """The run's id."""
        return self.paths.id

    @property
    def project(self) -> Path:
        """The project's folder."""
        return self._request.project

    @property
    def places(self) -> dict[int, Place | None]:
        """Where in the build file each command stands, by its index."""
        return {n: c.place for n, c in enumerate(self._request.spec.commands)}

    @property
    def build_caps(self) -> Caps:
        """The ceilings of the run's build folder."""
        return archive.build_caps(self._request.spec.limits)

    @property
    def record(self) -> RunRecord:
        """The run's record as it is now."""
        return homes.record_of(self.paths)


class Run(StartedRun):
    """A run of this process; ``events`` carries it out, and can be called once."""

    def __init__(
        self,
        prepared: Prepared,
        request: JobRequest,
        engines: tuple[Engine, ...],
        home: Home,
        claim: Claim,
        paths: RunPaths,
        cache: PackCache | None = None,
        go_on: GoOn | None = None,
    ) -> None:
        super().__init__(prepared, paths)
        self._home = home
        self._go_on = go_on
        self._cache = cache
        self._request = request
        self._engines = engines
        self._claim = claim

    @property
    def wants_gpu(self) -> bool:
        """Whether it may hold GPUs until it has ended."""
        return self._request.spec.gpu is not None

    def events(
        self, cancel: Cancel, beside: str = ""
    ) -> Generator[ev.Event, None, None]:
        """Carry the run out and yield what happens; the last event is Finished.

        Closing the iterator early ends the run and records it as cancelled. ``beside``
        is the id of the run that is measured beside this one, if any.
        """
        self._request = replace(self._request, beside=beside)
        with (
            self._claim,
            _cancelled_by(self.paths, cancel),
            closing(self._job(cancel)) as events,
        ):
            yield from events

    def _job(self, cancel: Cancel) -> Generator[ev.Event, None, None]:
        settings = self._prepared.settings
        project, data = sources(self._prepared, self._home, self.paths, self._cache)
        return job.run(
            self._request,
            project,
            self._engines,
            self.paths,
            data,
            cancel,
            download=settings.download,
            data_size=settings.keep_size,
            go_on=self._go_on,
        )


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


def tidy(settings: Settings, spare: str = "") -> list[str]:
    """Remove old runs as the settings say, at most once a day; return what to tell.

    ``spare`` is a run that is needed, and stays.

    Raises:
        ConfigError: the home folder cannot be made, or its disk is full.
    """
    keep = Retention(settings.keep_for, settings.keep_size, settings.keep_size)
    return prune.by_policy(settings.home, keep, spare=spare)
