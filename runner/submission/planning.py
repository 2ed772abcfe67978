"""Make the judge's job of a team's plan, or say every problem. Pure.

The plan says nothing that is believed: the shapes and the class are the milestone's,
and the files are as they are now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runner.core import Problem, digests, plan_reader
from runner.core.judge_job import (
    JudgedConvolution,
    JudgedEntry,
    JudgeJob,
    ReferenceTime,
)
from runner.core.milestone import Milestone
from runner.core.plan import (
    PlannedConvolution,
    PlannedEntry,
    PlannedLaunch,
    PlannedUnit,
    SubmissionPlan,
)
from runner.core.shapes import LayerShape
from runner.judge.figures import Rules
from runner.report import size

FILE = plan_reader.FILE
AGAIN = "run `python project/plan.py`"
OWN_OPTIONS = ("m3", "m4", "final")
"""The milestones that have an option of their own in project/plan.py."""

MOST_THREADS = 1024
MOST_SCRATCH = 8 << 30
"""Bytes of scratch arrays of one entry."""

MOST_CONSTANT = 64 << 10
"""Bytes of constant memory."""

ARRAYS = ("y", "x", "k")
"""The buffers that every convolution has."""


def job(
    milestone: Milestone,
    architecture: str,
    gpu: str = "",
    plan: SubmissionPlan | None = None,
    found: Mapping[str, str] | None = None,
) -> tuple[JudgeJob | None, tuple[Problem, ...]]:
    """Return the job of a milestone on a GPU, or every problem and no job.

    ``architecture`` is e.g. `sm_90`, "" without a GPU; ``gpu`` is the GPU's name, for
    the site's reference time. ``plan`` and ``found`` are ``Submitted.plan`` and
    ``Submitted.digests``.
    """
    entries: tuple[PlannedEntry, ...] = ()
    if milestone.planned and plan is not None:
        problems = list(_problems(milestone, architecture, plan, found or {}))
        if problems:
            return None, plan_reader.few(problems)
        entries = _entries(milestone, plan)
    units: list[PlannedUnit] = []
    judged = tuple(_judged(entry, architecture, units) for entry in entries)
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
            reference=ReferenceTime(known.gpu, known.ms, known.band) if known else None,
        ),
        (),
    )


def any_architecture(milestone: Milestone, plan: SubmissionPlan | None) -> str:
    """Return an architecture that a plan has, where that of the GPU is not known.

    It is one of all entries of the milestone, if there is one; "" without entries.
    """
    served = [e.architectures for e in _entries(milestone, plan)] if plan else []
    known = [name for names in served for name in names]
    shared = (name for name in known if all(name in names for names in served))
    return next(shared, next(iter(known), ""))


def _entries(milestone: Milestone, plan: SubmissionPlan) -> tuple[PlannedEntry, ...]:
    named = {name.lower(): entries for name, entries in plan.milestones.items()}
    return named.get(milestone.name, ())


def _judged(
    entry: PlannedEntry, architecture: str, units: list[PlannedUnit]
) -> JudgedEntry:
    """Return an entry for one architecture; add its units that are new."""
    serving = entry.serving(architecture)
    convolutions = []
    for one in serving.convolutions if serving else ():
        if one.unit not in units:
            units.append(one.unit)
        convolutions.append(
            JudgedConvolution(
                name=one.name,
                shape=one.shape,
                storage=one.storage,
                unit=units.index(one.unit),
                constants=one.constants,
                scratch=one.scratch,
                launches=one.launches,
            )
        )
    return JudgedEntry(entry.variant, tuple(convolutions))


def _problems(
    milestone: Milestone,
    architecture: str,
    plan: SubmissionPlan,
    found: Mapping[str, str],
) -> Iterator[Problem]:
    yield from _stale(plan, found)
    if plan.edition != milestone.edition:
        text = f"{FILE} is for edition {plan.edition}; {milestone.name} is of"
        hint = f"{AGAIN[:-1]} --edition {milestone.edition}`"
        yield Problem(f"{text} {milestone.edition}", hint=hint)
    entries, count = _entries(milestone, plan), milestone.entries
    if not count.least <= len(entries) <= count.most:
        text = f"{FILE} has {len(entries)} entries of {milestone.name}; it takes"
        hint = f"{AGAIN[:-1]} {_option(milestone)} NAME`, with the variants' names"
        yield Problem(f"{text} {count}", hint=hint)
    seen: set[str] = set()
    for at, entry in enumerate(entries):
        where = f"{FILE}: {milestone.name}[{at}] ({entry.variant})"
        if entry.variant in seen:
            text = f"{where} is there twice"
            yield Problem(text, hint="each entry is another variant")
        seen.add(entry.variant)
        for text, hint in _of_entry(entry, milestone, architecture, plan):
            yield Problem(f"{where}{text}", hint=hint)


def _option(milestone: Milestone) -> str:
    """Return the option of project/plan.py that chooses a milestone's variants."""
    name = milestone.name
    return f"--{name}" if name in OWN_OPTIONS else f"--milestone {name}"


