"""Narrow a machine's GPUs to those that this process was given. Pure.

A Slurm job has the GPUs of SLURM_JOB_GPUS, a step those of SLURM_STEP_GPUS. Where Slurm
constrains devices, the driver lists these alone and counts them from 0. Where it does
not, the driver lists all, and the numbers are the driver's (its order on the PCI bus)
or, in older versions of Slurm, those of the device files: where the two differ, nobody
can tell whose a GPU is, and none is used. MIG slices are in CUDA_VISIBLE_DEVICES by
their UUIDs; SLURM_JOB_GPUS has numbers of Slurm's own for them.

CUDA_VISIBLE_DEVICES is read as CUDA does: numbers, or UUIDs or their beginnings; the
list ends at its first invalid entry (CUDA C++ Programming Guide, "CUDA Environment
Variables"), and a device that is named twice leaves none, as tried on an H100. What
CUDA reads as the number at the beginning of a word (0a, 0x0) is invalid here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from runner.core import Gpu, HostGpus
from runner.gpu.absence import Why

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
        counted = {gpu.uuid for gpu in _visible(visible, _counted(host))}
        seen = max(seen, counted, key=len)
    both = tuple(gpu for gpu in mine if gpu.uuid in seen)
    if not seen:
        why = _hidden(_set(visible))
    elif not both:
        why = f"{by} and {_set(visible)} have no GPU in common", f"unset {VISIBLE}"
    return GpuAllotment(both, f"{by} and {_set(visible)}", why)


def _counted(host: HostGpus) -> HostGpus:
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
            f"the driver's numbers of GPUs ({_shown(by_index)}) and those of the device"
            f" files ({_shown(by_minor)}) differ: which are the job's is not known"
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
        gpu = _numbered(int(word), host.gpus) if numbered else _named(word, host)
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


def _named(word: str, host: HostGpus) -> Gpu | None:
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


def _shown(gpus: Sequence[Gpu]) -> str:
    return ", ".join(gpu.uuid for gpu in gpus) or "none"
