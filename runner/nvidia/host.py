"""This machine's GPUs, found without asking more than is there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from runner import process
from runner.errors import EngineError
from runner.gpus import absence
from runner.model import Gpu, GpuState, HostGpus
from runner.nvidia import libraries, nodes, nvml, smi

ROOT = Path("/")
SMI_S = 20.0
NVML_LIBRARY = "libnvidia-ml.so.1"
SMI = "nvidia-smi"
HOOKS = ("nvidia-container-runtime-hook", "nvidia-container-toolkit")
PROGRAM_FOLDERS = (
    "/usr/bin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/local/nvidia/bin",
    "/usr/lib/wsl/lib",
    "/run/current-system/sw/bin",
)


def host(root: Path = ROOT) -> HostGpus:
    """Give the facts of the machine whose files lie under ``root``.

    Where there is no NVIDIA GPU, or it cannot be used, ``problem`` and ``hint`` say so.
    """
    traces = nodes.traces(root)
    problem, hint = absence.why(traces)
    if problem:
        toolkit = _program(root, *HOOKS) if traces.cards or traces.driver else ""
        return HostGpus(
            traces.system, traces.driver, toolkit=toolkit, problem=problem, hint=hint
        )
    from runner.nvidia import cdi

    found = libraries.find(root, traces.driver)
    smi_path = _program(root, SMI)
    facts = HostGpus(
        system=traces.system,
        driver=traces.driver,
        nodes=_common(traces.nodes),
        libraries=found,
        programs=(smi_path,) if smi_path else (),
        cdi=cdi.devices(root),
        toolkit=_program(root, *HOOKS),
    )
    return _with_gpus(root, facts)


def states(gpus: tuple[Gpu, ...], root: Path = ROOT) -> tuple[GpuState, ...]:
    """Look at each GPU now; of one that does not answer, ``problem`` says so."""
    library = dict(libraries.find(root, nodes.version(root))).get(NVML_LIBRARY, "")
    try:
        return nvml.states(_under(root, library), gpus)
    except nvml.NvmlError:
        told = _ask_smi(root, _program(root, SMI))
    by_uuid = {state.uuid: state for state in told.states}
    return tuple(
        replace(by_uuid[card], uuid=gpu.uuid)
        if (card := gpu.parent or gpu.uuid) in by_uuid
        else GpuState(gpu.uuid, problem=told.problem)
        for gpu in gpus
    )


def _with_gpus(root: Path, facts: HostGpus) -> HostGpus:
    library = dict(facts.libraries).get(NVML_LIBRARY, "")
    try:
        driver, seen = nvml.look(_under(root, library))
        gpus = tuple(_with_nodes(root, one) for one in seen)
    except nvml.NvmlError as error:
        answer = _ask_smi(root, next(iter(facts.programs), ""))
        driver, gpus = answer.driver, _placed(root, answer)
        if not gpus:
            problem, hint = absence.silent(
                error.code, str(error), bool(library), answer.problem
            )
            return replace(facts, problem=problem, hint=hint)
    facts = replace(facts, driver=facts.driver or driver, gpus=gpus)
    if gpus:
        return facts
    problem, hint = absence.NO_GPUS
    return replace(facts, problem=problem, hint=hint)


def _with_nodes(root: Path, seen: nvml.Seen) -> Gpu:
    if seen.gpu_instance is None or seen.compute_instance is None:
        files: Iterator[str] = iter([f"/dev/nvidia{seen.minor}"])
    else:
        files = nodes.slice_nodes(
            root, seen.minor, seen.gpu_instance, seen.compute_instance
        )
    return replace(seen.gpu, nodes=nodes.present(root, tuple(files)))


def _placed(root: Path, answer: smi.Answer) -> tuple[Gpu, ...]:
    """Give each GPU its device file; which a slice's are, nvidia-smi does not tell."""
    minors = nodes.minors(root)
    buses = dict(answer.buses)

    def placed(gpu: Gpu) -> Gpu:
        # nvidia-smi writes eight digits of the domain where the kernel writes four.
        bus = buses.get(gpu.parent or gpu.uuid, "").lower()[4:]
        own = (f"/dev/nvidia{minors[bus]}",) if bus in minors else ()
        return gpu if gpu.parent else replace(gpu, nodes=nodes.present(root, own))

    return tuple(placed(gpu) for gpu in answer.gpus)


def _ask_smi(root: Path, program: str) -> smi.Answer:
    """Have nvidia-smi tell what it can; an empty answer where it is not there."""
    if not program:
        return smi.Answer()
    path = _under(root, program)
    try:
        texts = [
            process.run([path, *words[1:]], timeout_s=SMI_S)
            for words in (smi.QUERY, smi.LIST)
        ]
    except EngineError as error:
        return smi.Answer(problem=str(error))
    said = b"".join(done.stdout + done.stderr for done in texts)
    return smi.parse(said.decode(errors="replace"))


def _common(found: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(n for n in found if n in nodes.COMMON or n == nodes.DXG)


def _program(root: Path, *names: str) -> str:
    """Give the first program of these names that is there."""
    folders = list(PROGRAM_FOLDERS)
    if root == ROOT:
        folders = [*os.environ.get("PATH", "").split(":"), *folders]
    for name in names:
        for folder in filter(None, folders):
            path = f"{folder}/{name}"
            if os.access(_under(root, path), os.X_OK):
                return path
    return ""


def _under(root: Path, path: str) -> str:
    return str(root / path.lstrip("/")) if path else ""
