"""Run one job, from a request to its verdict, as events; repeat commands in rounds."""

from __future__ import annotations

import posixpath
import shlex
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, closing
from pathlib import Path

from msgspec.structs import replace

from runner import pack
from runner.core import (
    Findings,
    GpuUse,
    JobRequest,
    Reason,
    State,
    Step,
    Verdict,
    Workspace,
)
from runner.core import events as ev
from runner.core.build_spec import Check
from runner.core.errors import EngineError, RaiError
from runner.core.figures import MOST_BYTES, size_bytes
from runner.core.masking import Mask
from runner.core.record import MOST_ROUNDS
from runner.core.work import UPLOAD, Caps
from runner.engines.base import Engine
from runner.execution import verdicts
from runner.execution.preparation import Preparation
from runner.figures.answers import CommandOutput
from runner.report import phrases
from runner.spec import commandline
from runner.store import runs
from runner.system import files

GoOn = Callable[[int], bool]
"""Whether another round follows; the argument is how many there were."""


class Rounds:
    """The rounds of one run: the first, of all commands, and those that repeat some.

    Repeated are the commands that ended well and that the request names; else those
    that printed a figure; else the last one. What they print decides once, after the
    first round. The budget counts the time of the rounds, not that between them.
    """

    def __init__(self, request: JobRequest, go_on: GoOn | None) -> None:
        self._request = request
        self._go_on = go_on or (lambda count: count < request.asked.repeat)
        self.wanted = go_on is not None or request.asked.repeat > 1
        self.notes: list[str] = []
        """Why fewer commands were repeated, or less often, than was asked for."""
        self._repeated: tuple[Step, ...] | None = None
        self._count, self._spent_s, self._longest_s, self._began_s = 0, 0.0, 0.0, 0.0

    def ended(self) -> None:
        """Note that a round ended just now."""
        if self._count:
            took_s = time.monotonic() - self._began_s
            self._spent_s += took_s
            self._longest_s = max(self._longest_s, took_s)
        self._count += 1

    def steps(
        self, steps: Sequence[Step], well: Set[int], found: Mapping[int, Findings]
    ) -> tuple[Step, ...]:
        """Return the steps of one more round; none if there is no other.

        ``steps`` are all those so far, ``well`` the indexes of those that ended well,
        and ``found`` is what they printed.
        """
        if self._count >= MOST_ROUNDS or not self._go_on(self._count):
            return ()
        if self._repeated is None:
            self._repeated = self._measured(steps, well, found)
        if not self._repeated:
            return ()
        if self._spent_s + self._longest_s >= self._request.budget_s:
            self.notes.append(self._over())
            return ()
        self._began_s = time.monotonic()
        first = len(steps)
        return tuple(
            replace(step, index=first + n, repeats=step.index, round=self._count)
            for n, step in enumerate(self._repeated)
        )

    def _measured(
        self, steps: Sequence[Step], well: Set[int], found: Mapping[int, Findings]
    ) -> tuple[Step, ...]:
        """Return the commands to repeat; note which are not, though they are named."""
        named = self._request.repeated
        again = measured([s for s in steps if s.index in well], named, found)
        if not again:
            text = "nothing is repeated: no command that is measured ended well"
            self.notes.append(text)
        elif missing := named - {step.index for step in again}:
            numbers = ", ".join(str(index + 1) for index in sorted(missing))
            which = f"command{'s' if len(missing) > 1 else ''} {numbers}"
            text = (
                f"not repeated, because it did not end well in the first round: {which}"
            )
            self.notes.append(text)
        return again

    def _over(self) -> str:
        asked, budget = (
            self._request.asked.repeat,
            phrases.seconds(self._request.budget_s),
        )
        of = f" of {asked}" if asked > 1 else ""
        rounds = "round" if self._count == 1 and not of else "rounds"
        return (
            f"measured in {self._count}{of} {rounds}: one more may not end within the"
            f" {budget} that repeats have"
        )


def measured(
    ran: Sequence[Step], named: Set[int], found: Mapping[int, Findings]
) -> tuple[Step, ...]:
    """Return which of the commands that ended well are measured again.

    ``named`` are the indexes of those that the user named; if there are none, the
    commands that printed a time, a correctness or a profile, else the last one.
    """
    if named:
        return tuple(step for step in ran if step.index in named)
    every = ((step, found.get(step.index, Findings())) for step in ran)
    figures = tuple(step for step, own in every if own.inferences or own.profiles)
    return figures or tuple(ran[-1:])


MOST_OF_RUN_BYTES = 16 << 20
"""The most that the figures of all commands may take in the record."""


