"""What a run needs of the machine that carries it out, where others share it."""

from __future__ import annotations

from msgspec import Struct


class JobNeeds(Struct, frozen=True):
    """What is asked for a run, the worker's own needs and its staging included.

    ``gpu_optional`` is whether the run goes on without GPUs where there are none.
    ``gpu_model`` is the type of GPU as the cluster names it, "" for any. ``cores`` is
    None for what is usual there. ``alone`` asks for a machine without other jobs.
    """

    memory_bytes: int
    time_s: float
    gpus: int = 0
    gpu_optional: bool = False
    gpu_model: str = ""
    cores: int | None = None
    alone: bool = False
