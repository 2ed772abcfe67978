"""The copy of a run on a server, kept up to date in the run's folder, to its end.

Bytes are appended as they come, so a copy that broke off anywhere goes on where its
files end. The server is not trusted: it may make them no longer than the run itself.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from io import BufferedReader
from typing import BinaryIO, Self

from msgspec.structs import replace

from runner.client.api import PASSING, Patience, Pauses, ServerClient
from runner.client.bounds import MirrorBounds
from runner.client.connection import PIECE_BYTES
from runner.client.problems import NoServerError, RefusedError, UnreachableError, shown
from runner.core import Problem, Reason, RunRecord, State, Verdict, record, wire
from runner.core.errors import NotAllowedError, RaiError
from runner.core.wire import FILES, QueueState, RemoteRun, TailHeader
from runner.execution.local import Following
from runner.store import claim, run_files, runs
from runner.store.paths import RunPaths
from runner.store.removal import alone
from runner.system import files

NOT_NOW = (429, 500, *PASSING)
POLL_S = 0.3
CATCH_UP_S = 2.0
WAIT_S = 20
"""How long the server may wait for news, once it has told all there is."""

MOST_SHOWN = 300
NOT_FETCHED = "the build folder was not fetched"
GOING = {
    QueueState.WAITING: State.QUEUED,
    QueueState.STARTING: State.PREPARING,
    QueueState.RUNNING: State.RUNNING,
}
STOPPED = "stopped on request"
Connect = Callable[[], ServerClient]
STATES = {Reason.CANCELLED: State.CANCELLED, Reason.RUNNER_LOST: State.LOST}


class Follower(Following):
    """Copies a run until it has ended, whatever breaks off meanwhile.

    While another process does so, it waits, and takes over where that one leaves.
    """

    def __init__(self, paths: RunPaths, connect: Connect, bounds: MirrorBounds) -> None:
        super().__init__(paths)
        self._connect, self._bounds = connect, bounds
        self._client: ServerClient | None = None
        self._asked = self._elsewhere = self._caught_up = False
        self._first_s = math.inf
        self._pauses = Pauses(Patience(math.inf))

    def stop(self) -> None:
        """Leave the copy, and its lock, to whoever goes on with it."""
        super().stop()
        if self._client is not None:
            self._client.close()

    @property
    def settled(self) -> bool:
        """Whether there is nothing to wait for: the copy is up to date, or cannot be.

        The copy of a run that never stops to print counts as up to date after a while.
        """
        return (
            not self.thread.is_alive()
            or self._elsewhere
            or bool(self.trouble)
            or self._caught_up
            or time.monotonic() - self._first_s > CATCH_UP_S
        )

    def step(self) -> None:
        """Copy with the lock of the folder, or wait for it."""
        try:
            with Mirror(self.paths, self._bounds) as mirror, self._connect() as client:
                self._client = client
                self._copy(client, mirror)
            self._elsewhere = False
        except MirroredError:
            self._elsewhere = True
            self.stopped.wait(POLL_S)

    def _copy(self, client: ServerClient, mirror: Mirror) -> None:
        wait_s = 0
        while not self.over:
            began_s = time.monotonic()
            try:
                much = self._ask(client, mirror, wait_s)
            except UnreachableError as error:
                if not self.over:
                    self.trouble = str(error) or "it does not answer"
                    self.stopped.wait(self._pauses.next_s(error))
                wait_s = 0
                continue
            wait_s = WAIT_S
            if not (much or self.over):
                # The server takes this time, unless it means ill.
                self.stopped.wait(wire.LEAST_S + began_s - time.monotonic())

    def _ask(self, client: ServerClient, mirror: Mirror, wait_s: int) -> bool:
        """Copy what is new; return whether much was, and there is more.

        If the run has ended, or the server does not know it, the copy ends too.
        """
        have = mirror.have
        try:
            self._pass_cancel(client)
            with client.tail(self.paths.id, have, wait_s) as body:
                header = mirror.take(body, have)
        except RefusedError as error:
            if error.refusal.status in NOT_NOW:
                raise UnreachableError(str(error)) from error
            if not error.missing:
                raise
            self._missing(client)
            return False
        if header is None:
            raise UnreachableError(f"{client.entry.url} ended the connection")
        self.trouble = ""
        self._pauses.restart()
        self._first_s = min(self._first_s, time.monotonic())
        if header.over:
            self._end(client, header)
        self._caught_up = not header.more
        return header.more and sum(header.sizes.values()) >= PIECE_BYTES

    def _pass_cancel(self, client: ServerClient) -> None:
        """Pass on what a command could not, as it did not reach the server."""
        if self.paths.cancel.exists() and not self._asked:
            try:
                client.cancel(self.paths.id)
            except RefusedError as error:
                if error.reason is not Reason.NOT_ALLOWED:
                    raise
                self.paths.cancel.unlink(missing_ok=True)  # the run is a team mate's
            self._asked = True

    def _end(self, client: ServerClient, header: TailHeader) -> None:
        """Fetch the build folder, and write the record."""
        paths, run, notes = self.paths, header.run, []
        if header.build is not None:
            try:
                fetch_build(client, paths, self._bounds)
            except (NoServerError, RefusedError) as error:
                if isinstance(error, RefusedError) and error.refusal.status in NOT_NOW:
                    raise UnreachableError(str(error)) from error
                again = f"try again: rai pull {paths.id}"
                notes.append(f"{NOT_FETCHED}: {error}; {again}")
        reason, why = run.reason or Reason.RUNNER_LOST, shown(run.why)
        if reason is Reason.DONE:
            # The run's events would say so, if they were all there.
            reason, why = Reason.RUNNER_LOST, "its events end before it does"
        said = STOPPED if reason is Reason.CANCELLED else "the server ended it"
        record_end(paths, reason, why or said, run.ended_at or time.time(), *notes)

    def _missing(self, client: ServerClient) -> None:
        """End a run that the server does not know, unless it may be another team's."""
        run, holder, team = self.paths.id, claim.holder(self.paths), client.me().team
        if holder is not None and holder.team and holder.team != team:
            text = f"run {run} of team {holder.team} goes on without you"
            text += f": you are of team {shown(team)} now"
            hint = f"log in as one of {holder.team}: rai login {holder.url}"
            raise NotAllowedError(Problem(text, hint=hint), advice="")
        on = holder.on if holder is not None else client.entry.url
        reason, why = Reason.RUNNER_LOST, f"{on} does not know the run any more"
        if run_files.read_seen(self.paths) is None:
            if claim.age_s(self.paths.holder) < claim.GRACE_S:
                # Its request may still be on the way.
                raise UnreachableError(f"{on} has not queued the run yet")
            why = f"rai ended before the run was queued on {on}"
            if self.paths.cancel.exists():
                reason, why = Reason.CANCELLED, "cancelled before it was queued"
        record_end(self.paths, reason, why, time.time())


