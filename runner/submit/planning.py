"""Make the judge's job of a team's plan, or say every problem. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from runner.core import Problem, plan_reader, work
from runner.core.measurement import (
    JudgedConvolution,
    JudgedEntry,
    JudgeJob,
)
from runner.core.milestone import LayerShape, Milestone, Shape
from runner.core.plan import (
    PlannedConvolution,
    PlannedEntry,
    PlannedLaunch,
    PlannedUnit,
    SubmissionPlan,
)
from runner.core.quantities import size
from runner.judge.arithmetic import MULTIPROCESSORS, evaluate
from runner.judge.figures import Rules

FILE = plan_reader.FILE
SCRIPT = "python project/plan.py"
OWN_OPTIONS = ("m3", "m4", "final")
"""The milestones that have an option of their own in project/plan.py."""

MOST_THREADS = 1024
MOST_SCRATCH = 8 << 30
"""Bytes of scratch arrays of one entry."""

MOST_CONSTANT = 64 << 10
"""Bytes of constant memory."""

_ANY = "sm_90"
"""What launches are checked for, where there is no GPU and they are for all."""

ARRAYS = ("y", "x", "k")
"""The buffers that every convolution has."""

_NUMBERS = ("block", "numbers", "shared_bytes")
"""What of a launch may be arithmetic, besides its grid."""

_FEWEST, _MOST = 1, 1024
"""Multiprocessors for which grids are checked."""

_Finding = tuple[str, str]
"""What is wrong, after where it is, and what to do."""


def job(
    milestone: Milestone,
    architecture: str,
    gpu: str = "",
    plan: SubmissionPlan | None = None,
    found: Mapping[str, str] | None = None,
) -> tuple[JudgeJob | None, tuple[Problem, ...]]:
    """Return the job of a milestone on a GPU, or every problem and no job.

    ``architecture`` is e.g. `sm_90`, "" for one that the plan has, where that of the
    GPU is not known; ``gpu`` is the GPU's name, for the site's reference time. ``plan``
    and ``found`` are ``Submitted.plan`` and ``Submitted.digests``.
    """
    architecture = architecture or _any_architecture(milestone, plan)
    entries: list[_Filled] = []
    if milestone.planned and plan is not None:
        case = _PlanCase(milestone, architecture, plan, found or {})
        if problems := plan_reader.few(_problems(case, entries)):
            return None, problems
    units: list[PlannedUnit] = []
    judged = tuple(_judged(entry, milestone, units) for entry in entries)
    known = milestone.reference(gpu)
    return (
        JudgeJob(
            milestone=milestone.name,
            accuracy=milestone.accuracy,
            architecture=architecture,
            units=tuple(units),
            entries=judged,
            layers=milestone.layers,
            rules=Rules.from_json(milestone.rules).to_json(),
            reference=known,
        ),
        (),
    )


def _any_architecture(milestone: Milestone, plan: SubmissionPlan | None) -> str:
    """Return an architecture of all entries of a milestone, if there is one."""
    every = plan.milestones if plan else {}
    named = {name.lower(): some for name, some in every.items()}
    served = [entry.architectures for entry in named.get(milestone.name, ())]
    known = [name for names in served for name in names]
    shared = (name for name in known if all(name in names for names in served))
    return next(shared, next(iter(known), _ANY))


class _PlanCase(Struct, frozen=True):
    """What a plan is checked against; as ``job`` is given it."""

    milestone: Milestone
    architecture: str
    plan: SubmissionPlan
    found: Mapping[str, str]

    def path(self, one: PlannedConvolution) -> str:
        """Return the path of a convolution's source in the project."""
        return "/".join(filter(None, (self.milestone.team.below, one.unit.file)))

    def again(self, options: str = "", more: str = "") -> str:
        """Return how to mend the plan: by what wrote it, project/plan.py or a hand."""
        if not self.plan.registry:
            return f"edit {FILE}"
        return f"run `{' '.join(filter(None, (SCRIPT, options)))}`{more}"


class _Filled(Struct, frozen=True):
    """An entry for one GPU, with nothing left out; ``where`` is for a problem."""

    where: str
    variant: str
    convolutions: tuple[PlannedConvolution, ...]


