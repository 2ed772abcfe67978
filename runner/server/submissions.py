"""Routes of submissions and milestones: receipts, lists, the team's choice.

A receipt is answered once the row of the submission is in the store, for bytes that
were whole and durable before.
"""

from __future__ import annotations

import re
from datetime import datetime
from functools import cached_property

from msgspec.structs import replace
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from runner import pack
from runner.core import Reason
from runner.core.milestone import Counted, Milestone
from runner.core.screen import printable
from runner.core.wire import (
    Capacity,
    MilestonePage,
    MilestoneView,
    StandingsPage,
    Submission,
    SubmissionPage,
    SubmissionRequest,
)
from runner.server import messages
from runner.server.admission import RUN_ID
from runner.server.bounds import WAIT_S
from runner.server.database.accounts import Identity
from runner.server.database.submissions import Receipt
from runner.server.decision import NOT_LOOKED
from runner.server.grading import Grading
from runner.server.messages import DeniedError, answer, decoded, nothing, refuse
from runner.server.paths import SHA256
from runner.server.requests import Site
from runner.server.runs import QueueSnapshot, RunRoutes
from runner.server.uploads import disk_full, free_bytes, size_there
from runner.spec import milestones
from runner.submit import files, host
from runner.submit import standings as course

MOST_LISTED = 1000
_NUMBER = re.compile("[1-9][0-9]{0,8}")


class SubmissionRoutes:
    """Routes of submissions, and of the milestones and standings that they are of."""

    def __init__(self, site: Site, queue: QueueSnapshot, runs: RunRoutes) -> None:
        self._site, self._queue, self._runs = site, queue, runs

    @cached_property
    def grading(self) -> Grading:
        """The grading of this server's term."""
        site = self._site
        return Grading(site.store, site.milestones, site.rules.term)

    async def put(self, request: Request, who: Identity) -> Response:
        """Answer `PUT /api/v1/submissions/{key}`: the receipt of an upload.

        A key that the team used before has the submission of then.
        """
        key = request.path_params["id"]
        if not RUN_ID.fullmatch(key):
            text = "the key of a submission is ten digits of 0-9a-f"
            raise refuse(Reason.USAGE, text)
        asked = await decoded(request, SubmissionRequest)
        facts = await self._queue.facts()
        kept, new = await self._site.in_files(self._received, who, key, asked, facts)
        if new:
            self._site.wake()
            about = {"team": kept.team, "milestone": kept.milestone}
            messages.step("submission_received", submission=kept.number, **about)
        return answer(kept, 201 if new else 200)

    async def get(self, request: Request, who: Identity) -> Response:
        """Answer `GET /api/v1/submissions/{number}`."""
        found = [await self.reached(request, who)]
        return answer((await self._site.in_files(self.grading.marked, found))[0])

    async def page(self, request: Request, who: Identity) -> Response:
        """Answer `GET /api/v1/submissions`."""
        query, grading = request.query_params, self.grading
        every = bool(query.get("all"))
        if every and not who.staff:
            text = "only staff see the submissions of all teams"
            raise refuse(Reason.NOT_ALLOWED, text)
        if every:
            await self._runs.note(who, "list", "the submissions of all teams")
        team = None if every else who.team
        wanted = team, query.get("milestone", "").lower(), MOST_LISTED
        found = await run_in_threadpool(self._site.store.submissions, *wanted)
        found = await self._site.in_files(grading.marked, found)
        if every:
            found = await self._site.in_files(grading.for_staff, found)
        return answer(SubmissionPage(tuple(found)))

    async def choose(self, request: Request, who: Identity) -> Response:
        """Answer `PUT /api/v1/submissions/{number}/chosen`, of its own team."""
        one = await self.reached(request, who)
        if one.team != who.team:
            raise refuse(Reason.NOT_ALLOWED, f"only {one.team} chooses its submission")
        chosen = await self._site.in_files(self._chosen, one)
        messages.step("submission_chosen", submission=one.number, person=who.person)
        return answer(chosen)

    async def milestones(self, request: Request, who: Identity) -> Response:
        """Answer `GET /api/v1/milestones`."""
        facts = await self._queue.facts()
        found = await self._site.in_files(self.views, who.team)
        gpu = facts.gpus[0] if facts and facts.gpus else None
        known = (gpu.name, host.architecture(gpu)) if gpu else ("", "")
        return answer(MilestonePage(tuple(found), *known))

    async def file(self, request: Request, who: Identity) -> Response:
        """Answer `GET /api/v1/milestones/{name}`, with the file as it is."""
        name, folders = request.path_params["name"], self._site.milestones
        raw, _ = await self._site.in_files(milestones.read, name, folders)
        return Response(raw, media_type="application/yaml")

    async def standings(self, request: Request, who: Identity) -> Response:
        """Answer `GET /api/v1/standings/{name}`: the leaderboards of a milestone."""

        def found() -> StandingsPage:
            milestone = self.grading.milestone(request.path_params["name"])
            return self.grading.standings(milestone, who.team, staff=who.staff)

        return answer(await self._site.in_files(found))

    async def reached(self, request: Request, who: Identity) -> Submission:
        """Return the submission that a request names, of its own team; staff reach all.

        That staff read another team's is kept among their acts.
        """
        text, row = request.path_params["id"], None
        if _NUMBER.fullmatch(text):
            row = await run_in_threadpool(self._site.store.submission, int(text))
        if row is None or (row.team != who.team and not who.staff):
            raise nothing("submission")
        if row.team != who.team:
            about = f"submission {row.number} of {row.team}/{row.person}"
            await self._runs.note(who, "read", about)
        return row

    def _received(
        self,
        who: Identity,
        key: str,
        asked: SubmissionRequest,
        facts: Capacity | None,
    ) -> tuple[Submission, bool]:
        """Return the submission of a key, and whether it is new."""
        store = self._site.store
        milestone = self.grading.milestone(asked.milestone, who.team)
        kept, new = store.submission_of(who.team, key), False
        if kept is None:
            self._check(who, asked, milestone, facts)
            term, now = self._site.rules.term, self._site.now()
            made = receipt(who, key, asked, milestone, term)
            its = who.team, key, milestone.name
            kept, new = store.add_submission(*its, term, now, made)
        known = kept.milestone, kept.sha256, kept.rehearsal
        if known != (milestone.name, asked.upload, asked.rehearsal):
            text = "another submission has this key"
            raise refuse(Reason.USAGE, text, status=409, hint="take a new key")
        return kept, new

    def _check(
        self,
        who: Identity,
        asked: SubmissionRequest,
        milestone: Milestone,
        facts: Capacity | None,
    ) -> None:
        """Refuse what this server cannot take now."""
        site = self._site
        known = SHA256.fullmatch(asked.upload)
        size = size_there(site, who.team, asked.upload) if known else None
        if size is None:
            text = "the server does not have the packed submission"
            raise refuse(Reason.USAGE, text, status=404, hint="send it again")
        if size > (most := pack.most_bytes(files.caps(milestone))):
            text = f"a submission to {milestone.name} has at most {most:,} bytes"
            raise refuse(Reason.USAGE, text, status=413)
        later = site.now() + WAIT_S
        if facts is None:
            raise refuse(Reason.BUSY, NOT_LOOKED, retry_at=later)
        has_gpu = facts.in_slurm or bool(facts.gpus)
        if not has_gpu and any(r.gpu for r in host.stages(milestone, gpu=False)):
            text = f"{milestone.name} is measured on a GPU, and this server has none"
            raise refuse(Reason.NO_GPU, text, hint="tell your staff")
        ranks = milestone.trust.ranks and not asked.rehearsal
        if ranks and (why := facts.unranked):
            text = f"{milestone.name} is ranked, and {why} on this server"
            raise refuse(Reason.NOT_ALLOWED, text, hint="tell your staff; rehearse it")
        waiting = site.store.waiting_of(who.team)
        if waiting >= (most := site.rules.role(who.role).waiting):
            text = f"{waiting} submissions of your team wait, and {most} may"
            raise refuse(Reason.RATE_LIMIT, text, retry_at=later)
        if free_bytes(site.uploads) < site.rules.least_free(submission=True):
            raise disk_full(site.now())

    def _chosen(self, one: Submission) -> Submission:
        store = self._site.store
        milestone = self.grading.milestone(one.milestone, one.team)
        if milestone.counting is not Counted.CHOSEN:
            text = f"of {one.milestone} the {milestone.counting} submission counts"
            raise refuse(Reason.USAGE, text)
        if not one.may_count:
            text = f"submission {one.number} was not accepted, so it cannot count"
            raise refuse(Reason.USAGE, text)
        if milestone.late_s_at(max(self._site.now(), store.latest_receipt())):
            raise refuse(Reason.NOT_ALLOWED, _due(milestone))
        store.choose(one)
        return self.grading.marked([replace(one, chosen=True)])[0]

    def views(self, team: str) -> list[MilestoneView]:
        """Return the milestones whose files can be read, with what a team did."""
        store, term = self._site.store, self._site.rules.term
        now = max(self._site.now(), store.latest_receipt())
        found = []
        for name in milestones.names(self._site.milestones):
            if (one := self.grading.readable(name, team)) is None:
                continue
            last = self.grading.marked(store.submissions(team, one.name, 1, term))
            used = store.attempts_used(team, one.name, term)
            found.append(course.view(one, now, used, last[0] if last else None))
        return found


