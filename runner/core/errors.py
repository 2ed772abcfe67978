"""How a run ends: states, reasons, verdicts; problems with places; errors; Cancel."""

from __future__ import annotations

import posixpath
import threading
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct


class State(StrEnum):
    """The state of a run."""

    NEW = "new"
    PACKED = "packed"
    QUEUED = "queued"
    PREPARING = "preparing"
    RUNNING = "running"
    COLLECTING = "collecting"
    DONE = "done"
    CANCELLED = "cancelled"
    LOST = "lost"

    @property
    def final(self) -> bool:
        """Whether nothing follows this state."""
        return not TRANSITIONS[self]


_ENDS = frozenset({State.DONE, State.CANCELLED, State.LOST})

TRANSITIONS: dict[State, frozenset[State]] = {
    State.NEW: _ENDS | {State.PACKED},
    State.PACKED: _ENDS | {State.QUEUED, State.PREPARING},
    State.QUEUED: _ENDS | {State.PREPARING, State.RUNNING},
    State.PREPARING: _ENDS | {State.QUEUED, State.RUNNING},
    State.RUNNING: _ENDS | {State.COLLECTING},
    State.COLLECTING: _ENDS,
    **dict.fromkeys(_ENDS, frozenset[State]()),
}
"""The states that may follow each state."""


def transition(state: State, to: State) -> State:
    """Return the new state; raise ValueError where the transition is not allowed."""
    if to not in TRANSITIONS[state]:
        raise ValueError(f"a run cannot go from {state} to {to}")
    return to


class Reason(StrEnum):
    """Why a run or a command ended: every reason, with its exit code and advice.

    ``met`` says that a command met this limit, whose value stands for ``{}``.
    """

    exit_code: int
    advice: str
    met: str

    def __new__(cls, value: str, exit_code: int, advice: str, met: str = "") -> Reason:
        """Create a member that is a string and carries the rest."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.exit_code = exit_code
        member.advice = advice
        member.met = met
        return member

    @property
    def machinery(self) -> bool:
        """Whether rai or the machine failed, and not the user's project."""
        return self.exit_code in (10, 11)

    DONE = "done", 0, ""
    COMMAND_FAILED = (
        "command_failed",
        1,
        "Read the output of each command that failed.",
    )
    GPU_FAULT = (
        "gpu_fault",
        1,
        "Run the command under compute-sanitizer: it names the kernel and the line.",
    )
    USAGE = "usage", 2, ""
    BAD_SPEC = "bad_spec", 2, "Fix the build file; `rai validate` checks it."
    BAD_CONFIG = "bad_config", 2, "Fix the option, variable or file named above."
    BUILD_FAILED = (
        "build_failed",
        3,
        "Fix the Dockerfile; `docker build .` in the project shows the same error.",
    )
    IMAGE_NOT_FOUND = (
        "image_not_found",
        3,
        "Use an image that this engine can pull, or build one from a Dockerfile.",
    )
    WRONG_ANSWER = "wrong_answer", 4, "Fix the program: its answer is wrong."
    TIME_LIMIT = (
        "time_limit",
        5,
        "Speed it up, or allow more time: in resources.limits.time, its timeout, or"
        " build_time for an image build.",
        "exceeded the run's time limit of {}",
    )
    MEMORY_LIMIT = (
        "memory_limit",
        6,
        "Use less memory, or ask for more in resources.limits.memory.",
        "exceeded the memory limit of {}",
    )
    OUTPUT_LIMIT = (
        "output_limit",
        6,
        "Print less, or ask for more in resources.limits.output.",
        "wrote more than {} to one stream",
    )
    DISK_LIMIT = (
        "disk_limit",
        6,
        "Write less, or ask for more in resources.limits: disk for /build, build_disk"
        " for an image build.",
        "wrote more than {} to the build folder",
    )
    PIDS_LIMIT = (
        "pids_limit",
        6,
        "Start fewer processes, or ask for more in resources.limits: pids, or"
        " build_pids for an image build.",
        "exceeded the limit of {} processes",
    )
    GPU_MEMORY = (
        "gpu_memory",
        6,
        "Use smaller batches, or a GPU with more memory that nobody else uses.",
    )
    REGRESSION = "regression", 7, "Compare with the earlier figures, which are better."
    RATE_LIMIT = "rate_limit", 8, "Wait, and try again."
    BUSY = "busy", 8, "Try again later, or wait longer with --wait."
    NOT_ALLOWED = (
        "not_allowed",
        9,
        "Ask for less, or have what forbids it changed: an option or setting of yours,"
        " or the site's policy.",
    )
    INTERNAL = (
        "internal",
        10,
        "Mend what is named above, or tell whoever runs the machine; --debug shows"
        " more.",
    )
    RUNNER_LOST = (
        "runner_lost",
        10,
        "What carried the run out (rai, its container or its engine) ended before it:"
        " run it again.",
    )
    GPU_ERROR = "gpu_error", 10, "See `rai doctor`."
    NO_ENGINE = (
        "no_engine",
        11,
        "`rai doctor` shows which engines work here, and what the others need.",
    )
    NO_GPU = (
        "no_gpu",
        11,
        "Run it where there is a GPU. Elsewhere `--gpus 0`, or `optional: true` in"
        " resources.gpu, skips the commands with `needs: gpu`.",
    )
    DISK_FULL = (
        "disk_full",
        11,
        "Or choose a folder on another disk: by -o, RAI_HOME (runs) or TMPDIR"
        " (temporary files).",
    )
    CANCELLED = "cancelled", 130, "Run it again if its results are still wanted."