def _judged(
    entry: _Filled, milestone: Milestone, units: list[PlannedUnit]
) -> JudgedEntry:
    """Return an entry for the judge; add its units that are new."""
    convolutions = []
    for one, layer in zip(entry.convolutions, milestone.layers, strict=True):
        if one.unit not in units:
            units.append(one.unit)
        convolutions.append(
            JudgedConvolution(
                name=one.name,
                shape=layer.shape,
                storage=one.storage,
                unit=units.index(one.unit),
                constants=one.constants,
                scratch={name: int(size) for name, size in one.scratch.items()},
                launches=one.launches,
                names=_names(one, layer.shape),
            )
        )
    return JudgedEntry(entry.variant, tuple(convolutions))


def _problems(case: _PlanCase, good: list[_Filled]) -> Iterator[Problem]:
    """Yield what is wrong; add the entries that are right to ``good``."""
    plan, milestone = case.plan, case.milestone
    yield from _stale(case)
    if plan.edition and plan.edition != milestone.edition:
        text = f"{FILE} is for edition {plan.edition}; {milestone.name} is of"
        hint = case.again(f"--edition {milestone.edition}")
        yield Problem(f"{text} {milestone.edition}", hint=hint)
    named = {name.lower(): name for name in plan.milestones}
    name = named.get(milestone.name, milestone.name)
    entries, count = plan.milestones.get(name, ()), milestone.entries
    if not count.least <= len(entries) <= count.most:
        text = f"{FILE} has {len(entries)} entries of {milestone.name}; it takes"
        hint = case.again(f"{_option(milestone)} NAME", ", with the variants' names")
        yield Problem(f"{text} {count}", hint=hint)
    seen: set[str] = set()
    for at, entry in enumerate(entries[: count.most]):
        where = f"{FILE}: {milestone.name}[{at}] ({entry.variant})"
        if entry.variant in seen:
            text = f"{where} is there twice"
            yield Problem(text, hint="each entry is another variant")
        seen.add(entry.variant)
        filled: list[PlannedConvolution] = []
        path = f"milestones[{json.dumps(name)}][{at}]"
        wrong = list(_of_entry(entry, case, path, filled))
        yield from (
            one
            if isinstance(one, Problem)
            else Problem(f"{where}{one[0]}", hint=one[1])
            for one in wrong
        )
        if not wrong:
            good.append(_Filled(where, entry.variant, tuple(filled)))
    yield from _twins(good, case)


def _twins(entries: list[_Filled], case: _PlanCase) -> Iterator[Problem]:
    """Yield which entries launch the same code in the same way as one before."""
    seen: dict[object, str] = {}
    for entry in entries:
        what = tuple(
            (
                case.found.get(case.path(one)),
                frozenset(one.unit.defines.items()),
                frozenset(one.scratch.items()),
                (one.storage, one.constants, one.launches),
            )
            for one in entry.convolutions
        )
        first = seen.setdefault(what, entry.variant)
        if first != entry.variant:
            text = f"{entry.where} launches the same kernels as {first}"
            hint = "each entry has another source, other macros or other launches"
            yield Problem(text, hint=hint)


def _option(milestone: Milestone) -> str:
    """Return the option of project/plan.py that chooses a milestone's variants."""
    name = milestone.name
    return f"--{name}" if name in OWN_OPTIONS else f"--milestone {name}"


def _stale(case: _PlanCase) -> Iterator[Problem]:
    """Yield which files have changed since the plan was written."""
    plan, found, again = case.plan, case.found, case.again()
    for name, sha256 in sorted((plan.sources or {}).items()):
        if name not in found:
            yield Problem(f"{FILE} names {name}, which cannot be read", hint=again)
        elif found[name] != sha256:
            yield Problem(f"{FILE} is older than {name}", hint=again)
    registry = {name: found[name] for name in plan.registry_files if name in found}
    missing = [name for name in plan.registry_files if name not in found]
    if missing:
        text = f"{FILE} is made of {', '.join(missing[:3])}, which cannot be read"
        yield Problem(text, hint=again)
    elif plan.registry and work.digest_of_set(registry) != plan.registry:
        some = next((n for n in registry if n.endswith("/kernels.py")), "")
        text = f"{FILE} is older than the registry of kernels"
        yield Problem(
            f"{text} ({some} or what it imports)" if some else text, hint=again
        )


