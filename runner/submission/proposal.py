"""All that a submission will send and run, found before anything is packed."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from runner import git, milestones
from runner.core import GitState, Problem, Reason
from runner.core.errors import RaiError
from runner.core.judge_job import JudgeJob
from runner.core.milestone import Milestone, MilestoneRun
from runner.engines.base import Engine
from runner.session import Options
from runner.session.prepare import settings as read_settings
from runner.store.settings import Settings
from runner.submission import files, golden, host, planning
from runner.submission.files import Submitted
from runner.submission.golden import GoldenFiles
from runner.submission.host import SubmissionHost

MACHINE = "`rai doctor` shows which engines and GPUs are here."


class Proposal(Struct, frozen=True):
    """A submission that is checked and can be carried out.

    ``runs`` are those of the milestone that this machine can carry out, ``left_out``
    the names of the others. ``job`` is what the judge is told.
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
    commit: GitState | None = None
    warnings: tuple[Problem, ...] = ()


def propose(
    name: str,
    project: Path,
    options: Options,
    engine: Engine | None = None,
) -> Proposal:
    """Check a submission to a milestone; run nothing, and write nothing.

    ``engine`` is one that is given, in place of what the settings choose.

    Raises:
        RaiError: with every problem of the project's files, then of this machine. The
            reason is usage where a file is wrong, else what this machine lacks.
    """
    settings, warnings = read_settings(options)
    milestone = milestones.find(name, settings.milestones)
    submitted = files.look(project, milestone)
    judge = golden.read()
    problems, missing = list(submitted.problems), list[Problem]()
    reason = Reason.USAGE
    serving = None
    try:
        serving = host.find(milestone, settings.engine, options.gpus, engine)
    except RaiError as error:
        missing, reason = list(error.problems), error.reason
    job = None
    if submitted.plan is not None or not milestone.planned:
        gpu = serving.gpu if serving else None
        job, wrong = planning.job(
            milestone,
            host.architecture(gpu) if gpu else _planned_for(submitted, milestone),
            gpu.name if gpu else "",
            submitted.plan,
            submitted.digests,
        )
        problems += wrong
    if problems:
        raise RaiError(*problems, *missing, reason=Reason.USAGE)
    if serving is None:
        raise RaiError(*missing, reason=reason, advice=MACHINE)
    here = [run for run in milestone.runs if not run.gpu or serving.gpu]
    return Proposal(
        milestone,
        submitted,
        serving,
        judge,
        tuple(here),
        settings,
        options,
        job,
        tuple(run.name for run in milestone.runs if run not in here),
        git.state(submitted.project),
        tuple(warnings),
    )


def _planned_for(submitted: Submitted, milestone: Milestone) -> str:
    """Return an architecture that a plan has, to check it where there is no GPU.

    It is one of all entries of the milestone, if there is one.
    """
    plans = submitted.plan.milestones if submitted.plan else {}
    served = [entry.architectures for entry in plans.get(milestone.name, ())]
    known = [name for names in served for name in names]
    shared = (name for name in known if all(name in names for names in served))
    return next(shared, next(iter(known), ""))
