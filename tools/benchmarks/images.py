"""Measure the sizes of the project's images."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

from tools.benchmarks import projects, rows

MOST_BYTES = {"gpu": 1_400_000_000, "full": 2_500_000_000}


def measure() -> Iterator[dict[str, object]]:
    """Build missing images, and query the engine."""
    for target, most in MOST_BYTES.items():
        build = [projects.RAI, "image", "build", "-p", rows.ROOT, "--target", target]
        done = subprocess.run(build, check=True, stdout=subprocess.PIPE, text=True)
        reference = done.stdout.split()[-1]
        size = next(i["size_bytes"] for i in _listed() if i["reference"] == reference)
        yield rows.row(
            f"image {target}",
            f"at most {most / 1e9:g} GB",
            size <= most,
            size_bytes=size,
        )


def _listed() -> list[dict[str, object]]:
    words = [projects.RAI, "image", "ls", "-p", rows.ROOT, "--json"]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE)
    found: list[dict[str, object]] = json.loads(done.stdout)["images"]
    return found
