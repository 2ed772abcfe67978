"""Unpack a project or a build folder and pack the latter, for runs on this machine."""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from runner.archive.tree import HostileNameError, inside
from runner.core.errors import EngineError

CHUNK_BYTES = 1 << 20

Owner = tuple[int, int]


def unpack(
    stream: BinaryIO, folder: Path, owner: Owner | None = None, root: str = ""
) -> None:
    """Unpack an uncompressed tar stream into an empty folder.

    Nothing is written outside of it, and no device or set-uid file is made. With
    ``owner`` (root only) everything, the folder too, belongs to that user and group.
    ``root`` is taken off each name; with it, devices and pipes are left out.

    Raises:
        EngineError: the archive is damaged or hostile.
    """
    links: list[tarfile.TarInfo] = []
    try:
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            for member in tar:
                if root and not below(member, root):
                    continue
                # Made last, so that nothing is written through a link.
                if member.issym():
                    links.append(member)
                else:
                    _write(tar, member, folder)
        for member in links:
            _link(folder, member)
    except (tarfile.TarError, OSError, HostileNameError) as error:
        what = f"{root} folder" if root else "project"
        raise EngineError(f"the {what} cannot be unpacked: {error}") from error
    if owner is not None:
        change_owner(folder, owner)


def below(member: tarfile.TarInfo, root: str) -> bool:
    """Take the root off a member's name; return False for one that is not wanted.

    These are the root itself, devices and pipes.

    Raises:
        HostileNameError: a name is not below the root.
    """
    member.name = inside(member.name, root)
    if member.islnk():
        member.linkname = inside(member.linkname, root)
    wanted = member.isreg() or member.isdir() or member.issym() or member.islnk()
    return bool(member.name) and wanted


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    path = _inside(folder, member.name)
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if member.islnk():
        path.hardlink_to(_inside(folder, member.linkname))
    elif (content := tar.extractfile(member)) is not None:
        with path.open("wb") as file:
            shutil.copyfileobj(content, file, CHUNK_BYTES)
        path.chmod(member.mode & 0o755 | stat.S_IRUSR | stat.S_IWUSR)
        os.utime(path, (member.mtime, member.mtime))
    else:
        raise EngineError(f"the project cannot be unpacked: {member.name} is special")


def _inside(folder: Path, name: str) -> Path:
    """Return a member's path, without a leading slash; refuse `..`."""
    if ".." in PurePosixPath(name).parts:
        raise EngineError(f"the project cannot be unpacked: {name} leaves it")
    return folder / name.lstrip("/")


def _link(folder: Path, member: tarfile.TarInfo) -> None:
    path = _inside(folder, member.name)
    if not path.parent.resolve().is_relative_to(folder.resolve()):
        raise EngineError(f"the project cannot be unpacked: {member.name} leaves it")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(member.linkname)


def change_owner(folder: Path, owner: Owner) -> None:
    """Change the owner of a folder and everything below it; for root only."""
    os.chown(folder, *owner)
    for parent, folders, files in os.walk(folder):
        for name in folders + files:
            os.chown(Path(parent, name), *owner, follow_symlinks=False)


def pack(folder: Path, root: str) -> Iterator[bytes]:
    """Yield a folder as an uncompressed tar stream with names below ``root``.

    Folders, files, symbolic and hard links are kept, with their modes; sockets, devices
    and pipes are left out. Nothing may write to the folder meanwhile.
    """
    linked: dict[tuple[int, int], str] = {}
    for path, info in _entries(folder):
        name = str(Path(root, path.relative_to(folder)))
        member = _member(path, name, info, linked)
        if member is None:
            continue
        yield member.tobuf(tarfile.PAX_FORMAT)
        if member.isreg():
            yield from _content(path, member.size)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _entries(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield a folder and everything below it, sorted; make each folder readable."""
    info = folder.lstat()
    yield folder, info
    _open_up(folder, info)
    for path in sorted(folder.iterdir()):
        info = path.lstat()
        if stat.S_ISDIR(info.st_mode):
            yield from _entries(path)
        else:
            yield path, info


def _open_up(path: Path, info: os.stat_result) -> None:
    """Make a folder or file readable for its owner, if a command changed its mode."""
    wanted = stat.S_IRWXU if stat.S_ISDIR(info.st_mode) else stat.S_IRUSR
    if info.st_mode & wanted != wanted:
        path.chmod(stat.S_IMODE(info.st_mode) | wanted)


def _member(
    path: Path, name: str, info: os.stat_result, linked: dict[tuple[int, int], str]
) -> tarfile.TarInfo | None:
    member = tarfile.TarInfo(name)
    member.mode, member.mtime = stat.S_IMODE(info.st_mode), int(info.st_mtime)
    if stat.S_ISDIR(info.st_mode):
        member.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(info.st_mode):
        member.type, member.linkname = tarfile.SYMTYPE, str(path.readlink())
    elif stat.S_ISREG(info.st_mode):
        first = linked.setdefault((info.st_dev, info.st_ino), name)
        if first != name:
            member.type, member.linkname = tarfile.LNKTYPE, first
        else:
            member.size = info.st_size
            _open_up(path, info)
    else:
        return None
    return member


def _content(path: Path, size: int) -> Iterator[bytes]:
    left = size
    with path.open("rb") as file:
        while left > 0:
            data = file.read(min(left, CHUNK_BYTES)) or bytes(min(left, CHUNK_BYTES))
            left -= len(data)
            yield data
    if size % tarfile.BLOCKSIZE:
        yield bytes(tarfile.BLOCKSIZE - size % tarfile.BLOCKSIZE)


def size(*folders: Path) -> int:
    """Return the total size of the files below some folders, in bytes, each file once.

    Files that vanish meanwhile and folders that cannot be read do not count.
    """
    seen: set[tuple[int, int]] = set()
    total = 0
    for folder in folders:
        for parent, _, names in os.walk(folder):
            for name in names:
                try:
                    info = Path(parent, name).lstat()
                except OSError:
                    continue
                if (info.st_dev, info.st_ino) not in seen:
                    seen.add((info.st_dev, info.st_ino))
                    total += info.st_size
    return total


def remove(folder: Path) -> None:
    """Remove a folder and everything below it, whatever modes a command set."""
    try:
        shutil.rmtree(folder)
    except PermissionError:
        for _ in _entries(folder):
            pass  # makes each folder accessible
        shutil.rmtree(folder)
