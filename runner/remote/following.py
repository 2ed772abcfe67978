"""Keep the copy of a run on a server up to date, in a thread of its own, to its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from runner import files
from runner.core import Problem, Reason, RunRecord, State, Verdict, record
from runner.core.errors import RaiError
from runner.remote.api import AWAY, Backoff, ServerClient
from runner.remote.bounds import MirrorBounds
from runner.remote.mirror import PIECE_BYTES, Mirror, MirroredError
from runner.remote.problems import (
    NoServerError,
    RefusedError,
    UnreachableError,
    shown,
)
from runner.store import claim, latest, runs, sealed, seen
from runner.store.paths import RunPaths
from runner.wire.remote_runs import QueueState, RemoteRun
from runner.wire.tail import LEAST_S, TailHeader

NOT_NOW = (429, *AWAY)
POLL_S = 0.3
CATCH_UP_S = 2.0
LONGEST_WAIT_S = 20
"""How long the server may wait for news; where there were some, a second at first."""

NOT_FETCHED = "the build folder was not fetched"
GOING = {
    QueueState.WAITING: State.QUEUED,
    QueueState.STARTING: State.PREPARING,
    QueueState.RUNNING: State.RUNNING,
}
STOPPED = "stopped on request"
STATES = {Reason.CANCELLED: State.CANCELLED, Reason.RUNNER_LOST: State.LOST}

Connect = Callable[[], ServerClient]


class Follower:
    """Copies a run until it has ended, whatever breaks off meanwhile.

    While another process does so, it waits, and takes over where that one leaves.
    ``trouble`` is why the server is not reached at present, "" if it is; ``error`` what
    ended the copying before its time.
    """

    def __init__(self, paths: RunPaths, connect: Connect, bounds: MirrorBounds) -> None:
        self.paths = paths
        self.trouble = ""
        self.error: Exception | None = None
        self._connect, self._bounds = connect, bounds
        self._stop = threading.Event()
        self._asked = self._elsewhere = False
        self._first_s: float | None = None
        self._caught_up = False
        self._backoff = Backoff()
        # A daemon: a server that is silent does not keep this process alive.
        self._thread = threading.Thread(
            target=self._work, name="rai-mirror", daemon=True
        )

    def start(self) -> None:
        """Begin to copy."""
        self._thread.start()

    def stop(self) -> None:
        """Leave the copy as it is; another process may go on with it."""
        self._stop.set()

    @property
    def settled(self) -> bool:
        """Whether there is nothing to wait for: the copy is up to date, or cannot be.

        The copy of a run that never stops to print counts as up to date after a while.
        """
        first_s = self._first_s
        return (
            not self._thread.is_alive()
            or self._elsewhere
            or bool(self.trouble)
            or self._caught_up
            or (first_s is not None and time.monotonic() - first_s > CATCH_UP_S)
        )

    @property
    def doubt(self) -> str:
        """Why the copy is not up to date, "" if it is."""
        if self.error is not None:
            return str(self.error)
        return self.trouble or ("" if self.settled else "the server is silent")

    def check(self) -> None:
        """Raise what ended the copying, if anything did."""
        if self.error is not None:
            raise self.error

    def _work(self) -> None:
        try:
            while not self._over:
                self._once()
        except Exception as error:
            self.error = error

    @property
    def _over(self) -> bool:
        return self._stop.is_set() or self.paths.record.exists()

    def _once(self) -> None:
        """Copy with the lock of the folder, or wait for it."""
        try:
            with Mirror(self.paths, self._bounds) as mirror:
                self._copy(mirror)
            self._elsewhere = False
        except MirroredError:
            self._elsewhere = True
            self._stop.wait(POLL_S)

    def _copy(self, mirror: Mirror) -> None:
        wait_s = 0
        with self._connect() as client:
            while not self._over:
                began_s = time.monotonic()
                try:
                    much = self._ask(client, mirror, wait_s)
                except UnreachableError as error:
                    self.trouble = str(error) or "it does not answer"
                    self._stop.wait(self._backoff.next_s())
                    wait_s = 0
                    continue
                took_s = time.monotonic() - began_s
                news = wait_s > 0 and took_s < wait_s
                wait_s = 1 if news else min(2 * wait_s or 1, LONGEST_WAIT_S)
                if not (much or self._over):
                    # The server takes this time, unless it means ill.
                    self._stop.wait(LEAST_S - took_s)

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
        self._backoff.restart()
        if self._first_s is None:
            self._first_s = time.monotonic()
        self._caught_up = not header.more
        if header.over:
            self._end(client, header)
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
        note = ""
        if header.build is not None:
            try:
                fetch_build(client, self.paths, self._bounds)
            except (NoServerError, RefusedError) as error:
                if isinstance(error, RefusedError) and error.refusal.status in NOT_NOW:
                    raise UnreachableError(str(error)) from error
                note = f"{NOT_FETCHED}: {error}; try again: rai pull {self.paths.id}"
        record_end(self.paths, word_of(header.run), [note] if note else [])

    def _missing(self, client: ServerClient) -> None:
        """End a run that the server does not know, unless it may be another team's."""
        holder = claim.holder(self.paths)
        team = client.me().team
        if holder is not None and holder.team and holder.team != team:
            text = f"run {self.paths.id} is of team {holder.team}; you are of {team}"
            raise RaiError(Problem(text, hint=f"log in: rai login {holder.url}"))
        on = holder.on if holder is not None else client.entry.url
        reason, why = Reason.RUNNER_LOST, f"{on} does not know the run any more"
        if seen.read(self.paths) is None:
            if claim.age_s(self.paths.holder) < claim.GRACE_S:
                # Its request may still be on the way.
                raise UnreachableError(f"{on} has not queued the run yet")
            why = f"rai ended before the run was queued on {on}"
            if self.paths.cancel.exists():
                reason, why = Reason.CANCELLED, "cancelled before it was queued"
        record_end(self.paths, ServersWord(reason, why, time.time()))


