"""Check a project as a server's milestone asks, and send what a submission is."""

from __future__ import annotations

import secrets
from pathlib import Path

from msgspec import Struct

from runner import archive, git, milestones
from runner.archive import MemberKind
from runner.archive.contents import Member, Survey
from runner.core import Problem, Reason, Severity, plan_reader
from runner.core.errors import RaiError
from runner.core.milestone import Milestone
from runner.remote.api import ServerClient
from runner.remote.problems import NoServerError
from runner.session.remote import upload
from runner.store import outputs, scratch
from runner.store.paths import Home
from runner.store.settings import Settings
from runner.submission import files, planning
from runner.submission.files import Submitted, SubmittedFile
from runner.wire.submissions import Submission, SubmissionRequest


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
    parsed = milestones.reader.parse(raw, file, name.lower())
    milestone = files.placed(project, parsed)
    home = outputs.home_within(settings.home, project)
    submitted = files.look(project, milestone, home)
    found = submitted.problems
    problems = [one for one in found if one.severity is Severity.ERROR]
    if submitted.plan is not None or not milestone.planned:
        gpu, its = (page.architecture, page.gpu), (submitted.plan, submitted.digests)
        problems += planning.job(milestone, *gpu, *its)[1]
    if problems:
        raise RaiError(*problems, reason=Reason.USAGE)
    warnings = tuple(one for one in found if one.severity is Severity.WARNING)
    return CheckedSubmission(milestone, submitted, warnings)


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
    with scratch.folder(Home(home).submissions) as folder:
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
        size = plan.stat().st_size
        members.append(Member(plan_reader.FILE, MemberKind.FILE, size))
    members.sort(key=lambda member: member.name)
    found = Survey(project, (), tuple(members), (), 0)
    for _ in archive.pack(found, into, files.caps(checked.milestone)):
        pass
