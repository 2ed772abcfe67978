"""A commit by its name, and its files: nothing that the repository names is started."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from pathlib import Path

import pytest

from runner.core.errors import Cancel, RaiError, UsageError
from runner.pack import git
from tests.pack.test_git import call, commit

pytestmark = pytest.mark.programs

MIB = 1 << 20


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make one whose first commit has v1 of ``inner/main.c``, and its second v2."""
    folder = tmp_path_factory.mktemp("first")
    (folder / "inner").mkdir(parents=True)
    call(folder, "init", "-q", "-b", "trunk")
    (folder / "other.txt").write_text("elsewhere\n")
    for text in ("v1", "v2"):
        (folder / "inner/main.c").write_text(f"{text}\n")
        call(folder, "add", ".")
        commit(folder)
    return folder


@pytest.fixture
def repository(first: Path, tmp_path: Path) -> Path:
    return shutil.copytree(first, tmp_path / "repository")


def members(
    project: Path, name: str, most_bytes: int = MIB
) -> dict[str, tarfile.TarInfo]:
    return {info.name: info for info, _ in _read(project, name, most_bytes)}


def content(project: Path, name: str, file: str) -> bytes:
    found = {info.name: data for info, data in _read(project, name, MIB)}
    return found[file]


def _read(
    project: Path, name: str, most_bytes: int
) -> list[tuple[tarfile.TarInfo, bytes]]:
    found = git.find(project, name)
    assert found is not None
    data = b"".join(git.files_of(found, most_bytes, Cancel()))
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        opened = ((info, tar.extractfile(info)) for info in tar.getmembers())
        return [(info, file.read() if file else b"") for info, file in opened]


@pytest.mark.parametrize(
    "name", ["trunk", "heads/trunk", "refs/heads/trunk", "HEAD", "@", "HEAD~0"]
)
def test_a_commit_is_found_by_the_names_that_git_has_for_it(name, repository):
    found = git.find(repository, name)

    assert found.state.commit == call(repository, "rev-parse", "trunk")
    assert found.state.branch == ("(detached)" if name == "HEAD~0" else "trunk")


@pytest.mark.parametrize("name", ["HEAD~1", "@^", "trunk^1", "v1", "short", "whole"])
def test_an_earlier_commit_is_found_by_its_tag_hash_or_distance(name, repository):
    first = call(repository, "rev-parse", "HEAD~1")
    call(repository, "tag", "-a", "v1", "-m", "one", first)
    asked = {"short": first[:8], "whole": first}.get(name, name)

    found = git.find(repository, asked)

    assert found.state.commit == first


@pytest.mark.parametrize(
    "name",
    [
        *("HEAD~2", "nothing", "--help", "-h", "HEAD:inner", "@{1}", "HEAD@{0}"),
        *("../../secret", "a b", "", "x" * 2000, ":/v1", "trunk..trunk", "config"),
        "f" * 40,
    ],
)
def test_another_name_is_no_commit(name, repository):
    assert git.find(repository, name) is None


def test_a_commit_of_a_packed_and_of_a_remote_branch_is_found(repository):
    call(repository, "update-ref", "refs/remotes/origin/side", "HEAD~1")
    call(repository, "pack-refs", "--all")

    found = git.find(repository, "origin/side")

    assert found.state.commit == call(repository, "rev-parse", "HEAD~1")
    assert found.state.branch == "origin/side"


def test_a_repository_of_sha256_has_commits_by_name(tmp_path):
    call(tmp_path, "init", "-q", "-b", "trunk", "--object-format=sha256")
    commit(tmp_path)
    whole = call(tmp_path, "rev-parse", "HEAD")

    by_branch, by_hash = git.find(tmp_path, "trunk"), git.find(tmp_path, whole[:9])

    assert by_branch is not None and by_hash is not None
    assert by_branch.state.commit == by_hash.state.commit == whole


def test_a_commit_gives_its_files_and_not_those_of_the_folder(repository):
    (repository / "new.c").touch()
    (repository / "inner/main.c").write_text("unsaved\n")

    assert set(members(repository, "HEAD~1")) == {"inner", "inner/main.c", "other.txt"}
    assert content(repository, "HEAD~1", "inner/main.c") == b"v1\n"
    assert content(repository, "HEAD", "inner/main.c") == b"v2\n"


@pytest.mark.parametrize("name", ["inner", ".inner", "in*er", ":(top)inner"])
def test_a_project_below_the_top_gets_the_files_of_its_folder(name, repository):
    if name != "inner":
        (repository / name).mkdir()
        (repository / name / "main.c").touch()
        call(repository, "add", ".")
        commit(repository)

    found = git.find(repository / name, "HEAD")

    assert found.folder == name
    assert set(members(repository / name, "HEAD")) == {name, f"{name}/main.c"}


def test_a_folder_that_a_commit_lacks_is_named(repository):
    new = repository / "new"
    new.mkdir()

    with pytest.raises(UsageError, match="has no folder new"):
        git.find(new, "HEAD")


def test_outside_a_repository_a_name_is_refused(tmp_path):
    with pytest.raises(UsageError, match="in no git repository"):
        git.find(tmp_path, "HEAD")


