"""Archives that come back: kept within ceilings, and unpacked without being trusted."""

from __future__ import annotations

import io
import random
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner import pack
from runner.core import Reason
from runner.core.errors import EngineError, NotAllowedError, RaiError, UsageError
from runner.pack.contents import MemberKind, leaves
from runner.pack.meter import ArchiveMeter
from runner.pack.read import HostileNameError, Tree
from runner.pack.write import zstd
from runner.system import files

SMALL = pack.Caps(total_bytes=1 << 20, members=10, file_bytes=100_000)


def member(
    name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, to: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, to, len(content)
    return info, content


def folder(name: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, kind=tarfile.DIRTYPE)


def link(name: str, to: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, kind=tarfile.SYMTYPE, to=to)


def hard(name: str, to: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, kind=tarfile.LNKTYPE, to=to)


def tar_of(
    *members: tuple[tarfile.TarInfo, bytes], form: int = tarfile.PAX_FORMAT
) -> bytes:
    out = io.BytesIO()
    with tarfile.open(
        fileobj=out, mode="w", format=form, errors="surrogateescape"
    ) as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def compressed(folder: Path, raw: bytes) -> Path:
    path = folder / "in.tar.zst"
    path.write_bytes(zstd.compress(raw))
    return path


def nothing_but(folder: Path, *names: str) -> bool:
    return {path.name for path in folder.iterdir()} == {*names}


def test_files_folders_and_links_come_out_with_two_modes(tmp_path):
    tool = member("build/bin/tool", b"#!")
    tool[0].mode = 0o6711
    raw = tar_of(
        folder("build/"),
        folder("./build/empty/"),
        member("build/a.txt", b"hello"),
        tool,
        link("build/latest", "bin/tool"),
        hard("build/again", "build/a.txt"),
    )
    done = pack.unpack(compressed(tmp_path, raw), tmp_path / "deep/out", root="build")
    out = tmp_path / "deep/out"
    assert done == pack.Unpacked(5, len(raw))
    assert (out / "a.txt").read_bytes() == (out / "again").read_bytes() == b"hello"
    assert (out / "latest").readlink() == Path("bin/tool")
    assert (out / "empty").is_dir() and oct(out.stat().st_mode) == "0o40755"
    assert oct((out / "bin/tool").stat().st_mode) == "0o100755"
    assert oct((out / "a.txt").stat().st_mode) == "0o100644"
    assert list((tmp_path / "deep").iterdir()) == [out]


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_and_odd_names_come_out_of_every_tar_format(form, tmp_path):
    names = ["d/" * 30 + "x" * 200, "ä\udcff", "mit leer"]
    raw = tar_of(*(member(name, name.encode("utf-8", "replace")) for name in names),
                 form=form)  # fmt: skip
    pack.unpack(compressed(tmp_path, raw), tmp_path / "out")
    for name in names:
        found = (tmp_path / "out" / name).read_bytes()
        assert found == name.encode("utf-8", "replace")


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ([member("/etc/cron.d/x", b"x")], "'/etc/cron.d/x' is an absolute name"),
        ([member("../x", b"x")], "'../x' leads out of its folder"),
        ([member("a/../../x", b"x")], "leads out of its folder"),
        ([folder("a/..")], "leads out of its folder"),
        ([member("a"), member("a")], "'a' occurs twice"),
        ([member("a"), member("./a/")], "'a' occurs twice"),
        ([member("a"), folder("a")], "'a' occurs twice"),
        ([link("a", "b"), member("a/x")], "'a/x' is in 'a', which is not a folder"),
        ([folder("a"), link("a", "/etc")], "'a' occurs twice"),
        ([member("a/x"), link("a", "b")], "'a' occurs twice"),
        ([link("a", "."), member("a")], "'a' occurs twice"),
        ([hard("b", "../../x")], "leads out of its folder"),
        ([hard("b", "/etc/passwd")], "'/etc/passwd' is an absolute name"),
        ([member(".", b"x")], "in the folder's own place"),
        ([member(f"f{n}") for n in range(11)], "holds more than 10 members"),
        ([member("a", bytes(100_001))], "has too large a file, 'a'"),
        (
            [member(f"f{n}", bytes(99_000)) for n in range(10)] + [member("g", b"x")],
            "holds more than 10 members",
        ),
    ],
)
def test_a_hostile_archive_is_refused_as_a_whole(members, said, tmp_path):
    path = compressed(tmp_path, tar_of(*members))
    with pytest.raises(NotAllowedError) as caught:
        pack.unpack(path, tmp_path / "out", SMALL)
    assert said in str(caught.value) and str(path) in str(caught.value)
    assert nothing_but(tmp_path, "in.tar.zst")


