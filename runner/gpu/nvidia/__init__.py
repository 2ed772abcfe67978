"""The NVIDIA GPUs of this machine, their state and their locks.

host()              the GPUs, the driver and their files
states(gpus)        present clocks, temperatures and processes
hold(gpu, run_id)   a lock that the kernel releases when its holder dies
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from runner import files
from runner.core import Gpu, GpuState, HostGpus
from runner.gpu import absence
from runner.gpu.nvidia import installed, nvml, smi
from runner.gpu.nvidia.locks import hold

if TYPE_CHECKING:
    from runner import yamlfile

__all__ = ["hold", "host", "states"]

ROOT = Path("/")
NVML = "libnvidia-ml.so.1"

CDI_FOLDERS = ("etc/cdi", "var/run/cdi", "run/cdi")
CDI_KIND = "nvidia.com/gpu"
MOST_CDI_BYTES = 4 << 20
"""A specification of 64 slices has a tenth of this; larger files are ignored."""


def host(root: Path = ROOT) -> HostGpus:
    """Return the facts of the machine whose files are below ``root``.

    If no NVIDIA GPU can be used, ``problem`` and ``hint`` say why.
    """
    presence = installed.detect(root)
    problem, hint = absence.why(presence)
    facts = HostGpus(presence.system, presence.driver, problem=problem, hint=hint)
    if not (presence.driver or presence.cards or presence.wsl_cuda):
        return facts
    facts = replace(facts, toolkit=installed.program(root, *installed.HOOKS))
    return facts if problem else _with_gpus(root, _with_files(root, presence, facts))


def states(gpus: Sequence[Gpu], root: Path = ROOT) -> tuple[GpuState, ...]:
    """Return the present state of each GPU; ``problem`` says if it does not answer."""
    if not gpus:
        return ()
    library = installed.library_file(root, NVML, installed.version(root))
    try:
        return nvml.states(installed.under(root, library), gpus)
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
    common = tuple(node for node in presence.nodes if node in installed.COMMON)
    program = installed.program(root, smi.SMI)
    return replace(
        facts,
        nodes=common,
        libraries=installed.libraries(root, presence.driver),
        programs=(program,) if program else (),
        cdi=_cdi_devices(root),
    )


def _with_gpus(root: Path, facts: HostGpus) -> HostGpus:
    """Add the GPUs, by NVML or else nvidia-smi."""
    library = dict(facts.libraries).get(NVML, "")
    try:
        found = nvml.list_gpus(installed.under(root, library))
    except nvml.NvmlError as error:
        return _with_smi_gpus(root, facts, error)
    gpus = tuple(_with_nodes(root, each) for each in found.gpus)
    return _with(facts, found.driver, gpus, found.lost, found.sliced)


def _with_smi_gpus(root: Path, facts: HostGpus, error: nvml.NvmlError) -> HostGpus:
    found = _smi_instead(root, error)
    if found.states:
        minors = installed.minors(root)
        gpus = tuple(_with_node(root, minors, g, found.buses) for g in found.gpus)
        return _with(facts, found.driver, gpus, (), found.sliced)
    library = NVML in dict(facts.libraries)
    problem, hint = absence.silent(error.code, str(error), library, found.problem)
    return replace(facts, problem=problem, hint=hint)


def _smi_instead(root: Path, error: nvml.NvmlError) -> smi.SmiReport:
    """Run nvidia-smi instead of NVML, unless NVML hangs: it would hang too."""
    hangs = error.code == nvml.TIMEOUT
    return smi.SmiReport() if hangs else smi.run_smi(root)


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
        files += installed.of_slice(
            root, seen.minor, seen.gpu_instance, seen.compute_instance
        )
    return replace(seen.gpu, nodes=installed.present(root, files))


def _with_node(
    root: Path, minors: dict[str, int], gpu: Gpu, buses: Sequence[tuple[str, str]]
) -> Gpu:
    """Add a GPU's device file."""
    # nvidia-smi writes eight digits of the PCI domain, and the kernel four.
    bus = dict(buses).get(gpu.uuid, "").lower()[4:]
    if bus not in minors:
        return gpu
    return replace(gpu, nodes=installed.present(root, [f"/dev/nvidia{minors[bus]}"]))


def _cdi_devices(root: Path) -> tuple[str, ...]:
    """Return full names such as nvidia.com/gpu=GPU-1b2c..., without duplicates.

    A specification (Container Device Interface, SPEC.md) is YAML or JSON, with a
    ``kind`` and ``devices`` that have a ``name`` each.
    """
    paths = [p for folder in CDI_FOLDERS for p in sorted((root / folder).glob("*"))]
    specs = [p for p in paths if p.suffix in (".yaml", ".json")]
    return tuple(dict.fromkeys(name for path in specs for name in _cdi_names(path)))


def _cdi_names(path: Path) -> list[str]:
    """Return those of one file; none if it is too large or cannot be read."""
    try:
        text = files.read(path, MOST_CDI_BYTES).decode(errors="replace")
    except OSError:
        return []
    if CDI_KIND not in text:
        return []
    from runner import yamlfile

    spec = yamlfile.compose(text, path.name, yamlfile.Problems())
    if not isinstance(spec, yamlfile.Mapping) or _text(spec.get("kind")) != CDI_KIND:
        return []
    devices = spec.get("devices")
    items = devices.items if isinstance(devices, yamlfile.Sequence) else ()
    named = (_text(i.get("name")) for i in items if isinstance(i, yamlfile.Mapping))
    return [f"{CDI_KIND}={name}" for name in named if name]


def _text(node: yamlfile.Node | None) -> str:
    from runner import yamlfile

    return node.text if isinstance(node, yamlfile.Scalar) else ""
