"""The GPU that the benchmark measures on: images, weights, launches, times."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from course import program
from course.errors import ProjectError
from course.variants import Launch, Variant
from gpu import compiler, device_convolution
from gpu.compiler import Unit
from gpu.device import Device, DeviceArray
from gpu.device_convolution import DeviceConvolution
from lab import gpu_facts, measurement
from lab.float64 import Errors, Float64
from lab.measurement import Rates, Sample, Way
from lab.trials import Trial

if TYPE_CHECKING:
    from lab import bench_torch

FLUSH_TIMES = 16  # x the L2 cache's size is written before each sample
COPIED = 1 << 30  # bytes
PARTS = 16  # of random numbers, each with its own seed
WIDE = 4.0  # the standard deviation of the logarithm of numbers of a wide range
TIMING = Unit("timing", (("CHAINS", 32),), Path(__file__).parent)
CHAINS = dict(TIMING.defines)["CHAINS"]
STEPS = 16_384
HALF_TFLOPS = 636.0  # where PyTorch is not installed: mma.sync of halves on an H200


class Lab:
    """An open GPU and its stopwatch."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.toolkit = compiler.find()
        self.torch = _torch()
        self.float64 = Float64(device)
        self._timing = device_convolution.load(device, [TIMING])[TIMING]
        self._junk = device.empty((FLUSH_TIMES * device.l2_bytes,), "uint8")
        stamped = (device.gpu.multiprocessors, 2)
        self._stamps = [device.empty(stamped, "uint64") for _ in range(2)]

    def sample(self, way: Way) -> Sample:
        """Time a call after overwriting the L2 cache.

        The launches are queued while the GPU overwrites the cache, so the host's time
        does not count, but gaps between the launches of a call do. A block on each
        multiprocessor reads its clock right before and after, outside of the time.
        """
        for stamps in self._stamps:
            self.device.fill(stamps, 0)
        self.device.fill(self._junk, 0)
        self._stamp(0)
        ms = self.device.elapsed_ms(way, lambda: self._stamp(1))
        return Sample(ms, measurement.mhz(*map(self.device.download, self._stamps)))

    def _stamp(self, n: int) -> None:
        most = self.device.gpu.multiprocessors
        launch = Launch("stamp", (most, 1, 1), (1, 1, 1), ("at",), (most,))
        self._timing.launch(launch, {"at": self._stamps[n]})

    def nothing(self) -> None:
        """Launch an empty kernel."""
        self._timing.launch(Launch("nothing", (1, 1, 1), (32, 1, 1), (), (0,)), {})

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
        copy_ms = self.median_ms(lambda: self.device.copy(y, x))
        half = HALF_TFLOPS
        if self.torch:
            product, count = self.torch.product()
            half = 1e-9 * count / self.median_ms(product)
        return Rates(2e-6 * COPIED / copy_ms, self._fma_tflops(), half)

    def _fma_tflops(self) -> float:
        blocks, threads = 2 * self.device.gpu.multiprocessors, 512
        y = self.device.empty((threads,))
        launch = Launch(
            "ceiling_fma", (blocks, 1, 1), (threads, 1, 1), ("y",), (STEPS,)
        )
        ms = self.median_ms(lambda: self._timing.launch(launch, {"y": y}))
        return 2e-9 * CHAINS * STEPS * blocks * threads / ms

    def median_ms(self, way: Way, least: int = 20) -> float:
        """Return the median of some samples, after as many that warm up."""
        taken = [self.sample(way).ms for _ in range(2 * least)]
        return statistics.median(taken[least:])

    def warm(self, trials: Iterable[Trial]) -> None:
        """Compile all variants of the trials in parallel; rows report failures."""
        units: dict[Unit, None] = {}
        for trial in trials:
            for variant in trial.variants:
                with suppress(ProjectError):
                    part = variant.serve(trial.shape, self.device.gpu)
                    units[compiler.unit_of(part, trial.shape)] = None

        def compile_it(unit: Unit) -> None:
            with suppress(ProjectError):
                target = unit.target(self.device.gpu.architecture)
                compiler.cached(unit, target, self.toolkit)

        with ThreadPoolExecutor() as pool:
            list(pool.map(compile_it, units))

    @contextmanager
    def case(self, trial: Trial, seed: int) -> Iterator[Case]:
        """Make random images and weights."""
        try:
            yield Case(self, trial, seed)
        finally:
            if self.torch:
                self.torch.free()


class Case:
    """Random images and weights, the same for all variants of a trial."""

    def __init__(self, lab: Lab, trial: Trial, seed: int) -> None:
        s = self.shape = trial.shape
        self._lab, self._device = lab, lab.device
        x = normal((s.B, s.C, s.H, s.W), seed)
        k = normal((s.M, s.C, s.K, s.K), seed + 1)
        if trial.wide:
            for numbers in (x, k):
                np.exp(WIDE * numbers, out=numbers)
        self._numbers = x, k
        self._stored = {"float32": (self._device.upload(x), self._device.upload(k))}
        self._y = self._device.empty((s.B, s.M, s.H_out, s.W_out))
        self._peers: dict[str, dict[str, Way]] = {}

    def part(self, variant: Variant) -> Variant:
        """Return the choice that computes this shape here; raise UsageError."""
        return variant.serve(self.shape, self._device.gpu)

    def ours(self, part: Variant) -> Way:
        """Load a variant; return a function that launches it on existing arrays.

        Scratch memory is allocated now, as libraries also keep theirs.
        """
        unit = compiler.unit_of(part, self.shape)
        module = device_convolution.load(self._device, [unit])[unit]
        convolution = DeviceConvolution(self._device, part, self.shape, module)
        x, k = self._inputs(part.storage)
        scratch = convolution.scratch()
        return lambda: convolution.start(self._y, x, k, scratch)

    def check(self, way: Way) -> Errors:
        """Run once into NaN; compare every output."""
        self._device.fill(self._y, 255)
        way()
        return self._lab.float64.errors(self._y, *self._stored["float32"])

    def peer_check(self, way: Way) -> Errors:
        """Compare every output of a peer, which returns it."""
        found: Any = way()
        plain = found.float().contiguous()  # lives until its errors are known
        y = DeviceArray(tuple(plain.shape), np.dtype("float32"), plain.data_ptr())
        return self._lab.float64.errors(y, *self._stored["float32"])

    def peers(self, part: Variant) -> dict[str, Way]:
        """Return cuDNN's implementations by layout, in the same accuracy class."""
        if self._lab.torch is None:
            return {}
        if part.accuracy not in self._peers:
            inputs = self._inputs(part.storage)
            ways = self._lab.torch.peers(*inputs, part.accuracy, self._ms)
            self._peers[part.accuracy] = ways
        return self._peers[part.accuracy]

    def triton(self) -> Way | None:
        """Return the fastest of Triton's convolutions that are tried, if it runs."""
        try:
            from lab import bench_torch, triton_peer

            arrays = map(bench_torch.tensor, self._stored["float32"])
            return min(triton_peer.ways(self.shape, *arrays), key=self._ms)
        except Exception as error:  # such as no C compiler, which Triton needs
            program.warn(f"Triton: {error}")
            return None

    def _ms(self, way: Way) -> float:
        return self._lab.median_ms(way, 5)

    def _inputs(self, storage: str) -> tuple[DeviceArray, DeviceArray]:
        """Return images and weights on the GPU in a type, uploaded once."""
        if storage not in self._stored:
            x, k = (self._device.upload(a.astype(storage)) for a in self._numbers)
            self._stored[storage] = x, k
        return self._stored[storage]


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
