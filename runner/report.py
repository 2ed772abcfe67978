"""A record as blocks that each face renders its own way; and its words for figures."""

from __future__ import annotations

from runner.model import (
    Command,
    CommandRecord,
    Findings,
    GpuProcess,
    GpuState,
    GpuUse,
    Inference,
    Limits,
    Outcome,
    ProfileTable,
    Reason,
    RunRecord,
    TimeUsage,
)
from runner.model.noun import noun


@noun
class Pairs:
    """Named values, one a line."""

    rows: tuple[tuple[str, str], ...]


@noun
class Table:
    """Rows under heads; ``right`` names the columns that hold numbers."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()


Block = Pairs | Table


def of(record: RunRecord) -> list[Block]:
    """Give the whole record, from what matters most to the details."""
    blocks: list[Block] = [Pairs(tuple(_head(record)))]
    if record.commands:
        rows = tuple(_command(c) for c in record.commands)
        heads = ("#", "command", "outcome", "exit", "wall", "CPU")
        blocks.append(Table("Commands", heads, rows, frozenset({0, 3, 4, 5})))
    return blocks + figures(record.findings)


def figures(found: Findings) -> list[Block]:
    """Give what was found in a program's output: figures, and faults of a GPU."""
    blocks: list[Block] = []
    if found.inferences:
        rows = tuple(_inference(i) for i in found.inferences)
        heads = ("model", "op times", "sum", "result")
        blocks.append(Table("Inferences", heads, rows, frozenset({1, 2})))
    if found.time_usage:
        rows = tuple(_usage(u) for u in found.time_usage)
        heads = ("user", "system", "elapsed", "peak memory")
        blocks.append(Table("Time", heads, rows, frozenset({0, 1, 2, 3})))
    blocks += [_profile(table) for table in found.profiles]
    if found.gpu_faults:
        faults = tuple((f.kind.words, f.line) for f in found.gpu_faults)
        blocks.append(Table("GPU faults", ("what", "as it was printed"), faults))
    return blocks


def listing(records: list[RunRecord], now: float) -> Table:
    """Give one line a run, newest first."""
    rows = tuple(_line(r, now) for r in records)
    heads = ("run", "when", "state", "engine", "took", "op time", "result", "project")
    return Table("", heads, rows, frozenset({4, 5}))


def seconds(value: float | None) -> str:
    """Write a time span as a person would: 0.012 s, 4.2 s, 3 min 20 s."""
    if value is None:
        return ""
    if value < 1:
        return f"{value:.3f} s"
    if value < 120:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def size(value: float | None) -> str:
    """Write a number of bytes with a binary unit."""
    if value is None:
        return ""
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def one_line(command: str) -> str:
    """Give a command's first line, and a sign of more."""
    first, more, _ = command.partition("\n")
    return f"{first} ..." if more else first


def words(reason: Reason) -> str:
    """Write a reason as a person would say it."""
    return reason.value.replace("_", " ").replace("gpu", "GPU")


def allowed(reason: Reason, command: Command, limits: Limits, wall_s: float) -> str:
    """Say which limit a command met, and what it was."""
    own = command.timeout_s is not None and command.timeout_s <= wall_s
    match reason:
        case Reason.TIME_LIMIT if own:
            return f"took longer than its own timeout, {seconds(command.timeout_s)}"
        case Reason.TIME_LIMIT:
            return f"took the run past its limit, {seconds(limits.time_s)}"
        case Reason.MEMORY_LIMIT:
            return f"needed more memory than {size(limits.memory_bytes)}"
        case Reason.OUTPUT_LIMIT:
            return f"wrote more than {size(limits.output_bytes)} to one stream"
        case Reason.DISK_LIMIT:
            return f"wrote more than {size(limits.disk_bytes)} to the build folder"
        case Reason.PIDS_LIMIT:
            return f"needed more than {limits.pids} processes"
        case _:
            return ""


def condition(state: GpuState) -> list[str]:
    """Say how a GPU stood: its clock, temperature and power, and what holds it back."""
    said = []
    if state.sm_clock_mhz is not None:
        most = state.sm_clock_most_mhz
        of = f" of {most}" if most is not None else ""
        said.append(f"{state.sm_clock_mhz}{of} MHz")
    if state.temperature_c is not None:
        said.append(f"{state.temperature_c} °C")
    if state.power_w is not None:
        said.append(f"{state.power_w:.0f} W")
    if state.throttle:
        said.append(f"held back by {', '.join(state.throttle)}")
    return [*said, state.problem] if state.problem else said


def processes(found: tuple[GpuProcess, ...]) -> str:
    """List programs, each with its process id and memory."""
    return ", ".join(
        f"{p.name or 'process'} ({p.pid}{'' if p.memory_bytes is None else ', '}"
        f"{size(p.memory_bytes)})"
        for p in found
    )


