"""Read archives, which may be hostile."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, BinaryIO, cast

from msgspec import Struct

from runner.core.errors import NotAllowedError, RaiError, UsageError
from runner.core.work import BUILD, Caps
from runner.pack.contents import RUN_FILE, MemberKind, leaves
from runner.pack.meter import ArchiveMeter, OverCapsError
from runner.pack.write import CHUNK, zstd
from runner.system import files as disk
from runner.system import locks, trees

LONGEST_TARGET = 4095
DEEPEST = 1001
"""The most folders within folders that are unpacked; one of them is the root."""

# What tarfile raises for damaged input; a chain of long names recurses.
_DAMAGED = (tarfile.TarError, zstd.ZstdError, ValueError, EOFError, RecursionError)

MARK = ".rai-unpacking-"
NAME_FAULTS = (
    *(errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL, errno.ELOOP),
    *(errno.EEXIST, errno.EISDIR, errno.ENOTDIR),
)
"""What a file system says of names that it cannot have, or have together."""


class DamagedArchiveError(RaiError):
    """An archive that cannot be read or unpacked, on whatever machine that is tried."""


class Unpacked(Struct, frozen=True):
    """What was unpacked; ``left_out`` holds the rest, with reasons."""

    members: int
    total_bytes: int
    left_out: tuple[str, ...] = ()


def open_tar(archive: Path) -> BinaryIO:
    """Open the uncompressed tar stream of an archive; the caller closes it."""
    return cast(BinaryIO, _Decompressed(disk.open_regular(archive)))


def unpack(
    archive: Path, into: Path, caps: Caps = BUILD, root: str = "", called: str = ""
) -> Unpacked:
    """Unpack into a new folder; ``root`` (e.g. "build") is taken off each name.

    Errors name the archive as it is ``called``, by default by its path.

    Devices, pipes and links out of the folder are left out. Raise NotAllowedError, and
    make no folder, for anything else that is hostile: absolute names, ``..``, names
    more than the ceilings, and names that differ only by case where the file system
    holds one of them only. Raise UsageError if ``into`` is taken, DamagedArchiveError
    if the archive cannot be unpacked, and RaiError if the machine is at fault.
    """
    if taken(into):
        raise UsageError(f"{into} already exists; use a new folder, or an empty one")
    with _temporary(into) as fresh:
        try:
            with _members(archive, caps, called) as (tar, meter):
                unpacking = _Unpacking(str(fresh), root)
                for info in tar:
                    if root and inside(info.name, root).split("/")[0] == RUN_FILE:
                        unpacking.own_name = True
                    else:
                        unpacking.add(tar, info)
                unpacking.link_all()
            fresh.chmod(0o755)
            fresh.rename(into)
        except OSError as error:
            if error.errno in disk.FULL and (fault := disk.disk_fault(error, into)):
                raise fault from error
            why = str(error).replace(f"{fresh}/", "")
            text = f"{called or archive} cannot be unpacked: {why}"
            named = error.errno in NAME_FAULTS
            raise (DamagedArchiveError if named else RaiError)(text) from error
    return Unpacked(unpacking.kept, meter.raw_bytes, unpacking.notes())


def files(archive: Path, caps: Caps = BUILD, root: str = "") -> dict[str, int]:
    """Return the sizes of an archive's files, by their names without ``root``."""
    with _members(archive, caps) as (tar, _):
        return {inside(info.name, root): info.size for info in tar if info.isfile()}


def checksums(archive: Path, caps: Caps) -> dict[str, str]:
    """Return a checksum of each file of an archive: of its content and its mode.

    That of a link is of its target. Raise NotAllowedError for an archive over the
    ceilings, and RaiError for a damaged one.
    """
    found: dict[str, str] = {}
    with _members(archive, caps) as (tar, _):
        for info in tar:
            digest = hashlib.blake2b(digest_size=16)
            digest.update(info.type + bytes([info.mode & 0o100]))
            digest.update(os.fsencode(info.linkname))
            if info.isreg() and (source := tar.extractfile(info)) is not None:
                while chunk := source.read(CHUNK):
                    digest.update(chunk)
            if not info.isdir():
                found[info.name] = digest.hexdigest()
    return found


