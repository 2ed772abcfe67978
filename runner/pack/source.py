"""Unpack a project or a build folder and pack the latter, for runs on this machine."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tarfile
from collections.abc import Generator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from runner.core.errors import EngineError, UsageError
from runner.pack.read import NAME_FAULTS, HostileNameError, inside
from runner.pack.write import CHUNK
from runner.system import files, trees

DEEPEST = 1000
"""The most folders within folders that are packed."""

LONGEST_NAME = 4000
"""The most bytes of a packed name, so that it can be unpacked somewhere."""

FAULTS = (*NAME_FAULTS, errno.ENOENT)
"""What a file system says of names, and of a hard link to what is not there."""

Owner = tuple[int, int]


def unpack(
    stream: BinaryIO, folder: Path, owner: Owner | None = None, root: str = ""
) -> None:
    """Unpack an uncompressed tar stream into an empty folder.

    Nothing is written outside of it, and no device or set-uid file is made. With
    ``owner`` (root only) everything, the folder too, belongs to that user and group.
    ``root`` is taken off each name; with it, devices and pipes are left out.

    Raises:
        UsageError: the project is damaged or hostile.
        EngineError: the same of a build folder, or this machine is at fault.
        RaiError: the disk is full or broken.
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
            path = _inside(folder, member.name)
            if not path.parent.resolve().is_relative_to(folder.resolve()):
                raise HostileNameError(f"{member.name} leaves it")
            _make(folder, path.parent)
            path.symlink_to(member.linkname)
    except (tarfile.TarError, OSError, HostileNameError) as error:
        if fault := files.disk_fault(error, folder):
            raise fault from error
        text = f"cannot be unpacked: {str(error).replace(f'{folder}/', '')}"
        if root:
            raise EngineError(f"the {root} folder {text}") from error
        sent = not isinstance(error, OSError) or error.errno in FAULTS
        raise (UsageError if sent else EngineError)(f"the project {text}") from error
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
        _make(folder, path)
        return
    _make(folder, path.parent)
    if member.islnk():
        path.hardlink_to(_inside(folder, member.linkname))
    elif (content := tar.extractfile(member)) is not None:
        with path.open("wb") as file:
            shutil.copyfileobj(content, file, CHUNK)
        path.chmod(member.mode & 0o755 | stat.S_IRUSR | stat.S_IWUSR)
        os.utime(path, (member.mtime, member.mtime))
    else:
        raise HostileNameError(f"{member.name} is special")


def _make(folder: Path, path: Path) -> None:
    if not path.is_dir():
        trees.make(folder, path.relative_to(folder).parts)


def _inside(folder: Path, name: str) -> Path:
    """Return a member's path, without a leading slash; refuse `..`."""
    if ".." in PurePosixPath(name).parts or "\0" in name:
        raise HostileNameError(f"{name!r} leaves it")
    return folder / name.lstrip("/")


def change_owner(folder: Path, owner: Owner) -> None:
    """Change the owner of a folder and everything below it; for root only."""
    os.chown(folder, *owner)
    for entry in trees.entries(folder):
        os.chown(entry.name, *owner, dir_fd=entry.folder, follow_symlinks=False)


def pack(folder: Path, root: str) -> Generator[bytes, None, bool]:
    """Yield a folder as an uncompressed tar stream with names below ``root``.

    Folders, files, symbolic and hard links are kept, with their modes; sockets, devices
    and pipes are left out. Nothing may write to the folder meanwhile. Return whether
    something was left out since its path is too long or too deep.
    """
    linked: dict[tuple[int, int], str] = {}
    top = _header(root, folder.lstat())
    top.type = tarfile.DIRTYPE
    yield top.tobuf(tarfile.PAX_FORMAT)
    left_out = False
    for entry in trees.entries(folder, deepest=DEEPEST):
        name = "/".join((root, *entry.above, entry.name))
        if len(os.fsencode(name)) > LONGEST_NAME:
            left_out = True
            continue
        left_out |= stat.S_ISDIR(entry.info.st_mode) and not entry.within
        member = _member(entry, name, linked)
        if member is None:
            continue
        yield member.tobuf(tarfile.PAX_FORMAT)
        if member.isreg():
            left = member.size
            with open(trees.opened(entry), "rb") as file:  # noqa: PTH123 - a descriptor
                while left > 0:
                    step = min(left, CHUNK)
                    data = file.read(step) or bytes(step)
                    left -= len(data)
                    yield data
            if padding := bytes(-member.size % tarfile.BLOCKSIZE):
                yield padding
    yield bytes(2 * tarfile.BLOCKSIZE)
    return left_out


def _header(name: str, info: os.stat_result) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.mode, member.mtime = stat.S_IMODE(info.st_mode), int(info.st_mtime)
    return member


def _member(
    entry: trees.TreeEntry, name: str, linked: dict[tuple[int, int], str]
) -> tarfile.TarInfo | None:
    info = entry.info
    member = _header(name, info)
    if stat.S_ISDIR(info.st_mode):
        member.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(info.st_mode):
        member.type = tarfile.SYMTYPE
        member.linkname = os.readlink(entry.name, dir_fd=entry.folder)
    elif not stat.S_ISREG(info.st_mode):
        return None
    elif (first := linked.setdefault((info.st_dev, info.st_ino), name)) != name:
        member.type, member.linkname = tarfile.LNKTYPE, first
    else:
        member.size = info.st_size
    return member
