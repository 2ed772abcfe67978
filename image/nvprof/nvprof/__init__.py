"""`nvprof` for CUDA 12 and 13: NVIDIA's former profiler, reimplemented on CUPTI."""

from __future__ import annotations

VERSION = "1.0.0"
