"""The GPU that the benchmark measures on: images, weights, launches, times."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from course.errors import NoGpuError, ProjectError
from course.shapes import ConvShape
from course.variants import Launch, Variant
from gpu import compiler
from gpu.compiler import Unit
from gpu.device import Device, DeviceArray
from gpu.device_convolution import DeviceConvolution
from host import reference
from lab import gpu_facts, measurement
from lab.measurement import Rates, Way
from lab.trials import Trial

if TYPE_CHECKING:
    from lab import bench_torch

FLUSH_TIMES = 8  # x the L2 cache's size is written before each sample
COPIED = 1 << 30  # bytes
PIECE = 1000  # images
PARTS = 16  # of random numbers, each with its own seed
CEILINGS = Unit("ceilings", (("CHAINS", 32),), Path(__file__).parent)
CHAINS = dict(CEILINGS.defines)["CHAINS"]
STEPS = 16_384
HALF_TFLOPS = 636.0
HALF_SOURCE = "constant: mma.sync of halves on an H200, as PyTorch is not installed"


class Lab:
    """An open GPU and its stopwatch."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.toolkit = compiler.find()
        if why := compiler.too_old(device.cuda, self.toolkit.version):
            raise NoGpuError(why)
        self.torch = _torch()
        self._junk = device.empty((FLUSH_TIMES * device.l2_bytes,), "uint8")
        self._cubins: dict[Unit, bytes] = {}

    def ms(self, way: Way) -> float:
        """Return the GPU's milliseconds of a call after overwriting the L2 cache.

        The launches are queued while the GPU overwrites the cache, so the host's time
        does not count, but gaps between the launches of a call do.
        """
        self.device.fill(self._junk, 0)
        return self.device.elapsed_ms(way)

    def call_ms(self, way: Way) -> float:
        """Return the host's milliseconds of a call, on an idle GPU with warm caches."""
        self.device.wait()
        began = perf_counter()
        way()
        self.device.wait()
        return 1000 * (perf_counter() - began)

    def facts(self) -> dict[str, Any]:
        """Return the facts about the machine for a row."""
        facts: dict[str, Any] = dict(gpu_facts.machine(self.device.bus_id))
        facts["gpu"] = facts.get("gpu") or self.device.name
        facts |= asdict(self.device.gpu)
        kind = type(self.toolkit).__name__.lower()
        facts["compiler"] = f"{kind} {self.toolkit.version}"
        facts["peer"] = self.torch.version() if self.torch else None
        return facts

    def rates(self) -> Rates:
        """Measure the peak rates."""
        x, y = (self.device.empty((COPIED,), "uint8") for _ in range(2))
        copy_ms = self._median(lambda: self.device.copy(y, x))
        sources = {"copy": "a copy of 1 GiB", "fma": "independent sums in registers"}
        half, sources["half"] = HALF_TFLOPS, HALF_SOURCE
        if self.torch:
            product, count = self.torch.product()
            half = 1e-9 * count / self._median(product)
            sources["half"] = "a product of large matrices by PyTorch"
        return Rates(2e-6 * COPIED / copy_ms, self._fma_tflops(), half, sources)

    def _fma_tflops(self) -> float:
        blocks, threads = 2 * self.device.gpu.multiprocessors, 512
        y = self.device.empty((threads,))
        launch = Launch(
            "ceiling_fma", (blocks, 1, 1), (threads, 1, 1), ("y",), (STEPS,)
        )
        module = self.device.load(self._compiled(CEILINGS))
        ms = self._median(lambda: module.launch(launch, {"y": y}))
        return 2e-9 * CHAINS * STEPS * blocks * threads / ms

    def _median(self, way: Way, least: int = 20) -> float:
        return statistics.median([self.ms(way) for _ in range(2 * least)][least:])

    def warm(self, trials: Iterable[Trial]) -> None:
        """Compile all variants of the trials in parallel; rows report failures."""
        units: dict[Unit, None] = {CEILINGS: None}
        for trial in trials:
            for variant in trial.variants:
                with suppress(ProjectError):
                    part = variant.serve(trial.shape, self.device.gpu)
                    units[compiler.unit_of(part, trial.shape)] = None

        def compile_it(unit: Unit) -> None:
            with suppress(ProjectError):
                self._compiled(unit)

        with ThreadPoolExecutor() as pool:
            list(pool.map(compile_it, units))

    def _compiled(self, unit: Unit) -> bytes:
        if unit not in self._cubins:
            target = unit.target(self.device.gpu.architecture)
            self._cubins[unit] = compiler.cached(unit, target, self.toolkit)
        return self._cubins[unit]

    def load(self, part: Variant, shape: ConvShape) -> DeviceConvolution:
        """Compile and load a variant for a shape."""
        module = self.device.load(self._compiled(compiler.unit_of(part, shape)))
        return DeviceConvolution(self.device, part, shape, module)

    @contextmanager
    def case(self, shape: ConvShape, seed: int) -> Iterator[Case]:
        """Make random images and weights, and the expected results of a sample."""
        try:
            yield Case(self, shape, seed)
        finally:
            if self.torch:
                self.torch.free()


