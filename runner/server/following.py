"""Runs that are followed: each is watched once, for all its followers."""

from __future__ import annotations

import asyncio
import os
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio

from runner.core.errors import BusyError
from runner.database.base import RunRow
from runner.jobhost.base import OpenedFile
from runner.server import bounds, logs
from runner.server.base import Site
from runner.server.board import Board
from runner.server.tailing import (
    EVENTS,
    Position,
    TailStep,
    next_step,
    reader,
    whole_lines,
)
from runner.server.threads import Threads
from runner.wire.frames import FILES, Done
from runner.wire.remote_runs import QueueState, RemoteRun

LATEST, BUILD = "latest.json", "build.tar.zst"
HOST_AWAY_S = 1.0
"""How long to wait before a job host that was away is asked again."""

WAITS_S = 1.0
LIVELY_S = 3.0
MOST_STEPS = 64
LEAST_CHANGE_S = 15.0
"""An estimate that changed by less, or by a tenth, is no news."""


class FollowedRun:
    """One run, with what was read of it last.

    ``news`` is set when there is something new, and is another event from then on.
    ``status`` is how the run stands, ``latest`` what it uses; ``done`` is set once it
    has ended and its files are known to grow no more.
    """

    def __init__(self, row: RunRow, site: Site, threads: Threads, board: Board) -> None:
        self._site, self._threads, self._board = site, threads, board
        self._row = row
        self.status = board.shown(row, row.team)
        self.latest = ""
        self.done: Done | None = None
        self.failed = False
        self.followers = 0
        self.news = anyio.Event()
        self._files: dict[str, OpenedFile] = {}
        self._read = reader({})
        self._sizes = dict.fromkeys(FILES, 0)
        self._reading = anyio.Lock()
        self._kept: OrderedDict[Position, TailStep] = OrderedDict()
        self._kept_bytes = 0
        self._watching = anyio.CancelScope()
        self._away_until = self._latest_at = self._lively_until = 0.0

    async def step(self, at: Position) -> TailStep | None:
        """Return what follows a position; it is read once for all who are there."""
        async with self._reading:
            if found := self._kept.get(at):
                return found
            over = self.done is not None
            if not over and at.events >= self._sizes[EVENTS]:
                return None
            found = await self._threads.files(
                next_step, self._read, dict(self._sizes), at, over=over
            )
            if found:
                self._keep(at, found)
            return found

    async def watch(self) -> None:
        """Watch the run until it has ended, or until it is left."""
        with self._watching:
            await self._watch()

    def leave(self) -> None:
        """Have nobody watch the run any more.

        A call of the job host that goes on is waited for, so that a file which it opens
        is closed.
        """
        self._watching.cancel()

    async def _watch(self) -> None:
        try:
            while self.done is None:
                waiting = self._row.state is QueueState.WAITING
                board_news = self._board.news
                if await self._look():
                    self._tell()
                if waiting:
                    with anyio.move_on_after(WAITS_S):
                        await board_news.wait()
                else:
                    lively = time.monotonic() < self._lively_until
                    await anyio.sleep(bounds.LOOK_S if lively else bounds.QUIET_LOOK_S)
        except Exception as error:
            self.failed = True
            logs.fault("follow_failed", error, run=self._row.id)
        finally:
            self._tell()

    async def close(self) -> None:
        """Close the run's files."""
        with anyio.CancelScope(shield=True):
            async with self._reading:
                for file in self._files.values():
                    file.handle.close()
                self._files.clear()
                self._read = reader({})

    def _tell(self) -> None:
        self.news.set()
        self.news = anyio.Event()

    async def _look(self) -> bool:
        """Look at everything once; return whether something is new."""
        changed = await self._look_at_row()
        if self._row.state is QueueState.WAITING:
            return changed
        ended = self._row.state is QueueState.ENDED
        if ended and not self._row.attempt:
            self.done = Done(self.status)  # it never left the queue
            return True
        known = await self._open()
        if await self._threads.files(self._measure, ended):
            self._lively_until = time.monotonic() + LIVELY_S
            changed = True
        if not ended:
            return await self._look_at_use() or changed
        if known:
            await self._finish()
        return changed

    async def _look_at_row(self) -> bool:
        row = self._board.rows.get(self._row.id)
        if row is None and self._row.state is not QueueState.ENDED:
            # It has ended, or the board has not seen it yet.
            row = await self._threads.store(self._site.store.run, self._row.id)
        if row is not None:
            self._row = row
        shown = self._board.shown(self._row, self._row.team)
        if not _differ(self.status, shown):
            return False
        self.status = shown
        return True

    async def _open(self) -> bool:
        """Open the files that are there by now; return whether that is known of all."""
        missing = [name for name in FILES if name not in self._files]
        if not missing:
            return True
        if time.monotonic() < self._away_until:
            return False
        for name in missing:
            try:
                file = await self._threads.host(
                    self._site.host.open, self._row.id, name
                )
            except BusyError:
                self._away_until = time.monotonic() + HOST_AWAY_S
                return False
            if file is not None:
                self._files[name] = file
        handles = {name: file.handle.fileno() for name, file in self._files.items()}
        self._read = reader(handles)
        return True

    def _measure(self, ended: bool) -> bool:
        """Find out how much there is of each file; return whether it is more.

        The logs come last: what a line speaks of was written before it.
        """
        before = dict(self._sizes)
        sizes = {}
        for name in FILES:
            file = self._files.get(name)
            sizes[name] = os.fstat(file.handle.fileno()).st_size if file else 0
        if not ended:
            begin = before[EVENTS]
            sizes[EVENTS] = whole_lines(self._read, begin, sizes[EVENTS])
        self._sizes = sizes
        return sizes != before

    async def _look_at_use(self) -> bool:
        now = time.monotonic()
        if self._row.state is not QueueState.RUNNING or now < self._latest_at:
            return False
        self._latest_at = now + bounds.LATEST_S
        try:
            text = await self._threads.host(self._in_use)
        except BusyError:
            self._latest_at = now + HOST_AWAY_S
            return False
        if text in ("", self.latest):
            return False
        self.latest = text
        return True

    def _in_use(self) -> str:
        """Return what the running command uses, as latest.json has it."""
        file = self._site.host.open(self._row.id, LATEST)
        return _text(file) if file else ""

    async def _finish(self) -> None:
        """Note that nothing more comes."""
        try:
            build = await self._threads.host(self._site.host.open, self._row.id, BUILD)
        except BusyError:
            self._away_until = time.monotonic() + HOST_AWAY_S
            return
        if build:
            build.handle.close()
        self.done = Done(self.status, build.size if build else None)

    def _keep(self, at: Position, step: TailStep) -> None:
        self._kept[at] = step
        self._kept_bytes += len(step.frames)
        while len(self._kept) > MOST_STEPS or self._kept_bytes > bounds.KEPT_BYTES:
            _, old = self._kept.popitem(last=False)
            self._kept_bytes -= len(old.frames)


