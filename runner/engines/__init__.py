"""The table of engines, the choice among them, and what killed runs left."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from runner.core import BuildSpec, Problem, Reason
from runner.core.errors import EngineError
from runner.engines import cgroup
from runner.spec import image_names

if TYPE_CHECKING:
    from runner.engines.base import Engine
    from runner.engines.docker import DockerEngine


TABLE = {
    "docker": "DockerEngine",
    "local": "LocalEngine",
    "bare": "BareEngine",
}
"""Each engine's module in this package, and its class there."""

UNCONFINED = "bare"
"""The engine without isolation, which serves everywhere."""


def make(name: str) -> Engine:
    """Return a new engine by its name; only this imports its module."""
    engine: Engine = getattr(import_module(f"runner.engines.{name}"), TABLE[name])()
    return engine


def remove_left(engine: str, run_id: str) -> str:
    """Remove what a run that was killed left with its engine; return what stays, or "".

    The engines without images remove it when they are next used.
    """
    if engine != "docker":
        return ""
    from runner.engines.docker.owner import remove_run  # loads the SDK

    try:
        remove_run(run_id)
    except EngineError as error:
        why = "; ".join(problem.message for problem in error.problems)
        return f"its container and volumes stay until another run there: {why}"
    return ""


class Choice(Struct, frozen=True):
    """The engines to use, in order, and why those before them cannot be used."""

    engines: tuple[Engine, ...]
    why: str = ""


def chosen(names: Iterable[str], why: str) -> Choice:
    """Return the choice of another process.

    What takes time is done at once: modules are loaded, and an engine is connected to.
    """
    engines = tuple(map(make, names))
    with suppress(EngineError):  # the run will tell
        engines[0].facts()
    return Choice(engines, why)


def choose(wanted: str, spec: BuildSpec, *, ci: bool) -> Choice:
    """Return the engine that is wanted, or with "auto" the first that works here.

    "auto" falls back to the bare engine, which confines nothing: not in CI or for
    others' projects (``ci``), nor where a sandbox works and only its network does not,
    as bare has this machine's.

    Raises:
        EngineError: none works (no_engine), or the one that is wanted refuses commands
            of the build file (bad_spec); the problems say why for each.
    """
    last = [] if ci or _confines(spec) else [UNCONFINED]
    names = ["docker", "local", *last]
    refused: list[Problem] = []
    for name in names if wanted == "auto" else [wanted]:
        engine = make(name)
        problems = engine.check(spec)
        if wanted == "auto" and name != KEEPING and image_names.made_here(spec):
            text = f"the commands need {spec.image}, an image, and it has none"
            hint = "install a Docker Engine, e.g. by `apt install docker.io`"
            problems = [Problem(text, spec.image_place, hint)]
        if not problems:
            # If the image cannot be pulled, the fallback must confine the run too.
            others = [make("local")] if wanted == "auto" and name == "docker" else []
            why = "; ".join(p.message for p in refused)
            return Choice((engine, *others), why if wanted == "auto" else "")
        refused += [Problem(f"{name}: {p.message}", p.place, p.hint) for p in problems]
    of_file = wanted != "auto" and all(p.place for p in refused)
    reason = Reason.BAD_SPEC if of_file else Reason.NO_ENGINE
    raise EngineError(*refused, reason=reason)


def _confines(spec: BuildSpec) -> bool:
    """Whether the local engine works here except that it cannot give a network."""
    return spec.limits.network and not make("local").check(BuildSpec(spec.file))


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


def reap() -> None:
    """Remove folders, control groups and processes whose owner is gone.

    It is cheap where there are none, so commands that only read call it too.
    """
    with suppress(OSError):  # no temporary folder can be written to
        if any(Path(tempfile.gettempdir()).glob("rai-*-*")):
            from runner.engines import folders

            folders.reap()
    with suppress(OSError):
        cgroup.reap()
