"""The container settings that give a run its GPUs, for each way, as values.

The GPUs are named by their UUIDs, never by a count or "all". Most CUDA images set
NVIDIA_VISIBLE_DEVICES to "all", and an engine whose default runtime is NVIDIA's obeys
it; so it is always set here, to "void" if that runtime is to add no GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from docker.types import DeviceRequest, Mount
from msgspec import Struct
from msgspec.structs import replace

from runner.core import DockerGpus, GpuGrant, GpuWay, HostGpus, Problem, Reason
from runner.core.errors import EngineError
from runner.gpu import access, watch

NVIDIA = "/usr/local/nvidia"
"""Where the driver's files are mounted; PATH and LD_LIBRARY_PATH contain it."""

CAPABILITIES = ("compute", "utility")


class GpuSupport(Struct, frozen=True):
    """What an engine and this machine report about their GPU support."""

    engine: DockerGpus
    host: HostGpus

    @property
    def shared(self) -> bool:
        """Whether the engine's GPUs are this machine's own."""
        return self.engine.here

    def cdi_devices(self, grant: GpuGrant) -> list[str]:
        """Return the names of the granted GPUs in the engine's CDI specifications.

        Those are taken to be the UUIDs if the specifications are not known here.
        """
        known = self.engine.cdi_devices or self.host.cdi
        unknown = [f"{access.KIND}={each.uuid}" for each in grant.gpus]
        return list(access.cdi_names(grant.gpus, known, self.host) or unknown)


class GpuOptions(Struct, frozen=True):
    """The settings that give a container GPUs by one way, or none.

    ``options`` are host settings by their names; ``mounts`` are added to the run's.
    """

    way: GpuWay | None = None
    options: tuple[tuple[str, Any], ...] = ()
    mounts: tuple[Mount, ...] = ()
    visible: str = "void"

    @property
    def variables(self) -> dict[str, str]:
        """The variables that NVIDIA's runtime reads, which override the image's."""
        return {
            "NVIDIA_VISIBLE_DEVICES": self.visible,
            "NVIDIA_DRIVER_CAPABILITIES": ",".join(CAPABILITIES),
        }


NO_GPU = GpuOptions()
"""The settings of a container without GPUs."""


def grant_options(
    grant: GpuGrant | None, support: GpuSupport | None
) -> tuple[GpuOptions, ...]:
    """Return the settings to try, in order; NO_GPU alone without a grant."""
    if grant is None or support is None:
        return (NO_GPU,)
    closed = watch.nodes(grant, support.host) if support.shared else ()
    groups = [("group_add", list(gids))] if (gids := watch.groups(closed)) else []
    found = (way_options(way, grant, support) for way in grant.ways)
    return tuple(replace(each, options=(*each.options, *groups)) for each in found)


def way_options(way: GpuWay, grant: GpuGrant, support: GpuSupport) -> GpuOptions:
    """Return the settings for one way. Pure."""
    match way:
        case GpuWay.REQUEST:
            ids = [each.uuid for each in grant.gpus]
            wanted = [["gpu", *CAPABILITIES]]
            request = DeviceRequest(
                driver="nvidia", device_ids=ids, capabilities=wanted
            )
            return GpuOptions(
                way, (("device_requests", [request]),), visible=grant.uuids
            )
        case GpuWay.CDI:
            devices = support.cdi_devices(grant)
            request = DeviceRequest(driver="cdi", device_ids=devices)
            return GpuOptions(way, (("device_requests", [request]),))
        case GpuWay.NODES:
            nodes = [f"{node}:{node}:rw" for node in watch.nodes(grant, support.host)]
            mounts = tuple(
                Mount(target, source, type="bind", read_only=True)
                for source, target in watch.files(support.host, NVIDIA)
            )
            return GpuOptions(way, (("devices", nodes),), mounts)


def all_failed(failures: Sequence[tuple[GpuWay, str]]) -> EngineError:
    """Return the error that says why each way failed to give the container a GPU."""
    problems = [
        Problem(f"no GPU in the container by {way.words}: {why}")
        for way, why in failures
    ]
    last = Problem("the container got no GPU", hint="`rai doctor` explains each way")
    return EngineError(*problems, last, reason=Reason.GPU_ERROR)
