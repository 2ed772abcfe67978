"""The engines: the table of them, and the choice of the one that serves."""

from __future__ import annotations

from importlib import import_module

from msgspec import Struct

from runner.core import BuildSpec, Problem, Reason
from runner.core.errors import EngineError
from runner.engines.base import Engine

TABLE = {
    "docker": "DockerEngine",
    "local": "LocalEngine",
    "bare": "BareEngine",
}
"""Every engine: its module in this package, and its class there."""


def make(name: str) -> Engine:
    """Return a new engine of that name; its module is imported only here."""
    engine: Engine = getattr(import_module(f"runner.engines.{name}"), TABLE[name])()
    return engine


class Choice(Struct, frozen=True):
    """The engine that serves, those that may take over, and why it is the first."""

    engines: tuple[Engine, ...]
    why: str = ""


def choose(wanted: str, spec: BuildSpec, *, ci: bool) -> Choice:
    """Choose the engine: the one wanted, or with "auto" the first that can serve.

    Without a container engine and a sandbox, "auto" runs bare, but never in CI.

    Raises:
        EngineError: none can serve (no_engine); the problems say why of each.
    """
    names = ["docker", "local", *([] if ci else ["bare"])]
    refused: list[Problem] = []
    for name in names if wanted == "auto" else [wanted]:
        engine = make(name)
        problems = engine.check(spec)
        if not problems:
            # An image that cannot be had is no reason to leave the confinement.
            others = [make("local")] if wanted == "auto" and name == "docker" else []
            return Choice((engine, *others), _why(wanted, refused))
        refused += [Problem(f"{name}: {p.message}", p.place, p.hint) for p in problems]
    raise EngineError(*refused, reason=Reason.NO_ENGINE)


def _why(wanted: str, refused: list[Problem]) -> str:
    if wanted != "auto":
        return ""
    return "; ".join(p.message for p in refused)
