"""How a run went: from an error, or from the commands that ended. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runner import report
from runner.core import (
    Command,
    Findings,
    GpuUse,
    JobRequest,
    Reason,
    Verdict,
)
from runner.core.errors import RaiError
from runner.core.events import CommandFinished

MACHINERY = (10, 11)
"""The exit statuses of what is not the user's: rai's own failure, and no engine."""


def refused(error: RaiError) -> Verdict:
    """Say how a run went that an error ended: its own, or one of the machinery."""
    message = "; ".join(str(p) for p in error.problems)
    served = error.reason.exit_code not in MACHINERY
    return Verdict(served, False, None, error.reason, message)


def judge(
    ended: Sequence[CommandFinished],
    request: JobRequest,
    found: Mapping[int, Findings],
    gpu: GpuUse | None,
) -> Verdict:
    """Say how a run went whose machinery worked, or only its GPU did not.

    A GPU fault counts where its command failed: a program may expect one and go on. It
    is the program's word; only what rai itself saw of the GPU says that rai served ill.
    """
    commands = request.spec.commands
    for event in ended:
        if event.reason is not None:
            limits, command = request.spec.limits, commands[event.index]
            allowed = report.allowed(event.reason, command, limits, event.wall_s)
            message = f"{_named(command)} {allowed}".rstrip()
            return Verdict(True, False, None, event.reason, message)
    failed = [e for e in ended if e.exit_code]
    failed = [e for e in failed if not commands[e.index].continue_on_error]
    if not failed:
        return Verdict(True, True, None, Reason.DONE)
    faults = [found.get(e.index, Findings()).gpu_fault for e in failed]
    given = gpu is not None
    reasons = [f.reason(given) if f else Reason.COMMAND_FAILED for f in faults]
    said = [
        f"{_named(commands[e.index])} exited {e.exit_code}"
        + (" (a process was killed for memory)" if e.oom_killed else "")
        + (f": {fault.kind.words} ({fault.line})" if fault else "")
        for e, fault in zip(failed, faults, strict=True)
    ]
    if broken := _broken(gpu):
        message = "; ".join([*said, *broken])
        return Verdict(False, False, None, Reason.GPU_ERROR, message)
    reason = Reason.GPU_ERROR if Reason.GPU_ERROR in reasons else reasons[0]
    return Verdict(True, False, None, reason, "; ".join(said))


def _named(command: Command) -> str:
    return f"`{report.one_line(command.text)}`"


def _broken(gpu: GpuUse | None) -> list[str]:
    """Say what befell a GPU in the run, whatever the program made of it."""
    if gpu is None:
        return []
    known = {state.uuid: state.problem for state in gpu.before}
    troubled = [state for state in gpu.after if state.problem]
    new = [s for s in troubled if s.problem != known.get(s.uuid, "")]
    return [f"{state.uuid}: {state.problem}" for state in new]
