"""What both builders need to know of one build, what they write, and how it failed."""

from __future__ import annotations

import re
from collections import deque

from msgspec import Struct

from runner.core import BuildImage, ImagePlan, Limits, Problem, Reason, quantities
from runner.core.cancel import Cancel
from runner.core.errors import ImageError
from runner.core.screen import uncoloured
from runner.engines.cgroup import Group
from runner.engines.docker.endpoint import EngineProbe
from runner.engines.docker.images.transfer import BASE_HINT, Message
from runner.images import labels

KILLED = 137
NEARLY = 0.95
"""The kernel charges memory in batches, so a group ends a little below its limit."""

LAST_LINES = 12
MOST_STEPS = 10_000
LONGEST_LINE = 4096
"""The most characters of a line that are looked at; the rest is only shown."""


class BuildLog:
    """The last lines of a build, and its current step."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=LAST_LINES)
        self._open = ""
        self.step = ""
        self.why = ""
        self.exit_code = 0

    @property
    def tail(self) -> list[str]:
        """The last lines that are not empty."""
        last = uncoloured(self._open)
        return [*self._lines, *([last] if last.strip() else [])]

    @property
    def failure(self) -> str:
        """The failing step, and its error."""
        return ": ".join(filter(None, (self.step, self.why))) or "see its last lines"

    @property
    def base_missing(self) -> bool:
        """Whether the base image could not be pulled."""
        return bool(re.search(r"^Step \d+/\d+: FROM ", self.step))

    def add(self, text: str) -> None:
        """Add a piece of output, split anywhere; colours do not count."""
        first, *others = text.split("\n")
        self._open += first[: LONGEST_LINE - len(self._open)]
        for line in others:
            self._read(uncoloured(self._open).rstrip("\r"))
            self._open = line[:LONGEST_LINE]

    def _read(self, line: str) -> None:
        if line.strip():
            self._lines.append(line)


class ClassicLog(BuildLog):
    """The engine's own builder: ``Step 3/7 : RUN false``, then an error message."""

    def __init__(self) -> None:
        super().__init__()
        self._steps = 0
        self._hidden = False

    def shown(self, text: str) -> str:
        """Return what a user is shown of a message: all but the step of rai's label.

        The engine adds that step as the last of the Dockerfile's, and counts it.
        """
        if found := re.match(rf"Step {self._steps + 1}/(\d{{1,9}}) : ", text):
            self._steps += 1
            self._hidden = text[found.end() :].startswith(f"LABEL {labels.BUILD}=")
            steps = f"Step {self._steps}/{int(found[1]) - 1} : "
            text = steps + text[found.end() :]
        elif text.startswith("Successfully built "):
            self._hidden = False
        return "" if self._hidden else text

    def end(self, message: Message) -> None:
        """Add the message that ends a failed build."""
        code = message.error_detail.code if message.error_detail else 0
        why = message.error.strip()[:LONGEST_LINE]
        self.exit_code, self.why = code, f"exit code {code}" if code else why

    def _read(self, line: str) -> None:
        super()._read(line)
        if found := re.match(r"Step (\d+/\d+) : (.*)", line):
            self.step = f"Step {found[1]}: {found[2]}"


class BuildxLog(BuildLog):
    """BuildKit's plain progress: ``#7 [cpu 3/4] RUN false``, ``#7 ERROR: ...``."""

    def __init__(self) -> None:
        super().__init__()
        self._steps: dict[str, str] = {}
        self._base_missing = False

    @property
    def base_missing(self) -> bool:
        """Whether the base image could not be pulled."""
        return self._base_missing

    def _read(self, line: str) -> None:
        super()._read(line)
        if found := re.match(r"#(\d+) \[(?:\S+ +)?(\d+/\d+)\] (.*)", line):
            self._begun(found[1], f"Step {found[2]}: {found[3]}")
        elif found := re.match(r"#(\d+) \[internal\] (load metadata for .*)", line):
            self._begun(found[1], found[2])
        elif found := re.match(r"#(\d+) ERROR: (.*)", line):
            self._ended(self._steps.get(found[1], ""), found[2])

    def _begun(self, number: str, step: str) -> None:
        if len(self._steps) < MOST_STEPS:
            self._steps.setdefault(number, step)

    def _ended(self, step: str, why: str) -> None:
        code = re.search(r"exit code: (\d{1,9})$", why)
        self.step, self.why = step, f"exit code {code[1]}" if code else why
        self.exit_code = int(code[1]) if code else 0
        self._base_missing = step.startswith("load metadata") or ": FROM " in step


class BuildRun(Struct, frozen=True):
    """One build; it must end ``until`` a time of the monotonic clock.

    ``dockerfile`` is the text that was checked. ``group`` is the control group of its
    steps; None where this user can make none.
    """

    probe: EngineProbe
    plan: ImagePlan
    asked: BuildImage
    dockerfile: str
    until: float
    group: Group | None
    cancel: Cancel

    @property
    def group_path(self) -> str:
        """The group of the steps' containers as the engine takes it; "" without one."""
        return f"/{self.group.name}" if self.group else ""

    def over(self, reason: Reason, log: BuildLog) -> ImageError:
        """Return the error for a limit, with the step that met it."""
        text, key = _met(reason, self.plan.limits)
        step = f", in {log.step}" if log.step else ""
        hint = f"change the Dockerfile, or ask for more in resources.limits.{key}"
        return ImageError(Problem(text + step, hint=hint), reason=reason)

    def kernel_limit(self, log: BuildLog) -> Reason | None:
        """Return the limit of its control group that a failed step met, if any."""
        if self.group is None:
            return None
        full = (self.group.peak_bytes or 0) >= NEARLY * self.plan.limits.memory_bytes
        if self.group.counts.memory_kills or (log.exit_code == KILLED and full):
            return Reason.MEMORY_LIMIT
        return Reason.PIDS_LIMIT if self.group.was_full else None


def failed(log: BuildLog) -> ImageError:
    """Return the error for a step that failed."""
    if log.base_missing:
        text = f"the base image of the build cannot be pulled: {log.failure}"
        return ImageError(Problem(text, hint=BASE_HINT), reason=Reason.IMAGE_NOT_FOUND)
    tail = "".join(f"\n  {line}" for line in log.tail)
    return ImageError(f"the image build failed: {log.failure}{tail}")


def _met(reason: Reason, limits: Limits) -> tuple[str, str]:
    """Return what happened, and the key of the limit."""
    size = quantities.size_text
    match reason:
        case Reason.TIME_LIMIT:
            time = quantities.duration_text(limits.build_time_s)
            return f"the image was not built within {time}", "build_time"
        case Reason.MEMORY_LIMIT:
            most = size(limits.memory_bytes)
            return f"the image build exceeded the memory limit of {most}", "memory"
        case Reason.PIDS_LIMIT:
            text = (
                f"the image build exceeded the limit of {limits.build_pids} processes"
            )
            return text, "build_pids"
        case Reason.OUTPUT_LIMIT:
            most = size(limits.output_bytes)
            return f"the image build printed more than {most}", "output"
        case _:
            most = size(limits.build_disk_bytes)
            return f"the image build wrote more than {most}", "build_disk"
