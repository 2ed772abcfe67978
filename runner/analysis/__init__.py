"""What a run's kernels and layers reach, and what bounds them.

rai-kernels.json + the launches of traces --matching--> kernels, layers
the GPU's name --gpu_bounds--> its bounds;  registers, shared memory --> occupancy
"""

from __future__ import annotations

from runner.analysis.gpu_bounds import GpuBounds, KnownGpu, bounds, known_gpus
from runner.analysis.kernel_analysis import (
    KernelAnalysis,
    LayerAnalysis,
    bounds_of,
    kernels,
    layers,
)
from runner.analysis.occupancy import Occupancy, OccupancyStep

__all__ = [
    "GpuBounds",
    "KernelAnalysis",
    "KnownGpu",
    "LayerAnalysis",
    "Occupancy",
    "OccupancyStep",
    "bounds",
    "bounds_of",
    "kernels",
    "known_gpus",
    "layers",
]
