"""Get a run its GPUs: find them, compare with the image, and wait for free ones."""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from msgspec.structs import replace

from runner.core import (
    BuildSpec,
    Gpu,
    GpuGrant,
    GpuRequest,
    GpuSituation,
    ImageUsed,
    Problem,
    Reason,
    State,
)
from runner.core import events as ev
from runner.core.errors import BusyError, Cancel, EngineError
from runner.engines.gpu import choice

if TYPE_CHECKING:
    from runner.engines.base import Engine

POLL_S = 0.5

Events = Generator[ev.Event, None, GpuSituation | None]

# From NVIDIA's CUDA Compatibility guide and toolkit release notes: the oldest drivers
# (Linux) and compute capabilities of each CUDA. Within one major version a newer
# toolkit works with an older driver (minor version compatibility).
OLDEST_DRIVER = {13: "580", 12: "525.60.13", 11: "450.80.02"}
OLDEST_COMPUTE = {13: "7.5", 12: "5.0", 11: "3.5"}
OFFERED = (13, 12)
"""The values of the build argument CUDA of rai's image."""


def find(
    engine: Engine,
    spec: BuildSpec,
    image: str | None = None,
    out: Mapping[str, str] = choice.NONE_OUT,
) -> Events:
    """Return the GPUs that the engine has; None for a run without GPUs.

    ``out`` are those that the run does not get, by their UUIDs, and why.

    Raises:
        EngineError: the run needs a GPU that it cannot get (no_gpu).
    """
    if spec.gpu is None:
        return None
    situation = replace(engine.gpus(image), out=out)
    if not situation.any:
        problem = Problem(situation.problem or "there is no GPU", hint=situation.hint)
        return (yield from _go_on_without(spec, spec.gpu, problem))
    if situation.gpus is None:
        return situation
    if spec.gpu.optional and not choice.eligible(spec.gpu, situation):
        why = "in MIG mode" if choice.answering(situation) else "out of order"
        problem = Problem(f"{why}: {choice.shown(situation.gpus, out)}")
        return (yield from _go_on_without(spec, spec.gpu, problem))
    choice.candidates(spec.gpu, situation)
    return situation


def _go_on_without(spec: BuildSpec, request: GpuRequest, problem: Problem) -> Events:
    """Warn and return None if the GPU is optional, else raise EngineError."""
    if not request.optional:
        message = f"the run needs a GPU, but none is available: {problem.message}"
        raise EngineError(Problem(message, hint=problem.hint), reason=Reason.NO_GPU)
    why = problem.message.partition("\n")[0]
    text = f"no GPU here ({why})"
    if any(command.needs_gpu for command in spec.commands):
        text += "; skipping the commands that need one"
    yield ev.Warned(text)
    return None


def compatible(
    spec: BuildSpec, situation: GpuSituation, image: ImageUsed | None
) -> Events:
    """Return the situation with only the GPUs that the image's CUDA supports.

    Check the driver too, and go on without a GPU where the GPU is optional.

    Raises:
        EngineError: the driver or too many GPUs are too old (no_gpu).
    """
    if spec.gpu is None or image is None or not image.cuda:
        return situation
    if problem := driver_problem(image.cuda, situation.driver):
        return (yield from _go_on_without(spec, spec.gpu, problem))
    found = choice.candidates(spec.gpu, situation)
    problems = [compute_problem(image.cuda, gpu) for gpu in found]
    fit = tuple(g for g, p in zip(found, problems, strict=True) if p is None)
    if len(fit) < spec.gpu.count:
        first = next(filter(None, problems))
        return (yield from _go_on_without(spec, spec.gpu, first))
    return replace(situation, gpus=fit)


def acquire(
    engine: Engine,
    request: GpuRequest,
    situation: GpuSituation,
    run_id: str,
    wait_s: float,
    cancel: Cancel,
    held: ExitStack,
) -> Generator[ev.Event, None, GpuGrant | None]:
    """Lock as many GPUs as are asked for, and wait for those in use.

    Return None if the run is cancelled meanwhile. ``held`` releases the locks.

    Raises:
        BusyError: not enough GPUs became free within ``wait_s``.
    """
    candidates = choice.candidates(request, situation)
    deadline = time.monotonic() + wait_s
    waiting = False
    while not cancel.requested:
        busy: list[str] = []
        gpus = _all_or_none(engine, candidates, request.count, run_id, held, busy)
        if gpus:
            return GpuGrant(gpus, situation.open, situation.driver)
        why = "; ".join(busy)
        if time.monotonic() >= deadline:
            raise BusyError(why)
        if not waiting:
            waiting = True
            yield ev.StateChanged(State.QUEUED)
            yield ev.GpuBusy(why, wait_s)
        time.sleep(POLL_S)
    return None


def _all_or_none(
    engine: Engine,
    candidates: Sequence[Gpu],
    count: int,
    run_id: str,
    held: ExitStack,
    busy: list[str],
) -> tuple[Gpu, ...]:
    """Lock the first ``count`` free GPUs; lock none if fewer are free."""
    with ExitStack() as taking:
        gpus: list[Gpu] = []
        for gpu in candidates:
            try:
                taking.enter_context(engine.hold(gpu, run_id))
            except BusyError as error:
                busy += [p.message for p in error.problems]
                continue
            gpus.append(gpu)
            if len(gpus) == count:
                held.push(taking.pop_all())
                return tuple(gpus)
    return ()


def driver_problem(cuda: str, driver: str) -> Problem | None:
    """Return a problem if a driver is too old for an image's CUDA.

    ``cuda`` is e.g. "13" or "12.8", ``driver`` e.g. "535.183.01"; if either is unknown
    there is no problem.
    """
    needed = OLDEST_DRIVER.get(_numbers(cuda)[0]) if _numbers(cuda) else None
    if needed is None or not _numbers(driver) or _numbers(driver) >= _numbers(needed):
        return None
    return Problem(
        f"CUDA {cuda} of the image needs the NVIDIA driver {needed} or newer,"
        f" but the driver is {driver}",
        hint=_older_cuda(
            OLDEST_DRIVER, driver, f"update the driver to {needed} or newer"
        ),
    )


def compute_problem(cuda: str, gpu: Gpu) -> Problem | None:
    """Return a problem if an image's CUDA does not support a GPU, or None."""
    oldest = OLDEST_COMPUTE.get(_numbers(cuda)[0]) if _numbers(cuda) else None
    have = _numbers(gpu.compute)
    if oldest is None or not have or have >= _numbers(oldest):
        return None
    return Problem(
        f"CUDA {cuda} of the image needs compute capability {oldest} or newer,"
        f" but {gpu.name} has {gpu.compute}",
        hint=_older_cuda(OLDEST_COMPUTE, gpu.compute, "run on a newer GPU"),
    )


def _older_cuda(oldest: dict[int, str], have: str, otherwise: str) -> str:
    """Return advice to build with the newest CUDA that works, or ``otherwise``."""
    for major in OFFERED:
        if _numbers(have) >= _numbers(oldest[major]):
            return f"build the image with `args: {{CUDA: {major}}}`, or {otherwise}"
    return otherwise


def _numbers(version: str) -> tuple[int, ...]:
    """Return a version's numbers, for comparison; () if it is not a version."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()
