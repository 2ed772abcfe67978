"""A project's commit: read whatever the repository is, and nothing of it is started."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from runner.pack import git

pytestmark = pytest.mark.programs


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("first")
    (folder / "main.c").write_text("int main;\n")
    call(folder, "init", "-q", "-b", "trunk")
    call(folder, "add", "main.c")
    commit(folder)
    return folder


@pytest.fixture
def repository(first: Path, tmp_path: Path) -> Path:
    return shutil.copytree(first, tmp_path / "repository")


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """Name a file that each program which the repository names makes."""
    return tmp_path / "started"


@pytest.fixture
def program(tmp_path: Path, mark: Path) -> Path:
    path = tmp_path / "program"
    path.write_text(f"#!/bin/sh\necho $0 $* >> {mark}\nexec cat\n")
    path.chmod(0o755)
    return path


def call(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.fsmonitor=false")
    may = ("-c", "protocol.file.allow=always")
    done = subprocess.run(
        ["git", "-C", str(folder), *who, *may, *words], check=True, capture_output=True
    )
    return done.stdout.decode().strip()


def commit(folder: Path) -> None:
    call(folder, "commit", "-q", "--allow-empty", "-m", "one")


def test_a_project_has_its_commit_and_branch(repository):
    found = git.state(repository)

    assert found.commit == call(repository, "rev-parse", "HEAD")
    assert (found.branch, found.dirty) == ("trunk", False)


def test_a_folder_of_a_repository_has_the_same_commit(repository):
    inner = repository / "some" / "folder"
    inner.mkdir(parents=True)

    assert git.state(inner) == git.state(repository)


def test_a_new_file_is_a_change_and_an_ignored_one_is_none(repository, home):
    for place in (repository / ".git/info/exclude", home / "config/git/ignore"):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"*.{place.name}\n")
        (repository / f"new.{place.name}").touch()
    ignored = git.state(repository)
    (repository / "new.c").touch()
    new = git.state(repository)

    assert ignored is not None and new is not None
    assert (ignored.dirty, new.dirty) == (False, True)


def test_what_is_staged_is_a_change(repository):
    (repository / "main.c").write_text("int other;\n")
    call(repository, "add", "main.c")

    found = git.state(repository)

    assert found.dirty


def test_a_mode_counts_unless_the_repository_says_that_modes_do_not(repository):
    (repository / "main.c").chmod(0o755)
    counted = git.state(repository)
    call(repository, "config", "core.fileMode", "false")
    not_counted = git.state(repository)

    assert counted is not None and not_counted is not None
    assert (counted.dirty, not_counted.dirty) == (True, False)


def test_a_checkout_of_a_commit_has_no_branch(repository):
    call(repository, "checkout", "-q", "--detach")

    found = git.state(repository)

    assert (found.branch, found.dirty) == ("(detached)", False)


def test_a_branch_in_packed_refs_is_found(repository):
    call(repository, "pack-refs", "--all")

    found = git.state(repository)

    assert not (repository / ".git/refs/heads/trunk").exists()
    assert found.commit == call(repository, "rev-parse", "HEAD")
    assert (found.branch, found.dirty) == ("trunk", False)


def test_a_further_working_tree_has_its_own_branch_and_changes(repository, tmp_path):
    other = tmp_path / "other"
    call(repository, "worktree", "add", "-q", "-b", "side/branch", str(other))
    clean = git.state(other)
    (other / "main.c").unlink()
    changed = git.state(other)

    assert clean is not None and changed is not None
    assert clean.commit == call(repository, "rev-parse", "HEAD")
    assert (clean.branch, clean.dirty) == ("side/branch", False)
    assert changed.dirty
    assert (whole := git.state(repository)) is not None and not whole.dirty


def test_a_submodule_has_its_own_commit_and_is_no_change_of_the_whole(
    repository, tmp_path
):
    whole = tmp_path / "whole"
    whole.mkdir()
    call(whole, "init", "-q", "-b", "trunk")
    call(whole, "submodule", "--quiet", "add", str(repository), "part")
    commit(whole)
    (whole / "part/main.c").write_text("int other;\n")

    part, found = git.state(whole / "part"), git.state(whole)

    assert part is not None and found is not None
    assert part.commit == call(repository, "rev-parse", "HEAD")
    assert (part.dirty, found.dirty) == (True, False)


def test_a_repository_of_sha256_has_its_commit(tmp_path):
    call(tmp_path, "init", "-q", "-b", "trunk", "--object-format=sha256")
    (tmp_path / "main.c").touch()
    call(tmp_path, "add", ".")
    commit(tmp_path)

    found = git.state(tmp_path)

    assert (len(found.commit), found.dirty) == (64, False)


def test_a_folder_that_is_no_repository_has_no_commit(tmp_path):
    assert git.state(tmp_path) is None


def test_a_repository_without_a_commit_has_none(tmp_path):
    call(tmp_path, "init", "-q")

    assert git.state(tmp_path) is None


def test_the_commit_is_known_where_there_is_no_git(repository, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))

    found = git.state(repository)

    assert (found.branch, found.dirty) == ("trunk", None)


def test_settings_of_the_caller_for_another_repository_do_not_count(
    repository, tmp_path, monkeypatch
):
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"):
        monkeypatch.setenv(name, str(tmp_path / "nowhere"))

    found = git.state(repository)

    assert (found.branch, found.dirty) == ("trunk", False)


FILTERS = '[filter "{name}"]\nclean = {program}\nprocess = {program}\nrequired = true\n'
WHERE = ["own", "included", "conditional", "worktree", "user's"]


@pytest.mark.parametrize("name", ["evil", "a=b"])
@pytest.mark.parametrize("where", WHERE)
def test_no_filter_is_started(where, name, repository, program, mark, monkeypatch):
    config = repository / ".git/config"
    settings = repository / ".git" / ("config.worktree" if where == "worktree" else "x")
    if where == "own":
        settings = config
    elif where == "worktree":
        call(repository, "config", "extensions.worktreeConfig", "true")
    elif where == "user's":
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    else:
        condition = "include" if where == "included" else 'includeIf "gitdir:/"'
        config.write_text(f"{config.read_text()}[{condition}]\npath = x\n")
    with settings.open("a") as file:
        file.write(FILTERS.format(name=name, program=program))
    (repository / ".gitattributes").write_text(f"*.c filter={name}\n")
    (repository / "main.c").write_text("int Main;\n")
    found = git.state(repository)
    assert not mark.exists(), mark.read_text()
    assert found is not None and found.dirty


def test_no_monitor_and_no_hook_is_started_and_the_index_stays(
    repository, program, mark
):
    for key in (
        *("core.fsmonitor", "core.sshCommand", "core.pager", "core.editor"),
        *("diff.external", "core.gitProxy", "credential.helper"),
    ):
        call(repository, "config", key, str(program))
    for name in ("post-index-change", "fsmonitor-watchman", "post-checkout"):
        shutil.copy(program, repository / ".git/hooks" / name)
    (repository / "main.c").touch()
    index = (repository / ".git/index").read_bytes()

    found = git.state(repository)

    assert found is not None and not found.dirty
    assert not mark.exists(), mark.read_text()
    assert (repository / ".git/index").read_bytes() == index


def test_nothing_is_fetched_for_a_partial_clone(repository, program, mark):
    tree = call(repository, "rev-parse", "HEAD^{tree}")
    (repository / ".git/objects" / tree[:2] / tree[2:]).unlink()
    for name, value in (
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.url", str(repository)),
        ("remote.origin.promisor", "true"),
        ("remote.origin.uploadpack", str(program)),
        ("core.sshCommand", str(program)),
        ("protocol.allow", "always"),
    ):
        call(repository, "config", name, value)

    found = git.state(repository)

    assert not mark.exists(), mark.read_text()
    assert (found.branch, found.dirty) == ("trunk", None)


def test_no_filter_of_a_submodule_is_started(repository, program, mark, tmp_path):
    whole = tmp_path / "whole"
    whole.mkdir()
    call(whole, "init", "-q", "-b", "trunk")
    call(whole, "submodule", "--quiet", "add", str(repository), "part")
    commit(whole)
    call(whole / "part", "config", "filter.a=b.clean", str(program))
    call(whole / "part", "config", "core.fsmonitor", str(program))
    (whole / "part/.gitattributes").write_text("*.c filter=a=b\n")
    (whole / "part/main.c").write_text("int Main;\n")

    assert git.state(whole) is not None
    assert git.state(whole / "part") is not None
    assert not mark.exists(), mark.read_text()


@pytest.mark.parametrize(
    "name", [".git", ".git/HEAD", ".git/refs/heads/trunk", ".git/packed-refs"]
)
def test_a_pipe_in_place_of_a_file_holds_nothing_up(name, repository):
    path = repository / name
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    os.mkfifo(path)

    found = git.state(repository)

    assert found is None or found.branch == "trunk"
    assert stat.S_ISFIFO(path.lstat().st_mode)


@pytest.mark.parametrize(
    "name", [".git/config", ".git/info/exclude", ".git/index", ".gitignore"]
)
def test_a_pipe_that_git_would_read_leaves_the_commit(name, repository, monkeypatch):
    monkeypatch.setattr(git, "STATUS_S", 0.5)
    (repository / name).unlink(missing_ok=True)
    os.mkfifo(repository / name)

    found = git.state(repository)

    assert (found.branch, found.dirty) == ("trunk", None)


@pytest.mark.parametrize(
    "head",
    [
        "ref: refs/heads/../../../secret",
        "ref: ../secret",
        "ref: refs/heads/link",
        "ref: refs/heads/loop",
        "ref: refs/heads/\x1b[2J",
        "x" * 40,
        "",
    ],
)
def test_a_head_that_leads_elsewhere_is_no_commit(head, repository):
    secret = repository.parent / "secret"
    secret.write_text("0" * 40 + "\n")
    heads = repository / ".git/refs/heads"
    (heads / "link").symlink_to(secret)
    (heads / "loop").write_text("ref: refs/heads/loop\n")
    (heads / "\x1b[2J").write_text("0" * 40 + "\n")
    (repository / ".git/HEAD").write_text(head + "\n")

    assert git.state(repository) is None


@pytest.mark.parametrize("name", ["HEAD", "config", "packed-refs", "index"])
def test_a_file_of_many_gigabytes_is_not_read(name, repository):
    call(repository, "pack-refs", "--all")
    os.truncate(repository / ".git" / name, 64 << 30)

    found = git.state(repository)

    assert found is None or found.dirty is None


@pytest.mark.parametrize("text", ["gitdir: nowhere", "gitdir: \0", "gitdir:", "x"])
def test_a_file_that_points_nowhere_is_no_repository(text, tmp_path):
    (tmp_path / ".git").write_text(text)

    assert git.state(tmp_path) is None
