"""The GPUs of an engine elsewhere, as a container there sees them."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Sequence

from docker.types import DeviceRequest, LogConfig
from msgspec.structs import replace

from runner.core import MIB, Gpu, GpuGrant, GpuSituation, GpuState, GpuWay
from runner.engines.docker import attach, owner
from runner.engines.docker.client import FAILURES, Client, explained
from runner.engines.docker.gpu.options import CAPABILITIES, GpuSupport
from runner.engines.environment import environment
from runner.gpu import access, nvidia
from runner.gpu.nvidia import smi
from runner.gpu.watch import Watch

QUERY_S = 30
LOG_OPTIONS = {"max-size": "256k", "max-file": "1"}
"""The image's nvidia-smi may be anything; what it prints is read whole."""

ASK = ["/bin/sh", "-c", f"{' '.join(smi.QUERY)}; {' '.join(smi.LIST)}"]
ALL = {
    GpuWay.REQUEST: DeviceRequest(
        driver="nvidia", count=-1, capabilities=[["gpu", "utility"]]
    ),
    GpuWay.CDI: DeviceRequest(driver="cdi", device_ids=[f"{access.KIND}=all"]),
}
"""Only for looking; what a run is given is named by its UUID."""


def situation(client: Client, support: GpuSupport, image: str | None) -> GpuSituation:
    """Say what the engine can give; elsewhere, a container of ``image`` looks."""
    states = nvidia.states(support.host.gpus) if support.shared else ()
    found = access.docker(support.engine, support.host, states)
    if found.gpus is not None or image is None or not found.open:
        return found
    answer = ask(client, image, found.open)
    if answer.gpus:
        driver, states = answer.driver, answer.states
        return replace(found, gpus=answer.gpus, driver=driver, states=states)
    problem = (
        f"a container of the engine, which is elsewhere, sees no GPU: {answer.problem}"
    )
    hint = "see that `docker run --gpus all` works there"
    return replace(found, gpus=(), problem=problem, hint=hint)


def ask(client: Client, image: str, order: Sequence[GpuWay]) -> smi.SmiReport:
    """Start nvidia-smi in a container by the first way that works, and read it.

    The answer's ``problem`` says of each way why it did not.
    """
    problems: list[str] = []
    for way in (way for way in order if way in ALL):
        try:
            answer = smi.parse(_run_smi(client, image, ALL[way]))
        except FAILURES as error:
            problems.append(f"{way.words}: {explained(error)}")
            continue
        if answer.gpus:
            return answer
        problems.append(f"{way.words}: {answer.problem or 'nvidia-smi told nothing'}")
    return smi.SmiReport(problem="; ".join(problems))


def watch(
    client: Client,
    grant: GpuGrant | None,
    support: GpuSupport,
    container: Callable[[], str],
) -> Watch:
    """Look at this machine's GPUs at once; at another's when the container stands."""
    if not support.shared:
        return Watch(grant, lambda gpus: states(client, container(), gpus))
    watch = Watch(grant, nvidia.states)
    watch.begin()
    return watch


def states(client: Client, container: str, gpus: Sequence[Gpu]) -> tuple[GpuState, ...]:
    """Ask nvidia-smi in a running container; empty where it has none.

    Of a slice it is the whole GPU's state.
    """
    with contextlib.suppress(*FAILURES):
        told = smi.parse(attach.ask(client, container, smi.QUERY, QUERY_S)).states
        by_uuid = {state.uuid: state for state in told}
        found = ((gpu.uuid, by_uuid.get(gpu.parent or gpu.uuid)) for gpu in gpus)
        return tuple(replace(state, uuid=uuid) for uuid, state in found if state)
    return ()


def _run_smi(client: Client, image: str, request: DeviceRequest) -> str:
    """Run nvidia-smi in a container of its own, as confined as a run's."""
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
    client.create_container(
        image,
        name=name,
        entrypoint=ASK,
        user="10001:10001",
        labels=labels,
        # The search paths of a run, which reach the driver's own folder.
        environment={
            **environment(),
            "NVIDIA_DRIVER_CAPABILITIES": ",".join(CAPABILITIES),
        },
        host_config=host,
    )
    try:
        client.start(name)
        client.wait(name, timeout=QUERY_S)
        said: bytes = client.logs(name)
        return said.decode(errors="replace")
    finally:
        with contextlib.suppress(*FAILURES):
            client.remove_container(name, force=True)
