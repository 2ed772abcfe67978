"""Archives that come back from a run: kept, listed and unpacked.

Whatever the archive holds, nothing is written but below the folder that it is unpacked
to, within the ceilings, and no more than files, folders and links that stay inside.
"""

from __future__ import annotations

import io
import os
import stat
import tarfile
import tempfile
from pathlib import Path

from runner import pack
from runner.core.errors import RaiError
from runner.pack.meter import ArchiveMeter, DamagedError, OverCapsError
from runner.pack.write import zstd
from runner.system import trees
from tests.fuzz.parts import Parts

SMALL = pack.Caps(total_bytes=1 << 18, members=12, file_bytes=40_000)
NAMES = (
    *(b"build", b"build/", b"build/a", b"build/A", b"build/a/b", b"build/a/b/c"),
    *(b"./build/l", b"build/l/x", b"build/stra\xc3\x9fe", b"build/STRASSE"),
    *(b"build/\xff", b"build//a", b"build/./a/", b"build/a/..", b"/etc/x", b"../x"),
    *(b"build/../../x", b"build/l/../../../x", b"x", b"", b".", b"build/" + b"d/" * 90),
)
TARGETS = (
    *(b"a", b"build/a", b"..", b"../..", b"/", b"/etc/passwd", b"a/../..", b"l", b"."),
    *(b"a/b/../../..", b"../build/a", b"l/..", b"", b"b", b"build/../../sentinel"),
)
TYPES = b"0125347xgLKSXA\0"
SEEDS = (
    b"\0\x04\0\x01\0\0\0\x05\0\0\0\0\x0csome content\x02\0\0",
    b"\0\x06\1\x02\x0d\0\x00\0\0\x06\x02\0\0\2\x08\x05\x01\0\0\x07\x00\x02\x03abc",
    b"\1" + tarfile.TarInfo("build/a").tobuf(tarfile.USTAR_FORMAT),
    b"\2" + zstd.compress(bytes(10240)),
    b"\0\x03\x07\x02\0\0\0\0\0\x20" + b"17 path=build/zz\n" + b"\0\x02",
)


def one(data: bytes) -> None:
    """Unpack a tar of chosen members, of these very bytes, or a compressed file."""
    parts = Parts(data)
    shape = parts.number(255) % 4
    with tempfile.TemporaryDirectory(prefix="rai-fuzz-") as made:
        there = Path(made)
        if shape == 3:
            (there / "in.tar.zst").write_bytes(parts.rest())
        else:
            pieces = [parts.rest()] if shape == 1 else _tar(parts)
            raw = b"".join(pieces)
            _kept(there, raw, pieces)
            packed = zstd.compress(raw, 1)
            (there / "in.tar.zst").write_bytes(packed)
        _unpacked(there)


def _kept(there: Path, raw: bytes, pieces: list[bytes]) -> None:
    """Whether a stream is kept or refused in the same way however it is cut."""
    whole = _metered([raw])
    assert _metered(pieces) == whole
    assert _metered([raw[i : i + 100] for i in range(0, len(raw), 100)]) == whole
    path = there / "kept.tar.zst"
    try:
        with pack.BuildWriter(path, SMALL) as writer:
            for piece in pieces:
                writer.write(piece)
    except RaiError:
        assert not path.exists()
    else:
        assert path.exists() == bool(raw)
        if raw:
            _without_special_bits(path)
            path.unlink()
    assert not list(there.glob("kept*"))


def _without_special_bits(path: Path) -> None:
    """Whether no member of what is kept has rights of another user."""
    with pack.open_tar(path) as stream:
        data = stream.read()
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
            for info in tar:
                assert not info.mode & 0o7000, f"{info.name!r} keeps {info.mode:o}"
    except (tarfile.TarError, ValueError, EOFError, RecursionError):
        pass


def _metered(pieces: list[bytes]) -> tuple[object, ...]:
    meter = ArchiveMeter(SMALL)
    try:
        for piece in pieces:
            meter.feed(piece)
    except (DamagedError, OverCapsError) as error:
        return type(error), meter.members
    assert meter.raw_bytes <= SMALL.total_bytes
    assert meter.members <= SMALL.members
    return meter.members, meter.raw_bytes, meter.whole