class FollowedRuns:
    """The runs that are followed now."""

    def __init__(self, site: Site, threads: Threads, board: Board) -> None:
        self._site, self._threads, self._board = site, threads, board
        self._runs: dict[str, tuple[FollowedRun, asyncio.Task[None]]] = {}

    @asynccontextmanager
    async def joined(self, row: RunRow) -> AsyncIterator[FollowedRun]:
        """Watch a run while somebody follows it."""
        run, task = self._runs.get(row.id, (None, None))
        if run is None or task is None or run.failed:
            run = FollowedRun(row, self._site, self._threads, self._board)
            task = asyncio.create_task(run.watch())
            self._runs[row.id] = run, task
        run.followers += 1
        try:
            yield run
        finally:
            run.followers -= 1
            if not run.followers:
                if self._runs.get(row.id, (None,))[0] is run:
                    del self._runs[row.id]
                run.leave()
                with anyio.CancelScope(shield=True):
                    with suppress(asyncio.CancelledError):
                        await task
                    await run.close()


def _differ(old: RemoteRun, new: RemoteRun) -> bool:
    if _news(old) != _news(new):
        return True
    if old.estimate_s is None or new.estimate_s is None:
        return old.estimate_s is not new.estimate_s
    least = max(LEAST_CHANGE_S, old.estimate_s / 10)
    return abs(old.estimate_s - new.estimate_s) >= least


def _news(run: RemoteRun) -> tuple[object, ...]:
    return run.state, run.ahead, run.why, run.cancelled, run.started_at


def _text(file: OpenedFile) -> str:
    """Return a small file's content, "" for what is no text."""
    with file.handle as handle:
        data = handle.read(bounds.MOST_LATEST_BYTES + 1)
    if len(data) > bounds.MOST_LATEST_BYTES:
        return ""
    return data.decode(errors="ignore")
