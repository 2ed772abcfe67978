"""What a machine or a cluster can run now, as a worker's user sees it."""

from __future__ import annotations

from msgspec import Struct

from runner.core.problem import Problem

RANKED_LIMITS = ("memory", "pids")
"""What has to be enforced where times are compared; Slurm does so by itself."""


class ServerGpu(Struct, frozen=True):
    """A GPU of a server; ``out`` says why no run gets it, "" if runs do.

    ``compute`` is e.g. "9.0".
    """

    uuid: str
    name: str
    out: str = ""
    compute: str = ""


class Capacity(Struct, frozen=True):
    """What can run now; ``problems`` say why nothing can.

    ``engines`` are the names of those that can serve, the usual one first;
    ``memory_bytes`` and ``disk_free`` are the machine's. Where Slurm runs things
    ``home`` is the folder of the runs, which its nodes have to see, and ``node_gpus``
    the most GPUs that one node has, None until Slurm has answered; a single machine has
    neither. ``unenforced`` has a line for each engine with limits that it does not
    enforce.
    """

    version: str
    engines: tuple[str, ...]
    gpus: tuple[ServerGpu, ...] = ()
    problems: tuple[Problem, ...] = ()
    disk_free: int = 0
    memory_bytes: int = 0
    cores: int = 1
    node_gpus: int | None = None
    home: str = ""
    unenforced: tuple[str, ...] = ()

    @property
    def unranked(self) -> str:
        """Why nothing can be ranked here, "" if it can."""
        engine = self.engines[0] if self.engines else ""
        for line in self.unenforced:
            name, _, limits = line.partition(": ")
            lacking = [one for one in limits.split(", ") if one in RANKED_LIMITS]
            if name == engine and lacking:
                return f"the engine {name} does not enforce {' and '.join(lacking)}"
        return ""

    @property
    def in_slurm(self) -> bool:
        """Whether Slurm runs things."""
        return bool(self.home)
