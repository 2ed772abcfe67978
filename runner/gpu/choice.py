"""Choose the GPUs that a run may get from those that are there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType

from msgspec.structs import replace

from runner.core import (
    Gpu,
    GpuRequest,
    GpuSituation,
    GpuState,
    Problem,
    Reason,
)
from runner.core.errors import EngineError, UsageError
from runner.gpu.allotment import UUID

_COUNT = re.compile("[0-9]{1,9}")
NONE_OUT: Mapping[str, str] = MappingProxyType({})

EXPECTED = "e.g. `--gpus 1` or `--gpus GPU-1b2c3d4e`; `rai doctor` lists the UUIDs"


def parse(text: str) -> GpuRequest | None:
    """Parse ``--gpus N|UUID,...``; None for "0". Raise UsageError if it is wrong."""
    words = [word.strip() for word in text.split(",")]
    if len(words) == 1 and _COUNT.fullmatch(words[0]):
        count = int(words[0])
        return GpuRequest(count=count) if count else None
    problems = [Problem(why, hint=EXPECTED) for w in words if (why := _wrong(w, text))]
    twice = [w for w, n in Counter(map(str.lower, words)).items() if n > 1 and w]
    problems += [
        Problem(f"--gpus names {w} more than once", hint=EXPECTED) for w in twice
    ]
    if problems:
        raise UsageError(*dict.fromkeys(problems))
    return GpuRequest(count=len(words), uuids=tuple(words))


def applied(text: str, given: GpuRequest | None) -> GpuRequest | None:
    """Apply ``--gpus``, whose GPUs are never optional, to what a build file says."""
    asked = parse(text)
    if asked is None or given is None:
        return asked
    return replace(given, count=asked.count, uuids=asked.uuids, optional=False)


def _wrong(word: str, text: str) -> str:
    """Return why a word is not a GPU's UUID; empty if it may be one."""
    if UUID.fullmatch(word):
        return ""
    if word.lower() == "all":
        return "--gpus does not take `all`: others may need a GPU too; use a number"
    if word.isdecimal():
        return (
            f"--gpus {text}: a GPU's number differs between machines and programs;"
            " name GPUs by UUID"
        )
    return f'--gpus takes a number or UUIDs, not "{word}"'


def candidates(request: GpuRequest, situation: GpuSituation) -> tuple[Gpu, ...]:
    """Return the GPUs that a run may get, the least used first.

    For a count these are all that are suitable, at least so many; for UUIDs exactly
    those, in their order. A MIG slice is given only where it is named: here, or by what
    allotted this process its GPUs.

    Raises:
        EngineError: there are too few, or a UUID does not exist (no_gpu).
    """
    if not situation.any:
        raise _refused(situation.problem or "there is no GPU here", situation.hint)
    if situation.gpus is None:
        raise _refused(
            "the engine is on another machine, and its GPUs are not known",
            "see `rai doctor`",
        )
    if request.uuids:
        return _named(request.uuids, situation.gpus, situation)
    return _counted(request, situation.gpus, situation)


def answering(situation: GpuSituation) -> tuple[Gpu, ...]:
    """Return the GPUs that are not out, and not known to be lost."""
    lost = {state.uuid for state in situation.states if not state.answers}
    lost |= {gpu.uuid for gpu in situation.gpus or () if out(gpu, situation.out)}
    return tuple(gpu for gpu in situation.gpus or () if gpu.uuid not in lost)


def eligible(request: GpuRequest, situation: GpuSituation) -> tuple[Gpu, ...]:
    """Return the GPUs that answer and that a request may mean."""
    found = answering(situation)
    if request.uuids or situation.allotted:
        return found
    return tuple(gpu for gpu in found if not gpu.parent)


def out(gpu: Gpu, why: Mapping[str, str]) -> str:
    """Return why no run gets a GPU or slice, from those that are out; "" if runs do."""
    return why.get(gpu.uuid, "") or (why.get(gpu.parent, "") if gpu.parent else "")


