"""`rai bench` in the log of a CI system."""

from __future__ import annotations

import html
import os
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.kit import github
from tests.kit.program import rai
from tests.pack.test_git import call, commit

pytestmark = pytest.mark.programs

SPEC = """\
commands:
  build:
    - name: final
      run: 'echo ::error::forged; echo ::add-mask::e >&2; echo "Op Time: 0.{}"'
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Make a project of two commits, the second a fifth slower."""
    folder = tmp_path / "project"
    folder.mkdir()
    call(folder, "init", "-q", "-b", "trunk")
    for digits in ("50", "60"):
        (folder / "rai_build.yml").write_text(SPEC.format(digits))
        call(folder, "add", ".")
        commit(folder)
    return folder


def bench(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    names = {"CI": "true", "GITHUB_ACTIONS": "true"}
    names["GITHUB_STEP_SUMMARY"] = str(project.parent / "summary.md")
    sides = ("HEAD^", "HEAD", "-p", project, "--engine", "bare")
    return rai("bench", *sides, *words, env={**os.environ, **names})


def test_a_slower_version_is_in_the_summary_the_annotations_and_the_tests(project):
    junit = project.parent / "junit.xml"

    done = bench(project, "--fail-if", "op_time>3%", "--junit", str(junit))

    assert done.returncode == 7, done.stdout
    page = html.unescape((project.parent / "summary.md").read_text())
    commits = [call(project, "rev-parse", name)[:7] for name in ("HEAD", "HEAD^")]
    first, *_ = page.splitlines()
    compared = "{} against {}".format(*commits)
    assert first == f"## ❌ rai bench: op_time +20.0 % (limit 3 %), {compared}"
    table, *folded = page.split("<details><summary>")
    assert "\n| op_time[final] |" in table
    assert "op_time[final] is slower: +20.0 %" in table
    titles = [text.partition("<")[0] for text in folded]
    assert titles == [
        f"✅ rai bench: A, {commits[1]}: done",
        f"✅ rai bench: B, {commits[0]}: done",
    ]
    assert page.count("</details>") == 2
    (error,) = (text for name, text in github.commands(done.stdout) if name == "error")
    assert "op_time[final] is slower" in error
    assert "::error::forged" in done.stdout
    assert done.stderr == ""
    before, after, gate = ElementTree.parse(junit).getroot()
    assert (before.get("failures"), after.get("failures")) == ("0", "0")
    assert gate.get("failures") == "1"