def test_without_git_a_name_is_refused(repository, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(UsageError, match="git is not installed"):
        git.find(repository, "HEAD")


def test_a_shallow_clone_says_how_to_get_older_commits(repository, tmp_path):
    clone = tmp_path / "clone"
    call(tmp_path, "clone", "-q", "--depth=1", f"file://{repository}", str(clone))

    assert git.find(clone, "HEAD") is not None
    assert git.find(clone, "HEAD~1") is None
    assert "fetch-depth: 0" in git.unknown(clone, "HEAD~1").hint


def test_files_are_as_they_were_committed(repository, tmp_path):
    mark = tmp_path / "started"
    program = f"touch {mark}; cat"
    (repository / "raw.c").write_bytes(b"$Format:%H$ $Id$\nlast\n")
    (repository / "left.out").touch()
    call(repository, "add", ".")
    (repository / ".gitattributes").write_text(
        "*.c filter=evil text eol=crlf export-subst ident\nleft.out export-ignore\n"
    )
    call(repository, "add", ".gitattributes")
    commit(repository)
    for name in ("smudge", "clean", "process"):
        call(repository, "config", f"filter.evil.{name}", program)
    call(repository, "config", "tar.tar.command", program)

    assert "left.out" in members(repository, "HEAD")
    assert content(repository, "HEAD", "raw.c") == b"$Format:%H$ $Id$\nlast\n"
    assert not mark.exists()


def test_no_other_commit_takes_the_place_of_one(repository):
    call(repository, "replace", "HEAD~1", "HEAD")

    assert content(repository, "HEAD~1", "inner/main.c") == b"v1\n"


def test_nothing_is_fetched_and_a_missing_file_is_said(repository, tmp_path):
    mark = tmp_path / "started"
    blob = call(repository, "rev-parse", "HEAD:inner/main.c")
    (repository / ".git/objects" / blob[:2] / blob[2:]).unlink()
    call(repository, "config", "extensions.partialClone", "origin")
    call(repository, "config", "remote.origin.url", str(repository))
    call(repository, "config", "remote.origin.promisor", "true")
    call(repository, "config", "remote.origin.uploadpack", f"touch {mark}")

    with pytest.raises(UsageError, match="cannot be read"):
        members(repository, "HEAD")
    assert not mark.exists()


def test_a_commit_that_is_too_large_is_refused_while_it_is_read(repository):
    (repository / "big").write_bytes(os.urandom(2 * MIB))
    call(repository, "add", ".")
    commit(repository)

    with pytest.raises(UsageError, match="more than rai takes"):
        members(repository, "HEAD", MIB)


def test_reading_a_commit_can_be_cancelled(repository):
    (repository / "big").write_bytes(bytes(8 * MIB))
    call(repository, "add", ".")
    commit(repository)
    found, cancel = git.find(repository, "HEAD"), Cancel()
    assert found is not None
    pieces = git.files_of(found, 16 * MIB, cancel)
    next(pieces)
    cancel.request()

    with pytest.raises(RaiError, match="cancelled"):
        list(pieces)


def test_a_submodule_is_an_empty_folder(repository, tmp_path):
    whole = tmp_path / "whole"
    whole.mkdir()
    call(whole, "init", "-q", "-b", "trunk")
    call(whole, "submodule", "--quiet", "add", str(repository), "part")
    commit(whole)

    found = git.find(whole, "HEAD")

    assert found is not None and found.submodules
    assert set(members(whole, "HEAD")) == {".gitmodules", "part"}


def test_a_pipe_that_git_would_read_holds_nothing_up(repository):
    for name in (".git/config", ".git/info/exclude", ".git/index"):
        (repository / name).unlink(missing_ok=True)
        os.mkfifo(repository / name)

    assert content(repository, "HEAD", "inner/main.c") == b"v2\n"


@pytest.mark.parametrize("way", ["list", "objects", "pack", "packed file", "pipe"])
def test_a_repository_gives_no_files_of_another(way, repository, tmp_path):
    other = tmp_path / "other"
    call(repository, "clone", "-q", "--no-local", str(repository), str(other))
    call(other, "repack", "-adq")
    wanted = call(other, "rev-parse", "HEAD")
    objects, mine = other / ".git/objects", repository / ".git/objects"
    if way == "objects":
        mine.rename(tmp_path / "mine")
        mine.symlink_to(objects)
    elif way == "pack":
        (mine / "pack").rmdir()
        (mine / "pack").symlink_to(objects / "pack")
    elif way == "packed file":
        for file in (objects / "pack").iterdir():
            (mine / "pack" / file.name).symlink_to(file)
    elif way == "list":
        (mine / "info/alternates").write_text(f"{objects}\n")
    else:
        os.mkfifo(mine / "info/alternates")

    with pytest.raises(UsageError, match="borrows files of another"):
        git.find(repository, wanted)


def test_an_object_that_is_a_pipe_is_said_in_time(repository, monkeypatch):
    monkeypatch.setattr("runner.pack.git.LOOK_UP_S", 0.5)
    wanted = call(repository, "rev-parse", "HEAD")
    loose = repository / ".git/objects" / wanted[:2] / wanted[2:]
    loose.unlink()
    os.mkfifo(loose)

    with pytest.raises(UsageError, match="git cannot read the repository"):
        git.find(repository, "HEAD")