def run(
    preparation: Preparation, go_on: GoOn | None = None
) -> Generator[ev.Event, None, None]:
    """Run a job that has not begun; record every event, then yield it.

    ``go_on`` says after each round, given how many there were, whether another follows;
    without it there are as many as the request says. Before each RoundEnded is left,
    nothing runs. If an engine cannot get the base image of a build, the next engine
    runs the job. The last event is Finished. Only a bug in rai raises an exception,
    after Finished.
    """
    paths, project = preparation.paths, preparation.project
    files.write(paths.spec, preparation.request.asked.spec_text.encode())
    with closing(project), runs.Recorder(paths) as recorder:
        job = _Job(preparation, go_on)

        def keep(event: ev.Event) -> ev.Event:
            return recorder.keep(job.mask.event(event))

        bug: Exception | None = None
        try:
            for event in job.events():
                yield keep(event)
            verdict = job.verdict()
        except RaiError as error:
            verdict = verdicts.from_error(error)
        except Exception as error:
            fault = files.disk_fault(error, paths.root)
            bug = None if fault else error
            verdict = verdicts.from_error(fault) if fault else verdicts.bug(error)
        if bug is None:
            for event in job.not_reached():
                yield keep(event)
        # Whoever waits for the end looks at the run's folder then.
        project.close()
        yield keep(ev.Finished(verdict))
        if bug is not None:
            raise bug


