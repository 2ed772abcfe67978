"""The engine protocol, the order of steps, and strict limits: alike for all engines."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Generic, Protocol, TypeVar

from runner.core import (
    BuildSpec,
    DataFile,
    EngineFacts,
    Gpu,
    GpuSituation,
    ImageFacts,
    ImagePlan,
    Problem,
    Reason,
    Step,
    Workspace,
)
from runner.core.errors import Cancel, EngineError, NotAllowedError
from runner.core.events import (
    STOPPED,
    CommandFinished,
    CommandSkipped,
    CommandStarted,
    Event,
    RoundEnded,
)
from runner.core.screen import Terminal
from runner.pack import Project
from runner.system import files

T = TypeVar("T")
R = TypeVar("R")


class WithResult(Generic[T, R]):
    """A generator to iterate over; what it returned is its ``result`` afterwards."""

    result: R

    def __init__(self, steps: Generator[T, None, R]) -> None:
        self._steps = steps

    def __iter__(self) -> Iterator[T]:
        self.result = yield from self._steps


def in_background(call: Callable[[], T]) -> Future[T]:
    """Make a call in a thread of its own, which does not keep this process alive."""
    asked: Future[T] = Future()

    def work() -> None:
        try:
            asked.set_result(call())
        except Exception as error:
            asked.set_exception(error)

    threading.Thread(target=work, name="rai-call", daemon=True).start()
    return asked


class Engine(Protocol):
    """A way of running commands, and the GPUs that it can give to a run."""

    name: str

    def check(self, spec: BuildSpec) -> list[Problem]:
        """Return why this engine cannot be used here; empty if it can."""
        ...

    def facts(self) -> EngineFacts:
        """Return the engine's version and what it cannot enforce here."""
        ...

    def image_facts(self, project: Project, spec: BuildSpec) -> ImageFacts | None:
        """Return the facts that decide about the image; None without images."""
        ...

    def prepare(
        self, plan: ImagePlan, project: Project, cancel: Cancel
    ) -> Iterator[Event]:
        """Pull or build the image; the last event is ImageReady."""
        ...

    def gpus(self, image: str | None = None) -> GpuSituation:
        """Return the GPUs that a run could be given here, and each way tried.

        An engine on another machine can list them only from a container of ``image``;
        without one the list may be None. No container is started if no way is open.
        """
        ...

    def hold(self, gpu: Gpu, run_id: str) -> AbstractContextManager[None]:
        """Keep a GPU for a run while the context lasts and this process lives.

        Raises:
            BusyError: another run holds it, on entry.
        """
        ...

    def run(
        self, work: Workspace, cancel: Cancel, terminal: Terminal | None = None
    ) -> Generator[Event, None, None]:
        """Run the steps, then yield the build folder as BuildFolder events.

        With ``work.gpu`` yield a GpuGiven before the first command, and another, with
        the GPUs' state at that time, after the last.

        With ``terminal`` each step runs on a terminal of its own, used from that one.
        There is no output event then: a step prints to ``terminal``, and reads what is
        typed there. The new terminal is inside; no program there can reach ``terminal``
        itself. If the person leaves, the step is cancelled. The caller may close the
        generator after the last step, if it does not want the build folder.
        """
        ...


Execute = Callable[[Step, float], Generator[Event, None, CommandFinished]]
"""Run one step for at most the given seconds; return how it ended."""


def in_order(work: Workspace, cancel: Cancel, execute: Execute) -> Iterator[Event]:
    """Run the steps one after another and stop at the first failure.

    A command may take its own timeout or the rest of the job's time, whichever is less.
    A command that fails, or whose answer is wrong, does not end the job with
    ``keep_going``, or if it has ``continue_on_error``; a limit or a cancel always does.

    While nothing ended the job, rounds of further steps follow until ``work.more`` has
    none. Each round may take the job's time again.
    """
    stop = yield from _round(work.steps, work, cancel, execute)
    rounds = 0
    while stop is None and work.more is not None and not cancel.requested:
        yield RoundEnded(rounds)  # a caller that measures two jobs in turn pauses here
        steps = () if cancel.requested else work.more()
        if not steps:
            return
        stop = yield from _round(steps, work, cancel, execute)
        rounds += 1


