"""What both builders need to know of one build, and how it is told that it failed."""

from __future__ import annotations

from msgspec import Struct

from runner.core import BuildImage, ImagePlan, Limits, Problem, Reason, quantities
from runner.core.cancel import Cancel
from runner.core.errors import ImageError
from runner.engines.docker.endpoint import EngineProbe
from runner.engines.docker.images.buildlog import BuildLog
from runner.engines.docker.images.transfer import BASE_HINT
from runner.engines.local.cgroup import Group

KILLED = 137
NEARLY = 0.95
"""The kernel charges memory in batches, so a group ends a little below its limit."""


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
