"""Start a run that goes on without its client."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress

from runner import archive, places
from runner.core import Archive, JobRequest
from runner.core import events as ev
from runner.core.errors import RaiError
from runner.core.order import Order
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
    order = Order(
        str(paths.root),
        stored.variables(prepared.settings),
        prepared.text,
        dict(request.secrets.values),
        tuple(engine.name for engine in choice.engines),
        choice.why,
    )
    worker = places.LocalWorker(order, loading)
    try:
        yield from sealed(request, paths, prepared.settings)
    except BaseException:
        worker.dismiss()
        discard(home, paths)
        raise
    try:
        answer = worker.carry_out()
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
) -> Generator[ev.Event, None, None]:
    """Pack and seal the project in a run's folder; yield what packing tells."""
    project = folder_project(request.project, settings, cache)
    git, packing = project.git(), project.pack(paths.source)
    warnings = []
    packed: Archive
    while True:
        try:
            event = next(packing)
        except StopIteration as end:
            packed = end.value
            break
        if isinstance(event, ev.Warned):
            warnings.append(event.text)
        yield event
    archive.seal(request, packed, git, paths.parcel, tuple(warnings))
