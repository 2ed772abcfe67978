"""What a run's kernels and layers reach, and what bounds them.

rai-kernels.json + the launches of traces --matching--> kernels, layers
the GPU's name --gpu_bounds--> its bounds;  registers, shared memory --> occupancy
"""

from __future__ import annotations

from runner.analysis.gpu_bounds import GpuBounds, KnownGpu, bounds, known_gpus
from runner.analysis.kernel_analysis import (
    LATENCY_BELOW,
    KernelAnalysis,
    KernelBound,
    LayerAnalysis,
    bounds_of,
    kernels,
    layers,
    network_of,
)
from runner.analysis.occupancy import Occupancy, OccupancyStep
