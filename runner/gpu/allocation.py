"""How a run gets its GPUs: what there is, what the image needs, and its turn."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
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


def look(source: GpuSource, spec: BuildSpec, image: str | None = None) -> Events:
    """Give what the engine can give; None for a run that gets, or asks for, none.

    EngineError (no_gpu) where the run cannot go on without what it asks for.
    """
    if spec.gpu is None:
        return None
    situation = source.gpus(image)
    if not situation.any:
        problem = Problem(situation.problem or "no GPU is here", hint=situation.hint)
        return (yield from without(spec, spec.gpu, problem))
    if situation.gpus is None:
        return situation
    if spec.gpu.optional and not choice.answering(situation):
        problem = Problem(f"out of order: {choice.shown(situation.gpus)}")
        return (yield from without(spec, spec.gpu, problem))
    choice.candidates(spec.gpu, situation)
    return situation


def without(spec: BuildSpec, request: GpuRequest, problem: Problem) -> Events:
    """Go on without a GPU where that is allowed, saying so; else EngineError."""
    if not request.optional:
        message = f"a GPU is asked for, and none can be given: {problem.message}"
        raise EngineError(Problem(message, hint=problem.hint), reason=Reason.NO_GPU)
    said = problem.message.partition("\n")[0]
    yield ev.Warned(f"no GPU here ({said}): what needs one is skipped")
    return None


def fitting(
    spec: BuildSpec, situation: GpuSituation, image: ImageUsed | None
) -> Events:
    """Leave the GPUs that the image's CUDA and the driver serve, before anything runs.

    Those that the run does not ask for may be as old as they are.
    """
    if spec.gpu is None or image is None or not image.cuda:
        return situation
    if problem := driver.problem(image.cuda, situation.driver):
        return (yield from without(spec, spec.gpu, problem))
    found = choice.candidates(spec.gpu, situation)
    problems = [driver.compute_problem(image.cuda, gpu) for gpu in found]
    fit = tuple(g for g, p in zip(found, problems, strict=True) if p is None)
    if len(fit) < spec.gpu.count:
        first = next(filter(None, problems))
        return (yield from without(spec, spec.gpu, first))
    return replace(situation, gpus=fit)


def take(
    source: GpuSource,
    request: GpuRequest,
    situation: GpuSituation,
    run_id: str,
    wait_s: float,
    cancel: Cancel,
    held: ExitStack,
) -> Generator[ev.Event, None, GpuGrant | None]:
    """Hold as many GPUs as are asked for, waiting for those in use; None on a cancel.

    ``held`` lets go of them. BusyError where the wait was in vain.
    """
    candidates = choice.candidates(request, situation)
    deadline = time.monotonic() + wait_s
    waiting = False
    while not cancel.requested:
        busy: list[str] = []
        gpus = _all_or_none(source, candidates, request.count, run_id, held, busy)
        if gpus:
            for problem in choice.warnings(gpus, situation.driver):
                yield ev.Warned(problem.finding)
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
    """Hold the first that are free; with too few of them hold none."""
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
