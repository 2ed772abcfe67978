"""What the allocation of GPUs asks of whoever has them; engines implement it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from runner.core import Gpu, GpuSituation


class GpuSource(Protocol):
    """The GPUs that one engine can give to a run."""

    def gpus(self, image: str | None = None) -> GpuSituation:
        """Return the GPUs that a run could be given here, and each way tried.

        An engine elsewhere can look only from a container of ``image``; without one its
        situation may hold no list. Nothing is started where no GPU can be.
        """
        ...

    def hold(self, gpu: Gpu, run_id: str) -> AbstractContextManager[None]:
        """Keep a GPU for a run while the context lasts, or this process lives.

        Raises:
            BusyError: on entry, another run holds it; the message says which.
        """
        ...
