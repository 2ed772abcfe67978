"""The facts of a run that are told where they differ: its project and surroundings."""

from __future__ import annotations

from collections.abc import Mapping, Set

from runner.core import LIMITS, RunRecord
from runner.report.diff.nouns import Difference
from runner.report.words import commit, size

Facts = dict[str, str]


def beside(
    before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[Difference, ...]:
    """Return the facts that either run has, in their order; "" where one is absent."""
    names = dict.fromkeys((*before, *after))
    pairs = ((name, before.get(name, ""), after.get(name, "")) for name in names)
    return tuple(Difference(*pair) for pair in pairs if any(pair[1:]))


def ends(run: RunRecord) -> Facts:
    """Return how a run ended, and the errors that its programs told."""
    found = run.findings
    return {
        "state": run.state.value,
        "reason": run.verdict.reason.value if run.verdict else "",
        "memory errors": ", ".join(map(str, found.memory_errors)),
        "GPU faults": ", ".join(fault.kind.words for fault in found.gpu_faults),
    }


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
        facts |= {"GPU": ", ".join(f"{gpu.name} ({gpu.uuid})" for gpu in use.gpus)}
        facts |= {"driver": use.driver, "GPU by": use.way.words}
    return facts
