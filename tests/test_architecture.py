"""The layers, and the homes of the third-party packages."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import runner

ROOT = Path(__file__).resolve().parent.parent
RUNNER = ROOT / "runner"
PROJECT = ROOT / "project"
NVPROF = ROOT / "image" / "nvprof" / "nvprof"

PAGE = (ROOT / "docs/architecture.md").read_text()
TABLE = PAGE.partition("## Rooms\n")[2].partition("\n## ")[0]
ROWS = re.findall(r"^\| `(\w+)` \| ([^|]*)\|", TABLE, re.M)
ROOMS = [name for name, _ in ROWS]
"""The rooms of runner/, from the ground up; each imports from those before it only."""

PROJECT_ROOMS = re.findall(r"^\| `project/(\w+)` \|", PAGE, re.M)
"""Those of project/, likewise; scripts at its top import from all, and no room them."""


def pure(path: Path) -> bool:
    """Return whether the table calls a module pure: "yes", "but `x`" or "only `x`"."""
    room, name = path.relative_to(RUNNER).with_suffix("").parts[:2]
    word = dict(ROWS)[room].strip()
    named = f"`{name}`" in word
    return word == "yes" or word.startswith("only" if named else "but")


HOMES: dict[str, tuple[str, ...]] = {
    "typer": ("runner/cli/",),
    "docker": ("runner/engines/docker/",),
    "pynvml": ("runner/engines/gpu/nvml.py",),
    "jinja2": (
        "runner/report/page.py",
        "runner/report/pictures.py",
        "runner/server/pages.py",
    ),
    "markupsafe": ("runner/report/page.py", "runner/report/pictures.py"),
    "requests": ("runner/engines/docker/", "runner/client/"),
    "certifi": ("runner/client/",),
    "sqlalchemy": ("runner/server/database/",),
    "alembic": ("runner/server/database/",),
    "psycopg": ("runner/server/database/",),
    "starlette": ("runner/server/",),
    "anyio": ("runner/server/",),
    "uvicorn": ("runner/server/",),
    "h11": ("runner/server/",),
    "prometheus_client": ("runner/server/",),
    "cryptography": ("runner/server/",),
    "re2": ("runner/spec/patterns.py",),
    "yaml": ("runner/spec/yamlfile.py",),
    "sqlite3": (
        "runner/figures/traces/database.py",
        "image/nvprof/nvprof/store.py",
    ),
    "subprocess": (
        "image/nvprof/nvprof/session.py",
        "runner/submit/handouts/common/",
        "runner/judge/",
        "runner/system/",
        "project/gpu/compiler.py",
        "project/lab/gpu_facts.py",
        "project/host/native.py",
        "project/lab/script_time.py",
    ),
    "backports": ("runner/pack/write.py",),
    "compression": ("runner/pack/write.py",),
    "pathspec": ("runner/pack/ignore.py",),
    "watchfiles": ("runner/execution/watching.py",),
    "platformdirs": ("runner/store/settings.py", "runner/server/paths.py"),
    "pycuda": ("project/gpu/device.py",),
    "cuda": ("project/gpu/compiler.py",),
    "mxnet": ("project/host/mxnet_package.py",),
    "triton": ("project/lab/triton_peer.py",),
    "cudnn": ("project/gpu/cudnn_convolution.py",),
    "torch": (
        "project/train.py",
        "project/milestones/training.py",
        "project/lab/bench_torch.py",
        "project/lab/forward_torch.py",
        "project/lab/triton_peer.py",
    ),
}
"""Each third-party or guarded package and the only places that import it."""


def sources() -> list[Path]:
    folders = (RUNNER, PROJECT, NVPROF)
    return sorted(path for folder in folders for path in modules(folder))


def modules(folder: Path) -> Iterator[Path]:
    """Yield a folder's modules, without its tests."""
    return (p for p in folder.rglob("*.py") if p.parent != folder / "tests")


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Return the nodes of a file, its module first."""
    return list(ast.walk(ast.parse(path.read_text())))


@cache
def imports(path: Path) -> set[str]:
    """Return the full dotted names that a file imports."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def owner(path: Path, home: Path = RUNNER) -> str:
    return path.relative_to(home).parts[0].removesuffix(".py")


