"""`-o DIR --force` replaces what rai unpacked, and never anything else."""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from runner import pack
from runner.core.errors import RaiError, UsageError
from runner.pack import source
from runner.store import outputs
from runner.store.paths import Home
from runner.system import trees


@pytest.fixture
def kept(tmp_path: Path) -> Home:
    home = Home(tmp_path / "rai")
    home.runs.mkdir(parents=True)
    return home


def built(home: Home, run: str, **files: str) -> Path:
    """Make a run's build folder; return its archive."""
    folder = home.root.parent / f"build-of-{run}"
    folder.mkdir()
    for name, text in files.items():
        (folder / "deep").mkdir(exist_ok=True)
        (folder / "deep" / name).write_text(text)
    return archived(home, run, folder)


def archived(home: Home, run: str, folder: Path) -> Path:
    """Keep a folder as a run's build folder, and remove it."""
    path = home.run(run).build
    path.parent.mkdir()
    with pack.BuildWriter(path) as writer:
        for data in source.pack(folder, "build"):
            writer.write(data)
    trees.remove(folder)
    return path


def bring_back(
    build: Path, into: Path, project: Path, *, force: bool = False
) -> pack.Unpacked:
    return outputs.bring_back(build, into, pack.BUILD, project, force=force)


def listed(folder: Path) -> list[str]:
    names = (str(p.relative_to(folder)) for p in folder.rglob("*"))
    return sorted(name for name in names if name != ".rai-run")


@pytest.fixture
def first(kept: Home, project: Path, tmp_path: Path) -> Path:
    """Return a folder that the build folder of run `one` was unpacked to."""
    into = tmp_path / "out"
    bring_back(built(kept, "one", a="1", b="2"), into, project)
    return into


def test_force_replaces_what_was_unpacked_and_leaves_nothing_else(kept, project, first):
    second = built(kept, "two", c="3")

    bring_back(second, first, project, force=True)
    bring_back(built(kept, "three", d="4"), first, project, force=True)

    assert listed(first) == ["deep", "deep/d"]
    assert {p.name for p in first.parent.iterdir()} == {"out", "rai", "project"}


def test_force_replaces_folders_of_a_depth_that_python_cannot_recurse(
    kept, project, tmp_path
):
    into, deep = tmp_path / "out", tmp_path / "made"
    deep.mkdir()
    trees.make(deep, ["d"] * 995)
    bring_back(archived(kept, "deep", deep), into, project)

    bring_back(built(kept, "two", c="3"), into, project, force=True)

    assert listed(into) == ["deep", "deep/c"]


def test_what_a_program_in_it_writes_meanwhile_is_kept(kept, project, first):
    files = {f"f{number}": "" for number in range(200)}
    second = built(kept, "two", **files)
    inside = os.open(first, os.O_RDONLY)

    def write() -> None:
        while not list(first.parent.glob(".out.rai-unpacking-*")):
            time.sleep(0.0005)
        os.close(os.open("late", os.O_CREAT | os.O_WRONLY, dir_fd=inside))

    writer = threading.Thread(target=write)
    writer.start()
    with pytest.raises(UsageError, match="what it held is in") as refused:
        bring_back(second, first, project, force=True)
    writer.join()
    os.close(inside)

    (old,) = first.parent.glob(".out.*/out")
    assert str(old) in str(refused.value)
    assert listed(old) == ["deep", "deep/a", "deep/b", "late"]
    assert len(listed(first)) == 201


def test_without_force_a_folder_that_is_taken_is_refused_with_the_way(
    kept, project, first
):
    with pytest.raises(UsageError, match="exists already; --force replaces it, or cho"):
        outputs.check(first, project, force=False)
    (first.parent / "mine").mkdir()
    (first.parent / "mine" / "x").touch()
    with pytest.raises(UsageError, match="exists already; choose a new folder"):
        outputs.check(first.parent / "mine", project, force=False)


def add(folder: Path) -> None:
    (folder / "mine").touch()


def edit(folder: Path) -> None:
    file = folder / "deep" / "a"
    file.write_text("3")  # of the same size


def delete(folder: Path) -> None:
    (folder / "deep" / "a").unlink()


def rename(folder: Path) -> None:
    (folder / "deep" / "a").rename(folder / "deep" / "z")


def empty_folder(folder: Path) -> None:
    (folder / "deep" / "new").mkdir()


def link(folder: Path) -> None:
    (folder / "deep" / "a").unlink()
    (folder / "deep" / "a").symlink_to("b")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (add, "'mine' was added"),
        (edit, "'deep/a' was changed"),
        (delete, "'deep/a' was removed"),
        (rename, "'deep/z' was added, 'deep/a' was removed"),
        (empty_folder, "'deep/new' was added"),
        (link, "'deep/a' was changed"),
    ],
)
def test_force_does_not_touch_a_folder_that_has_changed_and_names_what(
    change, named, kept, project, first
):
    change(first)
    before = listed(first)

    with pytest.raises(UsageError, match=f"since run 'one' was .* there {named}"):
        bring_back(built(kept, "two", c="3"), first, project, force=True)

    assert listed(first) == before
    assert {p.name for p in first.parent.iterdir()} == {"out", "rai", "project"}


