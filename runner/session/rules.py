"""What of a run the site's policy refuses, found before an engine is asked."""

from __future__ import annotations

from runner import engines
from runner.core import BuildSpec, Problem, Profile, policy
from runner.core.policy import Policy
from runner.engines.imagestore import KEEPING
from runner.images import allowed

WITHOUT_IMAGES = engines.TABLE.keys() - {KEEPING}
"""The engines that use this machine's programs, whatever image is named."""


def refused(
    spec: BuildSpec, profile: Profile, rules: Policy, engine: str
) -> list[Problem]:
    """Return all that is not allowed; an engine that builds images looks again."""
    found = policy.over(spec.limits, profile, rules)
    if not rules.images or engine in WITHOUT_IMAGES:
        return found
    return found + allowed.problems(spec, rules, builds=engine == KEEPING)
