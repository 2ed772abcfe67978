"""The virtual environment that `make` sets up, and what `rai` itself needs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib

import pytest

from tests.kit.needs import ROOT
from tests.kit.program import run_program
from tools import environment

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def test_rai_itself_needs_no_numpy():
    assert not any(need.startswith("numpy") for need in PROJECT["dependencies"])


@pytest.mark.parametrize("extra", ["dev", "gpu", "mxnet", "train"])
def test_every_extra_that_the_project_works_with_brings_numpy(extra):
    assert EXTRAS["project"] == ["numpy>=1.23.5"]
    brought = re.search(r"rai\[([\w,]+)\]", " ".join(EXTRAS[extra]))
    assert brought
    assert "project" in brought[1].split(",")


@pytest.mark.programs
def test_a_milestone_without_numpy_says_for_which_python_it_is_missing():
    # Without its site, Python has no packages.
    words = [sys.executable, "-S", ROOT / "project" / "m1.1.py"]
    done = run_program(words)

    assert done.returncode == 1
    assert done.stderr.startswith(f"NumPy is not installed for {sys.executable}. In a")
    assert f"`{sys.executable} -m pip install numpy`" in done.stderr
    assert "Traceback" not in done.stderr


def test_only_an_environment_is_made_anew(tmp_path):
    mine, unfinished = tmp_path / "mine", tmp_path / "unfinished"
    for folder, file in ((mine, "thesis.tex"), (unfinished, "pyvenv.cfg")):
        folder.mkdir()
        (folder / file).touch()

    for folder in (mine, unfinished, tmp_path / "absent"):
        environment.clear(folder)

    assert (mine / "thesis.tex").exists()
    assert not unfinished.exists()


@pytest.mark.programs
@pytest.mark.slow
def test_a_new_environment_runs_rai_and_has_pip_and_numpy(tmp_path):
    folder = tmp_path / "venv"
    environ = {**os.environ, "PATH": "/usr/bin:/bin"}
    words = [sys.executable, environment.__file__, folder, "project"]

    subprocess.run(words, check=True, env=environ)
    said = [
        subprocess.check_output([folder / "bin" / word, "--version"], text=True)
        for word in ("rai", "pip", "numpy-config")
    ]

    assert said[0].startswith("rai ")
    assert str(folder) in said[1]