def test_a_name_with_a_zero_byte_is_refused(tmp_path):
    info, _ = member("x")
    info.pax_headers = {"path": "a\0b"}
    with pytest.raises(NotAllowedError, match="NUL"):
        pack.unpack(compressed(tmp_path, tar_of((info, b""))), tmp_path / "out")


def test_members_outside_the_expected_root_are_refused(tmp_path):
    raw = tar_of(member("build/a"), member("buildings/b"))
    with pytest.raises(NotAllowedError, match="'buildings/b' is not in build/"):
        pack.unpack(compressed(tmp_path, raw), tmp_path / "out", root="build")


@pytest.mark.parametrize(
    "kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, b"Z"]
)
def test_devices_and_pipes_are_left_out_and_said(kind, tmp_path):
    raw = tar_of(member("odd", kind=kind), member("a", b"a"))
    done = pack.unpack(compressed(tmp_path, raw), tmp_path / "out")
    assert done.members == 1
    assert done.left_out == ("'odd' is a device or a pipe",)
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["a"]


@pytest.mark.parametrize(
    "members",
    [
        [link("x", "/etc/passwd")],
        [link("x", "../outside")],
        [folder("a"), link("a/x", "../../outside")],
        [link("x", "x")],
        [link("x", "")],
        [link("x", "a" * 5000)],
        [hard("x", "not-there")],
        [hard("x", "x")],
        [folder("a"), hard("x", "a")],
        [folder("p/q"), link("p/q/up", "../.."), link("x", "p/q/up/../../etc")],
        [folder("d"), link("d/x", "./..//../d")],
    ],
)
def test_links_that_lead_out_or_nowhere_are_left_out_and_said(members, tmp_path):
    done = pack.unpack(compressed(tmp_path, tar_of(*members)), tmp_path / "out")
    (said,) = done.left_out
    assert "x" in said
    assert not (tmp_path / "out" / "x").is_symlink()
    assert not (tmp_path / "out" / "x").exists()


@pytest.mark.parametrize(
    ("name", "links", "out"),
    [
        ("a", {"a": "b"}, False),
        ("a", {"a": "b/../c"}, False),
        ("a", {"a": "b/../../c"}, True),
        ("d/a", {"d/a": ".."}, False),
        ("d/a", {"d/a": "../.."}, True),
        ("a", {"a": "b/..", "b": "d/e"}, False),
        ("a", {"a": "b/..", "b": "."}, True),
        ("a", {"a": "b", "b": "/etc"}, True),
        ("a", {"a": "b", "b": "a"}, True),
        ("a", {"a": "b/b/b/b", "b": "."}, False),
    ],
)
def test_a_link_is_followed_through_other_links_to_see_where_it_leads(name, links, out):
    assert leaves(name, links) is out


@pytest.mark.lengthy
@given(seed=st.integers(0, 1 << 32))
def test_no_maze_of_links_leads_out_of_the_folder(seed, tmp_path_factory):
    draw = random.Random(seed)
    root = tmp_path_factory.mktemp("maze")
    members, names = [], ["a", "b", "c"]
    for name in ("a", "b", "c", "d/a", "d/b", "d/e/a"):
        parts = draw.choices([*names, "d", "e", "..", ".", "d/e"], k=draw.randint(1, 4))
        members.append(link(name, "/".join(parts)))
    path = compressed(root, tar_of(folder("d/e"), *members))
    pack.unpack(path, root / "out")
    inside = (root / "out").resolve()
    for made in (root / "out").rglob("*"):
        if made.is_symlink() and made.exists():
            assert made.resolve().is_relative_to(inside)


