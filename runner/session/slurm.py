"""Hand a run over to Slurm: seal it in its folder, and submit the job of a worker."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import ExitStack, suppress

from msgspec.structs import replace

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
from runner.store.paths import Home, RunPaths
from runner.store.sealed import waiting

CI = "CI"


def submit(
    prepared: Prepared, target: SlurmTarget, cancel: Cancel, count: int = 1
) -> Generator[ev.Event, None, tuple[StartedRun, ...]]:
    """Seal the project and submit the run's job; yield what packing tells.

    Several runs, by their ``count``, are an array of jobs: they run one after another,
    each in a container of its own, on one node that no other job shares meanwhile.

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
    if count > 1:
        needs = replace(needs, alone=True)
    home = places.open_home(settings.home)
    made = [first := runs.create(home)]
    worker = None
    try:
        with ExitStack() as living:
            living.enter_context(LifeSign(first))
            handing = HandedRun(first.id, PLACE, str(target), f"{NAME}{first.id}")
            handed.write(first, handing)
            for event in sealed(request, first, settings):
                yield event
                _go_on(first, cancel)
            for _ in range(1, count):
                made.append(runs.create(home))
                files.share(first.source, made[-1].source)
                files.share(first.parcel, made[-1].parcel)
            living.enter_context(LifeSign(*made[1:]))
            for paths in made:
                files.write(paths.spec, request.spec_text.encode())
            orders = [_order(prepared, paths, needs) for paths in made]
            worker = place.array(orders)
            answer = worker.carry_out()
    except BaseException:
        if worker is not None:
            worker.withdraw()
        _discard(home, made)
        raise
    if answer.reason is not None:
        _discard(home, made)
        raise RaiError(*answer.problems, reason=answer.reason, advice="")
    with homes.open_index(home) as listed:
        listed.put(*(one for paths in made if (one := waiting(paths)) is not None))
    for paths in made:
        if cancel.requested or paths.cancel.exists():
            with suppress(RaiError):  # its worker looks for the request
                places.cancel(paths)
    return tuple(StartedRun(prepared, home, paths) for paths in made)


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


def _discard(home: Home, made: Iterable[RunPaths]) -> None:
    for paths in made:
        discard(home, paths)


def _go_on(paths: RunPaths, cancel: Cancel) -> None:
    """Raise RaiError if somebody asked for the run's end before it was submitted."""
    if cancel.requested or paths.cancel.exists():
        text = "stopped before the run was submitted; nothing of it is kept"
        raise RaiError(text, reason=Reason.CANCELLED, advice="")
