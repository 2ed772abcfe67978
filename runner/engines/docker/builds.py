"""What both builders need to know of a build, and building with BuildKit."""

from __future__ import annotations

import codecs
import os
import re
import shutil
import time
from collections import deque
from collections.abc import Iterator, Mapping

from msgspec import Struct

from runner.core import BuildImage, ImagePlan, Limits, Problem, Reason, quantities
from runner.core.errors import Cancel, EngineError, ImageError
from runner.core.events import BuildOutput, Event, Output
from runner.core.screen import uncoloured
from runner.engines.base import WithResult
from runner.engines.cgroup import Group
from runner.engines.docker import context
from runner.engines.docker.endpoint import Endpoint, EngineProbe
from runner.engines.docker.transfer import BASE_HINT, Message
from runner.pack import Project
from runner.spec import image_names
from runner.system import process

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
            self._hidden = text[found.end() :].startswith(f"LABEL {image_names.BUILD}=")
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


PROBE_TIME_S = 10.0

WITHOUT_GIT = {"BUILDX_GIT_INFO": "false", "BUILDX_GIT_LABELS": "false"}
"""Without these buildx runs git, which can run programs that the project names."""


class Builder(Struct, frozen=True):
    """docker buildx: its name and version, and the limits that it does not enforce."""

    name: str
    unenforced: tuple[str, ...]


def found(endpoint: Endpoint, *, grouped: bool) -> Builder | None:
    """Return the command line's builder; None without it.

    Only one within the engine itself puts its steps into the build's control group.
    """
    version = _said(endpoint, "version").split()
    if len(version) < 2:
        return None
    missing = ["disk"]
    inside = re.search(r"^Driver:\s+docker$", _said(endpoint, "inspect"), re.MULTILINE)
    if not (grouped and inside):
        missing = ["memory", "pids", *missing]
    return Builder(f"buildx {version[1]}", tuple(missing))


def build(run: BuildRun, project: Project) -> Iterator[Event]:
    """Yield what the builder prints; raise ImageError with the step that failed."""
    log = BuildxLog()
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    # An archive, as of the folder itself the builder would take what is not sent.
    dockerfile = run.asked.dockerfile
    names = context.names(project, dockerfile)
    with context.archive(project.folder, names, dockerfile, run.dockerfile) as packed:
        running = WithResult(
            process.stream(
                _command(run),
                timeout_s=max(run.until - time.monotonic(), 0.0),
                cancel=run.cancel,
                room=process.room(run.plan.limits.output_bytes),
                env=_environment(run.probe.endpoint),
                input=packed,
            )
        )
        for event in running:
            if isinstance(event, Output):
                text = decoder.decode(event.data)
                log.add(text)
                yield BuildOutput(text)
    if run.cancel.requested:
        return
    ended = running.result
    met = ended.reason
    if ended.exit_code and met is None:
        met = run.kernel_limit(log)
    if met in (
        Reason.TIME_LIMIT,
        Reason.OUTPUT_LIMIT,
        Reason.MEMORY_LIMIT,
        Reason.PIDS_LIMIT,
    ):
        raise run.over(met, log)
    if ended.exit_code:
        raise failed(log)


def _said(endpoint: Endpoint, command: str) -> str:
    """Return what a subcommand of buildx prints; "" if it fails."""
    if shutil.which("docker") is None:
        return ""
    try:
        done = process.run(
            ["docker", "buildx", command],
            timeout_s=PROBE_TIME_S,
            env=_environment(endpoint),
        )
    except EngineError:
        return ""
    return done.stdout.decode(errors="replace") if done.exit_code == 0 else ""


def _environment(endpoint: Endpoint) -> Mapping[str, str]:
    return {**os.environ, **endpoint.environment(), **WITHOUT_GIT}


def _command(run: BuildRun) -> list[str]:
    """Return the command line that builds what its stdin holds, an archive."""
    plan, asked, limits = run.plan, run.asked, run.plan.limits
    words = ["docker", "buildx", "build", "--load", "--progress=plain"]
    words += [f"--file={asked.dockerfile}", f"--tag={plan.reference}"]
    words += [
        f"--label={name}={value}" for name, value in image_names.label(plan).items()
    ]
    words += [f"--build-arg={name}={value}" for name, value in asked.args]
    words += [f"--target={asked.target}"] if asked.target else []
    words += ["--no-cache"] if asked.no_cache else []
    words += [f"--ulimit=nofile={limits.open_files}", "--ulimit=core=0"]
    words += [f"--shm-size={limits.shm_bytes}"]
    words += [f"--cgroup-parent={run.group_path}"] if run.group else []
    return [*words, "-"]
