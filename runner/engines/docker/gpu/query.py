"""Query the GPUs of an engine on another machine by containers there."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Sequence
from functools import partial

from docker.types import DeviceRequest, LogConfig
from msgspec.structs import replace

from runner.core import MIB, Gpu, GpuGrant, GpuSituation, GpuState, GpuWay
from runner.engines.docker import attach, owner
from runner.engines.docker.client import FAILURES, Client, explained, removed
from runner.engines.docker.gpu.options import CAPABILITIES, GpuSupport
from runner.engines.environment import environment
from runner.gpu import access, nvidia
from runner.gpu.nvidia import smi
from runner.gpu.watch import Watch

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


def ask(client: Client, image: str, order: Sequence[GpuWay]) -> smi.SmiReport:
    """Run nvidia-smi in a container, with GPUs by the first way that works.

    The report's ``problem`` says why each way failed.
    """
    problems: list[str] = []
    for way in (way for way in order if way in ALL):
        try:
            found = smi.parse(_run_smi(client, image, ALL[way]))
        except FAILURES as error:
            problems.append(f"{way.words}: {explained(error)}")
            continue
        if found.gpus:
            return found
        sliced = f"in MIG mode: {', '.join(found.sliced)}" if found.sliced else ""
        why = found.problem or sliced or "nvidia-smi printed nothing"
        problems.append(f"{way.words}: {why}")
    return smi.SmiReport(problem="; ".join(problems))


def watch(
    client: Client,
    grant: GpuGrant | None,
    support: GpuSupport,
    container: Callable[[], str],
) -> Watch:
    """Watch a run's GPUs: this machine's from now on, another's by the container."""
    if not support.shared:
        return Watch(grant, lambda gpus: states(client, container(), gpus))
    watch = Watch(grant, nvidia.states)
    watch.begin()
    return watch


def states(client: Client, container: str, gpus: Sequence[Gpu]) -> tuple[GpuState, ...]:
    """Return the state of GPUs by nvidia-smi in a container; empty if it has none."""
    with contextlib.suppress(*FAILURES):
        found = smi.parse(attach.ask(client, container, smi.QUERY, QUERY_S)).states
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
            entrypoint=list(smi.QUERY),
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
        removed(partial(client.remove_container, force=True), name)
