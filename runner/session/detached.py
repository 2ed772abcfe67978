"""Start a run that goes on without its client."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress

from msgspec.structs import replace

from runner import archive, places
from runner.core import JobRequest, Reason, RunRequest
from runner.core import events as ev
from runner.core.cancel import Cancel
from runner.core.errors import RaiError
from runner.core.request import Terms
from runner.process.detached import Detached
from runner.session.prepare import Prepared
from runner.session.project import folder_project
from runner.session.run import ready
from runner.store import removal, runs
from runner.store import settings as stored
from runner.store.paths import Home, RunPaths
from runner.store.settings import Settings
from runner.store.tail import Tail


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
    choice, home, request = ready(prepared)
    paths = runs.create(home)
    worker = places.LocalWorker(paths, loading)
    try:
        asked = yield from sealed(request, paths, prepared.settings)
    except BaseException:
        worker.dismiss()
        discard(home, paths)
        raise
    try:
        names = tuple(engine.name for engine in choice.engines)
        settings = stored.variables(prepared.settings)
        terms = Terms(settings, names, choice.why)
        answer = worker.carry_out(replace(asked, terms=terms))
    except BaseException:
        with suppress(FileNotFoundError):
            places.cancel(paths)
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
    request: JobRequest,
    paths: RunPaths,
    settings: Settings,
    cache: archive.PackCache | None = None,
    check: Callable[[], None] = lambda: None,
) -> Generator[ev.Event, None, RunRequest]:
    """Pack and seal the project in a run's folder; yield what packing tells.

    ``check`` is called after each event, and raises what ends the packing. Return what
    is asked, with the facts of the packed project.
    """
    project = folder_project(request.project, settings, cache)
    git, packing = project.git(), project.pack(paths.source)
    warnings: list[str] = []
    while True:
        try:
            event = next(packing)
        except StopIteration as end:
            told = tuple(warnings)
            return archive.seal(request.asked, end.value, git, paths.parcel, told)
        if isinstance(event, ev.Warned):
            warnings.append(event.text)
        yield event
        check()


def go_on(cancel: Cancel, paths: RunPaths | None = None, *, until: str) -> None:
    """Raise RaiError if somebody asked for the run's end ``until`` it has begun."""
    if cancel.requested or (paths is not None and paths.cancel.exists()):
        text = f"stopped before the run was {until}; nothing of it is kept"
        raise RaiError(text, reason=Reason.CANCELLED, advice="")
