"""The judge's side of the GPU: inputs, shared memory, checks, the reference."""

from __future__ import annotations

import ctypes
import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from random import Random

from runner.judge import layout, wrong
from runner.judge.driver import Cuda, Event, Region
from runner.judge.kinds import PLAIN, Inputs, ValueKind
from runner.judge.player import Clocks
from runner.judge.sizes import Layer, reference_of
from runner.judge.wrong import Wrong

BLOCKS_OF_MULTIPROCESSOR, THREADS = 16, 256
SWEEPS = 4  # times the size of the L2 cache that a sweep covers
LEAST_SWEEP = 1 << 20
RESULT_SLOTS = 1024
RESULT_BYTES = 8 * (4 + 2 * RESULT_SLOTS)
COUNTERS = ("out", "in", "x", "k")
LOOK_ROWS, LOOK_BYTES = 256, 32
DELAY_NS = 400_000
"""How long the GPU waits while the host launches the reference."""

SHARE = 1 << 40
WORST = 1 << 60
CHECKS = (5, 7)
"""The sizes of weights for which kernels.cu has a fast check."""

REFERENCE_INPUTS = (0, 0, 0, 0)  # N(0, 1), as floats

ELEMENT = {"fp32": 2e-6, "tf32": 2e-3, "half": 1e-3}
"""How far an output may be off, as a share of the sum of its |x| |k|.

A single product of two numbers cut to the 11 bits of tf32 is off by up to 2 / 2^10.
"""

NORM = {"fp32": 1e-6, "tf32": 5e-4, "half": 1e-3}
"""How far y may be off on N(0, 1): ||y - expected|| / ||expected||."""


@dataclass(frozen=True)
class Placed:
    """Where a call's arrays lie in both regions, and what its inputs are."""

    inputs: Inputs
    seeds: tuple[int, int, int, int]  # of x, k, and the NaNs of both regions
    at: Mapping[str, int]
    rows: tuple[int, int]  # of y, that ``look`` copies: the first, and their distance

    @property
    def offsets(self) -> Mapping[str, int]:
        """The offsets that the player gets."""
        return {name: at for name, at in self.at.items() if name != "scratch"}


@dataclass(frozen=True)
class CheckedCall:
    """What a check of a whole call found."""

    wrong: Wrong | None
    values: int
    error: float  # ||y - expected|| / ||expected||
    worst: float  # the largest error of an output, as a share of the sum of |x| |k|


class Seeds:
    """A secret seed, and all that is drawn from it."""

    def __init__(self, secret: bytes) -> None:
        self._secret, self._drawn = secret, 0
        self.random = Random(secret)

    def next(self) -> int:
        """Return a fresh seed of 64 bits; none tells of another."""
        self._drawn += 1
        data = self._secret + self._drawn.to_bytes(8, "little")
        return int.from_bytes(hashlib.sha256(data).digest()[:8], "little", signed=True)


