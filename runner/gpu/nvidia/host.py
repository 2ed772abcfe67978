"""This machine's GPUs and their state, asking no more than is there."""

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
    """Give the facts of the machine whose files lie under ``root``.

    Where there is no NVIDIA GPU, or none can be used, ``problem`` and ``hint`` say so.
    """
    presence = nodes.detect(root)
    problem, hint = absence.why(presence)
    facts = HostGpus(presence.system, presence.driver, problem=problem, hint=hint)
    if not (presence.driver or presence.cards or presence.wsl_cuda):
        return facts
    facts = replace(facts, toolkit=programs.path(root, *programs.HOOKS))
    return facts if problem else _asked(root, _equipped(root, presence, facts))


def states(gpus: Sequence[Gpu], root: Path = ROOT) -> tuple[GpuState, ...]:
    """Look at each GPU now; of one that does not answer, ``problem`` says so."""
    if not gpus:
        return ()
    library = libraries.path(root, NVML, nodes.version(root))
    try:
        return nvml.states(programs.under(root, library), gpus)
    except nvml.NvmlError as error:
        answer = _smi_instead(root, error)
        silence = "; ".join(filter(None, [str(error), answer.problem]))
    told = {state.uuid: state for state in answer.states}
    unknown = GpuState("", problem=f"it does not answer: {silence}")
    # nvidia-smi tells the state of whole cards only.
    return tuple(
        replace(told.get(gpu.parent or gpu.uuid, unknown), uuid=gpu.uuid)
        for gpu in gpus
    )


def _equipped(
    root: Path, presence: absence.NvidiaPresence, facts: HostGpus
) -> HostGpus:
    """Add the device files, libraries and programs that a run is given."""
    common = tuple(node for node in presence.nodes if node in nodes.COMMON)
    program = programs.path(root, programs.SMI)
    return replace(
        facts,
        nodes=common,
        libraries=libraries.find(root, presence.driver),
        programs=(program,) if program else (),
        cdi=cdi.devices(root),
    )


def _asked(root: Path, facts: HostGpus) -> HostGpus:
    """Add the GPUs, by NVML, else by nvidia-smi."""
    library = dict(facts.libraries).get(NVML, "")
    try:
        look = nvml.look(programs.under(root, library))
    except nvml.NvmlError as error:
        return _asked_smi(root, facts, error)
    gpus = tuple(_with_nodes(root, seen) for seen in look.seen)
    return _with(facts, look.driver, gpus, look.lost, look.unsliced)


def _asked_smi(root: Path, facts: HostGpus, error: nvml.NvmlError) -> HostGpus:
    answer = _smi_instead(root, error)
    if answer.states:
        minors = nodes.minors(root)
        placed = (_placed(root, minors, gpu, answer.buses) for gpu in answer.gpus)
        return _with(facts, answer.driver, tuple(placed), (), answer.unsliced)
    found = NVML in dict(facts.libraries)
    problem, hint = absence.silent(error.code, str(error), found, answer.problem)
    return replace(facts, problem=problem, hint=hint)


def _smi_instead(root: Path, error: nvml.NvmlError) -> smi.SmiReport:
    """Have nvidia-smi tell what NVML could not; where NVML hangs it would hang too."""
    hangs = error.code == nvml.TIMEOUT
    return smi.SmiReport() if hangs else programs.run_smi(root)


def _with(
    facts: HostGpus,
    driver: str,
    gpus: tuple[Gpu, ...],
    lost: tuple[str, ...],
    unsliced: tuple[str, ...],
) -> HostGpus:
    problem, hint = ("", "") if gpus else absence.none_usable(lost, unsliced)
    out = (*lost, *(f"{name} is in MIG mode and has no slice" for name in unsliced))
    driver = facts.driver or driver
    return replace(
        facts, driver=driver, gpus=gpus, lost=out, problem=problem, hint=hint
    )


def _with_nodes(root: Path, seen: nvml.Seen) -> Gpu:
    if seen.minor is None:
        return seen.gpu
    files = [f"/dev/nvidia{seen.minor}"]
    if seen.gpu_instance is not None and seen.compute_instance is not None:
        files += nodes.capabilities(
            root, seen.minor, seen.gpu_instance, seen.compute_instance
        )
    return replace(seen.gpu, nodes=nodes.present(root, files))


def _placed(
    root: Path, minors: dict[str, int], gpu: Gpu, buses: Sequence[tuple[str, str]]
) -> Gpu:
    """Give a GPU its device file; which a slice's are, nvidia-smi does not tell."""
    # nvidia-smi writes eight digits of the PCI domain, where the kernel writes four.
    bus = dict(buses).get(gpu.uuid, "").lower()[4:]
    if bus not in minors:
        return gpu
    return replace(gpu, nodes=nodes.present(root, [f"/dev/nvidia{minors[bus]}"]))
