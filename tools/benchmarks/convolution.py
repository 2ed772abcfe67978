"""Compare our convolution on the CPU with PyTorch's and MXNet's, on the same threads.

The libraries live in interpreters of their own: RAI_BENCH_TORCH and RAI_BENCH_MXNET
name each one's Python. One that is not named is not measured, which is said.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.benchmarks import rows

WORKER = Path(__file__).with_name("convolution_worker.py")
PYTHONS = {"pytorch": "RAI_BENCH_TORCH", "mxnet": "RAI_BENCH_MXNET"}
LAYERS = {"conv1": [1, 12, 5, 70], "conv2": [12, 24, 5, 33]}  # C, M, K, size: 2019fa
IMAGES = (1000, 10_000)
PIECES = (32, 64, 128, 256)  # and all images at once
ROUNDS, TURN_S, TRIAL_S = 9, 0.5, 0.2
MOST_ERROR = 1e-5
QUIET_S = 0.1  # for threads of the one before that still spin
# Keep freed memory, so that a large output is not mapped again at every call.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 62)}


@dataclass(frozen=True)
class Way:
    """A configuration of a library: images per piece, and their layout."""

    piece: int
    layout: str


class Library:
    """A library in its own process, and its times in its fastest configuration."""

    def __init__(self, name: str, python: str, threads: int) -> None:
        environment = {**os.environ, **KEEP_MEMORY, "OMP_NUM_THREADS": str(threads)}
        self._process = subprocess.Popen(
            [python, str(WORKER), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        self.name = name
        about = self._ask(do="about")
        self.version: str = about["version"]
        self._layouts: list[str] = about["layouts"]

    def __enter__(self) -> Library:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def _ask(self, **request: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"{self.name} exited with status {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def prepare(self, layer: list[int], images: int, way: Way) -> None:
        """Prepare a configuration and check its result; exit if it is wrong."""
        said = self._ask(
            do="prepare",
            layer=layer,
            images=images,
            piece=way.piece,
            layout=way.layout,
        )
        if not said["error"] < MOST_ERROR:
            sys.exit(f"{self.name} has an error of {said['error']:.1e} in {way}")

    def time(self, turn_s: float) -> list[float]:
        """Run for a turn after a pause; return the seconds of every run."""
        time.sleep(QUIET_S)
        seconds: list[float] = self._ask(do="time", turn_s=turn_s)["seconds"]
        return seconds

    def best(self, layer: list[int], images: int) -> Way:
        """Try every configuration for a short turn; prepare the fastest."""
        tried: dict[Way, float] = {}
        for layout in self._layouts:
            for piece in (*PIECES, images):
                way = Way(piece, layout)
                self.prepare(layer, images, way)
                tried[way] = statistics.median(self.time(TRIAL_S))
        fastest = min(tried, key=tried.__getitem__)
        self.prepare(layer, images, fastest)
        return fastest


def measure() -> Iterator[dict[str, object]]:
    """Run each library's fastest configuration in turns; compare the medians."""
    threads = len(os.sched_getaffinity(0))
    with ExitStack() as stack:
        pythons = {"ours": sys.executable, **peers()}
        if len(pythons) == 1:
            return
        libraries = [
            stack.enter_context(Library(name, python, threads))
            for name, python in pythons.items()
        ]
        for name, layer in LAYERS.items():
            for images in IMAGES:
                yield _row(name, layer, images, threads, libraries)


def peers() -> dict[str, str]:
    """Return the given Pythons; print which are missing."""
    found = {}
    for name, variable in PYTHONS.items():
        if python := os.environ.get(variable):
            found[name] = python
        else:
            print(f"{name}: not measured: set {variable} to a Python that has it")
    return found


def _row(
    name: str, layer: list[int], images: int, threads: int, libraries: list[Library]
) -> dict[str, object]:
    ways = {each.name: each.best(layer, images) for each in libraries}
    taken: dict[str, list[float]] = {each.name: [] for each in libraries}
    for _ in range(ROUNDS):
        for each in libraries:
            taken[each.name] += each.time(TURN_S)
    medians = {each: statistics.median(times) for each, times in taken.items()}
    ours = medians.pop("ours")
    channels, maps, kernel, size = layer
    pixels = images * maps * (size - kernel + 1) ** 2
    gflop = 2e-9 * pixels * channels * kernel**2
    return rows.row(
        f"convolution on the CPU, {name} of 2019fa, {images} images",
        f"at least as fast as {' and '.join(medians)}",
        ours <= min(medians.values()),
        threads=threads,
        faster_by={each: round(s / ours, 2) for each, s in medians.items()},
        gflop_per_s={
            each.name: round(gflop / statistics.median(taken[each.name]), 1)
            for each in libraries
        },
        ways={each: f"{way.layout}, {way.piece}" for each, way in ways.items()},
        versions={each.name: each.version for each in libraries},
        **{each: rows.spread(times) for each, times in taken.items()},
    )
