"""The engine that has images, for `rai image`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.core import BuildSpec, Problem, Reason
from runner.core.errors import EngineError

if TYPE_CHECKING:
    from runner.engines.docker import DockerEngine

KEEPING = "docker"
"""The engine that has images; "auto" means this one here."""


def store(wanted: str, spec: BuildSpec) -> DockerEngine:
    """Return the engine that has images; raise EngineError if it cannot be used."""
    if wanted not in ("auto", KEEPING):
        text = f"the {wanted} engine has no images"
        hint = f"only the {KEEPING} engine has them: set RAI_ENGINE={KEEPING}"
        raise EngineError(Problem(text, hint=hint), reason=Reason.NO_ENGINE)
    from runner.engines.docker import DockerEngine  # it loads much that few runs need

    engine = DockerEngine()
    if problems := engine.check(spec):
        raise EngineError(*problems, reason=Reason.NO_ENGINE)
    return engine