def _round(
    steps: Sequence[Step], work: Workspace, cancel: Cancel, execute: Execute
) -> Generator[Event, None, str | None]:
    """Run steps; return why no others may follow, None if they may.

    Steps that have no turn are skipped in the first round, and else left out.
    """
    deadline = time.monotonic() + work.limits.time_s
    stop: str | None = None
    for step in steps:
        index, command = step.index, step.command
        skip = step.skip or stop or (STOPPED if cancel.requested else None)
        if skip:
            if step.repeats is None:
                yield CommandSkipped(index, command.text, skip, command.name)
            continue
        yield CommandStarted(
            index, command.text, command.name, step.repeats, step.round
        )
        left = max(deadline - time.monotonic(), 0.0)
        finished = yield from execute(step, min(left, command.timeout_s or left))
        yield finished
        stop = _stops(finished, step, work)
    return stop


def _stops(finished: CommandFinished, step: Step, work: Workspace) -> str | None:
    if finished.reason is Reason.CANCELLED:
        return STOPPED
    if finished.reason is not None:
        words = finished.reason.replace("_", " ")
        return f"command {step.index + 1} exceeded its {words}"
    if work.keep_going or step.command.continue_on_error:
        return None
    if finished.exit_code:
        return f"command {step.index + 1} failed"
    # Asked only now: what it printed is compared while its end is handled.
    wrong = work.is_wrong(step.index)
    return f"the answer of command {step.index + 1} is wrong" if wrong else None


GROUPS = (
    "be root, or have control groups delegated to this user:"
    " `systemd-run --user --scope -p Delegate=yes rai ...`"
)
_GROUPED = (
    "run rai as root on the engine's machine, and have the engine manage control groups"
    " itself, not by systemd: `native.cgroupdriver=cgroupfs` in its `exec-opts`"
)
_USUAL = "run rai as root on the engine's machine"
_CONFINED = "use `--engine docker` or `--engine local`"
_REMEDIES = {
    ("local", "memory"): GROUPS,
    ("local", "pids"): GROUPS,
    ("local", "system calls"): "run rai on x86-64 or arm64",
    ("docker", "swap"): "have its kernel started with `swapaccount=1`",
    ("docker", "system calls"): "have its Docker Engine configured with seccomp",
    ("docker", "private addresses"): (
        "run rai as root on the engine's machine, whose kernel must have nf_tables"
    ),
}
_REMEDIES_OF_BUILDS = {
    ("docker", "pids"): _GROUPED,
    ("docker", "memory"): _GROUPED,
}


def check(engine: EngineFacts, by: str, *, builds: bool = False) -> None:
    """Refuse an engine that cannot enforce some limit; ``by`` says what asks for it.

    It is about to run commands, or else it ``builds`` an image.

    Raises:
        NotAllowedError: names each such limit, and what to do.
    """
    remedies = _REMEDIES | (_REMEDIES_OF_BUILDS if builds else {})
    names: dict[str, list[str]] = {}
    for name in engine.unenforced if by else ():
        remedy = remedies.get((engine.name, name), _USUAL)
        names.setdefault(remedy if engine.confines else _CONFINED, []).append(name)
    where = " in image builds" if builds else ""
    problems = [
        Problem(
            f"the {engine.name} engine cannot enforce {', '.join(found)} here{where},"
            f" which {by} asks for",
            hint=remedy,
        )
        for remedy, found in names.items()
    ]
    if problems:
        raise NotAllowedError(*problems)


def lost(what: str, why: str, by: str) -> NotAllowedError:
    """Return the error for a limit that is not enforced any more during a run."""
    return NotAllowedError(
        f"{what} is not enforced any more, which {by} asks for: {why}"
    )


BLOCK_BYTES = 1 << 18


def content(file: DataFile) -> Iterator[bytes]:
    """Yield a data file's bytes.

    Raises:
        EngineError: the file changed since it was verified; raised after the last
            byte, so the caller must discard what it has written.
    """
    md5, left = hashlib.md5(usedforsecurity=False), file.size_bytes
    try:
        with files.opened(file.path, file.within) as opened:
            while left and (data := opened.read(min(left, BLOCK_BYTES))):
                md5.update(data)
                left -= len(data)
                yield data
    except OSError as error:
        text = f"{file.path} cannot be read: {error.strerror}"
        raise EngineError(text) from error
    if left or md5.hexdigest() != file.md5:
        text = f"{file.path} changed while the run was being prepared"
        raise EngineError(Problem(text, hint="run it again"))