def shown(gpus: Sequence[Gpu], why: Mapping[str, str] = NONE_OUT) -> str:
    """Return a list of GPUs for a message, with why those that are out are so."""
    return ", ".join(map(partial(_shown, why=why), gpus)) or "none"


def _shown(gpu: Gpu, why: Mapping[str, str]) -> str:
    found = out(gpu, why)
    return f"{gpu.name} {gpu.uuid}" + (f" ({found})" if found else "")


def _counted(
    request: GpuRequest, gpus: tuple[Gpu, ...], situation: GpuSituation
) -> tuple[Gpu, ...]:
    by_uuid = {state.uuid: state for state in situation.states}
    fit = eligible(request, situation)
    if request.count > len(fit):
        usable = answering(situation)
        lost = [gpu for gpu in gpus if gpu not in usable]
        slices = [gpu for gpu in usable if gpu not in fit]
        gone = shown(lost, situation.out) if lost else ""
        raise _too_many(request.count, fit, slices, gone, situation.allotted)

    def usage(gpu: Gpu) -> tuple[bool, int, int]:
        state = by_uuid.get(gpu.uuid, GpuState(gpu.uuid))
        running = state.processes or ()
        used = sum(process.memory_bytes or 0 for process in running)
        return bool(state.problem), len(running), used

    return tuple(sorted(fit, key=usage))


def _named(
    words: tuple[str, ...], gpus: tuple[Gpu, ...], situation: GpuSituation
) -> tuple[Gpu, ...]:
    why = situation.out
    problems: list[Problem] = []
    found: list[Gpu] = []
    for word in words:
        matches = [g for g in gpus if g.uuid.lower().startswith(word.lower())]
        exact = [g for g in matches if g.uuid.lower() == word.lower()]
        matches = exact or matches
        if len(matches) == 1:
            found += matches
        else:
            problems.append(_unclear(word, matches, gpus, situation))
    twice = [uuid for uuid, n in Counter(g.uuid for g in found).items() if n > 1]
    problems += [Problem(f"the GPU {uuid} is named more than once") for uuid in twice]
    problems += [
        Problem(f"out of order: {shown([gpu], why)}", hint="name another, or a number")
        for gpu in dict.fromkeys(found)
        if out(gpu, why)
    ]
    if problems:
        raise EngineError(*problems, reason=Reason.NO_GPU)
    return tuple(found)


def _unclear(
    word: str, matches: list[Gpu], gpus: tuple[Gpu, ...], situation: GpuSituation
) -> Problem:
    if matches:
        return Problem(
            f"several GPUs' UUIDs begin with {word}: {shown(matches)}",
            hint="use more characters of it",
        )
    parts = [g for g in gpus if g.parent.lower().startswith(word.lower()) and g.parent]
    if parts:
        return Problem(
            f"the GPU {parts[0].parent} is in MIG mode; only its slices can be used",
            hint=f"use a slice: {shown(parts)}",
        )
    hint = f"use one of these: {shown(gpus)}"
    start = word.lower()
    if any(gpu.uuid.lower().startswith(start) for gpu in situation.withheld):
        text = f"the GPU {word} is not among those of {situation.allotted}"
        return Problem(text, hint=hint)
    return Problem(f"there is no GPU {word} here", hint=hint)


def _too_many(
    count: int, fit: Sequence[Gpu], slices: list[Gpu], lost: str, allotted: str
) -> EngineError:
    wanted = "1 GPU" if count == 1 else f"{count} GPUs"
    has = f"{allotted} allows" if allotted else "this machine has"
    text = f"the run needs {wanted}, but {has} {len(fit)}: {shown(fit)}"
    if lost:
        text += f"; out of order: {lost}"
    if slices:
        text += f"; MIG slices, given only by name: {shown(slices)}"
    return _refused(text, "ask for fewer, or run on a machine that has them")


def _refused(message: str, hint: str) -> EngineError:
    return EngineError(Problem(message, hint=hint), reason=Reason.NO_GPU)
