"""Which engine and which GPU of this machine serve a submission."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from runner import engines
from runner.core import BuildSpec, Gpu, GpuRequest, Problem, Reason
from runner.core.errors import EngineError, NotAllowedError, UsageError
from runner.core.milestone import Milestone, MilestoneRun, Trust
from runner.core.wire import ServerGpu
from runner.engines.base import Engine
from runner.engines.gpu import choice
from runner.engines.launch import SYSTEM_PATH

CONFINING = ("docker", "local")
"""The engines that keep a submission from this machine, the preferred one first."""

SLICE = "a MIG slice shares its GPU with others"
_NO_COMPILER = Problem(
    "the local engine compiles kernels with this machine's nvcc, and there is none",
    hint="install CUDA's compiler in /usr/local/cuda, or use `--engine docker`",
)
_LINKED = "/usr/local/cuda/bin"


class SubmissionHost(Struct, frozen=True):
    """What serves a submission here.

    ``why`` says why the engine before it in ``CONFINING`` does not. ``gpu`` is the GPU
    whose code is compiled, ``gpus`` the option that gets a run such a GPU.
    ``uncounted`` says what of this keeps the outcome from counting.
    """

    engine: Engine
    why: str = ""
    gpu: Gpu | None = None
    gpus: str | None = None
    uncounted: tuple[str, ...] = ()


def architecture(gpu: Gpu | ServerGpu) -> str:
    """Return the name that nvcc has for a GPU's architecture; "" if it is unknown."""
    return f"sm_{gpu.compute.replace('.', '')}" if gpu.compute else ""


def find(
    milestone: Milestone,
    wanted: str = "auto",
    gpus: str | None = None,
    engine: Engine | None = None,
) -> SubmissionHost:
    """Find what serves a milestone here; ``engine`` is one that is given.

    Where the outcome is recorded only, runs that need a GPU are left out without one.

    Raises:
        RaiError: nothing does; carries all that is missing, with the reason of the
            first (not_allowed, no_engine, no_gpu).
    """
    asked = _one_gpu(gpus)
    why = ""
    if engine is None:
        engine, why = _engine(wanted)
    host = SubmissionHost(engine, why)
    if not any(run.gpu for run in milestone.runs):
        return host
    try:
        gpu, option = _gpu(engine, asked)
    except EngineError as error:
        if _optional(milestone) and gpus is None:
            return host
        what = f"{milestone.name} is measured on a GPU"
        needs = [Problem(f"{what}: {p.message}", hint=p.hint) for p in error.problems]
        raise EngineError(*needs, reason=error.reason) from error
    if engine.name == "local" and milestone.planned and not _nvcc():
        raise EngineError(_NO_COMPILER, reason=Reason.NO_ENGINE)
    slices = (SLICE,) if gpu.parent else ()
    return replace(host, gpu=gpu, gpus=option, uncounted=slices)


def stages(milestone: Milestone, *, gpu: bool) -> tuple[MilestoneRun, ...]:
    """Return the runs of a milestone; without a ``gpu`` those that need none.

    Where none can be left out, all of them.
    """
    if gpu or not _optional(milestone):
        return milestone.runs
    return tuple(run for run in milestone.runs if not run.gpu)


def _optional(milestone: Milestone) -> bool:
    """Whether some of it can run without a GPU, and nothing is judged."""
    some = not all(run.gpu for run in milestone.runs)
    return milestone.trust is Trust.RECORDED and some


def _one_gpu(gpus: str | None) -> GpuRequest:
    """Return the request of the option ``--gpus``, which names one GPU at most."""
    asked = GpuRequest() if gpus is None else choice.parse(gpus)
    if asked is None or asked.count != 1:
        text = f"--gpus {gpus}: a submission is measured on one GPU"
        raise UsageError(Problem(text, hint="name one by its UUID: `rai doctor`"))
    return asked


def _engine(wanted: str) -> tuple[Engine, str]:
    """Return the first engine that serves, and why those before it do not."""
    if wanted != "auto" and wanted not in CONFINING:
        text = f"a submission is not run by the {wanted} engine, which confines nothing"
        hint = "use `--engine docker` or `--engine local`"
        raise NotAllowedError(Problem(text, hint=hint))
    refused: list[Problem] = []
    for name in CONFINING if wanted == "auto" else (wanted,):
        made = engines.make(name)
        problems = made.check(BuildSpec("rai_build.yml"))
        if not problems:
            return made, "; ".join(p.message for p in refused)
        refused += [Problem(f"{name}: {p.message}", p.place, p.hint) for p in problems]
    raise EngineError(*refused, reason=Reason.NO_ENGINE)


def _gpu(engine: Engine, asked: GpuRequest) -> tuple[Gpu, str]:
    """Return the GPU that code is compiled for, and the option that gets such a one.

    Of several GPUs of one model any will do; of several models it is the first that is
    free, by its UUID.

    Raises:
        EngineError: there is none that can be used (no_gpu).
    """
    found: Sequence[Gpu] = choice.candidates(asked, engine.gpus())
    first = found[0]
    if not architecture(first):
        text = f"the driver does not tell the architecture of {first.name}"
        raise EngineError(text, reason=Reason.NO_GPU)
    alike = all(gpu.name == first.name for gpu in found) and not asked.uuids
    return first, "1" if alike else first.uuid


def _nvcc() -> str | None:
    """Return the compiler that a sandbox would find."""
    found = shutil.which("nvcc", path=":".join((_LINKED, *SYSTEM_PATH)))
    return found if found and os.access(Path(found).resolve(), os.X_OK) else None
