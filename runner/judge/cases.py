"""What a team's convolution on the CPU is called with: cases, and their files.

``inputs.json`` lists the cases; ``<n>.x``, ``<n>.k`` and ``<n>.y`` are the arrays of
case n, as raw float32.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

FLOAT = 4
"""Bytes of a float32."""

LIST = "inputs.json"


@dataclass(frozen=True)
class ConvolutionCase:
    """A call: B images of C x H x W, M maps of C x K x K, and how values are drawn."""

    name: str
    kind: str
    B: int
    M: int
    C: int
    H: int
    W: int
    K: int

    @property
    def words(self) -> str:
        """Return what to call it in a sentence."""
        return f"{self.name} ({self.kind} values)"

    @property
    def sizes(self) -> tuple[int, int, int, int, int, int]:
        """Return B, M, C, H, W, K."""
        return self.B, self.M, self.C, self.H, self.W, self.K

    @property
    def x_count(self) -> int:
        """Return how many values x has."""
        return self.B * self.C * self.H * self.W

    @property
    def k_count(self) -> int:
        """Return how many weights there are."""
        return self.M * self.C * self.K * self.K

    @property
    def y_count(self) -> int:
        """Return how many values y has."""
        return self.B * self.M * (self.H - self.K + 1) * (self.W - self.K + 1)


def read(folder: Path) -> list[ConvolutionCase]:
    """Return a folder's cases."""
    found = json.loads((folder / LIST).read_bytes())
    return [ConvolutionCase(**case) for case in found["cases"]]


def write(folder: Path, seed: str, cases: list[ConvolutionCase]) -> None:
    """List cases in a folder, with the seed that their values come from."""
    text = json.dumps({"seed": seed, "cases": [asdict(case) for case in cases]})
    (folder / LIST).write_text(f"{text}\n", encoding="utf-8")
