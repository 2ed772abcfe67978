"""`-o DIR --force` replaces what rai unpacked, and never anything else."""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from runner import archive, trees
from runner.archive import source
from runner.core.errors import RaiError, UsageError
from runner.store import outputs
from runner.store.paths import Home


@pytest.fixture
def kept(tmp_path: Path) -> Home:
    home = Home(tmp_path / "rai")
    home.runs.mkdir(parents=True)
    return home


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def built(home: Home, run: str, **files: str) -> Path:
    """Make a run's build folder; return its archive."""
    folder = home.root.parent / f"build-of-{run}"
    folder.mkdir()
    for name, text in files.items():
        (folder / "deep").mkdir(exist_ok=True)
        (folder / "deep" / name).write_text(text)
    path = home.run(run).build
    path.parent.mkdir()
    with archive.BuildWriter(path) as writer:
        for data in source.pack(folder, "build"):
            writer.write(data)
    shutil.rmtree(folder)
    return path


def bring_back(
    home: Home, build: Path, into: Path, project: Path, *, force: bool = False
) -> None:
    outputs.bring_back(build, into, archive.BUILD, home, project, force=force)


def listed(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


@pytest.fixture
def first(kept: Home, project: Path, tmp_path: Path) -> Path:
    """Return a folder that the build folder of run `one` was unpacked to."""
    into = tmp_path / "out"
    bring_back(kept, built(kept, "one", a="1", b="2"), into, project)
    return into


def test_force_replaces_what_was_unpacked_and_leaves_nothing_else(kept, project, first):
    second = built(kept, "two", c="3")

    bring_back(kept, second, first, project, force=True)
    bring_back(kept, built(kept, "three", d="4"), first, project, force=True)

    assert listed(first) == ["deep", "deep/d"]
    assert {p.name for p in first.parent.iterdir()} == {"out", "rai", "project"}


def test_force_replaces_folders_of_a_depth_that_python_cannot_recurse(
    kept, project, tmp_path
):
    into, deep = tmp_path / "out", tmp_path / "made"
    deep.mkdir()
    trees.make(deep, ["d"] * 995)
    build = kept.run("deep").build
    build.parent.mkdir()
    with archive.BuildWriter(build) as writer:
        for data in source.pack(deep, "build"):
            writer.write(data)
    trees.remove(deep)
    bring_back(kept, build, into, project)

    bring_back(kept, built(kept, "two", c="3"), into, project, force=True)

    assert listed(into) == ["deep", "deep/c"]


def test_what_a_program_in_it_writes_meanwhile_is_kept(kept, project, first):
    files = {f"f{number}": "" for number in range(1000)}
    second = built(kept, "two", **files)
    inside = os.open(first, os.O_RDONLY)

    def write() -> None:
        while not list(first.parent.glob(".out.rai-unpacking-*")):
            time.sleep(0.0005)
        os.close(os.open("late", os.O_CREAT | os.O_WRONLY, dir_fd=inside))

    writer = threading.Thread(target=write)
    writer.start()
    with pytest.raises(UsageError, match="what it held is in") as refused:
        bring_back(kept, second, first, project, force=True)
    writer.join()
    os.close(inside)

    (old,) = first.parent.glob(".out.*/out")
    assert str(old) in str(refused.value)
    assert listed(old) == ["deep", "deep/a", "deep/b", "late"]
    assert len(listed(first)) == 1001


def test_without_force_a_folder_that_is_taken_is_refused_with_the_way(
    kept, project, first
):
    with pytest.raises(UsageError, match="exists already; --force replaces it, or cho"):
        outputs.check(first, kept.root, project, force=False)
    (first.parent / "mine").mkdir()
    (first.parent / "mine" / "x").touch()
    with pytest.raises(UsageError, match="exists already; choose a new folder"):
        outputs.check(first.parent / "mine", kept.root, project, force=False)


def add(folder: Path) -> None:
    (folder / "mine").touch()


def edit(folder: Path) -> None:
    file = folder / "deep" / "a"
    before = file.stat()
    file.write_text("3")  # of the same size
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def delete(folder: Path) -> None:
    (folder / "deep" / "a").unlink()


def rename(folder: Path) -> None:
    (folder / "deep" / "a").rename(folder / "deep" / "z")


def empty_folder(folder: Path) -> None:
    (folder / "deep" / "new").mkdir()


def link(folder: Path) -> None:
    (folder / "deep" / "a").unlink()
    (folder / "deep" / "a").symlink_to("b")


def another(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))
    shutil.copytree(folder.with_name("moved"), folder)


