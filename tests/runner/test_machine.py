"""This machine, and a project's commit."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from runner import machine


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "main.c").write_text("int main;\n")
    git(folder, "init", "-q", "-b", "trunk")
    git(folder, "add", "main.c")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one")
    return folder


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True)


def test_a_project_has_its_commit_and_branch(repository):
    found = machine.git(repository)

    assert found is not None
    assert len(found.commit) == 40
    assert (found.branch, found.dirty) == ("trunk", False)


def test_a_changed_project_is_not_its_commit(repository):
    (repository / "main.c").write_text("int other;\n")

    found = machine.git(repository)

    assert found is not None
    assert found.dirty


def test_a_folder_that_is_no_repository_has_no_commit(tmp_path):
    assert machine.git(tmp_path) is None


def test_a_repository_without_a_commit_has_none(tmp_path):
    git(tmp_path, "init", "-q")

    assert machine.git(tmp_path) is None


def test_no_program_that_the_repository_names_is_started(repository, tmp_path):
    mark = tmp_path / "started"
    git(repository, "config", "core.fsmonitor", f"touch {mark}; false")
    git(repository, "config", "filter.evil.clean", f"touch {mark}; cat")
    (repository / ".gitattributes").write_text("*.c filter=evil\n")
    (repository / "main.c").write_text("int third;\n")
    index = (repository / ".git" / "index").read_bytes()

    assert machine.git(repository) is not None

    assert not mark.exists()
    assert (repository / ".git" / "index").read_bytes() == index


def test_the_machine_is_described():
    found = machine.describe()

    assert found.cores >= 1
    assert found.memory_bytes > 0
    assert found.host
    assert found.python.startswith("3.")
