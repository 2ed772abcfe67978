"""A record as blocks (`rai show`), and a list of records (`rai runs`)."""

from __future__ import annotations

from collections.abc import Sequence, Set
from pathlib import PurePath
from typing import TYPE_CHECKING

from msgspec import Struct

from runner.core import (
    CommandRecord,
    EngineFacts,
    GpuUse,
    ImageAction,
    Outcome,
    Reason,
    RunRecord,
)
from runner.core.quantities import brief, size
from runner.figures import table as figures
from runner.figures.table import NetworkFigures, cut
from runner.report.blocks import Block, Pairs, Table
from runner.report.ending import listed, sampled
from runner.report.findings import profile_files, shown
from runner.report.phrases import (
    commit,
    condition,
    date,
    day,
    elsewhere,
    in_round,
    named_by,
    processes,
    seconds,
    titled,
    words,
)

if TYPE_CHECKING:
    from runner.report.document.nouns import RunSummary

LOCAL = "local"
LONGEST_NAME = 300
"""The most characters of a name in a list of runs, each of which is one line."""

SHORT = 8
"""How many digits of a commit tell it from others in a table."""

_ANSWERS = {True: "right: as the build file expects", False: "wrong", None: ""}
HEADS = (
    *("run", "tag", "date", "branch", "commit", "engine", "took", "op time", "size"),
    *("result", "project", "note"),
)


def of(
    record: RunRecord,
    tag: str = "",
    away: str = "",
    note: str = "",
    about: str | None = None,
) -> list[Block]:
    """Return the whole record as blocks, the most important first.

    ``away`` is the machine that runs it, if it cannot be seen from this one, or
    a server; ``about`` is what to say of the run there, None for a machine.
    """
    if about is None:
        about = elsewhere(record.id, away) if away else ""
    blocks: list[Block] = [Pairs(tuple(_head(record, tag, away, note, about)))]
    if record.commands:
        rows = tuple(_command(c) for c in listed(record))
        heads = ("#", "command", "outcome", "exit", "wall", "CPU")
        blocks.append(Table("Commands", heads, rows, frozenset({0, 3, 4, 5})))
    blocks += sampled(record)
    blocks += expected(listed(record))
    files = profile_files(record)
    networks, usages = figures.networks(record), figures.usages(record)
    return [*blocks, *shown(record.findings, networks, usages, files)]


def expected(commands: Sequence[CommandRecord]) -> list[Block]:
    """Return what the build file expects, and what the commands printed."""
    rows = tuple(
        (
            str(command.number),
            check.expected,
            check.found or "not printed",
            "right" if check.holds else "wrong",
            f"{check.place.file_name}:{check.place.line}" if check.place else "",
        )
        for command in commands
        for check in command.checks
    )
    heads = ("#", "expected", "found", "answer", "at")
    return [Table("Expected output", heads, rows, frozenset({0}))] if rows else []


class Listed(Struct, frozen=True):
    """A run, with its tag, the space that it takes on disk once it ended, its note.

    ``away`` is a machine that runs it and cannot be seen from this one, or the
    server that has it alone. ``whose`` is a run of somebody else there.
    """

    record: RunRecord
    tag: str
    size_bytes: int | None
    note: str = ""
    away: str = ""
    whose: str = ""


def table(
    found: Sequence[Listed], now: float, here: str = "", *, commits: bool = False
) -> Table:
    """Return a table with a row for each run.

    It has the projects' names unless all are ``here``, the folder of one project, and
    none is of a submission; the engines unless all are the same; and the notes if there
    is one. ``commits`` adds the commits, and the branches unless all are the same.
    """
    projects = {one.record.project for one in found}
    shared = projects == {here} and not any(one.record.title for one in found)
    engines = {one.record.engine and one.record.engine.name for one in found}
    branches = {_branch(one.record) for one in found}
    left_out = {
        "project": shared,
        "engine": len(engines) == 1,
        "note": not any(one.note for one in found),
        "branch": len(branches) == 1 or not commits,
        "commit": not commits,
    }
    shown = [head for head in HEADS if not left_out.get(head)]
    rows = []
    for one in found:
        row = dict(zip(HEADS, _row(one, now, projects), strict=True))
        rows.append(tuple(row[head] for head in shown))
    whole = frozenset(n for n, head in enumerate(shown) if head in _RIGHT_ALIGNED)
    asides = frozenset(n for n, head in enumerate(shown) if head == "note")
    return Table("", tuple(shown), tuple(rows), whole, asides=asides)


