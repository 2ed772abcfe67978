"""Carry out a run: its folder, its events, its entry in the index."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

from msgspec.structs import replace

from runner import archive, engines, job
from runner.archive import FolderProject, Project, SealedProject, datafiles
from runner.core import Problem, RunRecord
from runner.core import events as ev
from runner.core.cancel import Cancel
from runner.core.errors import EngineError
from runner.engines import Choice
from runner.session.prepare import Prepared, in_ci
from runner.store import home as homes
from runner.store import runs
from runner.store.index import Index
from runner.store.paths import Home, RunPaths


def start(prepared: Prepared) -> Run:
    """Choose the engine and make the run's folder; run nothing yet.

    Raises:
        EngineError: no engine can run it here (no_engine); no folder is made.
        ConfigError: the home folder cannot be made.
    """
    settings = prepared.settings
    choice = _engine(prepared)
    home = homes.make(settings.home)
    lost = runs.sweep(home)
    return Run(prepared, choice, home, runs.create(home), tuple(lost))


def _engine(prepared: Prepared) -> Choice:
    request, wanted = prepared.request, prepared.settings.engine
    try:
        return engines.choose(wanted, request.spec, ci=in_ci())
    except EngineError as error:
        if not request.replays or wanted == "auto":
            raise
        text = f"run {request.replays} cannot be replayed with the {wanted} engine"
        other = Problem(text, hint="--engine auto uses one that works here")
        raise EngineError(*error.problems, other, reason=error.reason) from error


class Run:
    """One run; ``events`` carries it out, and can be called once."""

    def __init__(
        self,
        prepared: Prepared,
        choice: Choice,
        home: Home,
        paths: RunPaths,
        lost: tuple[RunRecord, ...] = (),
    ) -> None:
        self.paths = paths
        self._prepared = prepared
        self._choice = choice
        self._home = home
        self._lost = lost

    @property
    def id(self) -> str:
        """The run's id."""
        return self.paths.id

    @property
    def record(self) -> RunRecord:
        """The run's record as it is now."""
        return homes.record_of(self.paths)

    def events(self, cancel: Cancel) -> Generator[ev.Event, None, None]:
        """Carry the run out and yield what happens; the last event is Finished.

        Closing the iterator early ends the run and records it as cancelled.
        """
        with homes.open_index(self._home) as index:
            index.put(*self._lost)
            try:
                with closing(self._job(cancel)) as events:
                    for event in events:
                        if isinstance(event, ev.Created):
                            index.put(self.record)
                        yield event
            finally:
                self._update(index)

    def _job(self, cancel: Cancel) -> Generator[ev.Event, None, None]:
        settings = self._prepared.settings
        project = self._project()
        places = datafiles.DataPlaces(
            settings.data_dir,
            project.folder,
            self._home.data,
            self._prepared.request.project if self._prepared.parcel else None,
        )
        request = replace(self._prepared.request, why=self._choice.why)
        return job.run(
            request,
            project,
            self._choice.engines,
            self.paths,
            places,
            cancel,
            download=settings.download,
        )

    def _project(self) -> Project:
        sealed = self._prepared.parcel
        if sealed is None:
            return FolderProject(self._prepared.request.project)
        parcel = archive.read_parcel(sealed.parcel)
        return SealedProject(sealed.source, parcel, self.paths.unpacked)

    def _update(self, index: Index) -> None:
        if (record := runs.read(self.paths)) is not None:
            index.put(record)
