"""Where a run stands, why it ended, and the three answers of its verdict."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class State(StrEnum):
    """Where a run stands."""

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
        return not STEPS[self]


STEPS: dict[State, frozenset[State]] = {
    State.NEW: frozenset({State.PACKED, State.DONE, State.CANCELLED, State.LOST}),
    State.PACKED: frozenset(
        {State.QUEUED, State.PREPARING, State.DONE, State.CANCELLED, State.LOST}
    ),
    State.QUEUED: frozenset(
        {State.PREPARING, State.RUNNING, State.DONE, State.CANCELLED, State.LOST}
    ),
    State.PREPARING: frozenset(
        {State.QUEUED, State.RUNNING, State.DONE, State.CANCELLED, State.LOST}
    ),
    State.RUNNING: frozenset(
        {State.COLLECTING, State.DONE, State.CANCELLED, State.LOST}
    ),
    State.COLLECTING: frozenset({State.DONE, State.CANCELLED, State.LOST}),
    State.DONE: frozenset(),
    State.CANCELLED: frozenset(),
    State.LOST: frozenset(),
}
"""The allowed steps."""


def step(state: State, to: State) -> State:
    """Return the new state; raise ValueError where the step is not allowed."""
    if to not in STEPS[state]:
        raise ValueError(f"no run goes from {state} to {to}")
    return to


class Reason(StrEnum):
    """Why something ended: the one closed list, with its exit code and advice."""

    exit_code: int
    advice: str

    def __new__(cls, value: str, exit_code: int, advice: str) -> Reason:
        """Create a member that is a string and carries exit code and advice."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.exit_code = exit_code
        member.advice = advice
        return member

    DONE = "done", 0, "Nothing to do."
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
    USAGE = "usage", 2, "See `rai --help`."
    BAD_SPEC = "bad_spec", 2, "Fix the build file; `rai validate` checks it."
    BAD_CONFIG = (
        "bad_config",
        2,
        "Fix the option, the variable or the settings file that it names.",
    )
    BUILD_FAILED = (
        "build_failed",
        3,
        "Fix the Dockerfile; `docker build .` in the project shows the same.",
    )
    IMAGE_NOT_FOUND = (
        "image_not_found",
        3,
        "Use an image that this engine can pull, or build one from a Dockerfile.",
    )
    WRONG_ANSWER = "wrong_answer", 4, "The program ran, and its answer is not right."
    TIME_LIMIT = (
        "time_limit",
        5,
        "Give more time in resources.limits.time or the command's timeout.",
    )
    MEMORY_LIMIT = (
        "memory_limit",
        6,
        "Use less memory, or ask for more in resources.limits.memory.",
    )
    OUTPUT_LIMIT = (
        "output_limit",
        6,
        "Print less, or ask for more in resources.limits.output.",
    )
    DISK_LIMIT = (
        "disk_limit",
        6,
        "Write less to /build, or ask for more in resources.limits.disk.",
    )
    PIDS_LIMIT = (
        "pids_limit",
        6,
        "Start fewer processes, or ask for more in resources.limits.pids.",
    )
    GPU_MEMORY = (
        "gpu_memory",
        6,
        "Use smaller batches, or a GPU with more memory that nobody else uses.",
    )
    REGRESSION = "regression", 7, "The new figures are worse than the old ones."
    RATE_LIMIT = "rate_limit", 8, "Wait, and try again."
    BUSY = "busy", 8, "Try again later, or wait longer with --wait."
    NOT_ALLOWED = (
        "not_allowed",
        9,
        "Ask for less, or have the site's policy changed.",
    )
    INTERNAL = (
        "internal",
        10,
        "This is a defect of rai or its machine: repeat with --debug and report it.",
    )
    RUNNER_LOST = (
        "runner_lost",
        10,
        "The rai process died (terminal closed or killed): run it again.",
    )
    GPU_ERROR = "gpu_error", 10, "See `rai doctor`."
    NO_ENGINE = (
        "no_engine",
        11,
        "Start a Docker Engine, or install bubblewrap; `rai doctor` says what is here.",
    )
    NO_GPU = (
        "no_gpu",
        11,
        "Ask for one in resources.gpu; where there is none, `optional: true` there or"
        " --gpus 0 runs what needs none.",
    )
    CANCELLED = "cancelled", 130, "It was stopped on request."


class Verdict(Struct, frozen=True):
    """Three separate answers: did rai work, did the commands, is the answer right.

    ``passed`` is None when the job claims nothing about correctness. ``hint`` is what
    else to do, after the reason's own advice.
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