def _unpacked(there: Path) -> None:
    packed, into = there / "in.tar.zst", there / "out"
    (there / "sentinel").write_text("as it was")
    before = _seen(there)
    try:
        done = pack.unpack(packed, into, SMALL, root="build")
    except RaiError:
        assert _seen(there) == before, "something was left, or changed"
        return
    kept = {path for path in _seen(there) if path.startswith("out/")}
    assert _seen(there).keys() - kept - {"out"} == before.keys()
    assert all(_seen(there)[name] == before[name] for name in before)
    assert done.members >= 0 and done.total_bytes <= SMALL.total_bytes
    assert len(kept) <= SMALL.members * 100  # a member may lie in folders of its own
    sizes = {}
    for name in kept:
        sizes |= _checked(there / name, into)
    assert sum(sizes.values()) <= SMALL.total_bytes
    listed = pack.files(packed, SMALL, root="build")
    plain = {name: size for name, size in listed.items() if not _deep(name)}
    missing = {name for name in plain if not os.path.lexists(into / name)}
    assert not missing, f"{missing} are listed, and not unpacked"
    again = there / "again"
    assert pack.unpack(packed, again, SMALL, root="build") == done
    assert {p.replace("again", "out", 1) for p in _seen(there) if p[:5] == "again"} == {
        p for p in _seen(there) if p[:3] == "out"
    }
    trees.remove(again)


def _deep(name: str) -> bool:
    return name.count("/") > 900 or len(os.fsencode(name)) > 3500


def _checked(path: Path, root: Path) -> dict[int, int]:
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        end = os.path.realpath(path)
        assert f"{end}/".startswith(f"{root}/"), f"{path} leads to {end}"
        return {}
    assert stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
    assert not found.st_mode & 0o7022, oct(found.st_mode)
    return {found.st_ino: found.st_size} if stat.S_ISREG(found.st_mode) else {}


def _seen(there: Path) -> dict[str, tuple[int, int]]:
    """Return what lies in a folder; links are not followed."""
    found = {}
    for folder, folders, files in os.walk(there):
        for name in (*folders, *files):
            path = Path(folder, name)
            status = path.lstat()
            size = 0 if stat.S_ISDIR(status.st_mode) else status.st_size
            found[str(path.relative_to(there))] = (status.st_ino, size)
    return found


def _tar(parts: Parts) -> list[bytes]:
    """Return a tar stream in pieces: headers of chosen fields, and their content."""
    pieces = []
    for _ in range(1 + parts.number(14)):
        info = tarfile.TarInfo()
        info.type = bytes([parts.one_of(TYPES)])
        name, target = parts.one_of(NAMES), parts.one_of(TARGETS)
        odd = parts.number(255)
        content = parts.text(255)
        if odd & 1:
            name = b"build/" + content[:40]
        if odd & 2:
            target = content[:40]
        info.mode = (0o755, 0o4755, 0o6644, 0o1000, 0, 0o7777)[odd >> 2 & 3]
        info.size = len(content)
        if odd & 0x10:
            info.size = parts.number(0xFFFF)
        head = bytearray(info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape"))
        head[0:100], head[157:257] = (
            name[:100].ljust(100, b"\0"),
            target.ljust(100, b"\0"),
        )
        if odd & 0x20:  # the name's other part
            head[345:500] = b"build".ljust(155, b"\0")
            head[257:265] = b"ustar\x0000"
        if odd & 0x40:  # a byte changed, and the sum that says so too
            head[parts.number(511)] = parts.number(255)
        head[148:156] = b" " * 8
        head[148:156] = b"%06o\0 " % sum(head)
        pieces += [bytes(head), content.ljust(-(-len(content) // 512) * 512, b"\0")]
    if parts.number(1) == 0:
        pieces.append(bytes(1024))
    return [piece for piece in pieces if piece]