def fetch_build(client: ServerClient, paths: RunPaths, most: MirrorBounds) -> None:
    """Fetch the build folder of a run that has ended, unless it is here.

    Raises:
        UnreachableError: the connection broke; what came of it is kept.
        RefusedError, NoServerError: the server has none, or too large a one.
    """
    if not paths.build.exists():
        client.download(paths.id, paths.build.name, paths.build, most.build_bytes)


class ServersWord(Struct, frozen=True):
    """How a run ended, where its events do not tell."""

    reason: Reason
    why: str
    at: float


def word_of(run: RemoteRun) -> ServersWord:
    """Return what a server says of the end of a run."""
    reason = run.reason or Reason.RUNNER_LOST
    why, at = shown(run.why), run.ended_at or time.time()
    if reason is Reason.DONE:
        # The run's events would say so, if they were all there.
        return ServersWord(Reason.RUNNER_LOST, "its events end before it does", at)
    said = STOPPED if reason is Reason.CANCELLED else "the server ended it"
    return ServersWord(reason, why or said, at)


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
        for at in (run.queued_at, run.ended_at)
    )
    project = shown(run.project)
    return RunRecord(run.id, project, "", began or 0.0, state, verdict, ended)


def record_end(
    paths: RunPaths, word: ServersWord, notes: Sequence[str] = ()
) -> RunRecord:
    """Write the record of a run that has ended, last of all.

    Its events tell how it ended, if they tell of an end, else the ``word`` does.
    ``notes`` are added to the warnings.

    Raises:
        RaiError: the folder has neither events nor a parcel.
    """
    known = record.fold(runs.stamped(paths)) or sealed.begun(paths)
    if known is None:
        raise RaiError(f"{paths.root} is no run: it has no events and no parcel")
    ended = replace(known, id=paths.id)
    if not ended.state.final:
        ended = _ended(ended, word)
    elif (told := ended.verdict) and told.reason is word.reason is Reason.CANCELLED:
        # The server knows who asked for it, and why.
        message = told.message.replace(STOPPED, word.why, 1)
        ended = replace(ended, verdict=replace(told, message=message))
    ended = replace(ended, warnings=(*ended.warnings, *notes))
    latest.remove(paths)
    with files.naming(paths.record):
        files.write(paths.record, record.to_json(ended))
    return ended


def _ended(known: RunRecord, word: ServersWord) -> RunRecord:
    reason = word.reason
    why = _blamed(reason, word.why)
    verdict = Verdict(not reason.machinery, False, None, reason, why)
    return record.end(known, STATES.get(reason, State.DONE), word.at, verdict)


def _blamed(reason: Reason, why: str) -> str:
    """Return why a run ended, which says so where the server is to blame."""
    if reason.machinery and why:
        return f"the server failed, not your project: {why}"
    return why
