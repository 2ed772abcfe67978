"""The protocol for what has GPUs, which engines implement."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from runner.core import Gpu, GpuSituation


class GpuSource(Protocol):
    """The GPUs that one engine can give to a run."""

    def gpus(self, image: str | None = None) -> GpuSituation:
        """Return the GPUs that a run could be given here, and each way tried.

        An engine on another machine can list them only from a container of ``image``;
        without one the list may be None. No container is started if no way is open.
        """
        ...

    def hold(self, gpu: Gpu, run_id: str) -> AbstractContextManager[None]:
        """Keep a GPU for a run while the context lasts and this process lives.

        Raises:
            BusyError: another run holds it, on entry.
        """
        ...
