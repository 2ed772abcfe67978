"""What makes the figures of two runs not comparable, apart from what they measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set

from runner.core import LIMITS, GpuState, GpuUse, RunRecord
from runner.core.quantities import size
from runner.report.diff_nouns import Affected, Mismatch
from runner.report.phrases import commit, processes

TIMES, RESULTS = (Affected.TIMES,), (Affected.RESULTS,)
BOTH = (*TIMES, *RESULTS)
ALL = tuple(Affected)

CLOCKS_APART, HOTTER_C = 0.05, 15
"""Clocks that differ by a larger share, and temperatures by more, are far apart."""

_SPENT = ("memory", "pids", "disk", "shm", "network")
"""The limits that a program can meet without the run's end."""

Facts = dict[str, str]

Meaning = tuple[str, tuple[Affected, ...], bool]
"""What a difference means, what it affects, and whether it is hard."""

_OTHER_DATA = ("results are of other data", RESULTS, True)
_FACTS: dict[str, Meaning] = {
    "GPU": ("times are of another GPU", ALL, True),
    "GPU board": ("GPUs of one model differ by some percent", TIMES, False),
    "driver": ("the driver compiles and starts kernels", TIMES, False),
    "CPU": ("times on the CPU are of another one", TIMES, True),
    "cores": ("times on the CPU are of more cores, or fewer", TIMES, True),
    "engine": ("each engine costs time of its own, and has other programs", ALL, False),
    "profile": ("confinement costs time", TIMES, False),
    "image digest": ("compilers and libraries may be others", ALL, False),
    **{
        f"limit {key}": ("the programs could use more, or less", ALL, False)
        for key in _SPENT
    },
}


def unlike(
    meanings: Mapping[str, Meaning],
    old: Mapping[str, str],
    new: Mapping[str, str],
    of: str = "",
    command: int | None = None,
) -> Iterator[Mismatch]:
    """Yield the facts that differ; ``of`` says what of, after their names."""
    for what, (means, affects, hard) in meanings.items():
        values = (old.get(what, ""), new.get(what, ""))
        if values[0] != values[1]:
            yield Mismatch(f"{what}{of}", *values, means, affects, hard, command)


def of_runs(before: RunRecord, after: RunRecord) -> Iterator[Mismatch]:
    """Yield each difference of machine, GPU, image, engine, limits and data files."""
    summed = before.data_md5.keys() & after.data_md5.keys()
    old, new = ({**inputs(run, summed), **surroundings(run)} for run in (before, after))
    limited = bool(before.limits and after.limits)
    meanings = {n: m for n, m in _FACTS.items() if limited or n[:6] != "limit "}
    if before.gpu is None or after.gpu is None:
        del meanings["driver"], meanings["GPU board"]
    elif old["GPU"] != new["GPU"]:
        del meanings["GPU board"]
    if not (old.get("image digest") and new.get("image digest")):
        meanings["image"] = meanings.pop("image digest")
    for name in dict.fromkeys((*old, *new)):
        values = (old.get(name), new.get(name))
        if name.startswith("data ") and (all(values) or "missing" in values):
            meanings[name] = _OTHER_DATA
    yield from unlike(meanings, old, new)
    if before.gpu and after.gpu:
        yield from _gpus(before.gpu, after.gpu)


def inputs(run: RunRecord, summed: Set[str]) -> Facts:
    """Return what went into a run; the checksums of the data files in ``summed``.

    Of other data files it says only whether they were there.
    """
    limits = run.limits
    data = {name: run.data_md5[name] if name in summed else "here" for name in run.data}
    data |= dict.fromkeys(run.missing_data, "missing")
    return {
        "project": run.archive_sha256,
        "commit": commit(run.git),
        "profile": run.profile.value if run.profile else "",
        "only": ", ".join(run.only),
        "variables": ", ".join(run.env_given),
        **{f"limit {x.key}": x.written(limits) for x in LIMITS if limits},
        **{f"data {name}": state for name, state in data.items()},
    }


def surroundings(run: RunRecord) -> Facts:
    """Return where and with what a run took place."""
    facts: Facts = {}
    if machine := run.machine:
        facts |= {"machine": machine.host, "CPU": machine.cpu}
        facts |= {"cores": str(machine.cores), "memory": size(machine.memory_bytes)}
        facts |= {"system": machine.system, "Python": machine.python}
        facts |= {"rai": machine.rai}
    if engine := run.engine:
        facts |= {"engine": engine.name, "engine version": engine.version}
        facts |= {"isolation": engine.how, "not enforced": ", ".join(engine.unenforced)}
    if image := run.image:
        facts |= {"image": image.reference, "image digest": image.digest}
        facts |= {"CUDA": image.cuda}
    if use := run.gpu:
        facts |= {"GPU": ", ".join(gpu.name for gpu in use.gpus)}
        facts |= {"GPU board": ", ".join(gpu.uuid for gpu in use.gpus)}
        facts |= {"driver": use.driver, "GPU by": use.way.words}
    return facts


def _gpus(before: GpuUse, after: GpuUse) -> Iterator[Mismatch]:
    """Yield how the states of the GPUs of two runs differ."""
    old, new = ((*use.before, *use.after) for use in (before, after))
    for what, (field, unit, apart, means) in _READINGS.items():
        one, other = _highest(old, field), _highest(new, field)
        if one is not None and other is not None and apart(one, other):
            yield Mismatch(what, f"{one} {unit}", f"{other} {unit}", means, TIMES)
    slowed = (_throttled(old), _throttled(new))
    if slowed[0] != slowed[1]:
        yield Mismatch("throttled", *slowed, "the GPU lowered its clock", TIMES)
    others = (_others(old), _others(new))
    if any(others):
        means = "other programs took a part of the GPU"
        yield Mismatch("others on the GPU", *others, means, ALL)


def _clocks_apart(one: int, other: int) -> bool:
    return bool(one and other) and abs(one - other) > CLOCKS_APART * max(one, other)


def _hotter(one: int, other: int) -> bool:
    return abs(one - other) > HOTTER_C


_READINGS: dict[str, tuple[str, str, Callable[[int, int], bool], str]] = {
    "SM clock": ("sm_clock_mhz", "MHz", _clocks_apart, "times follow the clock"),
    "memory clock": (
        *("memory_clock_mhz", "MHz", _clocks_apart),
        "times follow the memory's clock",
    ),
    "temperature": ("temperature_c", "°C", _hotter, "a hot GPU lowers its clock"),
}
"""By name: the field of a GPU's state, its unit, when two differ, what it means."""

States = tuple[GpuState, ...]


def _highest(states: States, field: str) -> int | None:
    """Return the highest value before and after a run: a GPU at rest clocks low."""
    found = (getattr(state, field) for state in states)
    return max((value for value in found if value is not None), default=None)


def _throttled(states: States) -> str:
    return ", ".join(dict.fromkeys(why for state in states for why in state.throttle))


def _others(states: States) -> str:
    found = {p.pid: p for state in states for p in state.processes or ()}
    return processes(tuple(found.values()))
