"""What a side of a bench is, and the files of a commit."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from runner.core.errors import Cancel, RaiError, UsageError
from runner.core.work import Caps
from runner.execution import bench_sides as bench
from runner.execution.prepare import Options
from tests.pack.test_git import call, commit

pytestmark = pytest.mark.programs

SPEC = "commands: {build: [make]}\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "whole" / "part"
    folder.mkdir(parents=True)
    (folder / "rai_build.yml").write_text(SPEC)
    call(folder.parent, "init", "-q", "-b", "trunk")
    call(folder.parent, "add", ".")
    commit(folder.parent)
    monkeypatch.chdir(folder)
    return folder


def test_a_word_is_a_commit_a_path_or_a_folder(project):
    (project / "old").mkdir()

    assert bench.source("trunk", project).commit is not None
    assert bench.source(None, project) == bench.BenchSource(project)
    for text in ("old", "./old", ".", str(project)):
        found = bench.source(text, project)
        assert (found.path, found.commit) == (Path(text), None)


def test_a_word_that_is_a_folder_and_a_commit_is_refused(project):
    (project / "trunk").mkdir()

    with pytest.raises(UsageError, match=r"\./trunk is the folder"):
        bench.source("trunk", project)
    assert bench.source("./trunk", project).commit is None
    assert bench.source("heads/trunk", project).commit is not None


def test_a_word_that_is_nothing_is_refused(project):
    with pytest.raises(UsageError, match="neither a folder nor a commit"):
        bench.source("nothing", project)


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("0" * 40, "there is no earlier commit (its id is all zeros): the branch is"),
        ("1" * 40, "commit 1111111111 is not in this repository: its branch was"),
    ],
)
def test_a_whole_id_that_is_not_there_stands_for_the_parent(project, word, why):
    """As of a first push, and of one that replaced what was there before."""
    with pytest.raises(UsageError, match="and HEAD has no parent here"):
        bench.source(word, project)
    commit(project.parent)

    found = bench.source(word, project)

    assert found.commit is not None
    assert found.commit.state.commit == call(project, "rev-parse", "HEAD^")
    assert found.instead.startswith(why)
    assert found.instead.endswith("; comparing with HEAD^ in its place")


def test_outside_a_repository_only_folders_are_known(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old").mkdir()

    assert bench.source("old", tmp_path).commit is None
    with pytest.raises(UsageError, match="in no git repository"):
        bench.source("HEAD", tmp_path)


def written(project: Path, into: Path, name: str = "HEAD") -> Path:
    found = bench.source(name, project).commit
    assert found is not None
    return bench.write_out(found, into, Cancel())


def test_a_commits_files_are_those_of_the_projects_folder(project, tmp_path):
    (project.parent / "elsewhere").touch()
    (project / "run.sh").write_text("echo\n")
    (project / "run.sh").chmod(0o755)
    (project / "link").symlink_to("run.sh")
    call(project.parent, "add", ".")
    commit(project.parent)

    files = written(project, tmp_path / "into")

    assert {path.name for path in files.iterdir()} == {
        *("rai_build.yml", "run.sh", "link")
    }
    assert os.access(files / "run.sh", os.X_OK)
    assert (files / "link").readlink() == Path("run.sh")
    assert not list((tmp_path / "into").glob("*.tar"))


def tree(repository: Path, entries: str) -> str:
    """Make a commit of entries that git would not add; return its hash."""
    made = subprocess.run(
        ["git", "-C", str(repository), "mktree", "--missing"],
        input=entries.encode(),
        check=True,
        capture_output=True,
    )
    whole = made.stdout.decode().strip()
    return call(repository, "commit-tree", "-m", "hostile", whole)


@pytest.mark.parametrize("above", ["..", "."])
def test_a_tree_that_leads_out_of_its_folder_is_refused(above, project, tmp_path):
    blob = call(project, "hash-object", "-w", "rai_build.yml")
    inner = tree(project, f"100644 blob {blob}\tescaped\n")
    inner = call(project, "rev-parse", f"{inner}^{{tree}}")
    name = tree(project, f"040000 tree {inner}\t{above}\n")

    into = tmp_path / "deep" / "into"
    into.parent.mkdir()
    whole = project.parent
    found = bench.source(name, whole).commit
    assert found is not None
    with pytest.raises(UsageError):
        bench.write_out(found, into, Cancel())
    assert not list(tmp_path.rglob("escaped"))


def test_no_file_is_written_through_a_link(project, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (project / "target").write_text(str(outside))
    link = call(project, "hash-object", "-w", "target")
    blob = call(project, "hash-object", "-w", "rai_build.yml")
    inner = tree(project, f"100644 blob {blob}\tescaped\n")
    inner = call(project, "rev-parse", f"{inner}^{{tree}}")
    entries = f"120000 blob {link}\ta\n040000 tree {inner}\ta\n"
    found = bench.source(tree(project, entries), project.parent).commit
    assert found is not None

    with pytest.raises(UsageError):
        bench.write_out(found, tmp_path / "into", Cancel())
    assert not list(outside.iterdir())


def test_a_commit_of_too_many_files_is_refused(project, tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "COMMIT_CAPS", Caps(1 << 20, 5, 1 << 20))
    for number in range(10):
        (project / f"{number}.c").touch()
    call(project.parent, "add", ".")
    commit(project.parent)

    with pytest.raises(UsageError, match="more than 5 members"):
        written(project, tmp_path / "into")


def prepared(project: Path, area: Path, *words: str | None) -> bench.BenchSides:
    area.mkdir()
    both = (bench.source(words[0], project), bench.source(words[1], project))
    options = Options(engine="bare")
    return bench.prepared(both, project, options, area, Cancel())


def test_a_run_of_a_commit_is_one_of_the_project_at_that_commit(project, tmp_path):
    (project / "rai_build.yml").write_text(SPEC.replace("make", "ls"))

    sides = prepared(project, tmp_path / "area", "HEAD", None)

    one, other = sides.prepared
    assert one.commit.commit == call(project, "rev-parse", "HEAD")
    assert one.request.project == other.request.project == project
    texts = [side.request.spec.commands[0].text for side in sides.prepared]
    assert texts == ["make", "ls"]
    assert one.request.spec.file == "rai_build.yml"


def test_a_problem_of_a_commits_build_file_names_the_commit(project, tmp_path):
    (project / "rai_build.yml").write_text("commands: [\n")
    call(project.parent, "commit", "-qam", "wrong")

    with pytest.raises(RaiError) as raised:
        prepared(project, tmp_path / "area", "HEAD", None)

    short = call(project, "rev-parse", "HEAD")[:10]
    said = str(raised.value)
    assert f"{short}:rai_build.yml:" in said
    assert f"A, commit {short} (HEAD)" in said
    assert str(tmp_path / "area") not in said


def test_submodules_are_left_out_and_that_is_said(project, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    call(other, "init", "-q")
    commit(other)
    call(project.parent, "submodule", "--quiet", "add", str(other), "module")
    commit(project.parent)

    sides = prepared(project, tmp_path / "area", "HEAD", None)

    assert any("has submodules" in problem.message for problem in sides.warnings)


def test_files_that_git_lfs_keeps_are_told(project, tmp_path):
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"
    for name in ("one.bin", "other.bin"):
        (project / name).write_text(pointer)
    call(project.parent, "add", ".")
    commit(project.parent)

    sides = prepared(project, tmp_path / "area", "HEAD", None)

    (warning,) = (p for p in sides.warnings if "Git LFS" in p.message)
    assert "2 files in Git LFS" in warning.message
    assert "git worktree add" in warning.hint
