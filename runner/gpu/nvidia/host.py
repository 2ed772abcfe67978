"""This machine's GPUs and their state, by NVML or else nvidia-smi."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from runner.core import Gpu, GpuState, HostGpus
from runner.gpu import absence
from runner.gpu.nvidia import cdi, libraries, nodes, nvml, programs, smi

ROOT = Path("/")
NVML = "libnvidia-ml.so.1"


def host(root: Path = ROOT) -> HostGpus:
    """Return the facts of the machine whose files are below ``root``.

    If no NVIDIA GPU can be used, ``problem`` and ``hint`` say why.
    """
    presence = nodes.detect(root)
    problem, hint = absence.why(presence)
    facts = HostGpus(presence.system, presence.driver, problem=problem, hint=hint)
    if not (presence.driver or presence.cards or presence.wsl_cuda):
        return facts
    facts = replace(facts, toolkit=programs.path(root, *programs.HOOKS))
    return facts if problem else _with_gpus(root, _with_files(root, presence, facts))


def states(gpus: Sequence[Gpu], root: Path = ROOT) -> tuple[GpuState, ...]:
    """Return the present state of each GPU; ``problem`` says if it does not answer."""
    if not gpus:
        return ()
    library = libraries.path(root, NVML, nodes.version(root))
    try:
        return nvml.states(programs.under(root, library), gpus)
    except nvml.NvmlError as error:
        found = _smi_instead(root, error)
        errors = "; ".join(filter(None, [str(error), found.problem]))
    by_uuid = {state.uuid: state for state in found.states}
    unknown = GpuState("", problem=f"it does not answer: {errors}")
    # nvidia-smi shows the state of whole cards only.
    return tuple(
        replace(by_uuid.get(gpu.parent or gpu.uuid, unknown), uuid=gpu.uuid)
        for gpu in gpus
    )


def _with_files(
    root: Path, presence: absence.NvidiaPresence, facts: HostGpus
) -> HostGpus:
    """Add the device files, libraries and programs that a run needs."""
    common = tuple(node for node in presence.nodes if node in nodes.COMMON)
    program = programs.path(root, programs.SMI)
    return replace(
        facts,
        nodes=common,
        libraries=libraries.find(root, presence.driver),
        programs=(program,) if program else (),
        cdi=cdi.devices(root),
    )


def _with_gpus(root: Path, facts: HostGpus) -> HostGpus:
    """Add the GPUs, by NVML or else nvidia-smi."""
    library = dict(facts.libraries).get(NVML, "")
    try:
        found = nvml.list_gpus(programs.under(root, library))
    except nvml.NvmlError as error:
        return _with_smi_gpus(root, facts, error)
    gpus = tuple(_with_nodes(root, each) for each in found.gpus)
    return _with(facts, found.driver, gpus, found.lost, found.sliced)


def _with_smi_gpus(root: Path, facts: HostGpus, error: nvml.NvmlError) -> HostGpus:
    found = _smi_instead(root, error)
    if found.states:
        minors = nodes.minors(root)
        gpus = tuple(_with_node(root, minors, g, found.buses) for g in found.gpus)
        return _with(facts, found.driver, gpus, (), found.sliced)
    library = NVML in dict(facts.libraries)
    problem, hint = absence.silent(error.code, str(error), library, found.problem)
    return replace(facts, problem=problem, hint=hint)


def _smi_instead(root: Path, error: nvml.NvmlError) -> smi.SmiReport:
    """Run nvidia-smi instead of NVML, unless NVML hangs: it would hang too."""
    hangs = error.code == nvml.TIMEOUT
    return smi.SmiReport() if hangs else programs.run_smi(root)


def _with(
    facts: HostGpus,
    driver: str,
    gpus: tuple[Gpu, ...],
    lost: tuple[str, ...],
    sliced: tuple[str, ...],
) -> HostGpus:
    problem, hint = ("", "") if gpus else absence.none_usable(lost, sliced)
    return replace(
        facts,
        driver=facts.driver or driver,
        gpus=gpus,
        lost=lost,
        sliced=sliced,
        problem=problem,
        hint=hint,
    )


def _with_nodes(root: Path, seen: nvml.ListedGpu) -> Gpu:
    if seen.minor is None:
        return seen.gpu
    files = [f"/dev/nvidia{seen.minor}"]
    if seen.gpu_instance is not None and seen.compute_instance is not None:
        files += nodes.of_slice(
            root, seen.minor, seen.gpu_instance, seen.compute_instance
        )
    return replace(seen.gpu, nodes=nodes.present(root, files))


def _with_node(
    root: Path, minors: dict[str, int], gpu: Gpu, buses: Sequence[tuple[str, str]]
) -> Gpu:
    """Add a GPU's device file."""
    # nvidia-smi writes eight digits of the PCI domain, and the kernel four.
    bus = dict(buses).get(gpu.uuid, "").lower()[4:]
    if bus not in minors:
        return gpu
    return replace(gpu, nodes=nodes.present(root, [f"/dev/nvidia{minors[bus]}"]))
