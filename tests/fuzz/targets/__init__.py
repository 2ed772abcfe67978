"""The targets: each has ``SEEDS``, and ``one``, which asserts what must hold."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from msgspec import Struct

NAMES = (
    "archives",
    "build_files",
    "ignore_rules",
    "kernel_shapes",
    "logs",
    "plans",
    "records",
    "screens",
    "traces",
)
CORPUS = Path(__file__).parent.parent / "corpus"


class Target(Struct, frozen=True):
    """What is fuzzed: ``one`` raises if something does not hold for its bytes."""

    name: str
    one: Callable[[bytes], None]
    seeds: tuple[bytes, ...]

    @property
    def corpus(self) -> Path:
        """The folder of inputs that are kept; each reaches something of its own."""
        return CORPUS / self.name

    def kept(self) -> list[bytes]:
        """Return the seeds and the corpus."""
        found = sorted(self.corpus.glob("*"))
        return [*self.seeds, *(path.read_bytes() for path in found)]


def target(name: str) -> Target:
    """Load a target by its name."""
    module = import_module(f"tests.fuzz.targets.{name}")
    return Target(name, module.one, module.SEEDS)