def test_more_bytes_than_the_ceiling_are_refused_while_they_are_decompressed(tmp_path):
    path = compressed(tmp_path, tar_of(member("a", bytes(64 << 20))))
    assert path.stat().st_size < 10_000
    caps = pack.Caps(total_bytes=1 << 20, members=10, file_bytes=1 << 40)
    with pytest.raises(NotAllowedError, match="holds more than 1,048,576 bytes"):
        pack.unpack(path, tmp_path / "out", caps)
    assert nothing_but(tmp_path, "in.tar.zst")


def test_a_name_without_end_is_refused_before_it_is_held_in_memory(tmp_path):
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1 << 30
    raw = info.tobuf(tarfile.GNU_FORMAT) + b"a" * (2 << 20)
    with pytest.raises(NotAllowedError, match="name without end"):
        pack.unpack(compressed(tmp_path, raw), tmp_path / "out")


def long_names(count: int) -> bytes:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 5
    return (info.tobuf(tarfile.GNU_FORMAT) + b"name\0".ljust(512, b"\0")) * count


def resized() -> bytes:
    info, _ = member("a")
    info.pax_headers = {"size": "1024"}
    return tar_of((info, b""), member("b", b"hidden"))


def sparse() -> bytes:
    info, _ = member("a", kind=tarfile.GNUTYPE_SPARSE)
    return info.tobuf(tarfile.GNU_FORMAT) + bytes(1024)


def negative() -> bytes:
    info, _ = member("a")
    info.size = -512
    return info.tobuf(tarfile.GNU_FORMAT) + bytes(1024)


WHOLE = tar_of(member("a", bytes(5000)), member("b", b"b"))


@pytest.mark.parametrize(
    "raw",
    [
        b"no tar at all" * 100,
        WHOLE[:3000],
        WHOLE[:700] + b"\xff" * (len(WHOLE) - 700),
        WHOLE[:6000] + b"?" * 512 + WHOLE[6512:],
        long_names(5000),
        resized(),
        sparse(),
        negative(),
    ],
    ids=["text", "cut", "garbled", "bad", "recursion", "resized", "sparse", "negative"],
)
def test_a_damaged_archive_is_an_error_and_leaves_no_folder(raw, tmp_path):
    path = compressed(tmp_path, raw)
    with pytest.raises(RaiError, match="cannot be read"):
        pack.unpack(path, tmp_path / "out")
    assert nothing_but(tmp_path, "in.tar.zst")


def test_a_file_that_is_not_compressed_is_an_error(tmp_path):
    path = tmp_path / "in.tar.zst"
    path.write_bytes(WHOLE)
    with pytest.raises(RaiError, match="cannot be read"):
        pack.unpack(path, tmp_path / "out")
    path.write_bytes(zstd.compress(random.Random(1).randbytes(9000))[:5000])
    with pytest.raises(RaiError, match="cannot be read"):
        pack.unpack(path, tmp_path / "out")
    with pytest.raises(RaiError, match="cannot be unpacked"):
        pack.unpack(tmp_path / "absent", tmp_path / "out")


def test_unpacking_never_touches_what_is_there(tmp_path):
    path = compressed(tmp_path, WHOLE)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    with pytest.raises(UsageError, match="already exists"):
        pack.unpack(path, tmp_path / "out")
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(UsageError, match="already exists"):
        pack.unpack(path, tmp_path / "dangling")


def test_an_empty_folder_may_be_unpacked_into(tmp_path):
    (tmp_path / "out").mkdir()

    pack.unpack(compressed(tmp_path, WHOLE), tmp_path / "out")

    assert any((tmp_path / "out").iterdir())