class Bench:
    """The judge's context on the GPU, with room for the layers of a job."""

    def __init__(self, cuda: Cuda, folder: Path, layers: tuple[Layer, ...]) -> None:
        self._cuda, self.facts = cuda, cuda.facts()
        self._module = cuda.load((folder / "kernels.ptx").read_bytes())
        self._clocks = Clocks(cuda, (folder / "clocks.ptx").read_bytes())
        self._stream = cuda.stream()
        self._events = Event(cuda), Event(cuda)
        self.read_only = cuda.share(
            max(layout.room([*la.inputs.values()]) for la in layers)
        )
        self.shared = cuda.share(
            max(layout.room([*la.outside().values()]) for la in layers)
        )
        counts = [layer.counts for layer in layers]
        self._x = cuda.allocate(4 * max(x for _, x, _ in counts))
        self._k = cuda.allocate(4 * max(k for _, _, k in counts))
        self._wide_k = cuda.allocate(8 * max(k for _, _, k in counts))
        self._size_k = cuda.allocate(4 * max(k for _, _, k in counts))
        self._top = cuda.allocate(4 * max(layer.shape[0] for layer in layers))
        self._result = cuda.allocate(RESULT_BYTES)
        self._looked = cuda.pinned(LOOK_ROWS * LOOK_BYTES)
        self._counters = cuda.allocate(8 * len(COUNTERS))
        self._explained = cuda.allocate(16)
        self._sweep_bytes = max(LEAST_SWEEP, SWEEPS * self.facts.l2_bytes)
        self._sweep = cuda.allocate(self._sweep_bytes)
        references = [reference_of(layer).counts for layer in layers]
        most = (max(counts[n] for counts in references) for n in range(3))
        self._reference = tuple(cuda.allocate(4 * count) for count in most)
        for n in (1, 2):
            count = max(counts[n] for counts in references)
            self._run("fill", self._reference[n], count, count, n, *REFERENCE_INPUTS)

    def descriptors(self) -> tuple[int, int]:
        """Return file descriptors of the shared regions: inputs, then outputs."""
        regions = self.read_only, self.shared
        return tuple(map(self._cuda.descriptor, regions))  # type: ignore[return-value]

    def _run(self, name: str, *arguments: int) -> None:
        grid = (BLOCKS_OF_MULTIPROCESSOR * self.facts.multiprocessors, 1, 1)
        kernel = self._module.kernel(f"judge_{name}")
        self._stream.launch(kernel, grid, (THREADS, 1, 1), arguments)

    def place(self, layer: Layer, inputs: Inputs, seeds: Seeds) -> Placed:
        """Draw fresh inputs, put them and NaNs into the regions, clear the caches."""
        random = seeds.random
        outside = layer.outside()
        at = layout.places(layer.inputs, self.read_only.size, random)
        at |= layout.places(outside, self.shared.size, random)
        first = at.get("scratch", 0)
        for name, size in layer.scratch.items():
            at[name] = first
            first += layout.padded(size)
        drawn = tuple(seeds.next() for _ in range(4))
        # They lie all over y, at distances that are nobody's own.
        pitch = max(LOOK_BYTES, outside["y"] // LOOK_ROWS)
        pitch -= random.randrange(pitch - LOOK_BYTES + 1) // 64 // 4 * 4
        left = outside["y"] - (_rows(outside["y"]) - 1) * pitch - LOOK_BYTES
        rows = random.randrange(max(0, left) // 4 + 1) * 4, pitch
        placed = Placed(inputs, drawn, at, rows)  # type: ignore[arg-type]
        self._write(layer, placed)
        self._clear_caches()
        return placed

    def _write(self, layer: Layer, placed: Placed) -> None:
        inputs, (x_seed, k_seed, in_seed, out_seed) = placed.inputs, placed.seeds
        _, x, k = layer.counts
        _, maps, *_ = layer.shape
        halves = int(layer.halves)
        for region, seed in ((self.read_only, in_seed), (self.shared, out_seed)):
            self._run("poison", region.address, region.size // 4, seed)
        drawn = inputs.kind, inputs.shift, inputs.spread, halves
        self._run("fill", self._x, x, x // layer.shape[0], x_seed, *drawn)
        drawn = ValueKind.NORMAL, 0, inputs.weights_spread, halves
        self._run("fill", self._k, k, k // maps, k_seed, *drawn)
        self._run("widen", self._wide_k, self._size_k, self._k, k, halves)
        for name, own in (("x", self._x), ("k", self._k)):
            to = self.read_only.address + placed.at[name]
            self._cuda.copy(to, own, layer.inputs[name], self._stream)

    def _clear_caches(self) -> None:
        """Displace all from the L2 cache, also what a kernel marked to stay."""
        self._cuda.forget_persisting()
        self._run("sweep", self._sweep, self._sweep_bytes // 4)
        self._stream.wait()

    def look(self, layer: Layer, placed: Placed) -> bytes:
        """Copy parts of y at secret places, at once: no kernel is waited for.

        A y of which 1 in 300 is missing is seen in half of all calls, and a cheat needs
        half of the calls to gain anything.
        """
        first, pitch = placed.rows
        y = self.shared.address + placed.at["y"]
        size = layer.outside()["y"]
        width, rows = min(size, LOOK_BYTES), _rows(size)
        self._stream.copy_rows(self._looked, y + first, width, pitch, rows)
        self._stream.wait()
        return ctypes.string_at(self._looked, width * rows)

    def check(
        self, layer: Layer, placed: Placed, accuracy: str, call: int
    ) -> CheckedCall:
        """Compare all of y with float64 sums, and all else with what was written."""
        y = self.shared.address + placed.at["y"]
        self._cuda.clear(self._counters, 8 * len(COUNTERS), self._stream)
        self._cuda.clear(self._result, RESULT_BYTES, self._stream)
        images, _, channels, rows, columns, _ = layer.shape
        halves = int(layer.halves)
        if placed.inputs.by_top:
            each = channels * rows * columns
            self._run("top", self._top, self._x, images, each, halves)
        top = self._top if placed.inputs.by_top else 0
        sums = y, self._x, self._wide_k, self._size_k, *layer.shape, halves
        share = round(ELEMENT[accuracy] * SHARE)
        taps = layer.shape[5] if layer.shape[5] in CHECKS else 0
        self._run(f"check_{taps}", *sums, share, top, self._result)
        self._untouched(layer, placed)
        self._stream.wait()
        changed = struct.unpack("<4Q", self._cuda.download(self._counters, 32))
        data = self._cuda.download(self._result, RESULT_BYTES)
        wrong, first, worst, _ = struct.unpack_from("<4Q", data)
        parts = struct.unpack_from(f"<{2 * RESULT_SLOTS}d", data, 32)
        error, norm = (sum(parts[:RESULT_SLOTS]), sum(parts[RESULT_SLOTS:]))
        relative = sqrt(error / norm) if norm > 0 else 0.0
        found: Wrong | None = None
        if wrong:
            # The kernel counts down from the last: zeroed memory is its start.
            found = self._explain(layer, placed, ~first & (1 << 64) - 1, call)
        elif placed.inputs is PLAIN and relative > NORM[accuracy]:
            place = call, layer.name, 0, 0, 0, 0, relative, NORM[accuracy]
            found = Wrong(*place, "norm", placed.inputs.name)
        elif where := next(
            (n for n, c in zip(COUNTERS, changed, strict=True) if c), None
        ):
            what = "outside" if where in {"out", "in"} else where
            found = Wrong(
                call, layer.name, 0, 0, 0, 0, 0.0, 0.0, what, placed.inputs.name
            )
        return CheckedCall(found, layer.counts[0], relative, worst / WORST)

    def _untouched(self, layer: Layer, placed: Placed) -> None:
        """Count what changed around the arrays, and in x and k."""
        *_, in_seed, out_seed = placed.seeds

        def around(
            counter: int, region: Region, seed: int, sizes: Mapping[str, int]
        ) -> None:
            ranges = [
                end for name, size in sizes.items()
                for end in (placed.at[name] // 4, -(-(placed.at[name] + size) // 4))
            ]  # fmt: skip
            ranges += [0] * (4 - len(ranges))
            to = self._counters + 8 * counter
            self._run("untouched", region.address, region.size // 4, seed, *ranges, to)

        around(0, self.shared, out_seed, layer.outside())
        around(1, self.read_only, in_seed, layer.inputs)
        for counter, name, own in ((2, "x", self._x), (3, "k", self._k)):
            at, size = self.read_only.address + placed.at[name], layer.inputs[name]
            self._run("same", own, at, size // 2, self._counters + 8 * counter)

    def _explain(self, layer: Layer, placed: Placed, index: int, call: int) -> Wrong:
        y = self.shared.address + placed.at["y"]
        _, *shape = layer.shape
        given = y, self._x, self._wide_k, *shape, int(layer.halves), index
        self._run("explain", self._explained, *given)
        self._stream.wait()
        found, expected = struct.unpack("<2d", self._cuda.download(self._explained, 16))
        _, *sizes = layer.outputs
        where = call, layer.name, *wrong.place(index, *sizes)
        return Wrong(*where, found, expected, "y", placed.inputs.name)

    def reference(self, layer: Layer) -> tuple[float, float]:
        """Time the reference on a layer's shape; return milliseconds and MHz."""
        *sizes, taps = reference_of(layer).shape
        self._clear_caches()
        self._clocks.wait(self._stream, DELAY_NS)
        self._clocks.stamp(self._stream, 0)
        first, last = self._events
        self._stream.record(first)
        self._run(f"reference_{taps}", *self._reference, *sizes)
        self._stream.record(last)
        self._clocks.stamp(self._stream, 1)
        self._stream.wait()
        return first.ms_until(last), self._clocks.mhz()

    def copied_bytes_per_s(self) -> float:
        """Measure how fast memory is copied: bytes read and bytes written."""
        half = self.shared.size // 2 // 256 * 256
        first, last = self._events
        found = []
        for _ in range(5):
            self._stream.record(first)
            to, source = self.shared.address + half, self.shared.address
            self._cuda.copy(to, source, half, self._stream)
            self._stream.record(last)
            self._stream.wait()
            found.append(2000 * half / max(1e-6, first.ms_until(last)))
        return max(found)


def _rows(size: int) -> int:
    """Return how many rows of an array of so many bytes ``Bench.look`` copies."""
    return max(1, min(LOOK_ROWS, size // LOOK_BYTES))
