"""The engine seam: what a job asks of whatever runs its commands.

The words are the job's, not Docker's. An engine yields events, never prints, never
raises because a command failed, and raises EngineError (ImageError for an image) when
it failed itself. Clean-up stands in the generator's ``finally``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Protocol

from runner.core import (
    BuildSpec,
    EngineFacts,
    Gpu,
    GpuSituation,
    ImageFacts,
    ImagePlan,
    Problem,
    Reason,
    Workspace,
)
from runner.core.cancel import Cancel
from runner.core.errors import EngineError
from runner.core.events import Event
from runner.core.noun import noun


class Engine(Protocol):
    """One way of running commands."""

    name: str

    def check(self, spec: BuildSpec) -> list[Problem]:
        """Say why this engine cannot serve here; empty when it can."""
        ...

    def facts(self) -> EngineFacts:
        """Say what this engine is and what it cannot enforce here."""
        ...

    def image_facts(self, project: Path, spec: BuildSpec) -> ImageFacts | None:
        """Look up what decides about the image; None where there are no images."""
        ...

    def prepare(
        self, plan: ImagePlan, project: Path, cancel: Cancel
    ) -> Iterator[Event]:
        """Pull or build the image; the last event is ImageReady."""
        ...

    def gpus(self, image: str | None = None) -> GpuSituation:
        """Say which GPUs a run could be given here, and each way tried.

        An engine elsewhere can look only from a container of ``image``; without one its
        situation may hold no list. Nothing is started where no GPU can be.
        """
        ...

    def hold(self, gpu: Gpu, run_id: str) -> AbstractContextManager[None]:
        """Keep a GPU for a run while the context lasts, or this process lives.

        BusyError, from entering it, says who holds it now.
        """
        ...

    def run(self, work: Workspace, cancel: Cancel) -> Iterator[Event]:
        """Run the steps, then give the build folder back as BuildFolder events.

        With ``work.gpu`` a GpuGiven comes before the first command, and another, with
        the GPUs' state then, after the last.
        """
        ...


TABLE = {
    "docker": "DockerEngine",
    "local": "LocalEngine",
    "bare": "BareEngine",
}
"""Every engine: its module in this package, and its class there."""


def make(name: str) -> Engine:
    """Make the engine of that name; its module is imported only here."""
    engine: Engine = getattr(import_module(f"runner.engines.{name}"), TABLE[name])()
    return engine


@noun
class Choice:
    """The engine that serves, those that may take over, and why it is the first."""

    engines: tuple[Engine, ...]
    why: str = ""


@contextmanager
def looking_around(wanted: str) -> Iterator[None]:
    """Let the wanted engine look at this machine while the caller does other things.

    The local engine tries its sandbox, which takes a while, and keeps what it finds:
    ``choose`` need not wait for it afterwards.
    """
    if wanted != "local":
        yield
        return
    thread = Thread(target=_look, args=[make(wanted)])
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _look(engine: Engine) -> None:
    with suppress(EngineError):  # said when the engine is asked again
        engine.facts()


def choose(wanted: str, spec: BuildSpec, *, ci: bool) -> Choice:
    """Choose the engine: the one wanted, or with "auto" the first that can serve.

    Without a container engine and a sandbox, "auto" runs bare, but never in CI.
    EngineError (no_engine) says of each engine why it cannot serve.
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
    return ", ".join(p.message.partition("; ")[0] for p in refused)