def test_a_build_folder_is_kept_as_it_came(tmp_path):
    raw = tar_of(folder("build"), member("build/out", bytes(20 << 20)))
    path = tmp_path / "build.tar.zst"
    with pack.BuildWriter(path) as writer:
        for at in range(0, len(raw), 65_537):
            writer.write(raw[at : at + 65_537])
        assert not path.exists(), "half a file is never seen under its name"
    assert (writer.members, writer.raw_bytes) == (2, len(raw))
    assert writer.size_bytes == path.stat().st_size < 100_000
    with pack.open_tar(path) as stream:
        assert stream.read() == raw
    assert nothing_but(tmp_path, "build.tar.zst")


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=20))
def test_nothing_is_kept_as_setuid_however_the_stream_is_cut(sizes):
    members = [member(f"build/{n}", b"x" * n) for n in (0, 600, 3)]
    for (info, _), mode in zip(members, (0o4755, 0o2750, 0o1777), strict=True):
        info.mode = mode
    raw = tar_of(folder("build"), *members)
    meter, at, kept = ArchiveMeter(pack.BUILD), 0, b""
    while at < len(raw):
        for size in sizes:
            kept += meter.feed(raw[at : at + size])
            at += size
    with tarfile.open(fileobj=io.BytesIO(kept)) as tar:
        found = [(info.name, info.mode, info.size) for info in tar]
    assert found[1:] == [
        *(("build/0", 0o755, 0), ("build/600", 0o750, 600), ("build/3", 0o777, 3))
    ]
    assert len(kept) == len(raw)


def test_where_nothing_was_written_there_is_no_file(tmp_path):
    with pack.BuildWriter(tmp_path / "b") as writer:
        pass
    assert (writer.members, writer.size_bytes) == (0, 0)
    assert nothing_but(tmp_path)


def test_a_build_folder_is_discarded_when_its_keeper_fails(tmp_path):
    with pytest.raises(KeyError), pack.BuildWriter(tmp_path / "b") as writer:
        writer.write(WHOLE)
        raise KeyError
    assert nothing_but(tmp_path)


@pytest.mark.parametrize(
    "raw",
    [
        tar_of(member("build/a", bytes(200_000))),
        bytes(1 << 20) + b"x",
        tar_of(*(member(f"build/{n}") for n in range(11))),
    ],
)
def test_a_build_folder_over_a_ceiling_ends_as_a_disk_limit(raw, tmp_path):
    with (
        pytest.raises(RaiError, match="the build folder h") as caught,
        pack.BuildWriter(tmp_path / "b", SMALL) as writer,
    ):
        writer.write(raw)
    assert caught.value.reason is Reason.DISK_LIMIT
    assert nothing_but(tmp_path)


@pytest.mark.parametrize(
    ("raw", "said"),
    [(WHOLE[:1000], "cut short"), (b"nonsense" * 200, "is not a tar archive")],
)
def test_a_build_folder_that_is_damaged_is_the_engines_error(raw, said, tmp_path):
    with (
        pytest.raises(EngineError, match=said),
        pack.BuildWriter(tmp_path / "b") as writer,
    ):
        writer.write(raw)
    assert nothing_but(tmp_path)


CASES = [("README", "readme"), ("a/x", "A/y"), ("Straße", "strasse")]


@pytest.mark.parametrize(("one", "other"), CASES)
def test_names_that_differ_by_case_are_two_files_where_the_file_system_has_both(
    one, other, tmp_path
):
    if files.ignores_case(tmp_path):
        pytest.skip("this file system ignores case")
    path = compressed(tmp_path, tar_of(member(one, b"1"), member(other, b"2")))
    pack.unpack(path, tmp_path / "out", SMALL)
    assert (tmp_path / "out" / one).read_bytes() == b"1"
    assert (tmp_path / "out" / other).read_bytes() == b"2"


@pytest.mark.parametrize(("one", "other"), CASES)
def test_names_that_differ_by_case_are_refused_where_they_are_one(one, other):
    tree = Tree(any_case=True)
    tree.claim(one, MemberKind.FILE)
    with pytest.raises(HostileNameError, match="only by case"):
        tree.claim(other, MemberKind.FILE)