def wrong_imports(home: Path, rooms: list[str], prefix: str) -> Iterator[str]:
    """Yield what modules in a folder's rooms import of it and may not."""
    there = {owner(path, home) for path in modules(home)}
    for path in sorted(home.glob("*/**/*.py")):
        me = owner(path, home)
        if me == "tests":
            continue
        assert me in rooms, f"{path} is in no room"
        allowed = rooms[: rooms.index(me) + 1]
        for name in imports(path):
            room = name.removeprefix(prefix).partition(".")[0]
            inside = name.startswith(prefix) if prefix else room in there
            if inside and room not in ("", "__version__", *allowed):
                yield f"{path} imports {name}"


def test_a_module_imports_from_its_own_room_and_from_those_below():
    assert [
        *wrong_imports(RUNNER, ROOMS, "runner."),
        *wrong_imports(PROJECT, PROJECT_ROOMS, ""),
    ] == []


def test_each_package_is_imported_only_in_its_home():
    wrong = []
    for path in sources():
        where = path.relative_to(ROOT).as_posix()
        for name in imports(path):
            homes = HOMES.get(name.split(".")[0])
            if homes is not None and not where.startswith(homes):
                wrong.append(f"{where} imports {name}")
    assert wrong == []


def test_every_room_is_there_and_in_the_table():
    entries = {owner(path) for path in RUNNER.rglob("*.py")} - {"__init__"}
    assert entries == set(ROOMS)
    assert {p.parent.name for p in PROJECT.glob("*/*.py")} == {*PROJECT_ROOMS, "tests"}
    assert not set(ROOMS) & set(runner.__all__), "a room would replace a function"
    assert sum(map(pure, RUNNER.glob("*/*.py"))) > 60


def test_the_core_needs_the_standard_library_and_msgspec_only():
    allowed = sys.stdlib_module_names | {"runner", "msgspec"}
    for path in (RUNNER / "core").rglob("*.py"):
        assert {name.split(".")[0] for name in imports(path)} <= allowed, path


def test_the_judge_needs_the_standard_library_and_itself_only():
    for path in (RUNNER / "judge").rglob("*.py"):
        for name in imports(path):
            top, _, rest = name.partition(".")
            own = top == "runner" and rest.split(".")[0] == "judge"
            assert own or top in sys.stdlib_module_names, f"{path} imports {name}"


def test_runner_and_project_never_import_each_other():
    theirs = {p.stem for p in PROJECT.glob("*.py")} | {*PROJECT_ROOMS, "project"}
    for path in RUNNER.rglob("*.py"):
        assert not {n.split(".")[0] for n in imports(path)} & theirs, path
    for path in modules(PROJECT):
        assert not any(n.split(".")[0] == "runner" for n in imports(path)), path


def test_nvprof_needs_the_standard_library_only():
    allowed = sys.stdlib_module_names | {"nvprof"}
    for path in NVPROF.rglob("*.py"):
        assert {name.split(".")[0] for name in imports(path)} <= allowed, path


def test_no_source_file_is_longer_than_500_lines():
    for path in sources():
        assert len(path.read_text().splitlines()) <= 500, path


def test_pure_rooms_touch_no_file_clock_process_or_network():
    banned = {"os", "time", "socket", "subprocess", "urllib"}
    for path in RUNNER.rglob("*.py"):
        if path.parent != RUNNER and pure(path):
            used = {name.split(".")[0] for name in imports(path)} & banned
            assert not used, f"{path} imports {used}"
            called = {
                node.func.id
                for node in nodes(path)
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            }
            assert not called & {"open", "print", "input"}, f"{path} calls {called}"


def test_what_rai_says_passes_the_place_that_escapes_what_it_quotes():
    allowed = {
        "cli/attach.py",  # a question, without an end of its line
        "submit/handouts/common/check.py",  # a student's own program
        "terminal/streams.py",
        "execution/worker.py",
        "execution/node.py",  # to a log
    }
    found = {
        path.relative_to(RUNNER).as_posix()
        for path in RUNNER.rglob("*.py")
        for node in nodes(path)
        if isinstance(node, ast.Name) and node.id == "print"
    }
    assert found == allowed


def test_no_two_classes_of_runner_share_a_name():
    modules: dict[str, list[str]] = {}
    for path in sorted(RUNNER.rglob("*.py")):
        for node in nodes(path)[0].body:
            if isinstance(node, ast.ClassDef):
                where = path.relative_to(ROOT).as_posix()
                modules.setdefault(node.name, []).append(where)
    assert {name: found for name, found in modules.items() if len(found) > 1} == {}
