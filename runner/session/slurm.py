"""Hand a run over to Slurm: seal it in its folder, and submit the job of a worker."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from runner import files, places
from runner.core import Problem
from runner.core import events as ev
from runner.core.cancel import Cancel
from runner.core.errors import RaiError, UsageError
from runner.core.request import Terms
from runner.core.units import MIB
from runner.places import slurm as cluster
from runner.places.slurm import programs
from runner.places.slurm.jobs import NAME
from runner.places.slurm.submission import JobNeeds
from runner.session.prepare import WITHOUT_IMAGES, Prepared, in_ci
from runner.session.run import StartedRun, discard, go_on, sealed
from runner.store import handed, runs
from runner.store import settings as stored
from runner.store.handed import HandedRun, LifeSign
from runner.wire.addresses import SLURM, SlurmTarget

CI = "CI"
WORKER_BYTES = 512 * MIB
"""For rai itself beside the commands: three times what it was seen to take."""

STAGING_S = 300.0
"""For unpacking, data files, and bringing the build folder back."""


def submit(
    prepared: Prepared, target: SlurmTarget, cancel: Cancel
) -> Generator[ev.Event, None, StartedRun]:
    """Seal the project and submit the run's job; yield what packing tells.

    Until Slurm has the job a cancel leaves nothing; from then on the run's folder tells
    where the run is, whatever becomes of this process.

    Raises:
        RaiError: Slurm refuses the job, or it was cancelled before.
    """
    settings = prepared.settings
    programs.check()
    needs = needs_of(prepared)
    home = places.open_home(settings.home)
    paths = runs.create(home)
    stop = partial(go_on, cancel, paths, until="submitted")
    submitted = False
    try:
        with LifeSign(paths):
            handing = HandedRun(paths.id, SLURM, str(target), f"{NAME}{paths.id}")
            handed.write(paths, handing)
            asked = yield from sealed(prepared, paths, check=stop)
            files.write(paths.spec, asked.spec_text.encode())
            ci = {CI: "true"} if in_ci() else {}
            terms = Terms({**stored.variables(settings), **ci})
            asked = replace(asked, terms=terms)
            submitted = True
            answer = cluster.hand_over(
                paths, target, asked, needs, settings.slurm, cancel
            )
    except BaseException:
        if submitted:
            cluster.withdraw(paths)
        discard(home, paths)
        stop()
        raise
    if answer.reason is not None:
        discard(home, paths)
        raise RaiError(*answer.problems, reason=answer.reason, advice="")
    if cancel.requested or paths.cancel.exists():
        with suppress(RaiError):  # its worker looks for the request
            places.cancel(paths)
    return StartedRun(prepared, paths)


def needs_of(prepared: Prepared) -> JobNeeds:
    """Return what is asked for a run: what its limits allow, and rai's own part.

    A run that is repeated is a measurement, and shares its node with no other job.

    Raises:
        UsageError: it names GPUs by their UUIDs, which are those of one machine.
    """
    request = prepared.request
    spec, gpu = request.spec, request.spec.gpu
    if gpu and gpu.uuids:
        text = "--gpus names GPUs of this machine, and Slurm chooses the node"
        raise UsageError(Problem(text, hint="give their number: --gpus 1"))
    # An engine with images builds or pulls, for as long as the file allows.
    takes_images = prepared.settings.engine not in WITHOUT_IMAGES
    image_s = spec.limits.build_time_s if takes_images else 0.0
    commands_s = spec.limits.time_s
    if request.asked.repeat > 1:  # a last round may begin within the budget
        commands_s += spec.limits.time_s + request.budget_s + request.idle_s
    return JobNeeds(
        memory_bytes=spec.limits.memory_bytes + WORKER_BYTES,
        time_s=commands_s + image_s + STAGING_S + spec.limits.stop_grace_s,
        gpus=gpu.count if gpu else 0,
        gpu_optional=gpu.optional if gpu else False,
        cores=spec.cpu_cores,
        alone=request.asked.repeat > 1,
    )
