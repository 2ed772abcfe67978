"""Get a run its GPUs: find them, compare with the image, and wait for free ones."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack

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
from runner.core.cancel import Cancel
from runner.core.errors import BusyError, EngineError
from runner.gpu import choice, driver
from runner.gpu.source import GpuSource

POLL_S = 0.5

Events = Generator[ev.Event, None, GpuSituation | None]


def find(
    source: GpuSource,
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
    situation = replace(source.gpus(image), out=out)
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
    yield ev.Warned(f"no GPU here ({why}); skipping the commands that need one")
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
    if problem := driver.problem(image.cuda, situation.driver):
        return (yield from _go_on_without(spec, spec.gpu, problem))
    found = choice.candidates(spec.gpu, situation)
    problems = [driver.compute_problem(image.cuda, gpu) for gpu in found]
    fit = tuple(g for g, p in zip(found, problems, strict=True) if p is None)
    if len(fit) < spec.gpu.count:
        first = next(filter(None, problems))
        return (yield from _go_on_without(spec, spec.gpu, first))
    return replace(situation, gpus=fit)


def acquire(
    source: GpuSource,
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
        gpus = _all_or_none(source, candidates, request.count, run_id, held, busy)
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
    source: GpuSource,
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
                taking.enter_context(source.hold(gpu, run_id))
            except BusyError as error:
                busy += [p.message for p in error.problems]
                continue
            gpus.append(gpu)
            if len(gpus) == count:
                held.push(taking.pop_all())
                return tuple(gpus)
    return ()
