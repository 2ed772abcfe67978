"""Hand a run over to Slurm: seal it in its folder, and submit the job of a worker."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress

from runner import files, places
from runner.core import Reason
from runner.core import events as ev
from runner.core.cancel import Cancel
from runner.core.errors import EngineError, RaiError
from runner.core.needs import JobNeeds
from runner.core.order import Order
from runner.places.slurm import SlurmPlace
from runner.session.detached import discard, sealed
from runner.session.needs import needs_of
from runner.session.prepare import Prepared, in_ci
from runner.session.run import StartedRun
from runner.slurm.jobs import NAME
from runner.slurm.target import PLACE, SlurmTarget
from runner.store import handed, runs
from runner.store import home as homes
from runner.store import settings as stored
from runner.store.handed import HandedRun, LifeSign
from runner.store.paths import RunPaths
from runner.store.sealed import waiting

CI = "CI"


def submit(
    prepared: Prepared, target: SlurmTarget, cancel: Cancel
) -> Generator[ev.Event, None, StartedRun]:
    """Seal the project and submit the run's job; yield what packing tells.

    Until Slurm has the job a cancel leaves nothing; from then on the run's folder tells
    where the run is, whatever becomes of this process.

    Raises:
        RaiError: Slurm refuses the job, or it was cancelled before.
    """
    settings, request = prepared.settings, prepared.request
    place = SlurmPlace(target, settings.slurm)
    if problems := place.check():
        raise EngineError(*problems)
    needs = needs_of(prepared)
    home = places.open_home(settings.home)
    paths = runs.create(home)
    worker = None
    try:
        with LifeSign(paths):
            handing = HandedRun(paths.id, PLACE, str(target), f"{NAME}{paths.id}")
            handed.write(paths, handing)
            for event in sealed(request, paths, settings):
                yield event
                _go_on(paths, cancel)
            files.write(paths.spec, request.spec_text.encode())
            worker = place.start(_order(prepared, paths, needs))
            answer = worker.carry_out()
    except BaseException:
        if worker is not None:
            worker.withdraw()
        discard(home, paths)
        raise
    if answer.reason is not None:
        discard(home, paths)
        raise RaiError(*answer.problems, reason=answer.reason, advice="")
    if listed := waiting(paths):
        with homes.open_index(home) as index:
            index.put(listed)
    if cancel.requested or paths.cancel.exists():
        with suppress(RaiError):  # its worker looks for the request
            places.cancel(paths)
    return StartedRun(prepared, home, paths)


def _order(prepared: Prepared, paths: RunPaths, needs: JobNeeds) -> Order:
    settings = stored.variables(prepared.settings)
    return Order(
        str(paths.root),
        {**settings, **({CI: "true"} if in_ci() else {})},
        prepared.text,
        dict(prepared.request.secrets.values),
        sealed=True,
        needs=needs,
    )


def _go_on(paths: RunPaths, cancel: Cancel) -> None:
    """Raise RaiError if somebody asked for the run's end before it was submitted."""
    if cancel.requested or paths.cancel.exists():
        text = "stopped before the run was submitted; nothing of it is kept"
        raise RaiError(text, reason=Reason.CANCELLED, advice="")