def _row(one: Listed, now: float, projects: Set[str]) -> tuple[str, ...]:
    run = one.record
    networks = figures.networks(run, layers=False)
    return (
        *(run.id, one.tag, day(run.created_at, now), _branch(run), _commit(run)),
        run.engine.name if run.engine else "",
        seconds(max(0.0, (run.ended_at or now) - run.created_at)),
        brief(op_time_s(networks)),
        size(one.size_bytes),
        _standing(one, networks),
        named(_project(run.project, projects), run.title),
        one.note,
    )


_RIGHT_ALIGNED = frozenset({"date", "took", "op time", "size"})
"""What is aligned to the right, and so never wrapped."""


def _branch(record: RunRecord) -> str:
    return record.git.branch[:LONGEST_NAME] if record.git else ""


def _commit(record: RunRecord) -> str:
    """Return the beginning of a commit, with a plus if the files differed from it."""
    if record.git is None:
        return ""
    return record.git.commit[:SHORT] + ("+" if record.git.dirty else "")


def _project(path: str, projects: Set[str]) -> str:
    """Return a project's name: its folder's, or its path if another has that name."""
    name = PurePath(path).name
    same = [other for other in projects if PurePath(other).name == name]
    return name if len(same) == 1 else path


def result(record: RunRecord, networks: Sequence[NetworkFigures]) -> str:
    """Return the result of a run in a word or two."""
    if record.verdict is None:
        return ""
    answer = networks[-1].result if networks else ""
    match record.verdict.reason:
        case Reason.DONE:
            reason = "ok"
        case Reason.WRONG_ANSWER:
            reason = "wrong"
        case other:
            reason = words(other)
    return f"{reason}, {answer}" if answer else reason


def op_time_s(networks: Sequence[NetworkFigures]) -> float | None:
    """Return the Op Times of a run's last network, as a list shows them.

    One that ran under a profiler counts only if all did.
    """
    timed = [one for one in networks if one.op_time_s]
    last = ([one for one in timed if not one.under] or timed)[-1:]
    return last[0].op_time_s.median if last and last[0].op_time_s else None


def named(project: str, title: str) -> str:
    """Return a project with what its run was of a submission, or their beginning."""
    name = f"{project} ({title})" if title else project
    return cut(name, LONGEST_NAME)


def _standing(one: Listed, networks: Sequence[NetworkFigures]) -> str:
    """Return the result or state of a run, where it is, and whose."""
    found = result(one.record, networks) or one.record.state.value
    where = f"{found} on {one.away}" if one.away else found
    return f"{where}, {one.whose}" if one.whose else where


def _head(
    record: RunRecord, tag: str, away: str, note: str, about: str
) -> list[tuple[str, str]]:
    ended, took = record.ended_at, None
    if ended is not None:
        took = max(0.0, ended - record.created_at)
    rows = [
        ("run", record.id),
        ("replay of", record.replays),
        ("tag", tag),
        ("note", note),
        ("state", f"{record.state} on {away}" if away else record.state.value),
        ("", about),
    ]
    if verdict := record.verdict:
        done = verdict.reason is Reason.DONE
        rows += [
            ("reason", f"{verdict.reason} (exit {verdict.reason.exit_code})"),
            ("", verdict.message),
            ("advice", "" if done else verdict.advice),
            ("answers", _ANSWERS[verdict.passed]),
        ]
    rows += [
        ("project", record.project),
        ("part of", record.title),
        ("date", date(record.created_at)),
        ("rounds", _rounds(record)),
        ("measured beside", record.beside),
        ("only", ", ".join(record.only)),
        ("variables", ", ".join(f"{name}=***" for name in record.env_given)),
        ("commit", commit(record.git)),
        ("took", seconds(took)),
        *where(record),
        ("missing data", ", ".join(record.missing_data)),
        *(("warning", text) for text in record.warnings),
    ]
    if record.synthetic:
        rows.append(("note", "ran on synthetic images: agreement is not an accuracy"))
    return [(name, value) for name, value in rows if value]


