"""The verdict of a run: from an error, or from the commands that ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runner.core import (
    Command,
    Findings,
    GpuFault,
    GpuUse,
    JobRequest,
    Reason,
    Step,
    Verdict,
)
from runner.core.build_spec import Check
from runner.core.errors import RaiError
from runner.core.events import CommandFinished
from runner.figures import table
from runner.report import phrases
from runner.report.phrases import allowed

MOST_LISTED = 10
"""The most failed commands that a message lists."""

KEEP_GOING = "--keep-going runs the rest as well."
ASK = "resources.gpu or `--gpus 1` gives a run a GPU."
ONLY = "If it needs a command that --only left out, name that as well."


def from_error(error: RaiError) -> Verdict:
    """Return the verdict of a run that an error ended."""
    message = "; ".join(str(p) for p in error.problems)
    return Verdict(not error.reason.machinery, False, None, error.reason, message)


def bug(error: Exception) -> Verdict:
    """Return the verdict of a run that an error in rai's own code ended."""
    message = f"{type(error).__name__}: {error}"
    return Verdict(False, False, None, Reason.INTERNAL, message)


def judge(
    ended: Sequence[CommandFinished],
    request: JobRequest,
    found: Mapping[int, Findings],
    gpu: GpuUse | None,
    checks: Mapping[int, tuple[Check, ...]],
    steps: Mapping[int, Step],
) -> Verdict:
    """Return the verdict of a run from its commands, and the state of its GPUs.

    ``steps`` are all that it had, repeats too, by index.

    A limit comes before a failed command, and this before a wrong answer. An answer is
    wrong wherever the file expects another, also in a command whose failure does not
    count. Right are the answers of a run that is done and whose file expects any.

    A GPU fault matters only if its command failed, as a program may expect one and
    continue. The program reports it; that rai failed follows only from a problem that
    rai itself saw on the GPU.
    """
    failed = [e for e in ended if e.exit_code and e.reason is None]
    failed = [e for e in failed if not steps[e.index].command.continue_on_error]
    told = ((e.index, found.get(e.index, Findings()).gpu_fault) for e in failed)
    faults = {index: fault for index, fault in told if fault}
    failures = [_failures(failed, steps, faults)] if failed else []
    wrong = _wrong(steps, checks)
    passed = False if wrong else None
    others = [*failures, *wrong]
    for event in ended:
        if event.reason is not None:
            limits, step = request.spec.limits, steps[event.index]
            met = allowed(event.reason, step.command, limits, event.wall_s)
            limit = f"{_named(step.command)} {met}{_in_round(step)}".rstrip()
            message = "; ".join([limit, *others])
            return Verdict(True, False, passed, event.reason, message)
    if not failed and wrong:
        hint = _hint(request, steps[ended[-1].index], Reason.WRONG_ANSWER)
        return Verdict(True, True, False, Reason.WRONG_ANSWER, wrong[0], hint)
    if not failed:
        return Verdict(True, True, True if checks else None, Reason.DONE)
    if broken := _broken(gpu):
        message = "; ".join([*others, *broken])
        return Verdict(False, False, passed, Reason.GPU_ERROR, message)
    given = gpu is not None
    reasons = [
        faults[e.index].reason(given) if e.index in faults else Reason.COMMAND_FAILED
        for e in failed
    ]
    reason = Reason.GPU_ERROR if Reason.GPU_ERROR in reasons else reasons[0]
    hint = _hint(request, steps[failed[-1].index], reason)
    return Verdict(True, False, passed, reason, "; ".join(others), hint)


def _wrong(
    steps: Mapping[int, Step], checks: Mapping[int, tuple[Check, ...]]
) -> list[str]:
    """Describe what is wrong, up to a few, as one message; none if nothing is."""
    every = (
        (steps[at], check) for at, some in sorted(checks.items()) for check in some
    )
    wrong = [
        f"command {_own(step) + 1}, {step.command.name or _named(step.command)}"
        f"{_in_round(step)}: {phrases.mismatch(check)}"
        for step, check in every
        if not check.holds
    ]
    more = len(wrong) - MOST_LISTED
    text = "; ".join(wrong[:MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
    return [text] if text else []


def _hint(request: JobRequest, last: Step, reason: Reason) -> str:
    """Return what to do after ordinary failures, ``last`` being the last of them."""
    if last.repeats is not None:
        return ""  # it ended well in the first round
    if reason is Reason.NO_GPU and request.spec.gpu is None:
        return ASK
    if reason not in (Reason.COMMAND_FAILED, Reason.WRONG_ANSWER):
        return ""
    after = set(range(last.index + 1, len(request.spec.commands)))
    asked = request.asked
    own = not asked.title  # else of a submission or a bench, which have no such option
    stopped = own and not asked.keep_going and after - request.left_out
    needed = request.left_out - after
    return " ".join(filter(None, (KEEP_GOING * bool(stopped), ONLY * bool(needed))))


def _failures(
    failed: Sequence[CommandFinished],
    steps: Mapping[int, Step],
    faults: Mapping[int, GpuFault],
) -> str:
    """Describe the command that failed, or list the numbers of several, up to a few."""
    if len(failed) == 1:
        (event,) = failed
        fault, step = faults.get(event.index), steps[event.index]
        return (
            f"{_named(step.command)} exited {event.exit_code}{_in_round(step)}"
            + (" (a process was killed for memory)" if event.oom_killed else "")
            + (f": {fault.kind.words} ({fault.line})" if fault else "")
        )
    listed = []
    for event in failed[:MOST_LISTED]:
        how = [f"exit {event.exit_code}"]
        how += ["a process was killed for memory"] if event.oom_killed else []
        how += [fault.kind.words] if (fault := faults.get(event.index)) else []
        step = steps[event.index]
        listed.append(f"{_own(step) + 1}{_in_round(step)} ({', '.join(how)})")
    more = len(failed) - MOST_LISTED
    return f"{len(failed)} of {len(steps)} commands failed: {', '.join(listed)}" + (
        f" and {more} more" if more > 0 else ""
    )


def _named(command: Command) -> str:
    return f"`{table.one_line(command.text)}`"


def _own(step: Step) -> int:
    """Return the index in the build file of a step's command."""
    return step.index if step.repeats is None else step.repeats


def _in_round(step: Step) -> str:
    return f" in round {step.round + 1}" if step.round else ""


def _broken(gpu: GpuUse | None) -> list[str]:
    """Describe the problems that GPUs have after the run and did not have before."""
    if gpu is None:
        return []
    before = {state.uuid: state.problem for state in gpu.before}
    after = [state for state in gpu.after if state.problem]
    new = [s for s in after if s.problem != before.get(s.uuid, "")]
    return [f"{state.uuid}: {state.problem}" for state in new]