class Case:
    """Random images and weights, the same for all variants of a trial."""

    def __init__(self, lab: Lab, shape: ConvShape, seed: int) -> None:
        s = self.shape = shape
        self._lab, self._device = lab, lab.device
        self._x = normal((s.B, s.C, s.H, s.W), seed)
        self._k = normal((s.M, s.C, s.K, s.K), seed + 1)
        self._sample = measurement.sampled(s.B)
        self._right = np.empty((len(self._sample), s.M, s.H_out, s.W_out))
        reference.convolve(
            self._right,
            self._x[self._sample].astype(np.float64),
            self._k.astype(np.float64),
        )
        self._y = self._device.empty((s.B, s.M, s.H_out, s.W_out))
        self._stored: dict[str, tuple[DeviceArray, DeviceArray]] = {}

    def part(self, variant: Variant) -> Variant:
        """Return the choice that computes this shape here; raise UsageError."""
        return variant.serve(self.shape, self._device.gpu)

    def ours(self, part: Variant) -> Way:
        """Load a variant; return a function that launches it on existing arrays.

        Scratch memory is allocated now, as libraries also keep theirs.
        """
        convolution = self._lab.load(part, self.shape)
        x, k = self._inputs(part.storage)
        scratch = convolution.scratch()
        return lambda: convolution.start(self._y, x, k, scratch)

    def check(self, way: Way) -> tuple[float, int]:
        """Run once into NaN; return a sample's error and the missing elements."""
        self._device.fill(self._y, 255)
        way()
        self._device.wait()
        images = (_images(self._y, n, 1) for n in self._sample)
        found = np.concatenate([self._device.download(image) for image in images])
        error = measurement.relative_error(found.astype(np.float64), self._right)
        return error, self._unwritten()

    def peer_error(self, way: Way) -> float:
        """Return the error of cuDNN's result."""
        assert self._lab.torch is not None
        found = self._lab.torch.images(way(), self._sample)
        return measurement.relative_error(found, self._right)

    def _unwritten(self) -> int:
        if self._lab.torch:
            return self._lab.torch.not_finite(self._y)
        missing = 0
        for first in range(0, self.shape.B, PIECE):
            count = min(PIECE, self.shape.B - first)
            piece = self._device.download(_images(self._y, first, count))
            missing += piece.size - int(np.isfinite(piece).sum())
        return missing

    def peers(self, part: Variant) -> dict[str, Way]:
        """Return cuDNN's implementations by layout, in the same accuracy class."""
        if self._lab.torch is None:
            return {}
        ways = self._lab.torch.peers(*self._inputs(part.storage), part.accuracy)
        served = {}
        for name, way in ways.items():
            with suppress(RuntimeError):  # such as no memory for its workspace
                way()
                served[name] = way
        return served

    def _inputs(self, storage: str) -> tuple[DeviceArray, DeviceArray]:
        """Return images and weights on the GPU in a type, uploaded once."""
        if storage not in self._stored:
            arrays = (a.astype(storage, copy=False) for a in (self._x, self._k))
            x, k = map(self._device.upload, arrays)
            self._stored[storage] = x, k
        return self._stored[storage]


def _images(array: DeviceArray, first: int, count: int) -> DeviceArray:
    """Return a view of some images of an array, which must not be freed before it."""
    images, *rest = array.shape
    address = array.address + first * (array.nbytes // images)
    return DeviceArray((count, *rest), array.dtype, address)


def normal(shape: Sequence[int], seed: int) -> np.ndarray:
    """Return samples of N(0, 1), drawn on all cores."""
    numbers = np.empty(int(np.prod(shape)), np.float32)
    parts = np.array_split(numbers, PARTS)  # views
    seeds = np.random.SeedSequence(seed).spawn(PARTS)

    def draw(part: np.ndarray, seed: np.random.SeedSequence) -> None:
        np.random.default_rng(seed).standard_normal(dtype=np.float32, out=part)

    with ThreadPoolExecutor() as pool:
        list(pool.map(draw, parts, seeds))
    return numbers.reshape(shape)


def _torch() -> bench_torch.Torch | None:
    """Return PyTorch if it is installed and finds the GPU."""
    try:
        from lab import bench_torch

        return bench_torch.Torch()
    except (ImportError, RuntimeError, AssertionError):
        return None
