"""Peak rates of NVIDIA's GPUs, of their public data sheets."""

from __future__ import annotations

from msgspec import Struct


class GpuPeaks(Struct, frozen=True):
    """One GPU's rates at its boost clock; None for what its sheet does not give.

    ``names`` are the driver's. The rates of tensor cores are without sparsity.
    """

    names: tuple[str, ...]
    memory_gb_per_s: float
    fp32_tflops: float
    fp64_tflops: float | None = None
    tf32_tflops: float | None = None
    fp16_tflops: float | None = None
    source: str = ""


PEAKS: tuple[GpuPeaks, ...] = (
    GpuPeaks(("H200",), 4800, 66.9, 33.5, 494.7, 989.4, "NVIDIA H200 Tensor Core GPU"),
)
