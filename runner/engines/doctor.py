"""Examine this machine: which engines and GPUs work, what is missing, what to do."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from runner import engines
from runner.core import GIB, BuildSpec, Gpu, GpuSituation, GpuState, HostGpus
from runner.core.errors import ConfigError, EngineError
from runner.engines import base
from runner.engines.base import Engine
from runner.engines.gpu import access, nvidia
from runner.engines.gpu.watch import this_machine
from runner.report import phrases
from runner.store import policy
from runner.system import machine, process


class Health(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    NOTE = "note"
    MISSING = "missing"


class Finding(Struct, frozen=True):
    """A fact about this machine, and advice on it."""

    subject: str
    state: Health
    text: str
    advice: str = ""


def examine(home: Path, data_dir: Path | None) -> list[Finding]:
    """Return the findings about everything that affects runs here."""
    every = [engines.make(name) for name in engines.TABLE]
    found = [_engine(engine) for engine in every]
    serving = [e for e, f in zip(every, found, strict=True) if _serves(f)]
    found += _network(serving)
    found += _gpus(serving)
    found += [_policy(), _disk(home), _data(data_dir), _time(), _python()]
    return [*found, *_slurm(), *_detached()]


def working(found: Sequence[Finding]) -> list[str]:
    """Return the engines that work, in the order in which `auto` tries them."""
    states = {f.subject: f for f in found}
    every = ((name, states.get(f"engine {name}")) for name in engines.TABLE)
    return [name for name, finding in every if finding and _serves(finding)]


def conclusion(found: Sequence[Finding]) -> str:
    """Return what follows for runs here, in a sentence."""
    if any(f.subject == "policy" and not _serves(f) for f in found):
        return "Nothing runs here until the policy is mended."
    first, *_ = working(found) or [""]
    if not first:
        return "No engine works here: see the lines that are `missing`."
    if first == "bare":
        return "Ready, without isolation: only the bare engine works here."
    return f"Ready: `rai run` uses the {first} engine."


def _serves(engine: Finding) -> bool:
    return engine.state is not Health.MISSING


def _engine(engine: Engine) -> Finding:
    subject = f"engine {engine.name}"
    # It names an image, since one engine cannot build any.
    problems = engine.check(BuildSpec("rai_build.yml", image="debian"))
    if problems:
        text = "; ".join(p.message for p in problems)
        advice = "; ".join(p.hint for p in problems if p.hint)
        return Finding(subject, Health.MISSING, text, advice)
    facts = engine.facts()
    how = f"{facts.version} {facts.how}".strip()
    lacking = [
        f"; {what}: {', '.join(names)}"
        for what, names in (
            ("not enforced", facts.unenforced),
            ("not enforced in image builds", facts.unenforced_in_builds),
            ("not closed to a run with a network", facts.unenforced_with_network),
        )
        if names
    ]
    if lacking:
        grouped = engine.name == "local" and "memory" in facts.unenforced
        advice = base.GROUPS if grouped else ""
        return Finding(subject, Health.NOTE, how + "".join(lacking), advice)
    return Finding(subject, Health.OK, how)


def _network(serving: Sequence[Engine]) -> list[Finding]:
    """Return whether a sandbox can have a network, where the local engine works."""
    if "local" not in [engine.name for engine in serving]:
        return []
    from runner.engines import network  # for Linux only

    subject = "local network"
    if not (problems := network.missing()):
        text = "`network: true` works; private addresses are closed"
        return [Finding(subject, Health.OK, text)]
    advice = "; ".join(problem.hint for problem in problems if problem.hint)
    text = "; ".join(problem.message for problem in problems)
    return [Finding(subject, Health.NOTE, text, advice)]


def _gpus(serving: Sequence[Engine]) -> list[Finding]:
    host = this_machine()
    states = nvidia.states(host.gpus) if host.gpus else ()
    found: dict[str, GpuSituation] = {}
    for engine in serving:
        try:
            found[engine.name] = engine.gpus()
        except EngineError as error:
            found[engine.name] = GpuSituation(problem=str(error))
    return findings(host, states, found)


def findings(
    host: HostGpus, states: Sequence[GpuState], engines: Mapping[str, GpuSituation]
) -> list[Finding]:
    """Return findings about the driver, the GPUs, their files, and each engine's ways.

    There is a single one if neither this machine nor an engine has an NVIDIA GPU.
    """
    if host.problem:
        found = [Finding("GPU", Health.NOTE, host.problem, host.hint)]
    else:
        found = [
            _driver(host),
            *_allotted(host),
            *_each_gpu(host, states),
            _files(host),
        ]
    found += [Finding("GPU", Health.MISSING, text, RESET) for text in host.lost]
    if host.gpus:
        why = "is in MIG mode: no run gets it whole"
        found += [
            Finding("GPU", Health.NOTE, f"{name} {why}", access.NAME_SLICE)
            for name in host.sliced
        ]
    if host.driver or host.gpus or any(each.any for each in engines.values()):
        found += [_gpu_by_engine(name, each) for name, each in engines.items()]
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


def _each_gpu(host: HostGpus, states: Sequence[GpuState]) -> list[Finding]:
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
        users = phrases.processes(state.processes)
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


def _gpu_by_engine(name: str, situation: GpuSituation) -> Finding:
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


LOW_DISK_BYTES = 5 * GIB

ASK = (
    "busctl",
    "get-property",
    "org.freedesktop.login1",
    "/org/freedesktop/login1",
    "org.freedesktop.login1.Manager",
    "KillUserProcesses",
)
ASK_S = 2.0


def _policy() -> Finding:
    try:
        rules = policy.read()
    except ConfigError as error:
        text = "; ".join(str(problem) for problem in error.problems)
        return Finding(
            "policy", Health.MISSING, text, "nothing runs until it is mended"
        )
    if not rules.file:
        return Finding("policy", Health.OK, f"none: there is no {policy.FILE}")
    text = f"{rules.file} is in force"
    return Finding("policy", Health.OK, text, "`rai config --show-origin` lists it")


def _disk(home: Path) -> Finding:
    place = next(p for p in (home, *home.parents) if p.exists())
    free = shutil.disk_usage(place).free
    text = f"{free / GIB:.0f} GiB free for runs in {home}"
    if free < LOW_DISK_BYTES:
        return Finding(
            "disk", Health.NOTE, text, "free some space, or set RAI_HOME elsewhere"
        )
    return Finding("disk", Health.OK, text)


def _data(data_dir: Path | None) -> Finding:
    if data_dir is None:
        advice = "set RAI_DATA_DIR to a folder of data files to avoid downloads"
        return Finding("data", Health.NOTE, "RAI_DATA_DIR is not set", advice)
    if not data_dir.is_dir():
        return Finding(
            "data", Health.MISSING, f"{data_dir} is not a folder", "fix RAI_DATA_DIR"
        )
    return Finding("data", Health.OK, str(data_dir))


def _time() -> Finding:
    place = Path("/usr/bin/time")
    if place.exists():
        return Finding("GNU time", Health.OK, str(place))
    return Finding("GNU time", Health.NOTE, "absent; the local engine has its own")


def _slurm() -> list[Finding]:
    sbatch = shutil.which("sbatch")
    if sbatch is None:
        return []
    return [Finding("slurm", Health.OK, sbatch, "`rai run --on slurm` runs on a node")]


def _python() -> Finding:
    cores = machine.cores()
    text = f"{sys.version.split()[0]} at {sys.executable}, {cores} cores"
    return Finding("python", Health.OK, text)


def _detached() -> list[Finding]:
    """Return a note where logind ends a session's processes; nothing if not known."""
    if os.getuid() == 0:  # logind leaves root's alone, unless it is told otherwise
        return []
    try:
        groups = Path("/proc/self/cgroup").read_text()
        answer = process.run(ASK, timeout_s=ASK_S).stdout
    except (OSError, EngineError):
        return []
    return detached(groups, answer)


def detached(groups: str, answer: bytes) -> list[Finding]:
    """Decide by the control groups of this process and by what logind answers."""
    in_session = re.search(r"/session-[^/]+\.scope(/|$)", groups, re.MULTILINE)
    if not in_session or answer.strip() != b"b true":
        return []
    text = "logind ends them at logout (KillUserProcesses=yes)"
    advice = (
        "`loginctl enable-linger` once, and start them with `systemd-run --user --scope"
        " rai run --detach`"
    )
    return [Finding("detached runs", Health.NOTE, text, advice)]
