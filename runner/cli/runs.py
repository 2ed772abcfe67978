"""`rai runs [--project DIR|WORD] [--branch NAME] ... [--on URL]`.

`rai ps`, `rai history` and `rai queue` are other names for parts of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from runner.cli import common, copies
from runner.client import profile
from runner.client.problems import clock, estimate, shown
from runner.client.profile import ProfileEntry
from runner.core import Problem, RunRecord, quantities, record
from runner.core.errors import RaiError, UsageError
from runner.core.wire import QueueState, QueueView, RemoteRun
from runner.execution import places
from runner.report import runs as run_tables
from runner.report.blocks import Table
from runner.report.runs import Listed
from runner.store import removal, run_files
from runner.store.home import RunQuery, list_runs, unfinished
from runner.store.paths import Home, RunPaths
from runner.store.runs import names
from runner.terminal.layout import blocks
from runner.terminal.streams import say

MOST_LISTED = 10
NO_RUNS = "No runs yet: rai run -p DIR"
NO_SUCH = "No run is like that; `rai runs` lists them all."


def runs(
    number: Annotated[
        int, typer.Option("--number", "-n", min=1, help="How many runs to list.")
    ] = MOST_LISTED,
    project: Annotated[
        str | None,
        typer.Option(
            metavar="DIR|WORD",
            help="Runs of the project in this folder (`.`, or with a slash), or of"
            " those whose folder's name has this word.",
        ),
    ] = None,
    branch: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Runs on this branch; `*` and `?` match."),
    ] = None,
    tag: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Runs with this tag; `*` and `?` match."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Runs that began then or later: `7d` (ago), `14:05`, a date with or"
            " without a time of day.",
        ),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(
            metavar="WORD",
            help="Runs of which a command's name or line has this word.",
        ),
    ] = None,
    on: common.On = None,
    everyone: Annotated[
        bool, typer.Option("--all", help="Every team's runs on the server, for staff.")
    ] = False,
    as_json: common.JsonFlag = False,
) -> None:
    """List runs, newest first.

    If you are logged in to a server, your team's runs there are listed too. A run is
    listed if it matches every option. --on lists what runs and waits on a server, in
    the order of the starts.
    """
    given = {"--project": project, "--branch": branch, "--tag": tag}
    given |= {"--since": since, "--command": command}
    if on is not None and everyone:
        raise UsageError("--all lists the runs of the server: leave out --on")
    if on is not None and on != "here":
        if named := [name for name, value in given.items() if value is not None]:
            raise UsageError(f"--on lists a server's queue: leave out {named[0]}")
        _queue(on, as_json=as_json)
    else:
        query, home = _query(given), common.home()
        there = None
        if on is None:
            there = _there(home, query, number, everyone=everyone)
        _show(home, query, number, there, as_json=as_json)


history = runs


def ps(as_json: common.JsonFlag = False) -> None:
    """List running runs."""
    _show(common.home(), RunQuery(active=True), as_json=as_json)


def queue(on: common.On = None, as_json: common.JsonFlag = False) -> None:
    """List what runs and what waits on the server, in the order of the starts."""
    _queue(on, as_json=as_json)


def _query(given: dict[str, str | None]) -> RunQuery:
    """Return what the options ask for.

    Raises:
        UsageError: some are wrong; carries all of these problems.
    """
    problems = [Problem(f"{name} is empty") for name, one in given.items() if one == ""]
    since, project = given["--since"], given["--project"] or ""
    began = quantities.moment(since, datetime.now().astimezone()) if since else None
    if since and began is None:
        problems.append(
            Problem(f"--since {since!r} is not a time: {quantities.MOMENTS}")
        )
    if problems:
        raise UsageError(*problems)
    is_folder = project in (".", "..") or "/" in project
    return RunQuery(
        project=str(Path(project).resolve()) if is_folder else None,
        project_word=None if is_folder else project or None,
        branch=given["--branch"],
        tag=given["--tag"],
        since=began,
        command=given["--command"],
    )


def _there(
    home: Home, query: RunQuery, limit: int, *, everyone: bool
) -> Callable[[], list[Listed]] | None:
    """Begin to ask the server for its runs that are not here, if it may have some.

    What is returned waits for them. Where the server does not tell them, it warns; it
    raises RaiError where all teams' runs are asked for.
    """
    # A server knows neither branches nor tags nor commands.
    narrowed = (query.branch, query.tag, query.command) != (None, None, None)
    if everyone:
        entry = common.server(None)
    elif narrowed or (found := profile.login()) is None:
        return None
    else:
        entry = found

    from runner.execution import server  # loads HTTP, which most lists need not
    from runner.execution.copies import listed

    here, now, on = names(home), time.time(), server.name_of(entry.url)
    asked = server.listing(
        entry,
        lambda run: run.id not in here and query.wants(listed(run, now)),
        limit,
        everyone=everyone,
    )

    def told() -> list[Listed]:
        try:
            runs = asked()
        except RaiError as error:
            if everyone:
                raise
            common.warn_of(f"the runs on {on} are not listed: {error}")
            return []
        return [
            Listed(listed(run, now), "", None, "", on, _whose(run, entry))
            for run in runs
        ]

    return told


def _whose(run: RemoteRun, entry: ProfileEntry) -> str:
    """Return whose a run is; "" if it is the user's own."""
    if run.mine and run.person == entry.person:
        return ""
    return shown(run.person if run.mine else f"{run.team}/{run.person}")


