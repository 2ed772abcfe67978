"""docs/architecture.md and CONTRIBUTING.md name files and functions that exist.

The steps of the tour are in the order in which a run calls them.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from pathlib import Path

import pytest

from tests.kit.needs import ROOT
from tests.kit.program import run_program

PAGE = (ROOT / "docs" / "architecture.md").read_text()
GUIDE = (ROOT / "CONTRIBUTING.md").read_text()
TOUR = PAGE.partition("## One run through the code\n")[2].partition("\n## ")[0]
SPEC = "rai: {version: 0.2}\ncommands:\n  build:\n    - echo Op Time 0.5\n"

TRACED = """
import os, sys

root, seen = sys.argv.pop(1), {}

def note(frame, event, argument):
    if event == "call" and frame.f_code.co_filename.startswith(root):
        file = frame.f_code.co_filename[len(root) + 1 :]
        seen.setdefault((file, frame.f_code.co_qualname))

def leave(status):
    sys.setprofile(None)
    for file, name in seen:
        print(file, name)
    sys.stdout.flush()
    leaving(status)

leaving, os._exit = os._exit, leave
from runner.cli.main import main
sys.setprofile(note)
main()
"""


def references() -> list[tuple[str, str]]:
    """Return each file that the pages name, with the functions named behind it."""
    found = []
    for file, names in re.findall(
        r"`(runner/[a-z_/.]+\.py)`((?:(?: and)?\s`[\w.]+`)*)", PAGE + GUIDE
    ):
        found += [(file, name) for name in re.findall(r"`([\w.]+)`", names) or [""]]
    return found


def steps() -> list[tuple[str, str]]:
    """Return the numbered steps, which a run takes in this order."""
    return re.findall(r"^\d+\. `([^`]+)` `([^`]+)`", TOUR, re.M)


def defined(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            inner = (n.name for n in node.body if isinstance(n, ast.FunctionDef))
            names |= {f"{node.name}.{name}" for name in inner}
    return names


@pytest.mark.parametrize(("file", "name"), references())
def test_what_the_pages_name_is_there(file, name):
    path = ROOT / file
    assert path.is_file(), file
    assert not name or name in defined(path), f"{file} has no {name}"


def test_the_tour_is_short():
    assert len(TOUR.splitlines()) < 40


@pytest.mark.programs
def test_a_run_takes_the_steps_of_the_tour_in_their_order(tmp_path):
    (tmp_path / "rai_build.yml").write_text(SPEC)
    words = ["run", "-p", str(tmp_path), "--engine", "bare", "--quiet"]

    done = run_program(
        [sys.executable, "-c", TRACED, str(ROOT), *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )

    called = [tuple(line.split(" ", 1)) for line in done.stdout.splitlines()[1:]]
    taken = steps()
    assert len(taken) > 20
    assert [step for step in taken if step not in called] == []
    assert sorted(taken, key=called.index) == taken
