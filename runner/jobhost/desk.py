"""Answer a server's requests."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from msgspec import Struct

from runner import archive, files
from runner.core import Reason, RunRecord
from runner.core.errors import UsageError
from runner.jobhost.carrier import Carrier, ThisMachine
from runner.jobhost.facts import Look, surveyed
from runner.jobhost.looking import RunLooks
from runner.jobhost.starting import RunStarts
from runner.store import removal, runs, settings
from runner.store.home import newest
from runner.store.paths import Home, RunPaths
from runner.wire.host import (
    READABLE,
    AskFacts,
    CancelRun,
    ClearGpu,
    HostAnswer,
    HostRequest,
    HostRun,
    LookAt,
    OpenFile,
    RemoveRuns,
    StartRun,
)

MOST_IDS = 10_000
"""How many runs a request may name."""


MOST_BROKEN = 100


class Reply(Struct, frozen=True):
    """An answer, and an open file that goes with it, which is the caller's to close."""

    answer: HostAnswer
    file: int | None = None


def _with_broken_gpus(home: Home) -> list[str]:
    """Return the last runs with a GPU's error; one may have ended without a host."""

    def wants(run: RunRecord) -> bool:
        return run.verdict is not None and run.verdict.reason is Reason.GPU_ERROR

    return [run.id for run in newest(home, wants, MOST_BROKEN)]


class JobDesk:
    """What a host does, by the requests of ``wire.host``."""

    def __init__(
        self, home: Home, survey: Look = surveyed, carrier: Carrier | None = None
    ) -> None:
        """Without a ``carrier`` runs go on here, where ``survey`` looks."""
        found, _ = settings.load(os.environ, settings.settings_files(), {})
        self._home = home
        self._carrier = at = carrier or ThisMachine(home, survey)
        self._starts = RunStarts(home, archive.most_bytes(found.project_caps), at)
        self._looks = RunLooks(home, self._starts.has, self._ended, at)
        self._looks.look(_with_broken_gpus(home))

    def reply(self, request: HostRequest, given: Sequence[int] = ()) -> Reply:
        """Do what is asked for; ``given`` are the files that came with the request.

        Raises:
            RaiError: it is refused.
        """
        match request:
            case OpenFile(run_id, name):
                return self._open(self._paths(run_id), name)
            case StartRun():
                return Reply(self._start(request, given))
            case AskFacts():
                return Reply(HostAnswer(facts=self._carrier.facts()))
            case LookAt(ids):
                return Reply(HostAnswer(runs=self._looks.look(self._checked(ids))))
            case CancelRun(run_id):
                self._starts.cancel(self._paths(run_id))
            case RemoveRuns(ids):
                self._remove(self._checked(ids))
            case ClearGpu(uuid):
                self._carrier.clear(uuid)
        return Reply(HostAnswer())

    def _start(self, request: StartRun, given: Sequence[int]) -> HostAnswer:
        self._paths(request.id)
        # A run that ended since the last look may have broken its GPU.
        self._looks.look_at_active()
        answer = self._starts.start(request, given)
        self._looks.started(request.id)
        return answer

    def _ended(self, run: HostRun) -> None:
        if run.reason is Reason.GPU_ERROR:
            self._carrier.failed(run)

    def _open(self, paths: RunPaths, name: str) -> Reply:
        if name not in READABLE:
            raise UsageError(f"a run has no file {name[:100]!r}")
        try:
            file = files.descriptor(paths.root, name)
        except OSError:
            return Reply(HostAnswer())
        return Reply(HostAnswer(size=os.fstat(file).st_size), file)

    def _remove(self, ids: Sequence[str]) -> None:
        ended = [one.id for one in self._looks.look(ids) if one.ended]
        removal.discard(self._home.runs, *ended)
        removal.empty(self._home.runs)

    def _checked(self, ids: Sequence[str]) -> Sequence[str]:
        if len(ids) > MOST_IDS:
            raise UsageError(f"a request names {MOST_IDS:,} runs at most")
        return [self._paths(run_id).id for run_id in ids]

    def _paths(self, run_id: str) -> RunPaths:
        if not re.fullmatch(runs.ID, run_id):
            raise UsageError(f"{run_id[:100]!r} is no run's id")
        return self._home.run(run_id)
