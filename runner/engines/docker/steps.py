"""Run commands in the container, enforce their limits and report their end."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

from runner.core import Reason, Step, Stream, Workspace
from runner.core.errors import Cancel, EngineError
from runner.core.events import CommandFinished, Event, Output, Tick, Warned
from runner.core.screen import HANG_UP_S, Terminal
from runner.engines import base
from runner.engines.docker.client import (
    FAILURES,
    APIError,
    Client,
    NotFound,
    failing,
    seconds,
)
from runner.engines.docker.confinement import KEEPER_PROCESSES, user
from runner.engines.docker.execution import Execution, TerminalExecution
from runner.engines.docker.usage import ContainerDiskWatch, CounterReader, Counters
from runner.system.child import checked_beside

POLL_S = 0.1
TICK_S = 1.0
KILLED = 137
MADE_UP = (126, KILLED)
"""The exit codes that the engine reports if a command's container is removed."""

LOOKS = 5
SEND_S = 2.0

TERMINATE_ALL = ["/bin/sh", "-c", "kill -TERM -1"]
"""Sent from inside: the engine's API cannot signal a command that it started."""

HANG_UP_ALL = ["/bin/sh", "-c", "kill -HUP -1"]
"""What a closed terminal sends; interactive shells ignore SIGTERM."""