def _show(
    home: Home,
    query: RunQuery,
    limit: int | None = None,
    there: Callable[[], list[Listed]] | None = None,
    *,
    as_json: bool,
) -> None:
    """Show the runs that are asked for, and name those that cannot be read."""
    found, unreadable = read(home, query, limit)
    if there is not None:
        found += there()
        found.sort(key=lambda one: one.record.created_at, reverse=True)
        found = found[:limit]
    if as_json:
        common.print_json([_plain(one) for one in found])
        return
    here = ""
    with suppress(OSError):  # it may have been removed
        here = str(Path.cwd())
    if found:
        commits = query.branch is not None
        blocks([run_tables.table(found, time.time(), here, commits=commits)])
    elif query.active:
        say("Nothing is running.")
    else:
        say(NO_SUCH if query.narrowed else NO_RUNS)
    for name in unreadable:
        say(f"Run {name} cannot be read: `rai rm {name}` removes it.", to_stderr=True)


def read(
    home: Home, query: RunQuery, limit: int | None = None
) -> tuple[list[Listed], list[str]]:
    """Return the runs that a query asks for, and the ids of unreadable ones."""
    copies.refresh(unfinished(home))
    unreadable: list[str] = []

    def known(paths: RunPaths) -> RunRecord | None:
        run = places.known(paths)
        if run is None and paths.root.is_dir() and not places.active(paths):
            unreadable.append(paths.id)
        return run

    found = []
    for run in list_runs(home, query, limit, known):
        paths = home.run(run.id)
        taken = removal.size_bytes(paths.root) if run.state.final else None
        away = "" if run.state.final else places.elsewhere(paths)
        found.append(
            Listed(
                run, run_files.read_tag(paths), taken, run_files.read_note(paths), away
            )
        )
    return found, unreadable


def _plain(one: Listed) -> dict[str, object]:
    facts: dict[str, object] = {"tag": one.tag or None, "note": one.note or None}
    facts |= {"size_bytes": one.size_bytes, "on": one.away or None}
    facts["whose"] = one.whose or None
    return {**record.plain(one.record), **facts}


def _queue(on: str | None, *, as_json: bool) -> None:
    """Show what runs and what waits on a server; of other teams' runs only the team."""
    from runner.client.api import ServerClient

    entry = common.server(on)
    with ServerClient(entry) as client:
        view = client.queue()
    if as_json:
        common.print_json(view, server=entry.url)
        return
    if view.note:
        common.warn_of(view.note)
    if view.running or view.waiting:
        blocks([_queue_table(view)])
        say()
    say(_free(view))


def _queue_table(view: QueueView) -> Table:
    """Return the runs; a column that is empty for all is left out."""
    now = time.time()
    heads = ("place", "run", "state", "team", "person", "project", "gpus", "start", "")
    rows = [_queue_row(run, now) for run in (*view.running, *view.waiting)]
    kept = [at for at in range(len(heads)) if any(row[at] for row in rows)]
    right = frozenset(kept.index(at) for at in (0, 6) if at in kept)
    asides = frozenset(kept.index(at) for at in (8,) if at in kept)
    return Table(
        "",
        tuple(heads[at] for at in kept),
        tuple(tuple(row[at] for at in kept) for row in rows),
        right,
        asides=asides,
    )


def _queue_row(run: RemoteRun, now: float) -> tuple[str, ...]:
    waits = run.state is QueueState.WAITING
    place = str(run.ahead + 1) if waits and run.ahead is not None else ""
    start = estimate(run.estimate_s) if waits else ""
    if run.started_at is not None:
        start = clock(run.started_at, now)
    return (
        *(place, run.id, str(run.state)),
        f"{run.team} (yours)" if run.mine else run.team,
        *(run.person, run.project, str(run.gpus or ""), start, run.why),
    )


def _free(view: QueueView) -> str:
    """Return what is free: ``0 of 1 GPU and 2 of 4 slots without a GPU are free.``."""
    kinds = (
        (view.gpus, view.gpus_free, "GPU"),
        (view.slots, view.slots_free, "slot"),
    )
    parts = [
        f"{free} of {count} {name}{'' if count == 1 else 's'}"
        for count, free, name in kinds
        if count
    ]
    if not parts:
        return "Nothing can run there now."
    if view.in_slurm:
        jobs, others = view.gpus - view.gpus_free, view.slots - view.slots_free
        return (
            f"In Slurm: {jobs} of at most {view.gpus} runs with a GPU, {others} of at"
            f" most {view.slots} without."
        )
    start = "" if view.running or view.waiting else "Nothing runs or waits. "
    return f"{start}Free: {', '.join(parts)}."
