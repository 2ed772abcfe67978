"""A job host as its server sees it: a connection to its socket for each call."""

from __future__ import annotations

import fcntl
import os
import socket as sockets
import stat
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from runner import files
from runner.core.errors import BusyError, RaiError
from runner.jobhost import channel
from runner.jobhost.base import OpenedFile
from runner.places.base import ANSWERED_WITHIN_S
from runner.wire.host import (
    MOST_LINE_BYTES,
    AskFacts,
    CancelRun,
    ClearGpu,
    HostAnswer,
    HostFacts,
    HostRequest,
    HostRun,
    LookAt,
    OpenFile,
    RemoveRuns,
    StartRun,
    answer_from,
    to_line,
)

CONNECTED_WITHIN_S = 10.0
TAKEN_WITHIN_S = 30.0
USUAL_S = 30.0
FACTS_S = 150.0
"""The first look at engines and GPUs may wait for a driver that hangs."""

REMOVED_WITHIN_S = 300.0
NO_HOST = "See that it runs: `rai server doctor`."
STARTED_WITHIN_S = ANSWERED_WITHIN_S + 60.0


class SocketHost:
    """The JobHost at a Unix socket."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def facts(self) -> HostFacts:
        """Return what it can do now."""
        answer = self._asked(AskFacts(), within_s=FACTS_S)
        if answer.facts is None:
            raise self._odd("an answer without facts")
        return answer.facts

    def start(self, request: StartRun, parcel: Path, source: Path) -> HostAnswer:
        """Start a run with its sealed project.

        Returns once the run has its engine and a plan for its image, or was refused.
        """
        with ExitStack() as opened:
            try:
                given = [
                    opened.enter_context(path.open("rb")).fileno()
                    for path in (parcel, source)
                ]
            except OSError as error:
                raise RaiError(files.problem(error)) from error
            answer, came = self._ask(request, given, STARTED_WITHIN_S)
        channel.close(came)
        return answer

    def look(self, ids: Sequence[str]) -> dict[str, HostRun]:
        """Return what is known of runs."""
        if not ids:
            return {}
        wanted = set(ids)
        found = self._asked(LookAt(tuple(ids))).runs
        return {one.id: one for one in found if one.id in wanted}

    def cancel(self, run_id: str) -> None:
        """Ask a run to end."""
        self._asked(CancelRun(run_id))

    def open(self, run_id: str, name: str) -> OpenedFile | None:
        """Open a file of a run's folder; None if there is none."""
        answer, came = self._ask(OpenFile(run_id, name))
        try:
            _raise_refusal(answer)
            if answer.size is None:
                return None
            if len(came) != 1 or not _is_readable(came[0]):
                raise self._odd("something that is no file to read")
            return _opened(came.pop())
        finally:
            channel.close(came)

    def remove(self, ids: Sequence[str]) -> None:
        """Remove the folders of runs that have ended."""
        if ids:
            self._asked(RemoveRuns(tuple(ids)), within_s=REMOVED_WITHIN_S)

    def clear_gpu(self, uuid: str) -> None:
        """Let runs have a GPU again that was out."""
        self._asked(ClearGpu(uuid))

    def _asked(self, request: HostRequest, within_s: float = USUAL_S) -> HostAnswer:
        """Return an answer without files; raise RaiError for one that refuses."""
        answer, came = self._ask(request, within_s=within_s)
        channel.close(came)
        _raise_refusal(answer)
        return answer

    def _ask(
        self,
        request: HostRequest,
        given: Sequence[int] = (),
        within_s: float = USUAL_S,
    ) -> tuple[HostAnswer, list[int]]:
        """Return the answer, and the files beside it, which are the caller's."""
        try:
            with sockets.socket(sockets.AF_UNIX) as peer:
                peer.settimeout(CONNECTED_WITHIN_S)
                peer.connect(str(self._socket))
                # A host may refuse what it has not read to its end.
                with suppress(BrokenPipeError):
                    channel.write(peer, to_line(request), given, TAKEN_WITHIN_S)
                line, came = channel.read(peer, MOST_LINE_BYTES, 1, within_s)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            text = f"the job host at {self._socket} does not answer: {why}"
            raise BusyError(text, advice=NO_HOST) from error
        try:
            return answer_from(line), came
        except ValueError as error:
            channel.close(came)
            raise self._odd(str(error)) from error

    def _odd(self, what: str) -> BusyError:
        return BusyError(f"the job host at {self._socket} sent {what}")


def _raise_refusal(answer: HostAnswer) -> None:
    if answer.reason is not None:
        raise RaiError(*answer.problems, reason=answer.reason)


def _is_readable(file: int) -> bool:
    """Whether a descriptor is of a regular file that is open for reading alone."""
    mode = fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE
    return mode == os.O_RDONLY and stat.S_ISREG(os.fstat(file).st_mode)


def _opened(file: int) -> OpenedFile:
    return OpenedFile(os.fdopen(file, "rb"), os.fstat(file).st_size)
