"""Start a run that goes on without its client."""

from __future__ import annotations

from collections.abc import Generator

from runner import archive, places
from runner.core import Archive, JobRequest
from runner.core import events as ev
from runner.core.order import Order
from runner.process.detached import Detached
from runner.session.prepare import Prepared
from runner.session.project import folder_project
from runner.session.run import ready
from runner.store import removal, runs
from runner.store import settings as stored
from runner.store.paths import RunPaths
from runner.store.settings import Settings


def detach(
    prepared: Prepared, loading: Detached | None = None
) -> Generator[ev.Event, None, RunPaths]:
    """Seal the project, and hand the run to a worker; yield what packing tells.

    ``loading`` is a worker that was started before, to load its modules.

    Returns the run's folder as soon as the worker has recorded its first event. If the
    caller leaves before, or packing fails, no run remains, or it is cancelled.

    Raises:
        RaiError: as for ``session.start``; or the worker did not start.
    """
    _, home, request = ready(prepared)
    paths = runs.create(home)
    variables = stored.variables(prepared.settings)
    secrets = dict(request.secrets.values)
    order = Order(str(paths.root), variables, prepared.text, secrets)
    worker = places.place().start(order, loading)
    try:
        yield from _sealed(request, paths, prepared.settings)
    except BaseException:
        worker.dismiss()
        removal.discard(home.runs, paths.id)
        removal.empty(home.runs)
        raise
    try:
        worker.carry_out()
    except BaseException:
        places.cancel(paths)
        raise
    return paths


def _sealed(
    request: JobRequest, paths: RunPaths, settings: Settings
) -> Generator[ev.Event, None, None]:
    project = folder_project(request.project, settings)
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
