"""Findings about a machine's GPUs, from its facts. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from runner import report
from runner.core import GIB, Gpu, GpuSituation, GpuState, HostGpus
from runner.doctor.finding import Finding, Health
from runner.gpu import absence, access


def findings(
    host: HostGpus, states: Sequence[GpuState], engines: Mapping[str, GpuSituation]
) -> list[Finding]:
    """Return findings about the driver, the GPUs, their files, and each engine's ways.

    There is a single one if neither this machine nor an engine has an NVIDIA GPU.
    """
    if host.problem:
        found = [Finding("GPU", Health.NOTE, host.problem, host.hint)]
    else:
        found = [_driver(host), *_allotted(host), *_gpus(host, states), _files(host)]
    found += [Finding("GPU", Health.MISSING, text, RESET) for text in host.lost]
    if host.gpus:
        why = "is in MIG mode: no run gets it whole"
        found += [
            Finding("GPU", Health.NOTE, f"{name} {why}", absence.NAME_SLICE)
            for name in host.sliced
        ]
    if host.driver or host.gpus or any(each.any for each in engines.values()):
        found += [_engine(name, each) for name, each in engines.items()]
    return found


RESET = "see `nvidia-smi -q`; reset it, or restart the machine"


def _driver(host: HostGpus) -> Finding:
    cdi = f"{len(host.cdi)} CDI devices" if host.cdi else "no CDI specification"
    toolkit = host.toolkit or "no nvidia-container-toolkit"
    programs = ", ".join(host.programs) or "no nvidia-smi"
    text = "; ".join((host.driver or "of unknown version", programs, toolkit, cdi))
    return Finding("GPU driver", Health.OK, text)


def _allotted(host: HostGpus) -> list[Finding]:
    if not host.allotted:
        return []
    text = f"{len(host.gpus)} of {len(host.gpus) + len(host.withheld)} that are listed"
    return [Finding("GPUs allowed", Health.OK, f"{text}, by {host.allotted}")]


def _gpus(host: HostGpus, states: Sequence[GpuState]) -> list[Finding]:
    by_uuid = {state.uuid: state for state in states}
    return [_gpu(gpu, by_uuid.get(gpu.uuid, GpuState(gpu.uuid))) for gpu in host.gpus]


def _gpu(gpu: Gpu, state: GpuState) -> Finding:
    subject = f"GPU {gpu.index} (MIG slice)" if gpu.parent else f"GPU {gpu.index}"
    memory = f"{gpu.memory_bytes / GIB:.0f} GiB" if gpu.memory_bytes else ""
    compute = f"compute capability {gpu.compute}" if gpu.compute else ""
    heat = "" if state.temperature_c is None else f"{state.temperature_c} C"
    known = filter(None, (gpu.name, memory, compute, gpu.uuid, heat, *state.throttle))
    text = ", ".join(known)
    if state.problem:
        return Finding(subject, Health.MISSING, f"{text}; {state.problem}", RESET)
    if state.processes:
        users = report.processes(state.processes)
        advice = "times measured while other processes use it are not reliable"
        return Finding(subject, Health.NOTE, f"{text}; in use by {users}", advice)
    return Finding(subject, Health.OK, text)


def _files(host: HostGpus) -> Finding:
    """Return which device files and libraries there are, and where."""
    places: dict[str, list[str]] = defaultdict(list)
    for name, file in host.libraries:
        places[file.rpartition("/")[0]].append(name)
    own = dict.fromkeys(node for gpu in host.gpus for node in gpu.nodes)
    nodes = " ".join((*own, *host.nodes)) or "no device files"
    names = (f"{' '.join(found)} in {place}" for place, found in places.items())
    text = "; ".join((nodes, *names))
    lacking = access.lacking(host)
    if lacking:
        what, _, advice = lacking.partition(": ")
        return Finding("GPU files", Health.MISSING, f"{what}; {text}", advice)
    return Finding("GPU files", Health.OK, text)


def _engine(name: str, situation: GpuSituation) -> Finding:
    subject = f"GPU by {name}"
    tried = "; ".join(
        f"{each.way.words}: {each.problem or 'available'}" for each in situation.ways
    )
    if not situation.any:
        closed = tried and not situation.open
        text = f"none: {tried}" if closed else situation.problem
        return Finding(subject, Health.MISSING, text, situation.hint)
    if situation.gpus is None:
        tried += "; only a container there can list its GPUs"
    return Finding(subject, Health.OK, tried)
