"""What a run may use.

A new limit is a field and a row here, and what enforces it in the engines. The keys of
build files and of a site's policy, the messages and the documents follow from the rows.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from runner.core.ending import Reason
from runner.core.quantities import COUNT, SIZE, SWITCH, TIME, Kind
from runner.core.units import GIB, MIB


class Limits(Struct, frozen=True):
    """The most that a run may use. A build file can set what has a row in LIMITS."""

    time_s: float = 3600.0
    memory_bytes: int = 8 * GIB
    pids: int = 512
    output_bytes: int = 256 * MIB
    disk_bytes: int = 2 * GIB
    shm_bytes: int = 64 * MIB
    network: bool = False
    stop_grace_s: float = 10.0
    build_time_s: float = 1200.0
    build_pids: int = 4096
    build_disk_bytes: int = 32 * GIB
    open_files: int = 4096
    file_bytes: int = 2 * GIB
    data_bytes: int = 10 * GIB


class Limit(Struct, frozen=True):
    """A limit that a build file can set and a site's policy can cap, by its key.

    ``help`` is for the documents. A run whose command meets the limit ends with
    ``reason``.
    """

    key: str
    kind: Kind[Any]
    help: str
    reason: Reason | None = None

    @property
    def field(self) -> str:
        """Its name in Limits."""
        return self.key + self.kind.unit

    @property
    def of_build(self) -> bool:
        """Whether it is for the build of an image alone."""
        return self.key.startswith("build_")

    def of(self, limits: Limits) -> Any:  # noqa: ANN401 - of its field's type
        """Return its value among others."""
        return getattr(limits, self.field)

    def written(self, limits: Limits = Limits()) -> str:
        """Write its value as a build file would; the default one for an example."""
        return self.kind.write(self.of(limits))


_MEMORY = SIZE.at_least(6 * MIB)
"""What a container needs to start at all."""

_PIDS = COUNT.at_least(8)
"""What an engine itself may need beside a command."""

LIMITS = (
    Limit(
        "time",
        TIME,
        "of the whole run; with `--repeat` of each round",
        Reason.TIME_LIMIT,
    ),
    Limit(
        "memory",
        _MEMORY,
        "without swap; of an image build, too",
        Reason.MEMORY_LIMIT,
    ),
    Limit("pids", _PIDS, "processes and threads", Reason.PIDS_LIMIT),
    Limit(
        "output",
        SIZE,
        "of the run's stdout and stderr, each; of an image build, too",
        Reason.OUTPUT_LIMIT,
    ),
    Limit("disk", SIZE, "of `/build`", Reason.DISK_LIMIT),
    Limit("shm", SIZE, "of `/dev/shm`"),
    Limit("data", SIZE, "of all `dataresources`"),
    Limit("network", SWITCH, "overrides `resources.network`"),
    Limit("build_time", TIME, "of building, pulling or pushing the image"),
    Limit("build_pids", _PIDS, "processes and threads of an image build"),
    Limit("build_disk", SIZE, "of what an image build adds to its base image"),
)