def _of_entry(
    entry: PlannedEntry, case: _PlanCase, path: str, filled: list[PlannedConvolution]
) -> Iterator[_Finding | Problem]:
    """Yield what is wrong; add the convolution of each layer to ``filled``."""
    milestone, architecture = case.milestone, case.architecture
    if entry.accuracy != milestone.accuracy:
        text = f" is of class {entry.accuracy}; {milestone.name} takes"
        yield f"{text} {milestone.accuracy}", "submit another variant"
    if bool(entry.plans) == bool(entry.convolutions):
        yield " has both or none of `plans` and `convolutions`", "it takes one of them"
        return
    served = entry.architectures
    if twice := sorted({name for name in served if served.count(name) > 1}):
        yield f" has two plans for {', '.join(twice)}", case.again()
    planned = entry.serving(architecture)
    if not planned:
        text = f" has no launches for {architecture}, but for {', '.join(served)}"
        yield text, case.again(f"--architecture {architecture}")
        return
    wanted = [layer.name for layer in milestone.layers]
    convolutions = of_layers(planned, milestone.layers)
    if (names := [one.name for one in convolutions]) != wanted:
        shown = ", ".join(name or "one without a name" for name in names)
        text = f" has the layers {shown}, not {', '.join(wanted)}"
        yield text, case.again()
        return
    for at, plan in enumerate(entry.plans):
        path += f".plans[{at}]" if architecture in plan.architectures else ""
    for at, (one, layer) in enumerate(zip(convolutions, milestone.layers, strict=True)):
        where = f"{path}.convolutions[{at if len(planned) > 1 else 0}]"
        whole, problems = filled_plan(one, layer, architecture, where)
        yield from problems
        if problems:
            continue
        filled.append(whole)
        for text, hint in _of_convolution(whole, layer.shape, entry, case):
            yield f", {one.name}{text}", hint
    scratch = sum(int(size) for one in filled for size in one.scratch.values())
    if scratch > MOST_SCRATCH:
        text = f" needs {size(scratch)} of scratch arrays"
        yield text, f"at most {size(MOST_SCRATCH)} are given"


def of_layers(
    planned: tuple[PlannedConvolution, ...], wanted: tuple[LayerShape, ...]
) -> tuple[PlannedConvolution, ...]:
    """Return convolutions by name; one without a name becomes one for each layer."""
    if len(planned) > 1 or any(one.name for one in planned):
        return planned
    return tuple(replace(one, name=layer.name) for layer in wanted for one in planned)


def filled_plan(
    one: PlannedConvolution, layer: LayerShape, architecture: str, path: str
) -> tuple[PlannedConvolution, list[Problem]]:
    """Return a layer's convolution in which all is said and each number is one.

    Only a grid on MULTIPROCESSORS stays as it is, if its values are right. ``path`` is
    the convolution's JSON path, for the problems of arithmetic and of its values.
    """
    names = _names(one, layer.shape)
    for count in (_FEWEST, _MOST):
        whole, problems = _filled(one, layer, architecture, path, names, count)
        if problems:
            return one, problems
    launches = tuple(
        replace(
            numbers, grid=tuple(map(partial(_kept, names), said.grid, numbers.grid))
        )
        for said, numbers in zip(one.launches, whole.launches, strict=True)
    )
    return replace(whole, launches=launches), []


def _names(one: PlannedConvolution, shape: Shape) -> dict[str, int]:
    """Return the values of all names of arithmetic, besides MULTIPROCESSORS."""
    out = {"H_out": shape.H - shape.K + 1, "W_out": shape.W - shape.K + 1}
    return {**asdict(shape), **out, **one.unit.defines}


def _kept(names: Mapping[str, int], said: int | str, number: int | str) -> int | str:
    """Return the number of a grid, or its arithmetic if that depends on the GPU."""
    depends = MULTIPROCESSORS in str(said) and MULTIPROCESSORS not in names
    return said if depends else number