def _stale(plan: SubmissionPlan, found: Mapping[str, str]) -> Iterator[Problem]:
    """Yield which files have changed since the plan was written."""
    for name, sha256 in sorted(plan.sources.items()):
        if name not in found:
            yield Problem(f"{FILE} names {name}, which cannot be read", hint=AGAIN)
        elif found[name] != sha256:
            yield Problem(f"{FILE} is older than {name}", hint=AGAIN)
    registry = {name: found[name] for name in plan.registry_files if name in found}
    missing = [name for name in plan.registry_files if name not in found]
    if missing:
        text = f"{FILE} is made of {', '.join(missing[:3])}, which cannot be read"
        yield Problem(text, hint=AGAIN)
    elif digests.of_set(registry) != plan.registry:
        some = "project/kernels.py" if "project/kernels.py" in registry else ""
        text = f"{FILE} is older than the registry of kernels"
        yield Problem(
            f"{text} ({some} or what it imports)" if some else text, hint=AGAIN
        )


_Finding = tuple[str, str]
"""What is wrong, after where it is, and what to do."""


def _of_entry(
    entry: PlannedEntry, milestone: Milestone, architecture: str, plan: SubmissionPlan
) -> Iterator[_Finding]:
    if entry.accuracy != milestone.accuracy:
        text = f" is of class {entry.accuracy}; {milestone.name} takes"
        yield f"{text} {milestone.accuracy}", "submit another variant"
    served = entry.architectures
    if twice := sorted({name for name in served if served.count(name) > 1}):
        yield f" has two plans for {', '.join(twice)}", AGAIN
    serving = entry.serving(architecture)
    if serving is None:
        text = f" has no launches for {architecture or 'a machine without a GPU'}"
        text += f", but for {', '.join(served)}"
        yield text, f"{AGAIN[:-1]} --architecture {architecture}`"
        return
    wanted = [layer.name for layer in milestone.layers]
    if (names := [one.name for one in serving.convolutions]) != wanted:
        yield f" has the layers {', '.join(names)}, not {', '.join(wanted)}", AGAIN
        return
    scratch = sum(sum(one.scratch.values()) for one in serving.convolutions)
    if scratch > MOST_SCRATCH:
        text = f" needs {size(scratch)} of scratch arrays"
        yield text, f"at most {size(MOST_SCRATCH)} are given"
    for one, layer in zip(serving.convolutions, milestone.layers, strict=True):
        for text, hint in _of_convolution(one, layer, entry, architecture):
            yield f", {one.name}{text}", hint
        path = f"{milestone.team.below}/{one.unit.file}"
        if path not in plan.sources:
            yield f", {one.name}: {path} is not among `sources`", AGAIN


def _of_convolution(
    one: PlannedConvolution, layer: LayerShape, entry: PlannedEntry, architecture: str
) -> Iterator[_Finding]:
    if one.shape != layer.shape:
        yield f" is of {one.shape}, not {layer.shape}", AGAIN
    if one.storage == "float16" and entry.accuracy != "half":
        yield " stores x and k as float16", "only class half may"
    if not _runs_on(one.unit.target, architecture):
        yield f" is compiled for {one.unit.target}, not {architecture}", AGAIN
    if taken := sorted({*ARRAYS} & {*one.scratch}):
        yield f" has scratch arrays named {', '.join(taken)}", "rename them"
    weights = 4 * one.shape.M * one.shape.C * one.shape.K**2
    if one.constants and weights > MOST_CONSTANT:
        text = f" has {weights:,} bytes of weights in constant memory"
        yield text, f"it has {MOST_CONSTANT:,}"
    for at, launch in enumerate(one.launches):
        for text, hint in _of_launch(launch, one):
            yield f": launches[{at}] ({launch.kernel}){text}", hint


def _of_launch(launch: PlannedLaunch, one: PlannedConvolution) -> Iterator[_Finding]:
    x, y, z = launch.block
    if x * y * z > MOST_THREADS:
        yield f" has blocks of {x * y * z} threads", f"at most {MOST_THREADS}"
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
