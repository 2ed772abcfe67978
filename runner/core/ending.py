"""The state of a run, the reason for its end, and its verdict."""

from __future__ import annotations

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
        "Where there is none, `--gpus 0`, or `optional: true` in resources.gpu, runs"
        " only the commands that need no GPU.",
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
