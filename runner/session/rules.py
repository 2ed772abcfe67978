"""What of a run the site's policy refuses, found before an engine is asked."""

from __future__ import annotations

from pathlib import Path

from runner import engines, files, machine
from runner.core import BuildImage, BuildSpec, Problem, Profile, policy
from runner.core.policy import Policy
from runner.engines.imagestore import KEEPING
from runner.images import allowed
from runner.session.project import MOST_BYTES

WITHOUT_IMAGES = engines.TABLE.keys() - {KEEPING}
"""The engines that use this machine's programs, whatever image is named."""


def refused(
    spec: BuildSpec,
    profile: Profile,
    rules: Policy,
    engine: str,
    project: Path | None = None,
) -> list[Problem]:
    """Return all that is not allowed; ``project`` is None for one that is sealed.

    An engine that uses images looks again, at what it is given.
    """
    found = policy.over(spec.limits, profile, rules)
    if not rules.images or engine in WITHOUT_IMAGES:
        return found
    text = _dockerfile(spec, project) if project else None
    platform = f"linux/{machine.architecture()}"
    return found + allowed.problems(spec, rules, text, platform)


def _dockerfile(spec: BuildSpec, project: Path) -> str | None:
    name = (spec.build_image or BuildImage()).dockerfile
    try:
        return files.read_below(project, name, MOST_BYTES).decode(errors="replace")
    except OSError:
        return None  # the engine says what is wrong with it
