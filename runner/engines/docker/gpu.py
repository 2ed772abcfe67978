"""GPUs for containers: settings, and locks and queries on the engine's machine."""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from docker.types import DeviceRequest, LogConfig, Mount
from msgspec import Struct
from msgspec.structs import replace

from runner.core import (
    MIB,
    DockerGpus,
    Gpu,
    GpuGrant,
    GpuSituation,
    GpuState,
    GpuWay,
    HostGpus,
    Problem,
    Reason,
)
from runner.core.errors import BusyError, EngineError
from runner.engines.docker import attach, owner
from runner.engines.docker.client import (
    CONFLICT,
    FAILURES,
    APIError,
    Client,
    NotFound,
    explained,
    failing,
    make_idle,
    remove_container,
)
from runner.engines.gpu import access, installed, nvidia, watch
from runner.engines.gpu.watch import Watch
from runner.engines.launch import environment
from runner.system import machine

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


QUERY_S = 30
LOG_OPTIONS = {"max-size": "256k", "max-file": "1"}
"""Bound what the image's nvidia-smi, which may be any program, can print."""

ALL = {
    GpuWay.REQUEST: DeviceRequest(
        driver="nvidia", count=-1, capabilities=[["gpu", "utility"]]
    ),
    GpuWay.CDI: DeviceRequest(driver="cdi", device_ids=[f"{access.KIND}=all"]),
}
"""Requests for all GPUs, for queries only; a run's GPUs are named by UUID."""

HOLD_S = 86400.0
"""After this time other machines' runs, which cannot see the owner, may take over."""

TRIES, PAUSE_S = 50, 0.1
"""Other runs may remove, at the same time, what is in the way or used here."""


def situation(client: Client, support: GpuSupport, image: str | None) -> GpuSituation:
    """Return the engine's GPUs; another machine's by a container of ``image``."""
    states = nvidia.states(support.host.gpus) if support.shared else ()
    found = access.docker(support.engine, support.host, states)
    if found.gpus is not None or image is None or not found.open:
        return found
    smi_report = ask(client, image, found.open)
    if smi_report.gpus:
        driver, states = smi_report.driver, smi_report.states
        return replace(found, gpus=smi_report.gpus, driver=driver, states=states)
    problem = (
        "a container of the engine, which is on another machine, sees no GPU: "
        f"{smi_report.problem}"
    )
    hint = "check that `docker run --gpus all` works there"
    return replace(found, gpus=(), problem=problem, hint=hint)


def ask(client: Client, image: str, order: Sequence[GpuWay]) -> installed.SmiReport:
    """Run nvidia-smi in a container, with GPUs by the first way that works.

    The report's ``problem`` says why each way failed.
    """
    problems: list[str] = []
    for way in (way for way in order if way in ALL):
        try:
            found = installed.parse(_run_smi(client, image, ALL[way]))
        except FAILURES as error:
            problems.append(f"{way.words}: {explained(error)}")
            continue
        if found.gpus:
            return found
        sliced = f"in MIG mode: {', '.join(found.sliced)}" if found.sliced else ""
        why = found.problem or sliced or "nvidia-smi printed nothing"
        problems.append(f"{way.words}: {why}")
    return installed.SmiReport(problem="; ".join(problems))


def watch_grant(
    client: Client,
    grant: GpuGrant | None,
    support: GpuSupport | None,
    container: Callable[[], str],
) -> Watch:
    """Watch a run's GPUs: this machine's from now on, another's by the container.

    Without ``support`` the run has none.
    """
    if support is None:
        return Watch()
    if support.shared:
        return Watch(grant, nvidia.states, at_once=True)
    return Watch(grant, lambda gpus: states(client, container(), gpus))


def states(client: Client, container: str, gpus: Sequence[Gpu]) -> tuple[GpuState, ...]:
    """Return the state of GPUs by nvidia-smi in a container; empty if it has none."""
    with contextlib.suppress(*FAILURES):
        found = installed.parse(
            attach.ask(client, container, installed.QUERY, QUERY_S)
        ).states
        by_uuid = {state.uuid: state for state in found}
        return tuple(by_uuid[gpu.uuid] for gpu in gpus if gpu.uuid in by_uuid)
    return ()