def _filled(
    one: PlannedConvolution,
    layer: LayerShape,
    architecture: str,
    path: str,
    names: Mapping[str, int],
    count: int,
) -> tuple[PlannedConvolution, list[Problem]]:
    """Return a convolution with numbers for a GPU of so many multiprocessors."""
    problems: list[Problem] = []
    value = msgspec.to_builtins(one)
    on_gpu = {MULTIPROCESSORS: count, **names}
    for at, launch in enumerate(value["launches"]):
        where = f"{path}.launches[{at}]"
        launch["grid"] = _numbers(launch["grid"], on_gpu, f"{where}.grid", problems)
        for key in _NUMBERS:
            launch[key] = _numbers(launch[key], names, f"{where}.{key}", problems)
    scratch = _numbers(value.get("scratch", {}), names, f"{path}.scratch", problems)
    value |= {"scratch": scratch, "shape": asdict(one.shape or layer.shape)}
    value["unit"]["target"] = one.unit.target or architecture
    for each in plan_reader.wrong(value, PlannedConvolution, path):
        problems.append(replace(each, message=f"{each.message} for {layer.name}"))
    if problems:
        return one, problems
    return msgspec.convert(value, PlannedConvolution), []


def _numbers(
    value: Any,  # noqa: ANN401 - JSON
    names: Mapping[str, int],
    path: str,
    problems: list[Problem],
) -> Any:  # noqa: ANN401
    """Return a value with numbers for its texts; add what is wrong with these."""
    match value:
        case list() | tuple():
            each = enumerate(value)
            return [_numbers(v, names, f"{path}[{at}]", problems) for at, v in each]
        case dict():
            pairs = value.items()
            return {k: _numbers(v, names, f"{path}.{k}", problems) for k, v in pairs}
        case str():
            try:
                return evaluate(value, names)
            except ValueError as error:
                text = f"{plan_reader.FILE}: {path} is {json.dumps(value)}"
                problems.append(Problem(text, hint=str(error)))
    return value


def _of_convolution(
    one: PlannedConvolution, shape: Shape, entry: PlannedEntry, case: _PlanCase
) -> Iterator[_Finding]:
    if one.shape != shape:
        yield f" is of {one.shape}, not {shape}", case.again()
    if one.storage == "float16" and entry.accuracy != "half":
        yield " stores x and k as float16", "only class half may"
    if not _runs_on(one.unit.target or "", case.architecture):
        text = f" is compiled for {one.unit.target}, not {case.architecture}"
        yield text, case.again()
    if taken := sorted({*ARRAYS} & {*one.scratch}):
        yield f" has scratch arrays named {', '.join(taken)}", "rename them"
    weights = 4 * shape.M * shape.C * shape.K**2
    if one.constants and weights > MOST_CONSTANT:
        text = f" has {weights:,} bytes of weights in constant memory"
        yield text, f"it has {MOST_CONSTANT:,}"
    for at, launch in enumerate(one.launches):
        for text, hint in _of_launch(launch, one):
            yield f": launches[{at}] ({launch.kernel}){text}", hint
    path, sources = case.path(one), case.plan.sources
    if path not in (case.found if sources is None else sources):
        text = "is not there" if sources is None else "is not among `sources`"
        yield f": {path} {text}", case.again()


def _of_launch(launch: PlannedLaunch, one: PlannedConvolution) -> Iterator[_Finding]:
    threads = math.prod(int(side) for side in launch.block)
    if threads > MOST_THREADS:
        yield f" has blocks of {threads} threads", f"at most {MOST_THREADS}"
    known = (*ARRAYS, *one.scratch)
    unknown = dict.fromkeys(name for name in launch.buffers if name not in known)
    if unknown:
        text = f" names unknown buffers: {', '.join(unknown)}"
        yield text, f"there are {', '.join(known)}"


def _runs_on(target: str, architecture: str) -> bool:
    """Whether machine code for a target runs on a GPU of an architecture.

    It does on a later one of the same generation; that for `sm_90a` on sm_90 alone.
    """
    base = target.rstrip("af")
    if target.endswith("a"):
        return base == architecture
    return base[:-1] == architecture[:-1] and base <= architecture
