"""Examine this machine: which engines work, what is missing, and what to do."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from runner import engines, machine, process
from runner.core import GIB, BuildSpec, GpuSituation
from runner.core.errors import ConfigError, EngineError
from runner.doctor import gpus
from runner.doctor.finding import Finding, Health
from runner.engines import strict
from runner.engines.base import Engine
from runner.gpu import nvidia
from runner.gpu.watch import this_machine
from runner.store import policy

__all__ = ["Finding", "Health", "conclusion", "examine", "working"]

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
        advice = strict.GROUPS if grouped else ""
        return Finding(subject, Health.NOTE, how + "".join(lacking), advice)
    return Finding(subject, Health.OK, how)


def _network(serving: Sequence[Engine]) -> list[Finding]:
    """Return whether a sandbox can have a network, where the local engine works."""
    if "local" not in [engine.name for engine in serving]:
        return []
    from runner.engines.local import network  # for Linux only

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
    return gpus.findings(host, states, found)


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
