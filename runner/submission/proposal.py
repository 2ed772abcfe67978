"""All that a submission consists of and runs, found before anything is packed."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from msgspec import Struct

from runner import git, milestones, report
from runner.core import GitState, Problem, Reason, Severity
from runner.core.errors import RaiError
from runner.core.judge_job import JudgeJob
from runner.core.milestone import Milestone, MilestoneRun
from runner.engines.base import Engine
from runner.session import Options
from runner.session.prepare import settings as read_settings
from runner.store import outputs
from runner.store.settings import Settings
from runner.submission import files, host, outcome, planning, staging
from runner.submission.files import Submitted
from runner.submission.host import SubmissionHost
from runner.submission.staging import GoldenFiles

MACHINE = "`rai doctor` shows the engines and GPUs of this machine."


class Proposal(Struct, frozen=True):
    """A submission that is checked and can be judged here.

    ``runs`` are those of the milestone that this machine can run, ``left_out`` the
    names of the others. ``job`` is what the judge is told, ``uncounted`` why the
    outcome does not count.
    """

    milestone: Milestone
    submitted: Submitted
    host: SubmissionHost
    golden: GoldenFiles
    runs: tuple[MilestoneRun, ...]
    settings: Settings
    options: Options
    job: JudgeJob | None = None
    left_out: tuple[str, ...] = ()
    uncounted: tuple[str, ...] = ()
    commit: GitState | None = None
    warnings: tuple[Problem, ...] = ()


def propose(
    name: str,
    project: Path,
    options: Options,
    engine: Engine | None = None,
    *,
    rehearse: bool = False,
) -> Proposal:
    """Check a submission to a milestone; run nothing, and write nothing.

    ``engine`` is one that is given, in place of what the settings choose. With
    ``rehearse`` the outcome will not count.

    Raises:
        RaiError: with every problem of the project's files, then of this machine. The
            reason is usage where a file is wrong, else what this machine lacks.
    """
    settings, warnings = read_settings(options)
    milestone = files.placed(project, milestones.find(name, settings.milestones))
    home = outputs.home_within(settings.home, project)
    submitted = files.look(project, milestone, home)
    judge = staging.golden(milestone)
    found = submitted.problems
    problems = [one for one in found if one.severity is Severity.ERROR]
    warnings += [one for one in found if one.severity is Severity.WARNING]
    missing = list[Problem]()
    reason = Reason.USAGE
    serving = None
    try:
        serving = host.find(milestone, settings.engine, options.gpus, engine)
    except RaiError as error:
        missing, reason = list(error.problems), error.reason
    job = None
    if submitted.plan is not None or not milestone.planned:
        known = serving.gpu if serving else None
        gpu = (host.architecture(known), known.name) if known else ("", "")
        its = submitted.plan, submitted.digests
        job, wrong = planning.job(milestone, *gpu, *its)
        problems += wrong
    if problems:
        raise RaiError(*problems, *missing, reason=Reason.USAGE)
    if serving is None:
        raise RaiError(*missing, reason=reason, advice=MACHINE)
    here = host.stages(milestone, gpu=serving.gpu is not None)
    return Proposal(
        milestone,
        submitted,
        serving,
        judge,
        here,
        settings,
        options,
        job,
        tuple(run.name for run in milestone.runs if run not in here),
        (*((outcome.REHEARSED,) if rehearse else ()), *serving.uncounted),
        git.state(submitted.project),
        tuple(warnings),
    )


def described(proposal: Proposal, now: datetime) -> str:
    """Return what is judged, where, and by when it is due; ``now`` has a zone."""
    milestone, host = proposal.milestone, proposal.host
    sent = proposal.submitted.team
    count = "1 file" if len(sent) == 1 else f"{len(sent):,} files"
    size = report.size(sum(file.size_bytes for file in sent))
    parts = [f"Judging {milestone.name} ({milestone.title}): {count}, {size}"]
    if host.gpu:
        parts.append(host.gpu.name)
    why = f" ({host.why})" if host.why else ""
    parts.append(f"engine {host.engine.name}{why}")
    if milestone.deadline:
        passed = ", has passed" if milestone.deadline < now else ""
        parts.append(f"deadline {milestone.deadline:%Y-%m-%d %H:%M %Z}{passed}")
    return "; ".join(parts)