class _Job:
    """The steps of one run, and the results so far."""

    def __init__(self, preparation: Preparation, go_on: GoOn | None) -> None:
        self.request = preparation.request
        self.paths = preparation.paths
        self.cancel = preparation.cancel
        self.mask = Mask(self.request.asked.secret.values.values())
        self.preparation = preparation
        self.caps = pack.build_caps(self.request.spec.limits)
        self.rounds = Rounds(self.request, go_on)
        self.steps: dict[int, Step] = {}
        self.ended: list[ev.CommandFinished] = []
        self.found: dict[int, Findings] = {}
        self.room_bytes = MOST_OF_RUN_BYTES
        self.checks: dict[int, tuple[Check, ...]] = {}
        self.gpu: GpuUse | None = None
        self.reached: set[int] = set()
        self.collected = False

    def events(self) -> Iterator[ev.Event]:
        with ExitStack() as held:
            ready = yield from self.preparation.events(held)
            if ready is not None:
                yield from self._run(*ready)

    def not_reached(self) -> Iterator[ev.Event]:
        """Yield a CommandSkipped for each command that the run did not reach."""
        ended = ev.STOPPED if self.cancel.requested else ev.NOT_REACHED
        for step in self.preparation.steps:
            if step.index not in self.reached:
                command, why = step.command, step.skip or ended
                yield ev.CommandSkipped(step.index, command.text, why, command.name)

    def verdict(self) -> Verdict:
        """Return the verdict, from the commands that ended."""
        if self.cancel.requested:
            kept = "; what it wrote so far is kept" if self.collected else ""
            reason, why = self.cancel.end
            return Verdict(True, False, None, reason, why + kept)
        verdict = verdicts.judge(
            self.ended, self.request, self.found, self.gpu, self.checks, self.steps
        )
        if verdict.reason is not Reason.COMMAND_FAILED:
            return verdict
        commands = (self.steps[e.index].command for e in self.ended if _failed(e))
        line = next(c.text for c in commands if not c.continue_on_error)
        found = hint(line, self.paths.source, self.paths.build, self.caps)
        return replace(verdict, hint=f"{found} {verdict.hint}".strip())

    def _run(self, engine: Engine, work: Workspace) -> Iterator[ev.Event]:
        """Yield the engine's events; scan the output; keep the build folder."""
        output: CommandOutput | None = None
        writer: pack.BuildWriter | None = None
        lost = _Lost()
        more = self._more if self.rounds.wanted else None
        # The last round may begin as the budget ends, and has the run's time limit.
        more_s = self.request.budget_s + work.limits.time_s + self.request.idle_s
        more_s = more_s if more else 0.0
        work = replace(work, is_wrong=self._is_wrong, more=more, more_s=more_s)
        self.steps = {step.index: step for step in work.steps}
        with ExitStack() as stack:
            masked = self.mask.follow(engine.run(work, self.cancel))
            for event in lost.follow(masked):
                if isinstance(event, ev.BuildFolder):
                    if writer is None:
                        yield ev.StateChanged(State.COLLECTING)
                        writer = stack.enter_context(
                            pack.BuildWriter(self.paths.build, self.caps)
                        )
                    writer.write(event.data)
                    continue
                if isinstance(event, ev.GpuGiven):
                    self.gpu = event.use
                if isinstance(event, (ev.CommandStarted, ev.CommandSkipped)):
                    self.reached.add(event.index)
                if isinstance(event, ev.RoundEnded):
                    self.rounds.ended()
                if isinstance(event, ev.CommandStarted):
                    step = self.steps[event.index]
                    own = step.index if step.repeats is None else step.repeats
                    output = CommandOutput(step.command, own + 1)
                elif isinstance(event, ev.Output) and output:
                    output.feed(event)
                yield event
                if isinstance(event, ev.CommandFinished) and output:
                    yield from self._ended(event, output)
            if lost.error is not None and (writer is None or not writer.whole):
                raise lost.error
        yield from map(ev.Warned, self.rounds.notes)
        if writer is not None:
            path, size = str(self.paths.build), writer.size_bytes
            self.collected = writer.members > 0
            yield ev.Collected(path, size, writer.members)
            if writer.members:
                yield from self._profiled()
        if lost.error is not None:
            raise lost.error

    def _ended(
        self, event: ev.CommandFinished, output: CommandOutput
    ) -> Iterator[ev.Event]:
        """Yield what a command printed, and whether it is what was expected."""
        index = event.index
        self.ended.append(event)
        most = min(MOST_BYTES, self.room_bytes // 2)
        self.found[index] = output.findings(most)
        self.room_bytes -= size_bytes(self.found[index])
        yield ev.Found(index, self.found[index])
        # A command that a limit or a cancel ended did not come to its answer.
        if event.reason is None and (checks := output.checks()):
            self.checks[index] = checks
            yield ev.Checked(index, checks)

    def _more(self) -> tuple[Step, ...]:
        """Return the steps of one more round; none if there is no other."""
        well = {e.index for e in self.ended if not _failed(e)}
        right = {index for index in well if not self._is_wrong(index)}
        steps = self.rounds.steps(tuple(self.steps.values()), right, self.found)
        self.steps |= {step.index: step for step in steps}
        return steps

    def _is_wrong(self, index: int) -> bool:
        return not all(check.holds for check in self.checks.get(index, ()))

    def _profiled(self) -> Iterator[ev.Event]:
        """Yield the files that the commands' profilers wrote to the build folder."""
        # If several commands name one file, it belongs to one that succeeded.
        ended = sorted(self.ended, key=lambda end: (not _failed(end), end.index))
        # A repeat writes its file over that of the command it repeats.
        steps = [step for e in ended if (step := self.steps[e.index]).repeats is None]
        lines = [(step.index, step.command.text) for step in steps]
        if not any(commandline.tools(line) for _, line in lines):
            return
        try:
            files = pack.files(self.paths.build, self.caps, root="build")
        except RaiError as error:
            yield ev.Warned(f"cannot look for profiles: {error}")
            return
        for index, found in sorted(commandline.claimed(lines, files).items()):
            yield ev.Profiled(index, found)


def _failed(end: ev.CommandFinished) -> bool:
    return end.exit_code != 0 or end.reason is not None


class _Lost:
    """The error that ended an engine's events: the build folder may be among them."""

    def __init__(self) -> None:
        self.error: EngineError | None = None

    def follow(self, events: Iterator[ev.Event]) -> Iterator[ev.Event]:
        """Yield the events; keep the engine's error."""
        try:
            yield from events
        except EngineError as error:
            self.error = error


_MOVES = ("cd", "pushd")
"""After these the current folder may be any."""


def hint(line: str, source: Path, build: Path, caps: Caps) -> str:
    """Return what to do if a failed command names a file of the project as if here.

    ``source`` and ``build`` are the run's archives. Return "" if it names none, or if
    the build folder has a file of this name too.
    """
    named = list(dict.fromkeys(_relative(line)))
    if not named:
        return ""
    try:
        ours = pack.files(source, UPLOAD)
        made = pack.files(build, caps, root="build")
    except (RaiError, OSError):
        return ""
    file = next((name for name in named if name in ours and name not in made), None)
    if file is None:
        return ""
    return (
        f"Write `$RAI_SOURCE_DIR/{file}`: your files are in /src (`$RAI_SOURCE_DIR`);"
        " the current folder is /build, which is empty at first."
    )


def _relative(line: str) -> Iterator[str]:
    """Yield the words of a command line that look like files of the current folder."""
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    words.commenters = ""
    try:
        found = list(words)
    except ValueError:  # an open quote
        return
    if any(word in _MOVES or word.startswith("-C") for word in found):
        return
    for word in found:
        if word[:1] not in "-/$~" and ("." in word or "/" in word):
            name = posixpath.normpath(word)
            if not name.startswith(".."):
                yield name
