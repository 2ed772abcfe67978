"""What a GPU can do at most: by its data sheet, by measurement, or by its clock."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from runner.analysis.gpu_peaks import PEAKS, GpuPeaks
from runner.analysis.multiprocessors import MULTIPROCESSORS
from runner.core.gpu import GpuUse
from runner.core.measurement import MeasuredRates

MEMORY = "memory"
"""The name of the bound by the GPU's memory; the others are named by their unit."""

UNITS = {
    "fp64": "fp64",
    "fp32": "fp32",
    "tf32": "tf32",
    "fp16": "fp16",
    "half": "fp16",
    "bf16": "fp16",
}
"""The unit that does the arithmetic of each accuracy class."""


class KnownGpu(Struct, frozen=True):
    """What is known of a GPU besides what a trace says.

    ``name`` is the driver's; ``measured`` are rates that this GPU was seen to reach.
    """

    name: str
    capability: str = ""
    multiprocessors: int | None = None
    sm_clock_most_mhz: float | None = None
    measured: MeasuredRates | None = None


class GpuBounds(Struct, frozen=True):
    """The most that a GPU does in a second; None for what is not known.

    ``fp64`` and ``fp32`` are of ordinary cores, ``tf32`` and ``fp16`` of tensor cores
    without sparsity, which add up in fp32. ``sources`` says where the rates are from.
    """

    gpu: str
    bytes_per_s: float | None = None
    fp64_flops_per_s: float | None = None
    fp32_flops_per_s: float | None = None
    tf32_flops_per_s: float | None = None
    fp16_flops_per_s: float | None = None
    sources: tuple[str, ...] = ()

    def flops_per_s(self, unit: str) -> float | None:
        """Return the rate of a unit or accuracy class; None if it is not known."""
        rates = {
            "fp64": self.fp64_flops_per_s,
            "fp32": self.fp32_flops_per_s,
            "tf32": self.tf32_flops_per_s,
            "fp16": self.fp16_flops_per_s,
        }
        return rates.get(UNITS.get(unit, ""))


def known_gpus(
    use: GpuUse | None, measured: MeasuredRates | None = None
) -> tuple[KnownGpu, ...]:
    """Return what a run's record says of its GPUs, and what was measured on them."""
    if use is None:
        return ()
    clocks = {
        state.uuid: state.sm_clock_most_mhz for state in (*use.before, *use.after)
    }
    return tuple(
        KnownGpu(gpu.name, gpu.compute, None, clocks.get(gpu.uuid), measured)
        for gpu in use.gpus
    )


def bounds(gpu: KnownGpu) -> GpuBounds | None:
    """Return what is known of a GPU's rates; None if none is.

    A data sheet goes before what the clock gives. A copy that was measured in the run
    goes before the data sheet's bandwidth, which no program reaches.
    """
    peaks = named(gpu.name)
    found = _by_sheet(gpu.name, peaks) if peaks else _by_clock(gpu)
    if gpu.measured is None:
        return found
    found = found or GpuBounds(gpu.name)
    return GpuBounds(
        gpu.name,
        gpu.measured.copied_bytes_per_s or found.bytes_per_s,
        found.fp64_flops_per_s,
        found.fp32_flops_per_s,
        found.tf32_flops_per_s,
        found.fp16_flops_per_s,
        ("memory: a copy measured in this run", *found.sources),
    )


def named(name: str) -> GpuPeaks | None:
    """Return the data sheet's rates of a GPU by the driver's name of it."""
    plain = _plain(name)
    return next((peaks for peaks in PEAKS if _plain(peaks.name) == plain), None)


def of(gpus: Iterable[KnownGpu], name: str) -> KnownGpu:
    """Return what is known of the GPU that a trace names."""
    plain = _plain(name)
    return next((gpu for gpu in gpus if _plain(gpu.name) == plain), KnownGpu(name))


def _plain(name: str) -> str:
    """Return a name without the words that drivers put before it or leave out."""
    words = name.casefold().replace("-", " ").split()
    return " ".join(w for w in words if w not in {"nvidia", "tesla", "geforce"})


def _by_sheet(name: str, peaks: GpuPeaks) -> GpuBounds:
    return GpuBounds(
        name,
        _scaled(peaks.memory_gb_per_s, 1e9),
        _scaled(peaks.fp64_tflops, 1e12),
        _scaled(peaks.fp32_tflops, 1e12),
        _scaled(peaks.tf32_tflops, 1e12),
        _scaled(peaks.fp16_tflops, 1e12),
        (peaks.source,),
    )


def _by_clock(gpu: KnownGpu) -> GpuBounds | None:
    """Return the fp32 rate of so many multiprocessors at the highest clock."""
    holder = MULTIPROCESSORS.get(gpu.capability)
    if holder is None or not gpu.multiprocessors or not gpu.sm_clock_most_mhz:
        return None
    lanes = gpu.multiprocessors * holder.fp32_lanes
    rate = 2 * lanes * gpu.sm_clock_most_mhz * 1e6
    source = (
        f"fp32: {gpu.multiprocessors} multiprocessors, {holder.fp32_lanes} "
        f"multiply-adds each at {gpu.sm_clock_most_mhz:g} MHz"
    )
    return GpuBounds(gpu.name, fp32_flops_per_s=rate, sources=(source,))


def _scaled(value: float | None, by: float) -> float | None:
    return None if value is None else value * by
