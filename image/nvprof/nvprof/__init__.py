"""`nvprof` for CUDA 12 and 13: NVIDIA's old command, layouts and all, on CUPTI."""

from __future__ import annotations

VERSION = "1.0.0"
