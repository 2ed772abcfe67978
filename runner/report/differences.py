"""What differed between a run and its replay."""

from __future__ import annotations

from collections.abc import Iterator, Set
from itertools import zip_longest

from msgspec import Struct

from runner.core import LIMITS, CommandRecord, RunRecord
from runner.report.blocks import Block, Pairs, Table
from runner.report.words import commit, outcome, seconds, size, titled

Facts = dict[str, str]
Row = tuple[str, float | None, float | None]


class Difference(Struct, frozen=True):
    """One thing that differs; "" stands for what a run does not have."""

    what: str
    before: str
    after: str


def differences(before: RunRecord, after: RunRecord) -> list[Block]:
    """Return what differed, and the times and figures of both runs side by side."""
    runs = (f"run {before.id}", f"run {after.id}")
    rows = tuple((d.what, d.before, d.after) for d in changes(before, after))
    blocks: list[Block] = [
        Table(f"What differed from run {before.id}", ("what", *runs), rows)
        if rows
        else Pairs(((f"Nothing but times differed from run {before.id}.", ""),))
    ]
    if times := tuple(map(_time, timed(before, after))):
        heads = ("time", *runs, "ratio")
        blocks.append(Table("Times", heads, times, frozenset({1, 2, 3})))
    return blocks


def changes(before: RunRecord, after: RunRecord) -> tuple[Difference, ...]:
    """Return what differed between two runs, apart from times."""
    summed = before.data_md5.keys() & after.data_md5.keys()
    one, other = _facts(before, summed), _facts(after, summed)
    names = dict.fromkeys((*one, *other))
    pairs = ((name, one.get(name, ""), other.get(name, "")) for name in names)
    return tuple(Difference(*pair) for pair in pairs if pair[1] != pair[2])


def timed(before: RunRecord, after: RunRecord) -> Iterator[Row]:
    """Yield each time that either run has, by what took it."""
    for row in (*_walls(before, after), *_op_times(before, after)):
        if row[1:] != (None, None):
            yield row


def _facts(run: RunRecord, summed: Set[str]) -> Facts:
    verdict, found = run.verdict, run.findings
    return {
        "state": run.state.value,
        "reason": verdict.reason.value if verdict else "",
        **{f"command {c.index + 1}": _ending(c) for c in run.commands},
        **{
            f"inference {n}": " ".join(filter(None, (one.model, outcome(one))))
            for n, one in enumerate(found.inferences, 1)
        },
        "memory errors": ", ".join(map(str, found.memory_errors)),
        "GPU faults": ", ".join(fault.kind.words for fault in found.gpu_faults),
        **_inputs(run, summed),
        **_surroundings(run),
    }


def _ending(command: CommandRecord) -> str:
    how = command.reason.value if command.reason else command.outcome.value
    return how if command.exit_code is None else f"{how}, exit {command.exit_code}"


def _inputs(run: RunRecord, summed: Set[str]) -> Facts:
    """Return what went into a run; of data files the checksums that both runs have."""
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


def _surroundings(run: RunRecord) -> Facts:
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


def _walls(before: RunRecord, after: RunRecord) -> Iterator[Row]:
    times = {c.index: c.wall_s for c in before.commands}
    for command in after.commands:
        name = f"command {command.index + 1}: {titled(command.name, command.text)}"
        yield name, times.get(command.index), command.wall_s


def _op_times(before: RunRecord, after: RunRecord) -> Iterator[Row]:
    old, new = (
        [one.op_times_s for one in run.findings.inferences] for run in (before, after)
    )
    for number, ops in enumerate(zip_longest(old, new, fillvalue=()), 1):
        for op, (one, other) in enumerate(zip_longest(*ops), 1):
            yield f"inference {number}, op {op}", one, other


def _time(row: Row) -> tuple[str, ...]:
    name, before, after = row
    ratio = f"{after / before:.2f}" if before and after is not None else ""
    return name, seconds(before), seconds(after), ratio
