"""This machine, and a project's commit."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from runner import __version__, process
from runner.errors import EngineError
from runner.model import GitState, Machine


def describe() -> Machine:
    """Say where a run takes place."""
    return Machine(
        host=platform.node(),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        cpu=_cpu(),
        cores=cores(),
        memory_bytes=_memory(),
        python=platform.python_version(),
        rai=__version__,
    )


def cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_SHORT = ("--porcelain=v2", "--branch", "--ignore-submodules=all")
_HARMLESS = (
    "--no-optional-locks",
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null"),
)
"""A repository's own settings may name programs; none of them shall be started."""

_FILTERS = ("config", "--name-only", "--get-regexp", r"^filter\..*\.(clean|process)$")


def git(project: Path) -> GitState | None:
    """Give the project's commit; None outside a repository or without git."""
    within = any((folder / ".git").exists() for folder in (project, *project.parents))
    if not within and "GIT_DIR" not in os.environ:
        return None
    here = ("-C", str(project))
    try:
        named = process.run(["git", *here, *_FILTERS], timeout_s=5).stdout.decode()
        off = [
            word for name in named.split("\n") if name for word in ("-c", f"{name}=")
        ]
        words = ["git", *_HARMLESS, *off, *here, "status", *_SHORT]
        done = process.run(words, timeout_s=5)
    except EngineError:
        return None
    lines = done.stdout.decode(errors="replace").splitlines()
    heads = dict(line[9:].split(" ", 1) for line in lines if line[:9] == "# branch.")
    commit = heads.get("oid", "")
    if done.exit_code != 0 or not commit or commit == "(initial)":
        return None
    dirty = any(not line.startswith("#") for line in lines)
    return GitState(commit, heads.get("head", ""), dirty)


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if "model name" in line]
    return names[0] if names else platform.machine()


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return 0
