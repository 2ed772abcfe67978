"""The route by which a run is followed: its files as they grow, as frames."""

from __future__ import annotations

import re

import anyio
from starlette.requests import Request

from runner.core import Reason
from runner.core.errors import RaiError
from runner.server.auth import Gate
from runner.server.following import FollowedRun, FollowedRuns
from runner.server.metrics import Metrics
from runner.server.refusing import refuse
from runner.server.runs import RunRoutes
from runner.server.streaming import Pour, StreamAnswer
from runner.server.tailing import Position
from runner.wire import FRAMES
from runner.wire.frames import BEAT_S, Beat, Latest, Status, to_line
from runner.wire.remote_runs import RemoteRun

_OFFSET = re.compile("[0-9]{1,15}")


class FollowRoute:
    """The route."""

    def __init__(
        self, gate: Gate, runs: RunRoutes, following: FollowedRuns, metrics: Metrics
    ) -> None:
        self._gate, self._runs = gate, runs
        self._following, self._metrics = following, metrics

    async def follow(self, request: Request) -> StreamAnswer:
        """Answer `GET /api/v1/runs/{id}/follow`."""
        identity = await self._gate.identity(request)
        row = await self._runs.own(request, identity)
        offsets = [
            request.query_params.get(name, "0")
            for name in ("events", "stdout", "stderr")
        ]
        if not all(map(_OFFSET.fullmatch, offsets)):
            text = "`events`, `stdout` and `stderr` are numbers of bytes"
            raise refuse(Reason.USAGE, text)
        at = Position(*map(int, offsets))

        async def pours(pour: Pour) -> None:
            async with self._following.joined(row) as run:
                self._metrics.following(1)
                try:
                    await _poured(run, at, pour)
                finally:
                    self._metrics.following(-1)

        return StreamAnswer(pours, 200, {"Content-Type": FRAMES})


async def _poured(run: FollowedRun, at: Position, pour: Pour) -> None:
    """Send what a follower lacks until the run has ended and it lacks nothing."""
    status: RemoteRun | None = None
    latest = ""
    while True:
        news, done = run.news, run.done
        frames = bytearray()
        if run.status is not status:
            status = run.status
            frames += to_line(Status(status))
        if run.latest != latest:
            latest = run.latest
            frames += to_line(Latest(latest))
        if frames:
            await pour(bytes(frames))
        if step := await run.step(at):
            at = step.after
            await pour(step.frames)
        elif frames:
            continue
        elif done:
            await pour(to_line(done))
            return
        elif run.failed:
            raise RaiError("the run can no longer be followed")
        else:
            with anyio.move_on_after(BEAT_S) as silence:
                await news.wait()
            if silence.cancelled_caught:
                await pour(to_line(Beat()))
