"""From a project and the settings to a request: all that needs no engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from runner import config, job
from runner.cli.project import read_spec
from runner.errors import EngineError, NotAllowedError
from runner.model import BuildSpec, JobRequest, Problem, Reason
from runner.spec import redacted


def request(
    path: Path, settings: config.Config, keep_going: bool
) -> tuple[JobRequest, list[Problem]]:
    """Read the build file and hold it against the site's policy; give its warnings."""
    spec, warnings, text = read_spec(path)
    ceilings, policy_warnings = config.policy(config.POLICY_FILES)
    profile = settings.profile or spec.profile
    spec = replace(spec, limits=config.fit(spec.limits, ceilings))
    if over := config.over(spec.limits, profile, ceilings):
        raise NotAllowedError(*over)
    project = (path.parent if path.is_file() else path).resolve()
    made = JobRequest(
        project=project,
        spec=spec,
        spec_text=redacted(text),
        steps=job.steps(spec, gpu=False),
        profile=profile,
        keep_going=keep_going,
        warnings=_without_gpu(spec),
    )
    return made, [*warnings, *policy_warnings]


def _without_gpu(spec: BuildSpec) -> tuple[str, ...]:
    if spec.gpu is None or spec.gpu.count == 0:
        return ()
    if spec.gpu.optional:
        return ("no GPU is given to runs yet; this one goes on without",)
    raise EngineError(
        Problem(f"{spec.file} asks for a GPU, and no GPU is given to runs yet"),
        reason=Reason.NO_GPU,
    )
