"""rai's own lines about a run, in the original's words where they are true."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from runner.core import (
    GpuState,
    GpuUse,
    ImageAction,
    Reason,
    RunRecord,
    Verdict,
    quantities,
)
from runner.core import events as ev
from runner.core.work import NO_GPU_HERE
from runner.figures import table
from runner.report import findings as report_findings
from runner.report import phrases
from runner.spec.image_names import KEY_REPOSITORY
from runner.store.paths import RunPaths

CACHED = "Using the cached image. To rebuild: set build_image.no_cache: true."

COMMANDS_ENDED = (1, 4, 5, 6)
"""The exit codes of runs whose commands' output tells more."""

Lines = list[tuple[str, str]]
"""Lines, each with its colour."""


def lines(
    event: ev.Event, running: ev.CommandStarted | None = None, count: int = 0
) -> Lines:
    """Return the lines for an event.

    ``running`` is the latest command, ``count`` how many commands the run has.
    """
    match event:
        case ev.EngineChosen():
            return [_engine(event)]
        case ev.Warned(text):
            return [(f"Warning: {text}", "yellow")]
        case ev.DataMissing(name, directory, why):
            hint = (
                "download it from its `url` in the build file, and set RAI_DATA_DIR to"
                " the folder that contains it"
            )
            text = f"Warning: {directory}/{name} is missing: {why}; {hint}"
            return [(text, "yellow")]
        case ev.Packing():
            return [("Packing your project directory.", "yellow")]
        case ev.Packed(_, size, members):
            entries = "1 entry" if members == 1 else f"{members} entries"
            text = f"Project packed: {entries}, {quantities.size(size)}."
            return [(text, "green")]
        case ev.BuildStarted(reference, why, builder, unenforced):
            text = f"Building image {reference}: {why}; {builder}."
            missing = ", ".join(unenforced)
            more = f" Not enforced in this build: {missing}." if missing else ""
            return [(text + more, "yellow")]
        case ev.PullStarted(reference):
            return [(f"Pulling {reference}.", "yellow")]
        case ev.ImageReady(image):
            instead = f", in place of {image.asked}" if image.asked else ""
            by = f" (by {image.named_by}{instead})" if image.named_by else ""
            using = (f"Using {image.reference} as container image{by}.", "yellow")
            if image.action is ImageAction.BUILD:
                return [(f"Built image {image.reference}.", "yellow"), using]
            if image.reference.startswith(f"{KEY_REPOSITORY}:"):
                return [(CACHED, "yellow"), using]
            return [using]
        case ev.Found(_, findings) if missing := report_findings.incomplete(findings):
            return [(f"Warning: the figures are incomplete: {missing}", "yellow")]
        case ev.Waiting(why):
            return [(f"Waiting: {why}.", "yellow")]
        case ev.GpuBusy(why, wait_s):
            text = f"Waiting for a GPU, {phrases.seconds(wait_s)} at most: {why}."
            return [(text, "yellow")]
        case ev.GpuGiven(use, over=False):
            return _gpus(use)
        case ev.Starting(what):
            return [(f"Starting {what}.", "yellow")]
        case ev.CommandStarted(_, text):
            return [(f"Running {text}", "green")]
        case ev.CommandFinished() if event.exit_code or event.reason:
            return [(_failed(event, running.text if running else ""), "red")]
        case ev.CommandFinished():
            took = phrases.seconds(event.wall_s)
            which = numbered(event.index, count, running.name if running else None)
            return [(f"{which} done in {took}.", "green")]
        case ev.Checked(_, checks):
            wrong = [phrases.mismatch(check) for check in checks if not check.holds]
            return [(f"Wrong answer: {text}.", "red") for text in wrong]
        case ev.Collected(path):
            run_id = RunPaths(Path(path).parent).id
            text = f"Output files saved; get them with: rai pull {run_id}"
            return [(text, "green")]
        case _:
            return []


