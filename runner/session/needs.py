"""What a prepared run needs of the node of a cluster that carries it out."""

from __future__ import annotations

from runner.core import JobRequest
from runner.core.errors import UsageError
from runner.core.needs import JobNeeds
from runner.core.problem import Problem
from runner.core.units import MIB
from runner.session.prepare import Prepared
from runner.session.rules import WITHOUT_IMAGES

WORKER_BYTES = 512 * MIB
"""For rai itself beside the commands: three times what it was seen to take."""

STAGING_S = 300.0
"""For unpacking, data files, and bringing the build folder back."""


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
    return JobNeeds(
        memory_bytes=spec.limits.memory_bytes + WORKER_BYTES,
        time_s=_commands_s(request) + image_s + STAGING_S + spec.limits.stop_grace_s,
        gpus=gpu.count if gpu else 0,
        gpu_optional=gpu.optional if gpu else False,
        cores=spec.cpu_cores,
        alone=request.repeat > 1,
    )


def _commands_s(request: JobRequest) -> float:
    """Return how long all rounds may take; a last one may begin within the budget."""
    once_s = request.spec.limits.time_s
    if request.repeat == 1:
        return once_s
    return 2 * once_s + request.budget_s + request.idle_s
