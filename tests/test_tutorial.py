"""The tutorial is true: its files are written, its commands run, its output compared.

A paragraph that ends with a file's name in backticks and a colon introduces that file.
In a `console` block, lines with `$ ` are commands; the lines below are printed by them,
in this order, with `...` for lines left out. Numbers, ids and the sandbox may differ.
It computes 100 images here, not 1000.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parent.parent / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(?P<kind>\w+)\n(?P<text>.*?)^```\n", re.S | re.M)
END = "== end of a command =="

SANDBOX = re.compile(r"(?<=profile, )(bubblewrap|unshare)\.( Not enforced here: .*)?")

pytestmark = [
    *(pytest.mark.local, pytest.mark.cpp, pytest.mark.lengthy, pytest.mark.programs)
]


def blocks() -> Iterator[tuple[str | None, str, str]]:
    """Yield of each block the file that it is, if it is one, its kind and its text."""
    page = PAGE.read_text()
    for block in BLOCK.finditer(page):
        before = page[: block.start()].rstrip().rpartition("\n")[2]
        name = re.search(r"`([\w.]+)`[^`]*:$", before)
        yield name and name[1], block["kind"], block["text"]


def same_on_all_machines(line: str) -> str:
    line = SANDBOX.sub("SANDBOX", line)
    line = re.sub(r"\b[0-9a-f]{10}\b", "RUN", line)
    line = re.sub(r"\d+(\.\d+)?( ms\b)?", lambda n: "N s" if n[2] else "N", line)
    return re.sub(r"\s+", " ", line.replace("file:///home/me", "")).strip()


def commands(text: str) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line != "...":
            found[-1][1].append(line)
    return found


def said(script: list[str], folder: Path, environ: dict[str, str]) -> list[list[str]]:
    """Run the commands in one shell; return the lines that each printed."""
    lines = [f'{each}\ncode=$?\necho "{END}"\n(exit $code)' for each in script]
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    parts = done.stdout.split(END + "\n")[:-1]
    return [part.splitlines() for part in parts]


def assert_in_order(expected: list[str], printed: list[str], command: str) -> None:
    rest = iter([same_on_all_machines(line) for line in printed])
    for line in expected:
        wanted = same_on_all_machines(line)
        assert wanted in rest, f"$ {command}\nno {line!r} in:\n" + "\n".join(printed)


def test_the_steps_of_the_tutorial_print_what_it_shows(tmp_path):
    folder = tmp_path / "conv"
    folder.mkdir()
    environ = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "RAI_HOME": str(tmp_path / "home"),
        "RAI_ENGINE": "local",
        "NO_COLOR": "1",
        "COLUMNS": "80",
    }
    ran = 0
    for name, kind, text in blocks():
        if name:
            (folder / name).write_text(text.replace("conv 1000", "conv 100"))
        elif kind == "console":
            steps = commands(text)
            printed = said([command for command, _ in steps], folder, environ)
            assert len(printed) == len(steps)
            for (command, expected), lines in zip(steps, printed, strict=True):
                assert_in_order(expected, lines, command)
                ran += 1
    assert ran >= 10
