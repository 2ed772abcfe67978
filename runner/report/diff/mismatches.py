"""What makes the figures of two runs not comparable, apart from what they measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from runner.core import LIMITS, GpuState, GpuUse, RunRecord
from runner.report.diff.nouns import Affected, Mismatch
from runner.report.words import processes

TIMES, RESULTS = (Affected.TIMES,), (Affected.RESULTS,)
BOTH = (*TIMES, *RESULTS)
ALL = tuple(Affected)

CLOCKS_APART, HOTTER_C = 0.05, 15
"""Clocks that differ by a larger share, and temperatures by more, are far apart."""

_SPENT = ("memory", "pids", "disk", "shm", "network")
"""The limits that a program can meet without the run's end."""

Meaning = tuple[str, tuple[Affected, ...], bool]
"""What a difference means, what it affects, and whether it is hard."""

_FACTS: dict[str, Meaning] = {
    "GPU": ("times are of another GPU", ALL, True),
    "CPU": ("times on the CPU are of another one", TIMES, True),
    "engine": ("each engine costs time of its own, and has other programs", ALL, False),
    "profile": ("confinement costs time", TIMES, False),
    "image": ("compilers and libraries may be others", ALL, False),
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
        values = (old[what], new[what])
        if values[0] != values[1]:
            named = f"{what}{of}"
            yield mismatch(named, values, means, affects, hard=hard, command=command)


def mismatch(
    what: str,
    values: Sequence[str],
    means: str,
    affects: tuple[Affected, ...],
    *,
    hard: bool = False,
    command: int | None = None,
) -> Mismatch:
    """Return a mismatch of the values of the earlier and the later run."""
    before, after = values
    return Mismatch(what, before, after, means, affects, hard, command)


def surroundings(before: RunRecord, after: RunRecord) -> Iterator[Mismatch]:
    """Yield each difference of machine, GPU, image, engine, limits and data files."""
    yield from unlike(_FACTS, _facts(before), _facts(after))
    yield from _gpus(before.gpu, after.gpu)
    if before.limits and after.limits:
        for limit in LIMITS:
            one, other = limit.written(before.limits), limit.written(after.limits)
            if limit.key in _SPENT and one != other:
                means = "the programs could use more, or less"
                yield mismatch(f"limit {limit.key}", (one, other), means, ALL)
    yield from _data(before, after)


def _facts(run: RunRecord) -> dict[str, str]:
    machine, image = run.machine, run.image
    return {
        "GPU": ", ".join(gpu.name for gpu in run.gpu.gpus) if run.gpu else "none",
        "CPU": f"{machine.cpu}, {machine.cores} cores" if machine else "",
        "engine": run.engine.name if run.engine else "",
        "profile": run.profile.value if run.profile else "",
        "image": f"{image.reference} {image.digest[:19]}".strip() if image else "",
    }


def _gpus(before: GpuUse | None, after: GpuUse | None) -> Iterator[Mismatch]:
    """Yield how two runs on GPUs differ, apart from the models."""
    if before is None or after is None:
        return
    uses = (before, after)
    drivers = [use.driver for use in uses]
    if drivers[0] != drivers[1]:
        means = "the driver compiles and starts kernels"
        yield mismatch("driver", drivers, means, TIMES)
    names = [[gpu.name for gpu in use.gpus] for use in uses]
    boards = [", ".join(gpu.uuid for gpu in use.gpus) for use in uses]
    if names[0] == names[1] and boards[0] != boards[1]:
        means = "GPUs of one model differ by some percent"
        yield mismatch("which GPU", boards, means, TIMES)
    for what, (unit, apart, means) in _READINGS.items():
        values = [_read(use)[what] for use in uses]
        if apart(*values):
            texts = [f"{value} {unit}" for value in values]
            yield mismatch(what, texts, means, TIMES)
    throttled = [_joined(use, lambda state: state.throttle) for use in uses]
    if throttled[0] != throttled[1]:
        yield mismatch("throttled", throttled, "the GPU lowered its clock", TIMES)
    others = [_others(use) for use in uses]
    if any(others):
        means = "other programs took a part of the GPU"
        yield mismatch("others on the GPU", others, means, ALL)


def _clocks_apart(one: int | None, other: int | None) -> bool:
    if not one or not other:
        return False
    return abs(one - other) > CLOCKS_APART * max(one, other)


def _hotter(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and abs(one - other) > HOTTER_C


_READINGS: dict[str, tuple[str, Callable[[int | None, int | None], bool], str]] = {
    "SM clock": ("MHz", _clocks_apart, "times follow the clock"),
    "memory clock": ("MHz", _clocks_apart, "times follow the memory's clock"),
    "temperature": ("°C", _hotter, "a hot GPU lowers its clock"),
}


def _read(use: GpuUse) -> dict[str, int | None]:
    """Return the highest values before and after a run: a GPU at rest clocks low."""
    found = {
        "SM clock": [state.sm_clock_mhz for state in _states(use)],
        "memory clock": [state.memory_clock_mhz for state in _states(use)],
        "temperature": [state.temperature_c for state in _states(use)],
    }
    return {
        what: max((v for v in values if v is not None), default=None)
        for what, values in found.items()
    }


def _states(use: GpuUse) -> tuple[GpuState, ...]:
    return (*use.before, *use.after)


def _joined(use: GpuUse, of: Callable[[GpuState], tuple[str, ...]]) -> str:
    found = (reason for state in _states(use) for reason in of(state))
    return ", ".join(dict.fromkeys(found))


def _others(use: GpuUse) -> str:
    found = {p.pid: p for state in _states(use) for p in state.processes or ()}
    return processes(tuple(found.values()))


def _data(before: RunRecord, after: RunRecord) -> Iterator[Mismatch]:
    """Yield the data files that differ, or that one run lacked."""
    old, new = before.data_md5, after.data_md5
    for name in dict.fromkeys((*old, *new)):
        if name in old and name in new and old[name] != new[name]:
            means = "results are of other data"
            sums = (old[name], new[name])
            yield mismatch(f"data {name}", sums, means, RESULTS, hard=True)
    for name in sorted({*before.missing_data} ^ {*after.missing_data}):
        states = (_presence(before, name), _presence(after, name))
        means = "results are of other data"
        yield mismatch(f"data {name}", states, means, RESULTS, hard=True)


def _presence(run: RunRecord, name: str) -> str:
    if name in run.missing_data:
        return "missing"
    return "here" if name in run.data else "not asked for"
