"""Files of a folder that is not trusted: nothing outside is opened."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from runner.system import files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a folder with a file, and a file beside the folder."""
    inner = tmp_path / "folder"
    (inner / "a/b").mkdir(parents=True)
    (inner / "a/b/file").write_bytes(b"inside")
    (tmp_path / "file").write_bytes(b"outside")
    return inner


@pytest.mark.parametrize(
    "target", ["a/b/file", "./a//b/../b/file", "a/c/file", "a/b/again"]
)
def test_a_link_inside_is_followed(target, folder):
    (folder / "a/c").symlink_to("b")
    (folder / "a/b/again").symlink_to("../../a/b/file")
    (folder / "link").symlink_to(target)

    assert files.read_below(folder, "link", 6) == b"inside"


@pytest.mark.parametrize("target", ["../file", "a/../../file", "/", "a/out", "a/up"])
def test_a_link_that_leads_out_is_not(target, folder):
    (folder / "a/out").symlink_to(folder.parent / "file")
    (folder / "a/up").symlink_to("../../folder/a/b/file")
    (folder / "link").symlink_to(target)

    with pytest.raises(OSError, match="leads out") as caught:
        files.read_below(folder, "link", 10)

    assert caught.value.errno == errno.EXDEV


def test_the_folder_itself_may_be_reached_by_a_link(folder):
    (folder.parent / "link").symlink_to(folder)

    assert files.read_below(folder.parent / "link", "a/b/file", 10) == b"inside"


@pytest.mark.parametrize("name", ["a/b", "pipe", "loop", "a/b/file/c", "none", ""])
def test_what_is_no_file_is_an_error_and_holds_nothing_up(name, folder):
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")

    with pytest.raises(OSError, match=r"[Nn]ot? |Too many"):
        files.read_below(folder, name, 10)


def test_no_more_is_read_than_is_allowed(folder):
    with pytest.raises(OSError, match="larger than 5 bytes"):
        files.read_below(folder, "a/b/file", 5)


def test_nothing_stays_open(folder):
    (folder / "link").symlink_to("../file")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for name in ("a/b/file", "link", "a", "none"):
        try:
            os.close(files.descriptor(folder, name))
        except OSError:
            continue
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_no_link_is_written_through(folder):
    outside = folder.parent / "file"
    (folder / ".name.part").symlink_to(outside)
    (folder / "there").symlink_to(outside)
    (folder / "nowhere").symlink_to(folder.parent / "new")

    with pytest.raises(OSError, match="symbolic links"):
        files.write(folder / "name", b"inside")
    files.touch(folder / "there")
    files.touch(folder / "nowhere")

    assert outside.read_bytes() == b"outside"
    assert {each.name for each in folder.parent.iterdir()} == {"file", "folder"}


def test_a_file_that_is_written_is_no_program(folder):
    files.write(folder / "new", b"#!/bin/sh\n")
    assert (folder / "new").stat().st_mode & 0o111 == 0


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"\xff", b'{"x":' + b"[" * 100_000, b"[" * 100_000, b"x" * 200_001],
)
def test_json_that_cannot_be_read_is_none(folder, data):
    (folder / "file.json").write_bytes(data)
    assert files.read_json(folder / "file.json", 200_000, dict[str, int]) is None
    assert files.read_json(folder / "none.json", 200_000, dict[str, int]) is None
