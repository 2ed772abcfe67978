"""All that a submission consists of, found before it is packed, and sent."""

from __future__ import annotations

import secrets
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from runner import pack
from runner.client.api import ServerClient
from runner.client.problems import NoServerError
from runner.core import GitState, Problem, Reason, Severity, plan_reader, quantities
from runner.core.errors import RaiError
from runner.core.measurement import JudgeJob
from runner.core.milestone import Milestone, MilestoneRun
from runner.core.wire import Submission, SubmissionRequest
from runner.engines.base import Engine
from runner.execution.handover import upload
from runner.execution.prepare import Options
from runner.execution.prepare import settings as read_settings
from runner.pack import MemberKind, git
from runner.pack.contents import Member, Survey
from runner.spec import milestones
from runner.spec.milestones import reader
from runner.store import outputs, removal
from runner.store.paths import Home
from runner.store.settings import Settings
from runner.submit import files, host, outcome, planning, staging
from runner.submit.files import Submitted, SubmittedFile
from runner.submit.host import SubmissionHost
from runner.submit.staging import GoldenFiles

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
    submitted, problems = _look(project, milestone, settings, warnings)
    judge = staging.golden(milestone)
    serving, lack = None, None
    try:
        serving = host.find(milestone, settings.engine, options.gpus, engine)
    except RaiError as error:
        lack = error
    known = serving.gpu if serving else None
    gpu = (host.architecture(known), known.name) if known else ("", "")
    job = _job(milestone, gpu, submitted, problems)
    if problems:
        missing = lack.problems if lack else ()
        raise RaiError(*problems, *missing, reason=Reason.USAGE)
    if serving is None:
        assert lack
        raise RaiError(*lack.problems, reason=lack.reason, advice=MACHINE)
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


def _look(
    project: Path, milestone: Milestone, settings: Settings, warnings: list[Problem]
) -> tuple[Submitted, list[Problem]]:
    """Return what a project sends, and what is wrong with it; add its warnings."""
    home = outputs.home_within(settings.home, project)
    submitted = files.look(project, milestone, home)
    found = submitted.problems
    warnings += [one for one in found if one.severity is Severity.WARNING]
    return submitted, [one for one in found if one.severity is Severity.ERROR]


def _job(
    milestone: Milestone,
    gpu: tuple[str, str],
    submitted: Submitted,
    problems: list[Problem],
) -> JudgeJob | None:
    """Return what the judge is told; add what is wrong with the plan."""
    if submitted.plan is None and milestone.planned:
        return None
    its = submitted.plan, submitted.digests
    job, wrong = planning.job(milestone, *gpu, *its)
    problems += wrong
    return job


def described(proposal: Proposal, now: datetime) -> str:
    """Return what is judged, where, and by when it is due; ``now`` has a zone."""
    milestone, host = proposal.milestone, proposal.host
    sent = proposal.submitted.team
    count = "1 file" if len(sent) == 1 else f"{len(sent):,} files"
    size = quantities.size(sum(file.size_bytes for file in sent))
    parts = [f"Judging {milestone.name} ({milestone.title}): {count}, {size}"]
    if host.gpu:
        parts.append(host.gpu.name)
    why = f" ({host.why})" if host.why else ""
    parts.append(f"engine {host.engine.name}{why}")
    if milestone.deadline:
        passed = ", has passed" if milestone.deadline < now else ""
        parts.append(f"deadline {milestone.deadline:%Y-%m-%d %H:%M %Z}{passed}")
    return "; ".join(parts)


class CheckedSubmission(Struct, frozen=True):
    """What is sent for a server's milestone, and what was noticed."""

    milestone: Milestone
    submitted: Submitted
    warnings: tuple[Problem, ...] = ()

    @property
    def files(self) -> tuple[SubmittedFile, ...]:
        """The files that are sent beside plan.json, each once."""
        found = (*self.submitted.required, *self.submitted.team)
        return tuple({file.path: file for file in found}.values())


def check(
    client: ServerClient, name: str, project: Path, settings: Settings
) -> CheckedSubmission:
    """Check a project by the server's own file of a milestone.

    Raises:
        RaiError: with every problem of the project's files, or there is no such
            milestone.
    """
    page, raw = client.milestones(), client.milestone_file(name)
    if len(raw) > milestones.MOST_BYTES:
        text = f"{client.entry.url} sends a milestone's file of {len(raw):,} bytes"
        raise NoServerError(text)
    file = f"{name.lower()}.yml of {client.entry.url}"
    milestone = files.placed(project, reader.parse(raw, file, name.lower()))
    warnings = list[Problem]()
    submitted, problems = _look(project, milestone, settings, warnings)
    _job(milestone, (page.architecture, page.gpu), submitted, problems)
    if problems:
        raise RaiError(*problems, reason=Reason.USAGE)
    return CheckedSubmission(milestone, submitted, tuple(warnings))


def send(
    client: ServerClient,
    checked: CheckedSubmission,
    home: Path,
    *,
    rehearse: bool,
) -> Submission:
    """Send a submission, and return its receipt.

    Raises:
        RaiError: a file changed meanwhile, or the server refuses it.
    """
    project = checked.submitted.project
    with removal.folder(Home(home).submissions) as folder:
        packed = folder / "submission.tar.zst"
        seal(checked, packed)
        sha256 = upload(client, packed, submission=True)
    commit = git.state(project)
    asked = SubmissionRequest(
        checked.milestone.name,
        sha256,
        rehearse,
        str(project)[:4096],
        commit.commit if commit else "",
    )
    return client.put_submission(secrets.token_hex(5), asked)


def seal(checked: CheckedSubmission, into: Path) -> None:
    """Pack the files of a submission, and nothing else of its project."""
    project = checked.submitted.project
    members = [
        Member(file.path, MemberKind.FILE, file.size_bytes, file.executable)
        for file in checked.files
    ]
    plan = project / plan_reader.FILE
    if checked.submitted.plan is not None:
        members.append(Member(plan_reader.FILE, MemberKind.FILE, plan.stat().st_size))
    members.sort(key=lambda member: member.name)
    found = Survey(project, (), tuple(members), (), 0)
    for _ in pack.pack(found, into, files.caps(checked.milestone)):
        pass
