"""What is free of one node of a cluster."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from runner.scheduling.turns import QueuedRun
from runner.wire.host import HostNode


class NodeRoom(Struct):
    """What is free of a node that is in order; changed by ``take`` and ``give``.

    ``slots`` is how many runs without a GPU it has room for. ``alone`` is whether a run
    has it to itself.
    """

    name: str
    cores: int
    cores_free: int
    slots: int
    slots_free: int
    gpus: dict[str, int]
    gpus_free: dict[str, int]
    alone: bool = False

    def could(self, run: QueuedRun) -> bool:
        """Whether it has all that a run needs, when nothing else runs there."""
        return not run.gpus or gpu_count(self.gpus, run.gpu_model) >= run.gpus

    def fits(self, run: QueuedRun) -> bool:
        """Whether what a run needs is free."""
        if self.alone or self.cores_free < 1 or not self.could(run):
            return False
        if run.alone and self.cores_free < self.cores:
            return False
        if run.gpus:
            return gpu_count(self.gpus_free, run.gpu_model) >= run.gpus
        return run.alone or self.slots_free > 0

    def keeps_back(self, run: QueuedRun) -> bool:
        """Whether only the bound of slots keeps a run from starting here."""
        free = self.cores_free > 0 and not self.alone
        return free and self.slots_free < 1 and not run.gpus and not run.alone

    def take(self, run: QueuedRun) -> None:
        """Count a run as going on here."""
        self.cores_free -= 1
        self.alone = self.alone or run.alone
        if not run.gpus:
            self.slots_free -= 1
        left = run.gpus
        for model, free in self.gpus_free.items():
            if run.gpu_model in ("", model):
                taken = min(free, left)
                self.gpus_free[model] -= taken
                left -= taken

    def give(self, run: QueuedRun) -> None:
        """Count a run as ended that went on here."""
        if run.alone:
            self.alone = False
            self.cores_free, self.slots_free = self.cores, self.slots
            self.gpus_free = dict(self.gpus)
            return
        self.cores_free = min(self.cores_free + 1, self.cores)
        if not run.gpus:
            self.slots_free = min(self.slots_free + 1, self.slots)
        left = run.gpus
        for model, there in self.gpus.items():
            if run.gpu_model in ("", model):
                given = min(there - self.gpus_free[model], left)
                self.gpus_free[model] += given
                left -= given

    def copy(self) -> NodeRoom:
        """Return another one of the same room."""
        gpus, free = dict(self.gpus), dict(self.gpus_free)
        return replace(self, gpus=gpus, gpus_free=free)


def node_room(node: HostNode, slots: int | None, ours: int) -> NodeRoom:
    """Return what is free of a node where ``ours`` runs without a GPU go on.

    ``slots`` is how many of them it has room for; None leaves that to its cores.
    """
    places = node.cores if slots is None else slots
    free = min(node.cores_free, places - ours)
    gpus = dict(node.gpus)
    left = {model: min(node.gpus_free.get(model, 0), n) for model, n in gpus.items()}
    return NodeRoom(
        node.name, node.cores, node.cores_free, places, max(0, free), gpus, left
    )


def gpu_count(gpus: Mapping[str, int], model: str = "") -> int:
    """Return how many GPUs there are of a model, "" for all."""
    return gpus.get(model, 0) if model else sum(gpus.values())