def receipt(
    who: Identity, key: str, asked: SubmissionRequest, milestone: Milestone, term: str
) -> Receipt:
    """Return what makes a submission of its number, its time and attempts used before.

    It refuses one that is too late, or an attempt too many.
    """
    charged = not asked.rehearsal

    def made(number: int, at: float, used: int) -> Submission:
        if charged and milestone.closed(at):
            raise _refused(_due(milestone))
        if charged and milestone.attempts is not None and used >= milestone.attempts:
            raise _refused(f"your team used its {used} attempts at {milestone.name}")
        return Submission(
            number=number,
            key=key,
            team=who.team,
            person=who.person,
            role=who.role,
            milestone=milestone.name,
            trust=milestone.trust,
            term=term,
            sha256=asked.upload,
            project=printable(asked.project),
            commit=printable(asked.commit),
            received_at=at,
            late_s=milestone.late_s_at(at) if charged else 0.0,
            attempt=used + charged,
            attempts=milestone.attempts,
            rehearsal=asked.rehearsal,
            charged=charged,
        )

    return made


def _refused(text: str) -> DeniedError:
    return refuse(Reason.NOT_ALLOWED, text, hint="`--rehearse` tries without counting")


def _due(milestone: Milestone) -> str:
    due = milestone.deadline or datetime.max
    return f"{milestone.name} was due {due:%Y-%m-%d %H:%M %Z}"