class Steps:
    """The steps of a job, run one after another in its container."""

    def __init__(
        self, client: Client, container: str, work: Workspace, cancel: Cancel
    ) -> None:
        self._client, self._container = client, container
        self._limits, self._cancel = work.limits, cancel
        self._user = f"{user(work.profile)}:{user(work.profile)}"
        self._variables = work.variables
        self._meter = CounterReader(client, container)
        self._disk = ContainerDiskWatch(client, container, work)
        self._room = dict.fromkeys(Stream, work.limits.output_bytes)
        self._warned = False
        self._enforcing = threading.Lock()
        self._strict_limits = work.strict_limits
        self.counters = Counters()
        self._count()

    def __enter__(self) -> Steps:
        self._disk.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._disk.stop()

    @property
    def idle(self) -> bool:
        """Whether it is known that no command left a process behind."""
        return self.counters.processes == KEEPER_PROCESSES

    def execute(
        self, step: Step, limit_s: float
    ) -> Generator[Event, None, CommandFinished]:
        """Run one step for at most ``limit_s``; return how it ended."""
        with failing(f"run `{step.command.text}`"), self._in_container(step):
            execution = Execution(
                self._client,
                self._container,
                step.invocation,
                self._user,
                self._variables(step),
            )
            stop = self._stop(self._limits.stop_grace_s, TERMINATE_ALL)
            began, before = time.monotonic(), self.counters
            deadline = began + limit_s

            def beside() -> None:
                with contextlib.suppress(*FAILURES):
                    if self._reason(time.monotonic() >= deadline) and execution.runs():
                        self._enforce(stop, deadline)

            try:
                with checked_beside(beside):
                    yield from self._follow(step, execution, stop, deadline)
            finally:
                execution.close()
            return self._finished(step, execution, stop, before, began)

    def interact(
        self, terminal: Terminal, step: Step, limit_s: float
    ) -> Generator[Event, None, CommandFinished]:
        """Run one step on a terminal in the container; return how it ended."""
        with failing(f"run `{step.command.text}`"), self._in_container(step):
            stop = self._stop(HANG_UP_S, HANG_UP_ALL)
            began, before = time.monotonic(), self.counters
            shell = TerminalExecution(
                self._client,
                self._container,
                step.invocation,
                self._user,
                self._variables(step),
                terminal,
            )
            try:
                while not shell.ended:
                    shell.relay(POLL_S)
                    now = time.monotonic()
                    if shell.left:
                        self._cancel.request()
                    if reason := self._reason(now >= began + limit_s):
                        stop.because(reason)
                    stop.enforce(now, at_once=self._disk.full)
                    if self._disk.problem and self._strict_limits:
                        self._unenforced()
            finally:
                shell.close()
            if shell.exit_code != KILLED:
                self._count()
                before = self.counters  # the command itself met no limit
            if self._disk.problem:
                yield self._unenforced()
            return self._finished(step, shell, stop, before, began)

    def _stop(self, grace_s: float, end_all: Sequence[str]) -> _ContainerStop:
        client, container = self._client, self._container
        return _ContainerStop(
            client, container, grace_s, self._count, self._user, end_all
        )

    def _follow(
        self, step: Step, execution: Execution, stop: _ContainerStop, deadline: float
    ) -> Iterator[Event]:
        """Yield the output until the command has ended or is killed."""
        began = ticked = time.monotonic()
        before = self.counters.cpu_s
        while not execution.ended:
            for stream, data in execution.output(POLL_S):
                piece = data[: self._room[stream]]
                self._room[stream] -= len(piece)
                if len(piece) < len(data):
                    stop.because(Reason.OUTPUT_LIMIT)
                if piece:
                    yield Output(step.index, stream, piece)
            now = self._enforce(stop, deadline)
            if self._disk.problem and not self._warned:
                yield self._unenforced()
            if now - ticked >= TICK_S:
                ticked = now
                yield Tick(step.index, now - began, *self._used(before))

    def _enforce(self, stop: _ContainerStop, deadline: float) -> float:
        """End a command that meets a limit; return the time. Any thread may call it."""
        with self._enforcing:
            now = time.monotonic()
            if reason := self._reason(now >= deadline):
                stop.because(reason)
            stop.enforce(now, at_once=self._disk.full)
            return now

    def _unenforced(self) -> Warned:
        """Return a warning of the disk limit; raise if the run must not go on."""
        self._warned, why = True, self._disk.problem
        if self._strict_limits:
            raise base.lost("the disk limit", why, self._strict_limits)
        return Warned(f"the disk limit is not enforced: {why}")

    def _used(self, before: float | None) -> tuple[float | None, int | None]:
        """Return a command's CPU time, and the container's memory, if that is quick."""
        now = self._meter.quick()
        if now is None or now.cpu_s is None or before is None:
            return None, now.memory_bytes if now else None
        return now.cpu_s - before, now.memory_bytes

    def _reason(self, late: bool) -> Reason | None:
        if self._cancel.requested:
            return Reason.CANCELLED
        if late:
            return Reason.TIME_LIMIT
        return Reason.DISK_LIMIT if self._disk.full else None

    def _finished(
        self,
        step: Step,
        execution: Execution | TerminalExecution,
        stop: _ContainerStop,
        before: Counters,
        began: float,
    ) -> CommandFinished:
        wall_s = (execution.left_at or time.monotonic()) - began
        self._count()
        after = self.counters
        killed = after.memory_kills > before.memory_kills
        code = execution.exit_code
        if code in (None, *MADE_UP) and stop.reason is None and not killed:
            killed = self._ended_with_container(step)
        code = KILLED if code is None else code
        cpu_s = None
        if before.cpu_s is not None and after.cpu_s is not None:
            cpu_s = after.cpu_s - before.cpu_s
        reason = stop.reason
        if reason is None and code:
            if killed:
                reason = Reason.MEMORY_LIMIT
            elif after.refused_forks > before.refused_forks:
                reason = Reason.PIDS_LIMIT
        return CommandFinished(step.index, code, wall_s, cpu_s, reason, killed)

    def _count(self) -> None:
        """Read the counters, unless the container is gone."""
        counters = self._meter.read()
        if counters.cpu_s is not None:
            self.counters = counters

    @contextlib.contextmanager
    def _in_container(self, step: Step) -> Iterator[None]:
        """Raise EngineError if the engine forgot a command as its container ended."""
        try:
            yield
        except NotFound as error:
            if (state := self._state())["Status"] == "running":
                raise
            raise self._ended(step, state) from error

    def _ended_with_container(self, step: Step) -> bool:
        """Whether memory ran out; raise EngineError if the container was removed."""
        for _ in range(LOOKS):
            state = self._state()
            if state["OOMKilled"]:
                return True
            if state["Status"] != "running":
                raise self._ended(step, state)
            # The engine kills a container's commands before it ends the container.
            time.sleep(POLL_S)
        return False

    def _ended(self, step: Step, state: dict[str, Any]) -> EngineError:
        ended, line = state["Status"] == "exited", f"`{step.command.text}`"
        if ended and from_within(self._client, self._container, state):
            return EngineError(
                f"{line}, or a process that ran beside it, ended the container",
                reason=Reason.COMMAND_FAILED,
            )
        text = f"the container ended while {line} ran in it"
        return EngineError(text, reason=Reason.RUNNER_LOST)

    def _state(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = self._client.inspect_container(self._container)
        except NotFound:
            return {"Status": "removed", "OOMKilled": False}
        state: dict[str, Any] = found["State"]
        return state


class _ContainerStop:
    """The end of a command: a signal to all processes, a grace period, then SIGKILL.

    ``end_all`` is what sends the signal.
    """

    def __init__(
        self,
        client: Client,
        container: str,
        grace_s: float,
        before_kill: Callable[[], None],
        user: str,
        end_all: Sequence[str],
    ) -> None:
        self._client, self._container, self._user = client, container, user
        self._before_kill, self._end_all = before_kill, list(end_all)
        self._grace_s = grace_s
        self._kill_at: float | None = None
        self.reason: Reason | None = None

    def because(self, reason: Reason) -> None:
        """Ask the command to end; the first reason counts."""
        if self.reason is None:
            self.reason = reason
            sent = reason is not Reason.DISK_LIMIT and self._terminate()
            self._kill_at = time.monotonic() + (self._grace_s if sent else 0.0)

    def enforce(self, now: float, *, at_once: bool) -> None:
        """Kill the container, once, when the grace period is over or ``at_once``."""
        if self._kill_at is not None and (at_once or now >= self._kill_at):
            self._kill_at = None
            self._before_kill()
            with contextlib.suppress(APIError):  # it has ended by itself
                self._client.kill(self._container)

    def _terminate(self) -> bool:
        """Send the signal; return False if no more processes can be started for it.

        A command that stops all processes stops those that the engine starts too, and
        then the engine does not answer until the container is killed.
        """
        failed = threading.Event()

        def send() -> None:
            try:
                made = self._client.exec_create(
                    self._container, self._end_all, user=self._user
                )
                self._client.exec_start(made["Id"], detach=True)
            except FAILURES:
                failed.set()

        sending = threading.Thread(target=send, daemon=True)
        sending.start()
        sending.join(SEND_S)
        return not failed.is_set()


SLACK_S = 10
"""How much later than the container's end a busy engine may tell of it."""

_TOLD = {"event": ["die", "kill", "destroy"]}


def from_within(client: Client, container: str, state: Mapping[str, Any]) -> bool:
    """Whether a process of the container ended it; ``state`` is that of an ended one.

    Commands that are root can trace its first process, and kill it so. The engine
    tells of each signal that it was asked for. An engine that forgot, since much
    happened or it was started anew, leaves it open.
    """
    actions: list[str] = []
    with contextlib.suppress(ValueError, *FAILURES):
        told: Any = client.events(
            since=int(seconds(state["StartedAt"])),
            until=int(seconds(state["FinishedAt"])) + SLACK_S,
            filters={**_TOLD, "container": [container]},
            decode=True,
        )
        with contextlib.closing(told):
            for event in told:
                actions.append(event.get("Action", ""))
                if actions[-1] != "kill":
                    break
    return actions == ["die"]
