"""Choose the GPUs that a run may get, among those this process was given. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from runner.core import (
    Gpu,
    GpuRequest,
    GpuSituation,
    GpuState,
    HostGpus,
    Problem,
    Reason,
)
from runner.core.errors import EngineError, UsageError
from runner.engines.gpu.access import Why

VISIBLE = "CUDA_VISIBLE_DEVICES"
ORDER = "CUDA_DEVICE_ORDER"
JOB, NODE = "SLURM_JOB_ID", "SLURMD_NODENAME"
GIVEN = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
"""What a step or a job was given; the step's counts first."""

UUID = re.compile(r"(GPU|MIG)-[0-9a-f][0-9a-f-]*", re.IGNORECASE)
"""A UUID or its beginning."""

CLOSED = "Insufficient Permissions"
"""NVML's words for a GPU that a process may not open, as in a job that has others."""

_NUMBER = re.compile("[0-9]{1,9}")
_MINOR = re.compile(r"/dev/nvidia([0-9]+)")
_ASK = "ask Slurm for GPUs, e.g. with `--gres=gpu:1`"
_CONSTRAIN = "ask the site to set ConstrainDevices=yes in Slurm's cgroup.conf"


class GpuAllotment(Struct, frozen=True):
    """The GPUs that a process was given, and ``by`` what; if there are none, why."""

    gpus: tuple[Gpu, ...]
    by: str = ""
    why: Why = ("", "")


def narrowed(host: HostGpus, environ: Mapping[str, str]) -> HostGpus:
    """Return a machine's facts with only the GPUs that this process was given.

    Without any, ``problem`` and ``hint`` say why.
    """
    if not host.gpus and not _shut_out(host, environ):
        return host
    given = allotment(host, environ)
    if not given.by:
        return host
    problem, hint = given.why
    withheld = tuple(gpu for gpu in host.gpus if gpu not in given.gpus)
    return replace(
        host,
        gpus=given.gpus,
        allotted=given.by,
        withheld=withheld,
        lost=_lost(host),
        problem=problem,
        hint=hint,
    )


def _shut_out(host: HostGpus, environ: Mapping[str, str]) -> bool:
    """Whether it is a job without GPUs that leaves this process none of the node's.

    Where Slurm constrains devices, such a job may open no GPU's device file.
    """
    given = any(environ.get(name) for name in GIVEN)
    return bool(host.driver and environ.get(JOB) and not given)


def allotment(host: HostGpus, environ: Mapping[str, str]) -> GpuAllotment:
    """Return the GPUs that a process with this environment was given.

    ``by`` is empty if nothing narrows them.
    """
    job, visible = environ.get(JOB), environ.get(VISIBLE)
    if job:
        return _of_job(host, environ, job, visible)
    if visible is None:
        return GpuAllotment(host.gpus)
    by = _set(visible)
    mixed = len({gpu.name for gpu in host.gpus}) > 1
    if mixed and _numbers(visible) and environ.get(ORDER) != "PCI_BUS_ID":
        text = f"{by} counts these different GPUs in an order that only CUDA knows"
        hint = f"name them by UUID, or set {ORDER}=PCI_BUS_ID"
        return GpuAllotment((), by, (text, hint))
    found = _visible(visible, host)
    return GpuAllotment(found, by, ("", "") if found else _hidden(by))


def _of_job(
    host: HostGpus, environ: Mapping[str, str], job: str, visible: str | None
) -> GpuAllotment:
    name, words = next(((n, v) for n in GIVEN if (v := environ.get(n))), ("", ""))
    if not words:
        here = f"Slurm job {job}"
        if not environ.get(NODE):
            text = f"this shell belongs to {here}, but does not run on its node"
            return GpuAllotment((), here, (text, "start it there: `srun --pty bash`"))
        return GpuAllotment((), here, (f"{here} has no GPU", _ASK))
    by = f"{name}={words} of Slurm job {job}"
    mine, why = _given(words, visible, host)
    if visible is None or not mine:
        return GpuAllotment(mine, by, why)
    seen = {gpu.uuid for gpu in _visible(visible, host)}
    if mine == host.gpus:  # then either way of counting names the job's GPUs alone
        counted = {gpu.uuid for gpu in _visible(visible, _numbered_from_0(host))}
        seen = max(seen, counted, key=len)
    both = tuple(gpu for gpu in mine if gpu.uuid in seen)
    if not seen:
        why = _hidden(_set(visible))
    elif not both:
        why = f"{by} and {_set(visible)} have no GPU in common", f"unset {VISIBLE}"
    return GpuAllotment(both, f"{by} and {_set(visible)}", why)


