"""What a submission will send and run, as blocks to read before one agrees. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from runner import report
from runner.core import quantities
from runner.core.milestone import Milestone, Trust
from runner.report import Block, Pairs, Table
from runner.submission.proposal import Proposal

TRUST = {
    Trust.RANKED: "ranked: the judge measures and checks every number; no program of"
    " yours runs, only your kernels",
    Trust.CHECKED: "checked: your code runs by itself, and the judge checks what it"
    " returns; no time counts",
    Trust.RECORDED: "recorded: what your own program prints",
}
MOST_FILES = 20
"""The most files that are listed; the rest are counted."""


def proposed(proposal: Proposal, now: datetime) -> list[Block]:
    """Return what is sent and run, and what it counts for; ``now`` has a zone."""
    return [Pairs(tuple(_head(proposal, now))), _sent(proposal), _runs(proposal)]


def _head(proposal: Proposal, now: datetime) -> Iterator[tuple[str, str]]:
    milestone, host = proposal.milestone, proposal.host
    yield "milestone", f"{milestone.name}: {milestone.title}"
    yield "deadline", due(milestone, now)
    if milestone.attempts is not None:
        yield "attempts", f"{milestone.attempts}; a rehearsal takes none"
    yield "trust", TRUST[milestone.trust]
    if milestone.trust is not Trust.RECORDED:
        yield "class", milestone.accuracy
    why = f" ({host.why})" if host.why else ""
    yield "engine", f"{host.engine.name}, strict profile, no network{why}"
    if host.engine.name == "docker":
        targets = ", ".join(dict.fromkeys(run.target for run in proposal.runs))
        whose = "project" if proposal.runs[0].own_image else "judge"
        yield "image", f"the {whose}'s Dockerfile, target {targets}"
    if host.gpu:
        yield "GPU", f"{host.gpu.name} ({host.gpu.uuid}), {host.architecture}"
    for name in proposal.left_out:
        yield "left out", f"{name}: it needs a GPU, and there is none here"
    yield "project", str(proposal.submitted.project)


def _sent(proposal: Proposal) -> Table:
    sent = proposal.submitted
    found = [*sent.required, *([sent.plan_file] if sent.plan_file else []), *sent.team]
    rows = [(report.size(file.size_bytes), file.path) for file in found[:MOST_FILES]]
    if (more := len(found) - MOST_FILES) > 0:
        rows.append(("", f"... and {more:,} more"))
    count = "1 file" if len(found) == 1 else f"{len(found):,} files"
    total = report.size(sum(file.size_bytes for file in found))
    title = f"Files of the submission: {count}, {total}"
    return Table(title, ("size", "name"), tuple(rows), frozenset({0}))


def _runs(proposal: Proposal) -> Table:
    rows = tuple(
        (
            run.name,
            "GPU" if run.gpu else "",
            quantities.duration_text(run.limits.time_s),
            command,
        )
        for run in proposal.runs
        for command in run.commands
    )
    return Table("Runs", ("run", "needs", "at most", "command"), rows)


def due(milestone: Milestone, now: datetime) -> str:
    """Return a milestone's deadline, and how long it is until then."""
    if milestone.deadline is None:
        return "none"
    left = milestone.deadline - now
    when = f"{milestone.deadline:%Y-%m-%d %H:%M %Z}".rstrip()
    if left < timedelta(0):
        return f"{when}, passed {_span(-left)} ago; a rehearsal is still possible"
    return f"{when}, in {_span(left)}"


def _span(time: timedelta) -> str:
    if time < timedelta(days=2):
        return report.seconds(float(round(time.total_seconds())))
    return f"{time.days} days"
