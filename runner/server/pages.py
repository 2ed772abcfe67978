"""The pages of a server: what is mine, standings, and the grid of the staff.

A browser logs in by a link with a one-time code, which `rai web` prints. Its token is
in a cookie that no script can read and no other site can send; a change is taken only
from a page of this server. What a run made is shown as text, or in a sandbox.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import parse_qs

from anyio import CapacityLimiter, Semaphore, to_thread
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from runner import __version__
from runner.core import Problem, Reason
from runner.core.addresses import is_loopback
from runner.core.errors import Cancel, EngineError, UsageError
from runner.core.milestone import Counted
from runner.core.screen import printable
from runner.core.wire import Decision, Refusal
from runner.execution.slurm_programs import OF_SBATCH
from runner.server import bounds, messages, views
from runner.server.database.accounts import AuditEntry, Identity
from runner.server.downloads import FilePart, FileRoutes, FilesAnswer
from runner.server.messages import read, refuse
from runner.server.requests import Site, context_of
from runner.server.runs import QueueSnapshot, RunRoutes
from runner.server.submissions import SubmissionRoutes
from runner.spec import milestones
from runner.system import process

if TYPE_CHECKING:
    import jinja2

COOKIE = "rai"
SESSION_S = 12 * 3600.0
MOST_WHY = 500
SHOWN_RUNS = 25
SHOWN_SUBMISSIONS = 50

MAKE_S = 60.0
"""How long the page of a report or of a timeline may take."""

MAKE_KIB = 2 << 20
"""How much memory making it may take, as ulimit counts it."""

MAKING = OF_SBATCH | {"LD_LIBRARY_PATH", "PATH", "PYTHONPATH", "TZ"}
"""What making it has of the server's environment."""

ASSETS = Path(__file__).parent / "assets"
COLOURS = ASSETS.parent.parent / "report/assets/base.css"
TYPES = {"rai.css": "text/css", "rai.js": "text/javascript"}

_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self';"
    " img-src 'self' data:; form-action 'self'; frame-ancestors 'none';"
    " base-uri 'none'"
)
_SANDBOX = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline';"
    " style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
)
"""For a page that a run's files are in: no origin, no cookie, nothing is loaded. The
page's own policy allows only the scripts that rai wrote, by their hashes."""

_HEADERS = {
    "content-security-policy": _POLICY,
    # Without it a browser names no origin where it sends a form.
    "referrer-policy": "same-origin",
}

_HTML = {"content-type": "text/html; charset=utf-8"}

Reply = Callable[[Request, Identity], Awaitable[Response]]
Redeem = Callable[[Request, str, str, float], Awaitable[tuple[str, Identity]]]