def _numbered_from_0(host: HostGpus) -> HostGpus:
    """Return the facts with the GPUs counted from 0, as CUDA does that opens no other.

    The driver's numbers may count those that it may not open.
    """
    cards = list(dict.fromkeys(gpu.parent or gpu.uuid for gpu in host.gpus))
    gpus = (replace(g, index=cards.index(g.parent or g.uuid)) for g in host.gpus)
    return replace(host, gpus=tuple(gpus))


def _lost(host: HostGpus) -> tuple[str, ...]:
    return tuple(each for each in host.lost if CLOSED not in each)


def _set(visible: str) -> str:
    return f"{VISIBLE}={visible}" if visible else f'{VISIBLE}=""'


def _hidden(by: str) -> Why:
    return f"{by} names no GPU of this machine", f"unset {VISIBLE}, or name a GPU in it"


def _given(
    words: str, visible: str | None, host: HostGpus
) -> tuple[tuple[Gpu, ...], Why]:
    """Return the GPUs of a job or step; if they cannot be told, none, and why."""
    gpus = host.gpus
    if not _numbers(words):
        found = _visible(words, host)
        return found, ("", "") if found else _no_match(words)
    numbers = frozenset(int(word) for word in words.split(","))
    if len(gpus) + len(_lost(host)) == len(numbers):
        return gpus, ("", "")
    if any(gpu.parent for gpu in gpus):
        return _slices(numbers, visible, host)
    by_index = tuple(gpu for gpu in gpus if gpu.index in numbers)
    minors = {gpu.uuid: minor for gpu in gpus if (minor := _minor(gpu)) is not None}
    by_minor = tuple(gpu for gpu in gpus if minors.get(gpu.uuid) in numbers)
    if len(minors) == len(gpus) and by_index != by_minor:
        text = (
            f"the driver's numbers of GPUs ({_uuids(by_index)}) and those of the device"
            f" files ({_uuids(by_minor)}) differ: which are the job's is not known"
        )
        return (), (text, _CONSTRAIN)
    return by_index, ("", "") if by_index else _no_match(words)


def _slices(
    numbers: frozenset[int], visible: str | None, host: HostGpus
) -> tuple[tuple[Gpu, ...], Why]:
    """Return the MIG slices of a job, which only CUDA_VISIBLE_DEVICES names."""
    found = _visible(visible or "", host)
    if found and len(found) <= len(numbers) and UUID.fullmatch(_entries(visible)[0]):
        return found, ("", "")
    text = f"which MIG slices are the job's is not known: no {VISIBLE} names them"
    return (), (text, _CONSTRAIN)


def _no_match(words: str) -> Why:
    text = f"the job's GPUs ({words}) are none of those that the driver lists"
    return text, _CONSTRAIN


def _visible(text: str | None, host: HostGpus) -> tuple[Gpu, ...]:
    """Return the GPUs that CUDA would show for a value of CUDA_VISIBLE_DEVICES."""
    words = _entries(text)
    numbered = bool(_NUMBER.fullmatch(words[0]))
    found: list[Gpu] = []
    for word in words:
        if bool(_NUMBER.fullmatch(word)) is not numbered:
            break
        gpu = _numbered(int(word), host.gpus) if numbered else _by_word(word, host)
        if gpu is None:
            break
        if gpu in found:
            return ()  # CUDA shows none if one is named twice
        found.append(gpu)
    return tuple(found)


def _numbered(number: int, gpus: Sequence[Gpu]) -> Gpu | None:
    """Return the GPU with the driver's number; None for one of several slices."""
    found = [gpu for gpu in gpus if gpu.index == number]
    return found[0] if len(found) == 1 else None


def _by_word(word: str, host: HostGpus) -> Gpu | None:
    """Return the GPU, or the only slice of the GPU, whose UUID begins with a word."""
    if not UUID.fullmatch(word) or not word.startswith(("GPU-", "MIG-")):
        return None
    start = word.lower()
    exact = [gpu for gpu in host.gpus if gpu.uuid.lower() == start]
    found = exact or [
        gpu
        for gpu in host.gpus
        if gpu.uuid.lower().startswith(start) or gpu.parent.lower().startswith(start)
    ]
    return found[0] if len(found) == 1 else None


def _minor(gpu: Gpu) -> int | None:
    found = filter(None, map(_MINOR.fullmatch, gpu.nodes))
    return next((int(match[1]) for match in found), None)


def _numbers(text: str) -> bool:
    return all(_NUMBER.fullmatch(word) for word in _entries(text))


def _entries(text: str | None) -> list[str]:
    words = [word.rstrip() for word in (text or "").split(",")]
    # CUDA takes blanks before a number, but not before a UUID.
    return [number if _NUMBER.fullmatch(number := w.lstrip()) else w for w in words]


def _uuids(gpus: Sequence[Gpu]) -> str:
    return ", ".join(gpu.uuid for gpu in gpus) or "none"


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
