"""What a run's kernels and layers reach, and what bounds them.

rai-kernels.json + the launches of traces --matching--> kernels, layers
the GPU's name --gpu_bounds--> its bounds;  registers, shared memory --> occupancy
"""

from __future__ import annotations

from runner.analysis.gpu_bounds import GpuBounds, KnownGpu, bounds, known_gpus
from runner.analysis.kernel_analysis import (
    KernelAnalysis,
    KernelBound,
    bounds_of,
    kernels,
)
from runner.analysis.layer_analysis import LayerAnalysis, layers
from runner.analysis.occupancy import Occupancy, OccupancyLimit, OccupancyStep

__all__ = [
    "GpuBounds",
    "KernelAnalysis",
    "KernelBound",
    "KnownGpu",
    "LayerAnalysis",
    "Occupancy",
    "OccupancyLimit",
    "OccupancyStep",
    "bounds",
    "bounds_of",
    "kernels",
    "known_gpus",
    "layers",
]