def pick(
    archive: Path,
    into: Path,
    wanted: Callable[[str, int], bool],
    caps: Caps = BUILD,
    root: str = "",
) -> dict[str, int]:
    """Unpack the regular files that are wanted, by name and size, into an empty folder.

    Return their sizes by name. All else, links too, stays in the archive. Raise
    NotAllowedError for what is hostile, as ``unpack`` does.
    """
    unpacking = _Unpacking(str(into), root)
    with _members(archive, caps) as (tar, _):
        found = {}
        for info in tar:
            name = inside(info.name, root)
            if info.isreg() and wanted(name, info.size):
                unpacking.add(tar, info)
                found[name] = info.size
    return found


def taken(into: Path) -> bool:
    """Whether an unpacked folder would replace something."""
    empty = into.is_dir() and not into.is_symlink() and not any(into.iterdir())
    return os.path.lexists(into) and not empty


def creatable(into: Path) -> None:
    """Raise UsageError if a folder cannot be made here."""
    with _temporary(into):
        pass


class _Decompressed(zstd.ZstdFile):
    """The content of a compressed file, which is closed with it."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self._file = file

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._file.close()


class _Metered(io.RawIOBase):
    """A stream that a meter reads too."""

    def __init__(self, stream: io.BufferedIOBase, meter: ArchiveMeter) -> None:
        self._stream, self._meter = stream, meter

    def read(self, size: int = -1) -> bytes:
        # What stands before the damage of a file is read.
        chunk = self._stream.read1(size)
        self._meter.feed(chunk)
        return chunk


@contextmanager
def _members(
    archive: Path, caps: Caps, called: str = ""
) -> Iterator[tuple[tarfile.TarFile, ArchiveMeter]]:
    meter = ArchiveMeter(caps)
    try:
        with open_tar(archive) as stream:
            metered = _Metered(cast(io.BufferedIOBase, stream), meter)
            with tarfile.open(
                fileobj=cast(IO[bytes], metered),
                mode="r|",
                bufsize=CHUNK,
                encoding="utf-8",
                errors="surrogateescape",
            ) as tar:
                yield tar, meter
    except (OverCapsError, HostileNameError) as error:
        raise NotAllowedError(f"{called or archive} is refused: {error}") from error
    except _DAMAGED as error:
        text = f"{called or archive} cannot be read: {error}"
        raise DamagedArchiveError(text) from error


class _Unpacking:
    """Write members below a new folder.

    Symbolic links are made last, and only those that stay inside, so that no file is
    written through one.
    """

    def __init__(self, folder: str, root: str) -> None:
        self.folder, self.root = folder, root
        self.tree = Tree(any_case=disk.ignores_case(Path(folder)))
        self.links: dict[str, str] = {}
        self.left_out: list[str] = []
        self.too_deep = self.own_name = False
        self.kept = 0

    def add(self, tar: tarfile.TarFile, info: tarfile.TarInfo) -> None:
        """Write one member, or add it to ``left_out``."""
        name = inside(info.name, self.root)
        whole = len(os.fsencode(self.folder)) + len(os.fsencode(name)) + 1
        if name == "":
            if not info.isdir():
                text = f"{info.name!r} stands in the folder's own place"
                raise HostileNameError(text)
        elif name.count("/") >= DEEPEST or whole > LONGEST_TARGET:
            self.too_deep = True
        elif info.isdir():
            self.tree.claim(name, MemberKind.FOLDER)
            self._path(f"{name}/")
            self.kept += 1
        elif info.isfile():
            self._file(tar, info, name)
        elif info.issym():
            self.tree.claim(name, MemberKind.LINK)
            self.links[name] = info.linkname
        elif info.islnk():
            original = inside(info.linkname, self.root)
            if self.tree.at(original) is not MemberKind.FILE:
                self.left_out.append(f"{name!r} is a hard link to {info.linkname!r}")
                return
            self.tree.claim(name, MemberKind.FILE)
            os.link(Path(self.folder, original), self._path(name))
            self.kept += 1
        else:
            self.left_out.append(f"{name!r} is a device or a pipe")

    def notes(self) -> tuple[str, ...]:
        """Return what was left out, with reasons."""
        if self.own_name:
            self.left_out.append(f"{RUN_FILE!r} has the name of rai's own list")
        if self.too_deep:
            self.left_out.append(
                f"what is nested in over {DEEPEST - 1:,} folders, or has a path of over"
                f" {LONGEST_TARGET:,} bytes"
            )
        return tuple(self.left_out)

    def link_all(self) -> None:
        """Make the symbolic links that stay inside."""
        for name, target in self.links.items():
            if not target or "\0" in target or len(target) > LONGEST_TARGET:
                self.left_out.append(f"{name!r} is a link to nothing")
            elif leaves(name, self.links):
                self.left_out.append(
                    f"{name!r} is a link out of the folder, {target!r}"
                )
            else:
                self._path(name).symlink_to(target)
                self.kept += 1

    def _file(self, tar: tarfile.TarFile, info: tarfile.TarInfo, name: str) -> None:
        self.tree.claim(name, MemberKind.FILE)
        source = tar.extractfile(info)
        if source is None:
            raise tarfile.ReadError(f"{name!r} has no content")
        mode = 0o755 if info.mode & 0o100 else 0o644
        file = os.open(self._path(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with source, os.fdopen(file, "wb") as out:
            shutil.copyfileobj(source, out, CHUNK)
        self.kept += 1

    def _path(self, name: str) -> Path:
        """Return the path of a name; make the folders above it."""
        above = name.rpartition("/")[0]
        path = f"{self.folder}/{above}"
        if above and not os.path.isdir(path):  # noqa: PTH112 - Path is slow with many
            trees.make(self.folder, above.split("/"))
        return Path(self.folder, name)


class HostileNameError(ValueError):
    """A name that only a hostile archive has."""


def inside(name: str, root: str) -> str:
    """Return the name below the root, "" for the root itself."""
    if name.startswith("/"):
        raise HostileNameError(f"{name!r} is an absolute name")
    if "\0" in name:
        raise HostileNameError(f"{name!r} contains a NUL character")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise HostileNameError(f"{name!r} leads out of its folder")
    if root and parts[:1] != [root]:
        raise HostileNameError(f"{name!r} is not in {root}/")
    return "/".join(parts[1:] if root else parts)


class Tree:
    """The names taken so far; ``any_case`` if case does not tell two apart."""

    def __init__(self, *, any_case: bool) -> None:
        self._taken: dict[str, tuple[str, MemberKind]] = {}
        self._key = str.casefold if any_case else str

    def claim(self, name: str, place: MemberKind) -> None:
        """Take a name and its folders; raise HostileNameError if it is not free."""
        # What is above a taken folder was checked when that was taken.
        new, above = [], name
        while "/" in above:
            above = above.rpartition("/")[0]
            new.append(above)
            if self._key(above) in self._taken:
                break
        for folder in reversed(new):
            self._take(folder, MemberKind.FOLDER, name)
        self._take(name, place, name)

    def at(self, name: str) -> MemberKind | None:
        """Return what the name is, None if it is not taken."""
        taken, place = self._taken.get(self._key(name), ("", None))
        return place if taken == name else None

    def _take(self, name: str, place: MemberKind, whole: str) -> None:
        key = self._key(name)
        if key not in self._taken:
            self._taken[key] = (name, place)
            return
        taken, there = self._taken[key]
        if taken != name:
            raise HostileNameError(f"{whole!r} differs from {taken!r} only by case")
        if name != whole and there is not MemberKind.FOLDER:
            raise HostileNameError(f"{whole!r} is in {name!r}, which is not a folder")
        if not there is place is MemberKind.FOLDER:
            raise HostileNameError(f"{name!r} occurs twice")


def folder_beside(into: Path) -> Path:
    """Make a folder beside ``into``, which stays; raise UsageError if that fails."""
    with _creating(into):
        return Path(tempfile.mkdtemp(prefix=f".{into.name}.", dir=into.parent))


@contextmanager
def _temporary(into: Path) -> Iterator[Path]:
    """Make a folder beside ``into``, to be renamed to it; remove it otherwise.

    Raises:
        UsageError: it cannot be made.
    """
    with ExitStack() as stack:
        with _creating(into):
            made = locks.scratch(into.parent, f".{into.name}{MARK}")
            fresh = stack.enter_context(made)
        yield fresh


@contextmanager
def _creating(into: Path) -> Iterator[None]:
    try:
        into.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise UsageError(f"{into} cannot be created: {error.strerror}") from error