@pytest.mark.parametrize(
    "change", [add, edit, delete, rename, empty_folder, link, another]
)
def test_force_does_not_touch_a_folder_that_has_changed(change, kept, project, first):
    change(first)
    before = listed(first)

    with pytest.raises(UsageError, match="it has changed since run one was unpacked"):
        bring_back(kept, built(kept, "two", c="3"), first, project, force=True)

    assert listed(first) == before
    assert {p.name for p in first.parent.iterdir()} <= {
        "out",
        "rai",
        "project",
        "moved",
    }


def test_force_does_not_touch_a_folder_that_rai_did_not_unpack(kept, project, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").touch()

    with pytest.raises(UsageError, match="rai did not unpack it") as caught:
        bring_back(kept, built(kept, "one", a="1"), mine, project, force=True)

    assert caught.value.reason.exit_code == 2
    assert "remove it yourself, or choose a new folder" in str(caught.value)
    assert listed(mine) == ["thesis.tex"]


def test_force_does_not_replace_a_link_a_file_or_what_holds_other_things(
    kept, project, first, tmp_path, monkeypatch
):
    link = tmp_path / "link"
    link.symlink_to(first)
    (tmp_path / "file").touch()
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "user")
    (tmp_path / "user" / "sub").mkdir(parents=True)
    for path, why in (
        (link, "it is a link"),
        (tmp_path / "file", "it is not a folder"),
        (Path("/"), "a file system is mounted there"),
        (Path("/proc"), "a file system is mounted there"),
        (tmp_path / "user", "your home folder"),
        (tmp_path, "your home folder"),
        (project, "the project"),
        (kept.root, "rai's own home folder"),
        (kept.runs, "part of rai's own home folder"),
    ):
        (project / "file").touch()
        (kept.runs / "file").touch()
        with pytest.raises(UsageError, match=why):
            outputs.check(path, kept.root, project, force=True)
    monkeypatch.chdir(first / "deep")
    for path in (Path(".."), first):
        with pytest.raises(UsageError, match="the current folder"):
            outputs.check(path, kept.root, project, force=True)
    assert listed(first) == ["deep", "deep/a", "deep/b"]


def test_a_build_folder_that_cannot_be_unpacked_leaves_the_earlier_one(
    kept, project, first
):
    damaged = built(kept, "two", c="3")
    damaged.write_bytes(damaged.read_bytes()[:40])

    with pytest.raises(RaiError):
        bring_back(kept, damaged, first, project, force=True)

    assert listed(first) == ["deep", "deep/a", "deep/b"]
    assert {p.name for p in first.parent.iterdir()} == {"out", "rai", "project"}
    bring_back(kept, built(kept, "three", d="4"), first, project, force=True)


def test_a_record_of_another_folder_or_a_damaged_one_counts_for_nothing(
    kept, project, first
):
    (record,) = kept.outputs.iterdir()
    text = record.read_bytes()
    for bad in (text[:-9], b"{}", text.replace(b"/out", b"/in"), b"\xff"):
        record.write_bytes(bad)
        with pytest.raises(UsageError, match="rai did not unpack it"):
            outputs.check(first, kept.root, project, force=True)


def test_the_same_folder_by_another_spelling_is_the_same(
    kept, project, first, monkeypatch
):
    monkeypatch.chdir(project)
    for path in (Path("../out"), Path("../out/"), first.parent / "project/../out"):
        outputs.check(path, kept.root, project, force=True)


def test_a_folder_in_the_project_is_known_until_it_is_removed(kept, project):
    into = project / "results"
    bring_back(kept, built(kept, "one", a="1"), into, project)

    assert outputs.inside(kept.root, project) == {
        "results": "the build folder of run one, unpacked by rai"
    }
    (into / "deep" / "mine").touch()
    assert "results" in outputs.inside(kept.root, project)
    shutil.rmtree(into)
    assert outputs.inside(kept.root, project) == {}


def test_rais_home_in_the_project_is_known(project):
    assert outputs.inside(project / ".rai", project) == {
        ".rai": "built in: rai's own home folder"
    }


def test_rais_home_is_known_by_a_link_to_it_too(project, tmp_path):
    (project / ".rai").mkdir()
    (tmp_path / "link").symlink_to(project / ".rai")
    assert list(outputs.inside(tmp_path / "link", project)) == [".rai"]


def test_a_project_that_is_rais_home_is_refused(project):
    with pytest.raises(UsageError, match="set RAI_HOME to another folder"):
        outputs.inside(project, project)


def test_records_do_not_grow_without_end(kept, project, tmp_path, monkeypatch):
    monkeypatch.setattr(outputs, "MOST_RECORDS", 3)
    build = built(kept, "one", a="1")
    for n in range(6):
        bring_back(kept, build, tmp_path / f"out{n}", project)
    assert len(list(kept.outputs.iterdir())) == 3
