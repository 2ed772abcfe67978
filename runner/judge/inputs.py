"""Make up what a team's convolution on the CPU is called with.

    python3 -m runner.judge.inputs [--source /src] [--out /build]

Reads the milestone's layers of ``job.json``. Values come from a new seed each time, so
no answer can be known before; the convolution must hold for other sizes and for values
of other magnitudes, too.
"""

from __future__ import annotations

import json
import secrets
import sys
from array import array
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

from runner.judge import cases, folders
from runner.judge.cases import ConvolutionCase

MOST_VALUES = 32 << 20
"""Values of x, or of y, of one case."""

WIDE = 55
"""Images and maps of wide inputs are scaled by up to 2 to the power of this."""

ODD = (
    # One output; weights of one element; rows and columns that differ; more maps than a
    # vector has elements; an image as narrow as its weights.
    ("one_output", 3, 1, 1, 5, 5, 5),
    ("single_weights", 1, 7, 3, 9, 17, 1),
    ("high_images", 5, 13, 5, 37, 11, 3),
    ("wide_images", 3, 6, 2, 8, 61, 7),
    ("many_maps", 2, 37, 4, 12, 13, 5),
    ("one_column", 2, 5, 3, 19, 4, 4),
)
"""Names and B, M, C, H, W, K."""


def cases_of(job: Mapping[str, object], random: Random) -> list[ConvolutionCase]:
    """Return the cases: the milestone's layers, other sizes, other values.

    Raises ValueError for a job without layers, or with one that is too large.
    """
    layers = job.get("layers")
    if not isinstance(layers, list) or not layers:
        raise ValueError("job.json has no layers")
    found = []
    for layer in layers:
        shape = {name: int(layer["shape"][name]) for name in "BMCHWK"}
        found.append(ConvolutionCase(layer["name"], "normal", **shape))
        few = {**shape, "B": min(8, shape["B"])}
        for kind in KINDS:
            if kind != "normal":
                found.append(ConvolutionCase(layer["name"], kind, **few))
    found += [ConvolutionCase(name, "normal", *sizes) for name, *sizes in ODD]
    found.append(_any_sizes(random))
    for case in found:
        if max(case.x_count, case.y_count, case.k_count) > MOST_VALUES:
            raise ValueError(f"{case.name} has more than {MOST_VALUES:,} values")
    return found


def _any_sizes(random: Random) -> ConvolutionCase:
    K = random.randint(1, 7)
    return ConvolutionCase(
        "any_sizes",
        "normal",
        B=random.randint(1, 9),
        M=random.randint(1, 30),
        C=random.randint(1, 9),
        H=K + random.randint(0, 40),
        W=K + random.randint(0, 40),
        K=K,
    )


def normal(random: Random, count: int, _: int) -> array[float]:
    """Draw values around 0 of about 1."""
    gauss = random.gauss
    return array("f", (gauss(0, 1) for _ in range(count)))


def wide(random: Random, count: int, each: int) -> array[float]:
    """Scale groups of ``each`` values by powers of 2 that differ widely."""
    values, found = normal(random, count, each), array("f")
    for first in range(0, count, each):
        scale = 2.0 ** random.randint(-WIDE, WIDE)
        found.extend([value * scale for value in values[first : first + each]])
    return found


def constant(random: Random, count: int, each: int) -> array[float]:
    """Let all values of a group be the same."""
    found = array("f")
    for _ in range(count // each):
        found.extend([random.gauss(0, 1)] * each)
    return found


def tiny(random: Random, count: int, _: int) -> array[float]:
    """Draw values whose products are near the least that a float32 can be."""
    gauss = random.gauss
    return array("f", (gauss(0, 1) * 2.0**-62 for _ in range(count)))


KINDS: dict[str, Callable[[Random, int, int], array[float]]] = {
    "normal": normal,
    "wide": wide,
    "constant": constant,
    "tiny": tiny,
}
"""How values are drawn: a count of them, in groups of an image or of a map."""


def write(folder: Path, number: int, case: ConvolutionCase, random: Random) -> None:
    """Write x and k of a case."""
    draw = KINDS[case.kind]
    x = draw(random, case.x_count, case.C * case.H * case.W)
    k = draw(random, case.k_count, case.C * case.K * case.K)
    (folder / f"{number}.x").write_bytes(x.tobytes())
    (folder / f"{number}.k").write_bytes(k.tobytes())


def main(argv: list[str] | None = None) -> int:
    """Write all cases; return the exit status."""
    source, out = folders.read("runner.judge.inputs", argv)
    seed = secrets.token_hex(16)
    random = Random(seed)
    try:
        job = json.loads((source / "job.json").read_bytes())
        found = cases_of(job, random)
        for number, case in enumerate(found):
            write(out, number, case, random)
        cases.write(out, seed, found)
    except (OSError, ValueError, KeyError) as error:
        sys.stderr.write(f"cannot make inputs: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