def _rounds(record: RunRecord) -> str:
    if record.repeat > 1:
        return f"{record.rounds} of {record.repeat}"
    return str(record.rounds) if record.rounds > 1 else ""


def where(run: RunRecord | RunSummary) -> list[tuple[str, str]]:
    """Return the machine, the GPUs, the engine and the image of a run, and its data."""
    rows = []
    if machine := run.machine:
        about = (machine.host, machine.cpu, f"{machine.cores} cores")
        rows.append(("machine", ", ".join((*about, size(machine.memory_bytes)))))
        rows += [("system", machine.system), ("rai", machine.rai)]
    if run.engine:
        rows += [*_engine(run.engine), ("profile", str(run.profile))]
        if run.image and run.image.action is ImageAction.BUILD:
            missing = ", ".join(run.engine.unenforced_in_builds)
            rows.append(("not enforced in the build", missing))
    if image := run.image:
        cuda = f", CUDA {image.cuda}" if image.cuda else ""
        rows += [("image", f"{image.shown}{cuda}"), ("", named_by(image))]
        rows.append(("", f"{image.action}: {image.why}"))
    rows += _gpus(run.gpu) if run.gpu else []
    rows.append(("peak memory", size(run.peak_memory_bytes)))
    return [*rows, ("data", ", ".join(run.data))]


def _engine(engine: EngineFacts) -> list[tuple[str, str]]:
    """Return what an engine is, and what it does not enforce.

    The local engine has no version of its own; the one that is known is its sandbox's.
    """
    facts = (f"{engine.name} {engine.version}".rstrip(), engine.how)
    if engine.name == LOCAL:
        facts = (engine.name, f"{engine.how} {engine.version}".strip())
    named = ", ".join(filter(None, facts))
    return [("engine", named), ("not enforced", ", ".join(engine.unenforced))]


def _gpus(use: GpuUse) -> list[tuple[str, str]]:
    """Return the GPUs of a run with their states before and after it."""
    rows = []
    for gpu in use.gpus:
        memory = size(gpu.memory_bytes or None)
        about = (gpu.uuid, memory, f"driver {use.driver}" if use.driver else "")
        rows.append(("GPU", ", ".join(filter(None, (gpu.name, *about)))))
        for when, states in (("before", use.before), ("after", use.after)):
            for state in states:
                if state.uuid == gpu.uuid and (found := condition(state)):
                    others = processes(state.processes or ())
                    found += [f"others: {others}"] if others else []
                    rows.append(("", f"{when}: {', '.join(found)}"))
    rows.append(("GPU by", use.way.words))
    return rows


def _command(command: CommandRecord) -> tuple[str, ...]:
    how = command.outcome.value
    if command.reason:
        how = command.reason.value
    elif command.oom_killed:
        how += ", a process was killed for memory"
    elif command.outcome is Outcome.FAILED and (fault := command.findings.gpu_fault):
        how += f", {fault.kind.words}"
    if command.why:
        how += f": {command.why}"
    return (
        str(command.number),
        titled(command.name, command.text),
        how + in_round(command),
        "" if command.exit_code is None else str(command.exit_code),
        seconds(command.wall_s),
        seconds(command.cpu_s),
    )