class PageRoutes:
    """The routes of the pages; ``redeem`` exchanges a code for a token."""

    def __init__(
        self,
        site: Site,
        queue: QueueSnapshot,
        runs: RunRoutes,
        submissions: SubmissionRoutes,
        redeem: Redeem,
    ) -> None:
        self._site, self._queue, self._runs = site, queue, runs
        self._submissions, self._redeem = submissions, redeem
        self._files = FileRoutes(site, runs)
        self._making = CapacityLimiter(1)
        self._of_team = defaultdict[str, Semaphore](lambda: Semaphore(1))
        """Held while a page of a run is made for a team and sent: it waits for itself
        alone, whatever it asks for, and others for one page of each team at most."""

    def routes(self) -> list[Route]:
        """Return all of them."""
        asked: dict[str, Reply] = {
            "/": self.mine,
            "/standings": self.standings,
            "/standings/{name}": self.standings,
            "/runs/{id}": self.run,
            "/runs/{id}/output": self.output,
            "/runs/{id}/report": self.made,
            "/runs/{id}/timeline": self.made,
            "/runs/{id}/build": self._files.build,
            "/submissions/{id}": self.submission,
            "/staff": self.staff,
        }
        sent: dict[str, Reply] = {
            "/runs/{id}/cancel": self.cancel,
            "/submissions/{id}/choose": self.choose,
            "/submissions/{id}/decide": self.decide,
            "/staff/extend": self.extend,
            "/leave": self.leave,
        }
        return [
            Route("/enter", self.invited, methods=["GET"]),
            Route("/enter", self.enter, methods=["POST"]),
            *(Route(f"/{name}", self._asset, methods=["GET"]) for name in TYPES),
            *(Route(path, self._page(reply)) for path, reply in asked.items()),
            *(
                Route(path, self._page(reply), methods=["POST"])
                for path, reply in sent.items()
            ),
        ]

    async def invited(self, request: Request) -> Response:
        """Answer `GET /enter?code=...`: a page that sends the code at once.

        What looks at a link for a preview of it leaves the code good.
        """
        return self._shown("enter.html", code=request.query_params.get("code", ""))

    async def enter(self, request: Request) -> Response:
        """Answer `POST /enter`: a session, for a `code` that is good once."""
        context_of(request).page = self._refusal
        _own_page(request)
        given = await _form(request, "code")
        token, _ = await self._redeem(request, given["code"], "browser", SESSION_S)
        at = request.url  # of HTTP alone it is at a loopback address, or behind a proxy
        secure = at.scheme == "https" or not is_loopback(at.hostname or "")
        done = RedirectResponse("/", 303)
        done.set_cookie(COOKIE, token, secure=secure, httponly=True, samesite="strict")
        return done

    async def leave(self, request: Request, who: Identity) -> Response:
        """Answer `POST /leave`: the session is over."""
        revoke = self._site.store.revoke
        await self._site.in_files(revoke, who.token_id, self._site.now())
        self._site.forget(who.token_id)
        left = self._shown("left.html")
        left.delete_cookie(COOKIE)
        return left

    async def mine(self, request: Request, who: Identity) -> Response:
        """Answer `GET /`: a team's milestones, queue, runs and submissions."""
        if same := self._unchanged(request, who):
            return same
        site, grading = self._site, self._submissions.grading
        await self._queue.look()
        tag = self._tag(who)
        rows = list(self._queue.rows.values())

        def found() -> Response:
            some = site.store.submissions(who.team, limit=SHOWN_SUBMISSIONS)
            runs = site.store.runs(who.team, None, "", SHOWN_RUNS)
            return self._shown(
                "mine.html",
                who,
                queue=views.queue(rows, site.decision(), who, site.now()),
                milestones=self._submissions.views(who.team),
                submissions=grading.marked(some),
                runs=[self._queue.shown(row, who) for row in runs],
            )

        return await self._tagged(tag, found)

    async def standings(self, request: Request, who: Identity) -> Response:
        """Answer `GET /standings/{name}`, and of the first whole milestone.

        Staff, who may show it to all, see teams' own names only with `?names`.
        """
        if same := self._unchanged(request, who):
            return same
        grading, tag = self._submissions.grading, self._tag(who)

        def found() -> Response:
            names = milestones.names(self._site.milestones)
            whole = (name for name in names if grading.readable(name))
            name = request.path_params.get("name") or next(whole, "")
            milestone = grading.milestone(name, who.team)
            named = who.staff and "names" in request.query_params
            page = grading.standings(milestone, who.team, staff=named)
            due = milestone.deadline.timestamp() if milestone.deadline else None
            boards = [views.board(one) for one in page.boards]
            return self._shown(
                *("standings.html", who),
                names=list(names),
                named=named,
                page=page,
                boards=boards,
                due=due,
            )

        return await self._tagged(tag, found)

    async def run(self, request: Request, who: Identity) -> Response:
        """Answer `GET /runs/{id}`: how a run stands, and its output as it comes."""
        context_of(request).frequent = True
        row = await self._runs.reached(request, who)
        run = self._queue.shown(row, who)
        output = await self._site.in_files(views.output, self._site.runs, row, None)
        return self._shown("run.html", who, run=run, output=output)

    async def output(self, request: Request, who: Identity) -> Response:
        """Answer `GET /runs/{id}/output?after=N`: what came since, as JSON."""
        context_of(request).frequent = True
        row = await self._runs.reached(request, who)
        after = request.query_params.get("after", "")
        if not (after.isascii() and after.isdecimal() and len(after) < 16):
            raise refuse(Reason.USAGE, "`after` is a number")
        make = views.output
        found = await self._site.in_files(make, self._site.runs, row, int(after))
        return messages.answer(found)

    async def made(self, request: Request, who: Identity) -> Response:
        """Answer `GET /runs/{id}/report` and `.../timeline`, in a sandbox."""
        row = await self._runs.reached(request, who)
        kind = request.url.path.rpartition("/")[2]
        home = self._site.runs.paths(row.id).root.parent.parent
        context_of(request).long = True
        await read(request, 0)  # behind it comes what tells that the client has gone
        own, cancel = self._of_team[who.team], Cancel()
        with ExitStack() as held:
            await own.acquire()
            held.callback(own.release)
            if await request.is_disconnected():
                raise ClientDisconnect
            held.callback(cancel.request)
            make = partial(_made, kind, row.id, home, cancel)
            page = held.enter_context(
                await to_thread.run_sync(
                    make, limiter=self._making, abandon_on_cancel=True
                )
            )
            parts = [FilePart(page, 0, os.fstat(page.fileno()).st_size)]
            headers = _HEADERS | {"content-security-policy": _SANDBOX, **_HTML}
            close = held.pop_all().close
            return FilesAnswer(self._site, b"", parts, close, headers=headers)

    async def cancel(self, request: Request, who: Identity) -> Response:
        """Answer `POST /runs/{id}/cancel`."""
        await self._runs.cancel(request, who)
        return RedirectResponse(f"/runs/{request.path_params['id']}", 303)

    async def submission(self, request: Request, who: Identity) -> Response:
        """Answer `GET /submissions/{id}`."""
        context_of(request).frequent = True
        one = await self._submissions.reached(request, who)
        grading = self._submissions.grading

        def found() -> Response:
            marked = grading.marked([one])
            shown = (grading.for_staff(marked) if who.staff else marked)[0]
            milestone = grading.readable(one.milestone)
            chosen = bool(milestone and milestone.counting is Counted.CHOSEN)
            return self._shown("submission.html", who, one=shown, chosen=chosen)

        return await self._site.in_files(found)

    async def choose(self, request: Request, who: Identity) -> Response:
        """Answer `POST /submissions/{id}/choose`."""
        await self._submissions.choose(request, who)
        return RedirectResponse(f"/submissions/{request.path_params['id']}", 303)

    async def decide(self, request: Request, who: Identity) -> Response:
        """Answer `POST /submissions/{id}/decide`, of staff: `what` and `why`."""
        _for_staff(who)
        given = await _form(request, "what", "why")
        one = await self._submissions.reached(request, who)
        try:
            what = Decision(given["what"])
        except ValueError:
            raise refuse(Reason.USAGE, "`what` is count or annul") from None

        def decided() -> None:
            self._submissions.grading.decide(one.number, what, given["why"])
            about = f"submission {one.number} {what}: {given['why']}"
            self._note(who, "decide", about)

        await self._site.in_files(decided)
        return RedirectResponse(f"/submissions/{one.number}", 303)

    async def staff(self, request: Request, who: Identity) -> Response:
        """Answer `GET /staff`: teams and milestones."""
        _for_staff(who)
        if same := self._unchanged(request, who):
            return same
        await self._runs.note(who, "list", "the submissions of all teams")
        tag = self._tag(who)

        def found() -> Response:
            names = milestones.names(self._site.milestones)
            grid = views.grid(self._site.store, self._submissions.grading, list(names))
            return self._shown("staff.html", who, grid=grid)

        return await self._tagged(tag, found)

    async def extend(self, request: Request, who: Identity) -> Response:
        """Answer `POST /staff/extend`: `team`, `milestone`, `by` and `why`."""
        _for_staff(who)
        given = await _form(request, "team", "milestone", "by", "why")

        def extended() -> None:
            team, name, by, why = given.values()
            self._submissions.grading.extend(team, name, by, why)
            self._note(who, "extend", f"{team} {name} {by}: {why}")

        await self._site.in_files(extended)
        return RedirectResponse("/staff", 303)

    def _page(self, reply: Reply) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint for those who are logged in, with pages for refusals."""

        async def endpoint(request: Request) -> Response:
            context_of(request).page = self._refusal
            if request.method == "POST":
                _own_page(request)
            token = request.cookies.get(COOKIE, "")
            return await reply(request, await self._site.known(request, token))

        return endpoint

    async def _asset(self, request: Request) -> Response:
        name = request.url.path[1:]
        headers = {"cache-control": "private, max-age=86400"}
        return Response(asset(name), media_type=TYPES[name], headers=headers)

    def _unchanged(self, request: Request, who: Identity) -> Response | None:
        """Return an answer without a body where a page is as its reader has it."""
        context_of(request).frequent = True
        if request.headers.get("if-none-match") != self._tag(who):
            return None
        return Response(status_code=304, headers=_HEADERS)

    async def _tagged(self, tag: str, make: Callable[[], Response]) -> Response:
        """Return a page with a tag of before: what changes meanwhile has another."""
        page = await self._site.in_files(make)
        page.headers["etag"] = tag
        return page

    def _tag(self, who: Identity) -> str:
        """Name the state that a page shows: of store and queue, to the minute."""
        minute, queue = int(self._site.now() // 60), self._site.decision()
        room = queue.room.gpus, queue.room.gpus_free, queue.room.slots_free
        decided = hash((queue.note, room, *queue.standings))
        return f'"{self._queue.changes}-{decided}-{minute}-{who.token_id}"'

    def _shown(
        self,
        name: str,
        who: Identity | None = None,
        *,
        status: int = 200,
        **values: object,
    ) -> Response:
        now = self._site.now()
        page = _environment().get_template(name)
        text = page.render(who=who, now=now, stamp=_stamp(), **values)
        return Response(text, status, _HEADERS, "text/html")

    def _refusal(self, refusal: Refusal) -> Response:
        """Return a page that says why something was refused, and what to do."""
        return self._shown("refused.html", status=refusal.status, refusal=refusal)

    def _note(self, who: Identity, act: str, about: str) -> None:
        by = f"{who.team}/{who.person}"
        self._site.store.audit(AuditEntry(self._site.now(), by, act, about))


def _for_staff(who: Identity) -> None:
    if not who.staff:
        raise refuse(Reason.NOT_ALLOWED, "this page is for staff")


def _own_page(request: Request) -> None:
    """Refuse what was not sent by a page of this server (RFC 6454, 7)."""
    origin = request.headers.get("origin", "").partition("://")[2]
    if not origin or origin != request.headers.get("host"):
        raise refuse(Reason.NOT_ALLOWED, "this was sent by a page of another site")


async def _form(request: Request, *names: str) -> dict[str, str]:
    """Return the fields of a form, each on one line; refuse it without one of them."""
    body = (await read(request, bounds.MOST_SMALL_BODY)).decode(errors="replace")
    try:
        found = parse_qs(body, max_num_fields=len(names))
    except ValueError:
        raise refuse(Reason.USAGE, f"the form has {', '.join(names)}") from None
    given = {name: " ".join(found.get(name, [""])[0].split()) for name in names}
    for name, text in given.items():
        if not text or len(text) > MOST_WHY or not text.isprintable():
            text = f"`{name}` has 1 to {MOST_WHY} characters that can be shown"
            raise refuse(Reason.USAGE, text)
    return given


def _made(kind: str, run: str, home: Path, cancel: Cancel) -> BinaryIO:
    """Return a page that `rai report` or `rai timeline` makes of a run.

    A process of its own reads what the run left, which may be anything. What it writes
    is in a folder that goes with it, even if it is killed.

    Raises:
        UsageError: it cannot be made, or not in time.
    """
    with TemporaryDirectory(prefix="rai-page-") as folder:
        page = Path(folder, "page.html")
        argv = ["sh", "-c", f'ulimit -v {MAKE_KIB} && exec nice "$@"', "sh"]
        argv += [sys.executable, "-m", "runner.cli.main", kind, run, "-o", str(page)]
        env = {name: os.environ[name] for name in MAKING if name in os.environ} | {
            "RAI_HOME": str(home),
            "HOME": folder,
            "TMPDIR": folder,
            "NO_COLOR": "1",
            "LC_ALL": "C.UTF-8",
        }
        try:
            done = process.run(
                argv, timeout_s=MAKE_S, env=env, cwd=Path(folder), cancel=cancel
            )
            return page.open("rb")
        except EngineError:
            text = f"the {kind} is not made within {MAKE_S:g} s"
            hint = f"make it on your machine: rai {kind} {run}"
            raise UsageError(Problem(text, hint=hint)) from None
        except FileNotFoundError:
            said = printable(done.stderr[-2000:].decode(errors="replace")).strip()
            raise UsageError(Problem(said or f"there is no {kind} of {run}")) from None


def asset(name: str) -> bytes:
    """Return a style or a script of the pages; the style with a report's colours."""
    data = (ASSETS / name).read_bytes()
    if name == "rai.css":
        data = COLOURS.read_bytes() + data
    return data


@cache
def _stamp() -> str:
    """Name the assets of this version, so that a browser takes no older ones."""
    whole = b"".join(map(asset, TYPES))
    return f"{__version__}-{hashlib.sha256(whole).hexdigest()[:8]}"


@cache
def _environment() -> jinja2.Environment:
    from runner.report import pictures  # a server without readers needs no Jinja

    made = pictures.environment(ASSETS, printable)
    made.filters.update(views.FILTERS)
    return made
