"""The layers, and the homes of the third-party packages."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RUNNER = ROOT / "runner"
PROJECT = ROOT / "project"
NVPROF = ROOT / "image" / "nvprof" / "nvprof"

LAYERS: dict[str, int] = {
    "model": 0,
    "errors": 1,
    "events": 1,
    "cancel": 1,
    "paths": 1,
    "files": 1,
    "yamldoc": 2,
    "spec": 2,
    "commands": 2,
    "image": 2,
    "gpus": 2,
    "logs": 2,
    "record": 2,
    "report": 2,
    "verdicts": 2,
    "screen": 2,
    "config": 3,
    "pack": 3,
    "index": 3,
    "data": 3,
    "git": 3,
    "machine": 3,
    "nvidia": 3,
    "process": 3,
    "runs": 3,
    "tail": 3,
    "quantities": 2,
    "engines": 3,
    "job": 4,
    "grants": 4,
    "doctor": 4,
    "term": 6,
    "cli": 7,
}
"""Every module or package of runner/ and its layer."""

SIDEWAYS = {
    ("verdicts", "report"),
    ("spec", "yamldoc"),
    ("spec", "quantities"),
    ("spec", "commands"),
    ("spec", "image"),
    ("yamldoc", "quantities"),
    ("job", "grants"),
    ("engines", "process"),
    ("engines", "nvidia"),
    ("git", "process"),
    ("nvidia", "process"),
}
"""Imports within a layer that are allowed: a tool of the layer used by its peers."""

HOMES: dict[str, tuple[str, ...]] = {
    "typer": ("runner/cli/",),
    "rich": ("runner/term/",),
    "docker": ("runner/engines/docker/",),
    "pynvml": ("runner/nvidia/nvml.py",),
    "requests": ("runner/engines/docker/",),
    "yaml": ("runner/yamldoc/",),
    "sqlite3": ("runner/index.py", "image/nvprof/nvprof/store.py"),
    "subprocess": (
        "image/nvprof/nvprof/session.py",
        "runner/process.py",
        "project/compiler.py",
        "project/gpu_facts.py",
        "project/native.py",
        "project/script_time.py",
    ),
    "zstandard": ("runner/pack",),
    "pathspec": ("runner/pack",),
    "msgspec": ("runner/events.py", "runner/record.py"),
    "platformdirs": ("runner/config.py",),
    "pycuda": ("project/device.py",),
    "cuda": ("project/compiler.py",),
    "mxnet": ("project/mxnet_package.py",),
    "cudnn": ("project/cudnn_convolution.py",),
    "torch": (
        "project/train.py",
        "project/training.py",
        "project/bench_torch.py",
        "project/forward_torch.py",
        "project/backends/torch_gpu.py",
    ),
}
"""Each third-party or guarded package and the only places that import it."""


def sources() -> list[Path]:
    folders = (RUNNER, PROJECT, NVPROF)
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


def imports(path: Path) -> set[str]:
    """Give the full dotted names that a file imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def owner(path: Path) -> str:
    return path.relative_to(RUNNER).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", sorted(RUNNER.rglob("*.py")), ids=str)
def test_a_module_imports_from_its_own_package_and_from_lower_layers(path):
    me = owner(path)
    if me == "__init__":
        return
    assert me in LAYERS, f"{path} has no layer"
    for name in imports(path):
        parts = name.split(".")
        if parts[0] != "runner" or len(parts) == 1 or parts[1] == me:
            continue
        other = parts[1]
        if other == "__version__":
            continue
        lower = LAYERS[other] < LAYERS[me]
        assert lower or (me, other) in SIDEWAYS, f"{path} imports {name}"


@pytest.mark.parametrize("path", sources(), ids=str)
def test_each_package_is_imported_only_in_its_home(path):
    where = path.relative_to(ROOT).as_posix()
    for name in imports(path):
        homes = HOMES.get(name.split(".")[0])
        if homes is not None:
            assert where.startswith(homes), f"{where} imports {name}"


@pytest.mark.parametrize("path", sorted(RUNNER.rglob("*.py")), ids=str)
def test_layer_zero_and_one_need_the_standard_library_only(path):
    if LAYERS.get(owner(path), 9) > 1:
        return
    allowed = sys.stdlib_module_names | {"runner"}
    allowed |= {"msgspec"} if owner(path) == "events" else set()
    assert {name.split(".")[0] for name in imports(path)} <= allowed


def test_runner_and_project_never_import_each_other():
    modules = {p.stem for p in PROJECT.glob("*.py")} | {"backends", "project"}
    for path in RUNNER.rglob("*.py"):
        assert not {n.split(".")[0] for n in imports(path)} & modules, path
    for path in PROJECT.rglob("*.py"):
        assert not any(n.split(".")[0] == "runner" for n in imports(path)), path


def test_nvprof_needs_the_standard_library_only():
    allowed = sys.stdlib_module_names | {"nvprof"}
    for path in NVPROF.rglob("*.py"):
        assert {name.split(".")[0] for name in imports(path)} <= allowed, path


def test_no_source_file_is_longer_than_400_lines():
    for path in sources():
        assert len(path.read_text().splitlines()) <= 400, path


def test_pure_layers_touch_no_file_clock_process_or_network():
    banned = {"os", "pathlib", "time", "socket", "subprocess", "urllib"}
    for path in RUNNER.rglob("*.py"):
        if LAYERS.get(owner(path)) == 2:
            used = {name.split(".")[0] for name in imports(path)} & banned
            assert not used, f"{path} imports {used}"
            called = {
                node.func.id
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            }
            assert not called & {"open", "print", "input"}, f"{path} calls {called}"