def _gpus(use: GpuUse) -> Lines:
    """Return a line for each GPU, and a warning of others that use it."""
    shown: Lines = []
    before = {state.uuid: state for state in use.before}
    for gpu in use.gpus:
        state = before.get(gpu.uuid, GpuState(gpu.uuid))
        about = ", ".join(filter(None, (gpu.uuid, *phrases.condition(state))))
        driver = f", driver {use.driver}" if use.driver else ""
        text = f"Using {gpu.name} ({about}){driver}, by {use.way.words}."
        shown.append((text, "cyan"))
        if state.processes:
            others = phrases.processes(state.processes)
            text = f"Warning: others use this GPU, so times may be longer: {others}"
            shown.append((text, "yellow"))
    return shown


def _engine(event: ev.EngineChosen) -> tuple[str, str]:
    engine = event.engine
    missing = ", ".join(engine.unenforced)
    enforced = f" Not enforced here: {missing}." if missing else ""
    why = f". Why: {event.why}." if event.why else "."
    if not engine.confines:
        alone = "the commands run on this machine as you, without isolation"
        return (
            f"Using the {engine.name} engine, NO SANDBOX: {alone}{why}{enforced}",
            "red",
        )
    how = ", ".join(filter(None, (f"{event.profile} profile", engine.how)))
    return f"Using the {engine.name} engine: {how}{why}{enforced}", "cyan"


def numbered(index: int, count: int, name: str | None = None) -> str:
    """Return which command it is, of how many if that is known, and its name."""
    of = f" of {count}" if count > 1 else ""
    return f"Command {index + 1}{of}" + (f" ({name})" if name else "")


def skipped(events: Sequence[ev.CommandSkipped], end: Verdict | None = None) -> Lines:
    """Return a line for each reason why commands in a row are skipped.

    Of a run that found no GPU for them, its ``end`` says more.
    """
    shown: Lines = []
    for why, group in groupby(events, lambda event: event.why):
        names = [phrases.titled(event.name, event.text) for event in group]
        if end and why == ev.NOT_REACHED and end.reason is Reason.NO_GPU:
            why = phrases.words(end.reason)
        if len(names) == 1:
            shown.append((f"Skipping {names[0]} ({why})", "yellow"))
        elif why == NO_GPU_HERE:
            text = f"Skipping {len(names)} commands that need a GPU"
            shown.append((text, "yellow"))
        else:
            shown.append((f"Skipping {len(names)} commands: {why}", "yellow"))
    return shown


def _failed(event: ev.CommandFinished, running: str) -> str:
    match event.reason:
        case None:
            how = f"ended with exit status {event.exit_code}"
        case Reason.CANCELLED:
            how = "was stopped"
        case reason:
            how = f"was ended by its {phrases.words(reason)}"
    more = "; a process was killed for memory" if event.oom_killed else ""
    after = phrases.seconds(event.wall_s)
    return f"`{table.one_line(running)}` {how} after {after}{more}."


def end_of(record: RunRecord) -> tuple[str, str]:
    """Return the line that tells how a run ended, and its colour."""
    if record.verdict is None:
        return f"Run {record.id} cannot be read.", "red"
    took_s = max(0.0, (record.ended_at or record.created_at) - record.created_at)
    finished = ev.Finished(record.verdict)
    return ending(record.id, finished, took_s, whole=False)[0]


def ending(run_id: str, finished: ev.Finished, took_s: float, *, whole: bool) -> Lines:
    """Return the last lines of a run; ``whole`` if nothing was shown before.

    The lines after a message's first are the end of a failed build's output.
    """
    verdict = finished.verdict
    message = verdict.message if whole else verdict.message.partition("\n")[0]
    again = f"See it again: rai show {run_id}"
    if verdict.reason is Reason.DONE:
        right = "; all checks passed" if verdict.passed else ""
        text = f"Run {run_id} done in {phrases.seconds(took_s)}{right}."
        return [(f"{text} {again}", "green")]
    if verdict.reason is Reason.CANCELLED:
        return [(f"Run {run_id} cancelled: {message}. {again}", "red")]
    usage = verdict.reason is Reason.USAGE
    why = message if usage else f"{phrases.words(verdict.reason)}: {message}"
    text = f"Run {run_id} ended: {why}"
    if verdict.reason.exit_code in COMMANDS_ENDED:
        again = f"See what it printed: rai logs {run_id}"
    return [(text, "red"), (f"{verdict.advice} {again}".lstrip(), "yellow")]
