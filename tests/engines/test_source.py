"""Folders to tar streams and back."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from pathlib import Path

import pytest

from runner.core.errors import EngineError, UsageError
from runner.engines.disk import used
from runner.pack import source
from runner.system import trees


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "made"
    made.mkdir()
    return made


def tar(*members: tuple[str, bytes | str | None]) -> io.BytesIO:
    """A tar of files (bytes), symbolic links (str) and folders (None)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as out:
        for name, content in members:
            member = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                member.size = len(content)
                out.addfile(member, io.BytesIO(content))
                continue
            member.type = tarfile.DIRTYPE if content is None else tarfile.SYMTYPE
            member.linkname = content or ""
            out.addfile(member)
    buffer.seek(0)
    return buffer


def packed(folder: Path) -> tarfile.TarFile:
    return tarfile.open(fileobj=io.BytesIO(b"".join(source.pack(folder, "build"))))


def test_what_is_packed_unpacks_to_the_same(folder: Path, tmp_path: Path):
    (folder / "sub").mkdir()
    (folder / "sub" / "file").write_bytes(b"z" * 3_000_001)
    (folder / ("n" * 140)).write_text("a long name")
    (folder / "run").write_text("#!")
    (folder / "run").chmod(0o755)
    (folder / "link").symlink_to("sub/file")
    os.link(folder / "run", folder / "same")
    out = tmp_path / "out"
    out.mkdir()
    stream = io.BytesIO(b"".join(source.pack(folder, "build")))
    source.unpack(stream, out)
    back = out / "build"
    assert {p.name for p in back.iterdir()} == {p.name for p in folder.iterdir()}
    assert (back / "sub" / "file").read_bytes() == b"z" * 3_000_001
    assert stat.S_IMODE((back / "run").stat().st_mode) == 0o755
    assert (back / "link").readlink() == Path("sub/file")
    assert (back / "run").samefile(back / "same")


def test_pipes_and_sockets_stay_behind(folder: Path):
    os.mkfifo(folder / "pipe")
    with packed(folder) as out:
        assert out.getnames() == ["build"]


def test_what_a_command_made_unreadable_is_packed_with_the_mode_it_has(folder: Path):
    (folder / "shut").mkdir()
    (folder / "shut" / "file").write_text("x")
    (folder / "shut" / "file").chmod(0)
    (folder / "shut").chmod(0)
    with packed(folder) as out:
        assert out.getmember("build/shut").mode == 0
        assert out.getmember("build/shut/file").mode == 0


def test_a_link_may_point_anywhere_and_nothing_is_written_through_it(
    folder: Path, tmp_path: Path
):
    outside = tmp_path / "outside"
    outside.mkdir()
    source.unpack(tar(("data", "/data/train"), ("up", "../x")), folder)
    assert (folder / "data").readlink() == Path("/data/train")
    with pytest.raises(UsageError):
        source.unpack(tar(("l", str(outside)), ("l/evil", b"x")), folder)
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    "members",
    [
        [("../evil", b"x")],
        [("a/../../evil", b"x")],
        [("../evil", "target")],
        [("l", ".."), ("l/evil", "target")],
        [("l", ".."), ("l/evil/deep", "target")],
    ],
)
def test_a_name_that_leaves_the_folder_is_refused(folder: Path, members):
    with pytest.raises(UsageError):
        source.unpack(tar(*members), folder)
    assert not (folder.parent / "evil").is_symlink()
    assert not (folder.parent / "evil").exists()


def test_an_absolute_name_lands_inside(folder: Path):
    source.unpack(tar(("/etc/own", b"x")), folder)
    assert (folder / "etc" / "own").read_bytes() == b"x"


def test_a_broken_project_is_its_senders_fault_and_shows_no_folder(
    folder: Path,
):
    pipe = tarfile.TarInfo("pipe")
    pipe.type = tarfile.FIFOTYPE
    to_none = tarfile.TarInfo("link")
    to_none.type, to_none.linkname = tarfile.LNKTYPE, "absent"
    streams = [
        io.BytesIO(b"not a tar" * 200),
        tar(("n" * 300, b"x")),
        *(io.BytesIO(one.tobuf() + bytes(1024)) for one in (pipe, to_none)),
    ]
    for stream in streams:
        with pytest.raises(UsageError, match="project cannot be unpacked") as raised:
            source.unpack(stream, folder)
        assert str(folder) not in str(raised.value)
    with pytest.raises(EngineError, match="build folder cannot be unpacked"):
        source.unpack(tar(("build/" + "n" * 300, b"x")), folder, root="build")


def test_a_file_with_two_names_counts_once(folder: Path):
    (folder / "a").write_bytes(b"x" * 1000)
    os.link(folder / "a", folder / "b")
    assert used([folder], 10**9) == 4096


def test_a_deep_name_is_unpacked_though_none_of_its_folders_is_named(folder: Path):
    name = "/".join(["d"] * 1000)
    source.unpack(tar((f"{name}/file", b"x")), folder)
    try:
        assert (folder / name / "file").read_bytes() == b"x"
    finally:
        trees.remove(folder)  # pytest cannot