def _run_smi(client: Client, image: str, request: DeviceRequest) -> str:
    """Return what nvidia-smi prints in a new container, as confined as a run's."""
    host = client.create_host_config(
        device_requests=[request],
        network_mode="none",
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        read_only=True,
        mem_limit=512 * MIB,
        pids_limit=64,
        log_config=LogConfig(type=LogConfig.types.JSON, config=LOG_OPTIONS),
    )
    name = f"rai-gpus-{secrets.token_hex(4)}"
    labels = owner.labels(name, QUERY_S)
    try:
        client.create_container(
            image,
            name=name,
            entrypoint=list(installed.QUERY),
            user="10001:10001",
            labels=labels,
            # The search paths of a run contain the driver's folder.
            environment={
                **environment(),
                "NVIDIA_DRIVER_CAPABILITIES": ",".join(CAPABILITIES),
            },
            host_config=host,
        )
        client.start(name)
        client.wait(name, timeout=QUERY_S)
        output: bytes = client.logs(name)
        return output.decode(errors="replace")
    finally:
        remove_container(client, name)


@contextlib.contextmanager
def hold(client: Client, gpu: Gpu, run_id: str) -> Iterator[None]:
    """Keep a GPU for one run; raise BusyError if another run has it.

    A lock file on this machine would not keep other machines' runs from that GPU, but
    the engine gives a name to one container at a time. The container is never started.
    Its labels name its owner, so that the lock of a dead process can be taken over.
    """
    name = "rai-gpu-" + re.sub(r"[^a-zA-Z0-9_.-]", "-", gpu.uuid)
    with failing(f"keep GPU {gpu.uuid} for this run"):
        try:
            held = _taken(client, name, gpu, run_id)
        except FAILURES:
            _let_go(client, name, run_id)
            raise
    try:
        yield
    finally:
        remove_container(client, held)


def _let_go(client: Client, name: str, run_id: str) -> None:
    """Remove a run's own container, which may exist though the answer was lost."""
    with contextlib.suppress(*FAILURES):
        found = client.inspect_container(name)
        if (found["Config"]["Labels"] or {}).get(owner.RUN) == run_id:
            remove_container(client, found["Id"])


def _taken(client: Client, name: str, gpu: Gpu, run_id: str) -> str:
    for _ in range(TRIES):
        try:
            images = client.images(quiet=True)
            if not images:  # any will do: nothing in it is run
                text = "the engine has no image, which locking its GPUs needs"
                raise EngineError(text)
            return make_idle(client, images[0], name, owner.labels(run_id, HOLD_S))
        except NotFound:  # the image was removed a moment ago
            continue
        except APIError as error:
            if error.status_code != CONFLICT:
                raise
            _remove_abandoned(client, name, gpu)
    raise BusyError(_busy(gpu, "another run"))


def _remove_abandoned(client: Client, name: str, gpu: Gpu) -> None:
    """Remove the container if its owner is gone; raise BusyError if it is not."""
    try:
        found = client.inspect_container(name)
    except NotFound:
        return  # removed a moment ago
    labels = found["Config"]["Labels"] or {}
    if not owner.abandoned(labels, machine.this_process(), time.time()):
        since = found["Created"].partition(".")[0].replace("T", " ")
        run = labels.get(owner.RUN, "another")
        raise BusyError(_busy(gpu, f"run {run} since {since} UTC"))
    try:
        # By its id: the name may be another run's by now.
        client.remove_container(found["Id"], force=True)
    except NotFound:
        return
    except APIError as error:
        if error.status_code != CONFLICT:
            raise
        time.sleep(PAUSE_S)  # another run is removing it


def _busy(gpu: Gpu, holder: str) -> Problem:
    return Problem(f"GPU {gpu.index} ({gpu.name}, {gpu.uuid}) is held by {holder}")