def test_of_many_changes_three_are_named(project, first):
    for number in range(9):
        (first / f"mine{number}").touch()
    with pytest.raises(UsageError, match=r"'mine0'.*'mine1'.*'mine2' was added and mo"):
        outputs.check(first, project, force=True)


def test_force_does_not_touch_a_folder_that_rai_did_not_unpack(kept, project, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").touch()

    with pytest.raises(UsageError, match="rai did not unpack it") as caught:
        bring_back(built(kept, "one", a="1"), mine, project, force=True)

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
        (kept.root, "rai did not unpack it"),
    ):
        (project / "file").touch()
        with pytest.raises(UsageError, match=why):
            outputs.check(path, project, force=True)
    monkeypatch.chdir(first / "deep")
    for path in (Path(".."), first):
        with pytest.raises(UsageError, match="the current folder"):
            outputs.check(path, project, force=True)
    assert listed(first) == ["deep", "deep/a", "deep/b"]


def test_a_build_folder_that_cannot_be_unpacked_leaves_the_earlier_one(
    kept, project, first
):
    damaged = built(kept, "two", c="3")
    damaged.write_bytes(damaged.read_bytes()[:40])

    with pytest.raises(RaiError):
        bring_back(damaged, first, project, force=True)

    assert listed(first) == ["deep", "deep/a", "deep/b"]
    assert {p.name for p in first.parent.iterdir()} == {"out", "rai", "project"}
    bring_back(built(kept, "three", d="4"), first, project, force=True)


def test_a_damaged_list_counts_for_nothing(project, first):
    file = first / ".rai-run"
    text = file.read_bytes()
    for bad in (text[:-9], b"{}", b"\xff", b"[" * 100_000):
        file.write_bytes(bad)
        with pytest.raises(UsageError, match="rai did not unpack it"):
            outputs.check(first, project, force=True)


def test_a_list_over_its_bound_is_not_written(kept, project, tmp_path, monkeypatch):
    monkeypatch.setattr(outputs, "LONGEST_LIST", 50)
    bring_back(built(kept, "one", a="1"), tmp_path / "out", project)
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["deep"]


def test_names_of_any_bytes_are_listed(kept, project, tmp_path):
    names = ["\udcff\udcfe", "new\nline", '"', "%41", "\x1b[2J", "ü"]
    into = tmp_path / "out"
    bring_back(built(kept, "one", **dict.fromkeys(names, "1")), into, project)
    assert (into / ".rai-run").read_bytes().isascii()
    assert b"\x1b" not in (into / ".rai-run").read_bytes()

    bring_back(built(kept, "two", c="3"), into, project, force=True)

    assert listed(into) == ["deep", "deep/c"]


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_a_list_that_a_run_made_itself_is_left_out(kind, kept, project, tmp_path):
    made = tmp_path / "made"
    made.mkdir()
    own = made / ".rai-run"
    if kind == "folder":
        (own / "inner").mkdir(parents=True)
    elif kind == "link":
        own.symlink_to("a")
    else:
        own.write_text('{"run": "mine", "entries": {}}')
    done = bring_back(archived(kept, "one", made), tmp_path / "out", project)

    assert done.left_out == ("'.rai-run' has the name of rai's own list",)
    bring_back(built(kept, "two", c="3"), tmp_path / "out", project, force=True)


def test_the_same_folder_by_another_spelling_is_the_same(
    kept, project, first, monkeypatch
):
    monkeypatch.chdir(project)
    for path in (Path("../out"), Path("../out/"), first.parent / "project/../out"):
        outputs.check(path, project, force=True)


def test_a_folder_in_the_project_is_not_sent_though_it_changed_or_moved(kept, project):
    into = project / "results"
    bring_back(built(kept, "one", a="1"), into, project)
    (into / "deep" / "mine").touch()
    shutil.copytree(into, project / "copy")

    found = pack.survey(project)

    assert found.members == ()
    why = "built in: a build folder, unpacked by rai (.rai-run)"
    assert [(one.name, one.why) for one in found.left_out] == [
        ("copy/", why),
        ("results/", why),
    ]
    (project / ".raiignore").write_text("!/copy/\n")
    names = {member.name for member in pack.survey(project).members}
    assert "copy/deep/mine" in names


def test_rais_home_in_the_project_is_known(project, tmp_path):
    assert outputs.home_within(project / ".rai", project) == ".rai"
    (project / ".rai").mkdir()
    (tmp_path / "link").symlink_to(project / ".rai")
    assert outputs.home_within(tmp_path / "link", project) == ".rai"
    assert outputs.home_within(tmp_path, project) == ""


def test_a_project_that_is_rais_home_is_refused(project):
    with pytest.raises(UsageError, match="set RAI_HOME to another folder"):
        outputs.home_within(project, project)
