"""From a project and the settings to a request: all that needs no engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from runner.buildfile import redacted
from runner.cli.project import read_spec
from runner.core import (
    BuildSpec,
    GpuRequest,
    JobRequest,
    Problem,
)
from runner.core.errors import NotAllowedError
from runner.store import settings


def request(
    path: Path, config: settings.Config, keep_going: bool, gpus: str | None
) -> tuple[JobRequest, list[Problem]]:
    """Read the build file and hold it against the site's policy; give its warnings.

    ``gpus`` is what the command line says of them, in place of the file.
    """
    spec, warnings, text = read_spec(path)
    ceilings, policy_warnings = settings.policy(settings.POLICY_FILES)
    profile = config.profile or spec.profile
    spec = replace(spec, limits=settings.fit(spec.limits, ceilings))
    if gpus is not None:
        spec = replace(spec, gpu=_asked(gpus, spec))
    if over := settings.over(spec.limits, profile, ceilings):
        raise NotAllowedError(*over)
    project = (path.parent if path.is_file() else path).resolve()
    made = JobRequest(
        project=project,
        spec=spec,
        spec_text=redacted(text),
        profile=profile,
        keep_going=keep_going,
        gpu_wait_s=config.gpu_wait,
    )
    return made, [*warnings, *policy_warnings]


def _asked(text: str, spec: BuildSpec) -> GpuRequest | None:
    """Read --gpus; who names GPUs there wants them, whatever the file says."""
    from runner.gpu.choice import asked as read

    asked = read(text)
    if asked is None or spec.gpu is None:
        return asked
    return replace(spec.gpu, count=asked.count, uuids=asked.uuids, optional=False)
