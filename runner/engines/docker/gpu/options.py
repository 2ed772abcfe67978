"""What a container's settings gain by each way to the GPUs: plain values.

The GPUs are named by their UUIDs, never counted and never all. NVIDIA_VISIBLE_DEVICES
says "all" in most CUDA images, and an engine whose default runtime is NVIDIA's obeys
it: so it is always set, to "void" where that runtime has nothing to give.
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
"""Where the driver's files are mounted; both search paths of a command name it."""

CAPABILITIES = ("compute", "utility")


class GpuSupport(Struct, frozen=True):
    """Where an engine's GPUs come from: what it tells, and what this machine does."""

    engine: DockerGpus
    host: HostGpus

    @property
    def shared(self) -> bool:
        """Whether the engine's GPUs are this machine's own."""
        return access.shares(self.engine, self.host)

    def cdi_devices(self, grant: GpuGrant) -> list[str]:
        """Name the granted GPUs as the engine's CDI specifications do.

        By their UUIDs where the specifications are not known here.
        """
        known = self.engine.cdi_devices or self.host.cdi
        unknown = [f"{access.KIND}={each.uuid}" for each in grant.gpus]
        return list(access.cdi_names(grant.gpus, known) or unknown)


class GpuOptions(Struct, frozen=True):
    """One way by which GPUs, or none, come into a container.

    ``options`` are of the host's half of its settings; ``mounts`` join the run's own.
    """

    way: GpuWay | None = None
    options: tuple[tuple[str, Any], ...] = ()
    mounts: tuple[Mount, ...] = ()
    visible: str = "void"

    @property
    def variables(self) -> dict[str, str]:
        """Give the names that NVIDIA's own runtime reads, whatever the image says."""
        return {
            "NVIDIA_VISIBLE_DEVICES": self.visible,
            "NVIDIA_DRIVER_CAPABILITIES": ",".join(CAPABILITIES),
        }


NO_GPU = GpuOptions()
"""No GPU at all."""


def grant_options(
    grant: GpuGrant | None, support: GpuSupport | None
) -> tuple[GpuOptions, ...]:
    """Give the ways to try, in their order; without a grant the one to none."""
    if grant is None or support is None:
        return (NO_GPU,)
    closed = watch.nodes(grant, support.host) if support.shared else ()
    groups = [("group_add", list(gids))] if (gids := watch.groups(closed)) else []
    found = (way_options(way, grant, support) for way in grant.ways)
    return tuple(replace(each, options=(*each.options, *groups)) for each in found)


def way_options(way: GpuWay, grant: GpuGrant, support: GpuSupport) -> GpuOptions:
    """Say what one way adds to a container's settings. Pure."""
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
    """Say that no way brought the GPUs into the container, and of each why."""
    problems = [
        Problem(f"no GPU in the container by {way.words}: {said}")
        for way, said in failures
    ]
    hint = Problem("no way to the GPU is left", hint="`rai doctor` explains each")
    return EngineError(*problems, hint, reason=Reason.GPU_ERROR)
