"""What a run on a server waits for, in words."""

from __future__ import annotations

from runner.report.words import seconds
from runner.wire.remote_runs import QueueState, RemoteRun


def waits(run: RemoteRun) -> tuple[str, str]:
    """Return what a run that has not begun waits for, and for about how long.

    The second is "" where that is not known.
    """
    if run.state is not QueueState.WAITING:
        return "Starting", ""
    words = ["Waiting"]
    if run.ahead is not None:
        others = "1 run" if run.ahead == 1 else f"{run.ahead} runs"
        words.append(f"{others} before this one" if run.ahead else "it is the next one")
    if run.why:
        words.append(run.why)
    return ": ".join(words), _about(run.estimate_s)


def _about(estimate_s: float | None) -> str:
    if estimate_s is None:
        return ""
    if estimate_s < 100:
        return f"about {max(round(estimate_s, -1), 10):.0f} s"
    return f"about {seconds(60 * round(estimate_s / 60))}"