def fetch_build(client: ServerClient, paths: RunPaths, most: MirrorBounds) -> None:
    """Fetch the build folder of a run that has ended, unless it is here.

    Raises:
        UnreachableError: the connection broke; what came of it is kept.
        RefusedError, NoServerError: the server has none, or too large a one.
    """
    if not paths.build.exists():
        client.download(paths.id, paths.build.name, paths.build, most.build_bytes)


def listed(run: RemoteRun, now: float) -> RunRecord:
    """Return what a server's list says of a run, as a record; its texts are escaped."""
    state, verdict = GOING.get(run.state, State.DONE), None
    if run.state is QueueState.ENDED:
        reason = run.reason or Reason.RUNNER_LOST
        state, done = STATES.get(reason, State.DONE), reason is Reason.DONE
        why = _blamed(reason, shown(run.why))
        verdict = Verdict(not reason.machinery, done, None, reason, why)
    began, ended = (
        None if at is None else min(max(at, 0.0), now)
        for at in (run.started_at or run.queued_at, run.ended_at)
    )
    project = shown(run.project)
    return RunRecord(run.id, project, "", began or 0.0, state, verdict, ended)


def record_end(
    paths: RunPaths, reason: Reason, why: str, at: float, *notes: str
) -> None:
    """Write the record of a run that has ended, last of all.

    Its events tell how it ended, if they tell of an end, else ``reason`` and ``why``
    do. ``notes`` are added to the warnings.

    Raises:
        RaiError: the folder has neither events nor a parcel.
    """
    known = record.fold(runs.stamped(paths)) or run_files.begun_record(paths)
    if known is None:
        raise RaiError(f"{paths.root} is no run: it has no events and no parcel")
    ended = replace(known, id=paths.id)
    if not ended.state.final:
        said = _blamed(reason, why)
        verdict = Verdict(not reason.machinery, False, None, reason, said)
        ended = record.end(ended, STATES.get(reason, State.DONE), at, verdict)
    elif (told := ended.verdict) and told.reason is reason is Reason.CANCELLED:
        # The server knows who asked for it, and why.
        message = told.message.replace(STOPPED, why, 1)
        ended = replace(ended, verdict=replace(told, message=message))
    ended = replace(ended, warnings=(*ended.warnings, *notes))
    run_files.remove_latest(paths)
    with files.naming(paths.record):
        files.write(paths.record, record.to_json(ended))


