"""How a build that ended without an image is told."""

from __future__ import annotations

from runner.core import Limits, Problem, Reason, quantities
from runner.core.errors import ImageError
from runner.engines.docker.images.buildlog import BuildLog
from runner.engines.docker.images.transfer import BASE_HINT
from runner.engines.local.cgroup import Group

KILLED = 137
NEARLY = 0.95
"""The kernel charges memory in batches, so a group ends a little below its limit."""


def failed(log: BuildLog) -> ImageError:
    """Return the error for a step that failed."""
    if log.base_missing:
        text = f"the base image of the build cannot be pulled: {log.failure}"
        return ImageError(Problem(text, hint=BASE_HINT), reason=Reason.IMAGE_NOT_FOUND)
    tail = "".join(f"\n  {line}" for line in log.tail)
    return ImageError(f"the image build failed: {log.failure}{tail}")


def over(reason: Reason, limits: Limits, log: BuildLog) -> ImageError:
    """Return the error for a limit, with the step that met it."""
    text, key = _met(reason, limits)
    step = f", in {log.step}" if log.step else ""
    hint = f"change the Dockerfile, or ask for more in resources.limits.{key}"
    return ImageError(Problem(text + step, hint=hint), reason=reason)


def kernel_limit(group: Group | None, limits: Limits, log: BuildLog) -> Reason | None:
    """Return the limit of its control group that a failed step met, if any."""
    if group is None:
        return None
    full = (group.peak_bytes or 0) >= NEARLY * limits.memory_bytes
    if group.counts.memory_kills or (log.exit_code == KILLED and full):
        return Reason.MEMORY_LIMIT
    return Reason.PIDS_LIMIT if group.was_full else None


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