class Verdict(Struct, frozen=True):
    """How a run went: did rai work, did the commands succeed, is the answer right.

    ``passed`` is None when the job claims nothing about correctness. ``hint`` is shown
    after the reason's own advice.
    """

    served: bool
    ran: bool
    passed: bool | None
    reason: Reason
    message: str = ""
    hint: str = ""

    @property
    def advice(self) -> str:
        """What to do."""
        return f"{self.reason.advice} {self.hint}".rstrip()


class Severity(StrEnum):
    """How bad a problem is: an error stops the run, a warning does not."""

    ERROR = "error"
    WARNING = "warning"


class Place(Struct, frozen=True):
    """A spot in a text file; line and column count from 1."""

    file: str
    line: int
    column: int

    @property
    def file_name(self) -> str:
        """The file's name without its folder."""
        return posixpath.basename(self.file)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Problem(Struct, frozen=True):
    """What is wrong, where, and what to do about it."""

    message: str
    place: Place | None = None
    hint: str = ""
    severity: Severity = Severity.ERROR

    @property
    def finding(self) -> str:
        """Return what is wrong and what to do, without place and severity."""
        return f"{self.message}; {self.hint}" if self.hint else self.message

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        kind = "warning: " if self.severity is Severity.WARNING else ""
        return f"{where}{kind}{self.finding}"


class RaiError(Exception):
    """Base of all errors that a user may see; the text can be shown as it is.

    ``advice`` is shown in place of the reason's own, "" for none.
    """

    reason = Reason.INTERNAL

    def __init__(
        self,
        *problems: Problem | str,
        reason: Reason | None = None,
        advice: str | None = None,
    ) -> None:
        self.problems: tuple[Problem, ...] = tuple(
            p if isinstance(p, Problem) else Problem(p) for p in problems
        )
        if reason is not None:
            self.reason = reason
        self.advice = self.reason.advice if advice is None else advice
        super().__init__("\n".join(str(p) for p in self.problems))


class SpecError(RaiError):
    """The build file cannot be used; carries every problem found, warnings too."""

    reason = Reason.BAD_SPEC

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(*problems)


class ConfigError(RaiError):
    """A settings file or an environment variable is wrong."""

    reason = Reason.BAD_CONFIG


class UsageError(RaiError):
    """The command line asks for something that does not exist or contradicts itself."""

    reason = Reason.USAGE


class NotAllowedError(RaiError):
    """The request exceeds a ceiling that the site's policy sets."""

    reason = Reason.NOT_ALLOWED


class ImageError(RaiError):
    """The image could not be built (build_failed) or found (image_not_found)."""

    reason = Reason.BUILD_FAILED


class EngineError(RaiError):
    """The engine failed, not the user's command."""


class BusyError(RaiError):
    """Others use what the run needs; the message says who."""

    reason = Reason.BUSY


class Cancel:
    """Set once, from a signal handler or another thread; read by engines."""

    def __init__(self, above: Cancel | None = None) -> None:
        """Make one that is requested too when ``above`` is."""
        self._event, self._above = threading.Event(), above
        self._end = Reason.CANCELLED, "stopped on request"

    def request(self, why: str = "", reason: Reason = Reason.CANCELLED) -> None:
        """Ask for the run to end cleanly; the record says why."""
        self._end = reason, why or self._end[1]
        self._event.set()

    @property
    def requested(self) -> bool:
        """Whether somebody asked the run to end."""
        above = self._above is not None and self._above.requested
        return above or self._event.is_set()

    @property
    def end(self) -> tuple[Reason, str]:
        """How a run ends for which it was requested, and why it was."""
        return self._end