def ago(span_s: float) -> str:
    """Write how long ago something was."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if span_s >= length:
            return f"{int(span_s // length)} {unit} ago"
    return "just now"


def result(record: RunRecord) -> str:
    """Say in a word or two what came of a run."""
    if record.verdict is None:
        return ""
    last = next((i for i in reversed(record.findings.inferences)), None)
    said = outcome(last) if last else ""
    reason = "ok" if record.verdict.reason == "done" else record.verdict.reason.value
    return f"{reason}, {said}" if said else reason


def outcome(inference: Inference) -> str:
    """Say what an inference's answer was; a synthetic one never as an accuracy."""
    if inference.agreement is not None:
        return f"agreement {inference.agreement:g} (synthetic)"
    if inference.correctness is not None:
        return f"correctness {inference.correctness:g}"
    if inference.accuracy is not None:
        return f"accuracy {inference.accuracy:g}"
    return ""


def _line(record: RunRecord, now: float) -> tuple[str, ...]:
    times = [t for i in record.findings.inferences[-1:] for t in i.op_times_s]
    took = (record.ended_at or now) - record.created_at
    return (
        record.id,
        ago(now - record.created_at),
        record.state.value,
        record.engine.name if record.engine else "",
        seconds(took),
        f"{sum(times):.6f} s" if times else "",
        result(record),
        record.project,
    )


def _head(record: RunRecord) -> list[tuple[str, str]]:
    rows = [("run", record.id), ("state", record.state.value)]
    if record.verdict is not None:
        verdict = record.verdict
        rows.append(("reason", f"{verdict.reason} (exit {verdict.reason.exit_code})"))
        rows.append(("", verdict.message))
        rows.append(
            ("advice", "" if verdict.served and verdict.ran else _advice(record))
        )
    rows.append(("project", record.project))
    if record.git:
        changed = ", with changes" if record.git.dirty else ""
        rows.append(("commit", f"{record.git.commit[:12]}{changed}"))
    if record.engine:
        how = f"{record.engine.name} {record.engine.version}, {record.engine.how}"
        rows.append(("engine", how.strip(", ")))
        rows.append(("profile", str(record.profile)))
        rows.append(("not enforced", ", ".join(record.engine.unenforced)))
    if record.image:
        rows.append(("image", f"{record.image.reference} ({record.image.digest[:19]})"))
        rows.append(("", f"{record.image.action}: {record.image.why}"))
    if record.gpu:
        rows += _gpu_rows(record.gpu)
    if record.machine:
        m = record.machine
        rows.append(("machine", f"{m.host}, {m.cpu}, {m.cores} cores"))
    if record.ended_at is not None:
        rows.append(("took", seconds(record.ended_at - record.created_at)))
    rows.append(("peak memory", size(record.peak_memory_bytes)))
    rows.append(("data", ", ".join(record.data)))
    rows.append(("missing data", ", ".join(record.missing_data)))
    rows += [("warning", text) for text in record.warnings]
    if record.synthetic:
        rows.append(("note", "ran on synthetic images: agreement is not an accuracy"))
    return [(name, value) for name, value in rows if value]


def _gpu_rows(use: GpuUse) -> list[tuple[str, str]]:
    rows = []
    for gpu in use.gpus:
        memory = size(gpu.memory_bytes or None)
        about = (gpu.uuid, memory, f"driver {use.driver}" if use.driver else "")
        rows.append(("GPU", ", ".join(filter(None, (gpu.name, *about)))))
        for when, states in (("before", use.before), ("after", use.after)):
            for state in states:
                if state.uuid == gpu.uuid and (said := condition(state)):
                    others = processes(state.processes or ())
                    said += [f"others: {others}"] if others else []
                    rows.append(("", f"{when}: {', '.join(said)}"))
    rows.append(("GPU by", use.way.words))
    return rows


def _advice(record: RunRecord) -> str:
    return record.verdict.reason.advice if record.verdict else ""


def _command(command: CommandRecord) -> tuple[str, ...]:
    how = command.outcome.value
    if command.outcome is Outcome.FAILED and command.exit_code is None:
        how = "unfinished"
    if command.reason:
        how = command.reason.value
    elif command.oom_killed:
        how += ", a process was killed for memory"
    elif command.outcome is Outcome.FAILED and (fault := command.findings.gpu_fault):
        how += f", {fault.kind.words}"
    if command.why:
        how += f": {command.why}"
    return (
        str(command.index + 1),
        command.name or command.text,
        how,
        "" if command.exit_code is None else str(command.exit_code),
        seconds(command.wall_s),
        seconds(command.cpu_s),
    )


def _inference(inference: Inference) -> tuple[str, ...]:
    times = inference.op_times_s
    return (
        inference.model or "",
        " + ".join(f"{t:.6f}" for t in times),
        f"{sum(times):.6f} s" if times else "",
        outcome(inference),
    )


def _usage(usage: TimeUsage) -> tuple[str, ...]:
    peak = None if usage.max_rss_kb is None else 1024 * usage.max_rss_kb
    times = (usage.user_s, usage.system_s, usage.elapsed_s)
    return (*(f"{t:.2f} s" for t in times), size(peak))


def _profile(table: ProfileTable) -> Table:
    rows = tuple(
        (f"{r.percent:.2f}%", seconds(r.total_s), str(r.calls), r.name)
        for r in table.rows
    )
    heads = ("time", "total", "calls", "name")
    return Table(f"{table.tool}: {table.section}", heads, rows, frozenset({0, 1, 2}))