def _blamed(reason: Reason, why: str) -> str:
    """Return why a run ended, which says so where the server is to blame."""
    if reason.machinery and why:
        return f"the server failed, not your project: {why}"
    return why


class MirroredError(Exception):
    """Another process keeps the copy up to date."""


class Mirror:
    """The writer of a copy, while it holds the lock of the run's folder."""

    def __init__(self, paths: RunPaths, bounds: MirrorBounds) -> None:
        """Lock the folder, and open its files.

        Raises:
            MirroredError: another process has the lock.
        """
        self._paths, self._bounds = paths, bounds
        self._run: RemoteRun | None = None
        self._latest = ""
        with ExitStack() as opened:
            # On a file system without locks the sizes are compared below.
            if not opened.enter_context(alone(paths.mirror)):
                raise MirroredError
            self._files: dict[str, BinaryIO] = {
                name: opened.enter_context((paths.root / name).open("ab", 0))
                for name in FILES
            }
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    @property
    def have(self) -> dict[str, int]:
        """The bytes of each file that are here."""
        return {
            name: os.fstat(file.fileno()).st_size for name, file in self._files.items()
        }

    def take(self, body: BufferedReader, asked: Mapping[str, int]) -> TailHeader | None:
        """Write what an answer brings; return its header, or None if it broke off.

        ``asked`` is the ``have`` with which it was asked for.

        Raises:
            RaiError: the server sent what no run is.
            MirroredError: another process wrote meanwhile.
            OSError: it cannot be written, as on a full disk.
        """
        line = body.readline(wire.MOST_HEADER_BYTES)
        if not line.endswith(b"\n"):
            if len(line) < wire.MOST_HEADER_BYTES:
                return None
            raise self._bad("a header of endless length")
        try:
            header = wire.from_line(line)
        except ValueError as error:
            raise self._bad(str(error)) from error
        if self.have != asked:
            raise MirroredError
        self._note(header)
        whole = all(self._append(name, header.sizes[name], body) for name in FILES)
        return header if whole else None

    def _note(self, header: TailHeader) -> None:
        """Note how the run stands, and what it uses."""
        run = header.run
        if run.id != self._paths.id:
            raise self._bad(f"it speaks of run {run.id}")
        if header.over and run.state is not QueueState.ENDED:
            raise self._bad(f"the end of a run that is {run.state}")
        if run != self._run:
            run_files.write_seen(self._paths, run)
            self._run = run
        text = header.latest
        if text != self._latest and len(text) <= run_files.LINE_BYTES:
            with suppress(OSError):
                files.write(self._paths.latest, text.encode())
            self._latest = text

    def _append(self, name: str, size: int, body: BufferedReader) -> bool:
        """Append so many bytes to a file; return whether all of them came."""
        have = self.have
        most = self._bounds.log_bytes
        if name == wire.EVENTS:
            most = self._bounds.of_events(have[wire.STDOUT] + have[wire.STDERR])
        if have[name] + size > most:
            what = f"over {most:,} bytes of {name}"
            raise self._bad(f"{what}, more than its limits allow")
        while size:
            piece = body.read1(min(size, PIECE_BYTES))
            if not piece:
                return False
            size -= len(piece)
            pending = memoryview(piece)
            with files.naming(self._paths.root / name):
                while pending:
                    pending = pending[self._files[name].write(pending) :]
        return True

    def _bad(self, what: str) -> RaiError:
        """Return the error of what no run is; what was sent before is kept."""
        said = shown(what[:MOST_SHOWN])
        text = f"the server sent what is no part of run {self._paths.id}: {said}"
        return RaiError(text, advice="Tell whoever runs the server.")
