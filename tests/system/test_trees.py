"""Folders of any depth, and of hostile makers."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.engines.disk import ENTRY_BYTES, used
from runner.pack import read, source
from runner.system import trees
from tests.kit.rights import permissions_that_count
from tests.kit.running import source as tar_of

LEVELS = 1500
LONG = "n" * 200


def nest(root: Path, levels: int, name: str = "d") -> None:
    """Make folders in folders, deeper than a path can say, with a file in the last."""
    here = os.open(root, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=here)
        inner = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(os.open("file", os.O_CREAT, 0o600, dir_fd=here))
    os.close(here)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "made"
    made.mkdir()
    yield made
    if made.exists():  # pytest cannot remove what is so deep
        trees.remove(made)


@pytest.mark.parametrize(("levels", "name"), [(LEVELS, "d"), (40, LONG)])
def test_folders_of_any_depth_are_counted_packed_and_removed(
    folder: Path, levels: int, name: str
):
    nest(folder, levels, name)
    (folder / "z").touch()
    assert used([folder], 10**9) >= (levels + 2) * ENTRY_BYTES
    packing, data = source.pack(folder, "build"), io.BytesIO()
    with pytest.raises(StopIteration) as stop:
        while True:
            data.write(next(packing))
    assert stop.value.value
    data.seek(0)
    with tarfile.open(fileobj=data) as tar:
        names = tar.getnames()
    assert "build/z" in names
    assert 20 <= len(names) <= source.DEEPEST + 4
    trees.remove(folder)
    assert not folder.exists()


def test_a_walk_comes_back_to_what_is_beside_a_deep_folder(folder: Path):
    nest(folder, 5)
    (folder / "a").mkdir()
    (folder / "d" / "e").touch()
    (folder / "z").touch()
    paths = ["/".join((*each.above, each.name)) for each in trees.entries(folder)]
    deep = [f"d{'/d' * n}" for n in range(5)]
    assert paths == ["a", *deep, "d/d/d/d/d/file", "d/e", "z"]


def test_a_folder_without_any_rights_is_counted_and_keeps_its_mode(folder: Path):
    shut = folder / "shut"
    (shut / "in").mkdir(parents=True)
    (shut / "in" / "file").write_bytes(bytes(10_000))
    (shut / "in").chmod(0)
    shut.chmod(0)
    with permissions_that_count():
        assert used([folder], 10**9) > 10_000
    assert shut.stat().st_mode & 0o777 == 0
    with permissions_that_count():
        trees.remove(folder)
    assert not folder.exists()


def test_a_folder_that_moves_away_is_left_and_the_walk_goes_on(
    folder: Path, tmp_path: Path
):
    nest(folder, 3)
    (folder / "z").touch()
    seen = []
    for entry in trees.entries(folder):
        seen.append(entry.name)
        if seen == ["d"] * 3:
            (folder / "d" / "d").rename(tmp_path / "gone")
    assert seen == ["d", "d", "d", "file", "z"]


def test_empty_files_count_and_counting_ends_at_the_limit(folder: Path):
    for n in range(100):
        (folder / str(n)).touch()
    assert used([folder], 10**9) == 100 * ENTRY_BYTES
    assert used([folder], 10 * ENTRY_BYTES) == 10 * ENTRY_BYTES + 1


def test_a_link_is_removed_and_not_what_it_names(folder: Path, tmp_path: Path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    (folder / "link").symlink_to(kept)
    trees.remove(folder)
    assert (kept / "file").exists()


def test_more_names_than_are_removed_at_once_are_removed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(trees, "AT_ONCE", 3)
    for n in range(10):
        (folder / f"{n}" / "in").mkdir(parents=True)
        (folder / f"{n}f").touch()
    trees.remove(folder)
    assert not folder.exists()


def archive_of(path: Path, names: list[str]) -> Path:
    from runner.pack.write import zstd

    path.write_bytes(zstd.compress(tar_of(dict.fromkeys(names, b""))().read()))
    return path


@pytest.mark.parametrize(("levels", "part"), [(1500, "d"), (100, LONG), (200_000, "d")])
def test_what_is_too_deep_in_an_archive_is_left_out_and_said(
    tmp_path: Path, levels: int, part: str
):
    deep = "/".join(["build", *[part] * levels, "file"])
    whole = "/".join(["build", *["e"] * 1000, "file"])
    archive = archive_of(tmp_path / "a", [deep, whole, "build/a"])
    into = tmp_path / "into"
    done = read.unpack(archive, into, root="build")
    try:
        assert done.members == 2
        (note,) = done.left_out
        assert note.startswith("what is nested in over 1,000 folders")
        assert (into / "/".join(["e"] * 1000) / "file").exists()
    finally:
        trees.remove(into)
