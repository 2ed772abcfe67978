"""Find data files by name and checksum on this machine, or download and keep them."""

from __future__ import annotations

import errno
import hashlib
import os
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct

from runner.core import MIB, BuildSpec, DataFile, DataMount, DataResource
from runner.core.events import DataMissing, DataReady, Event, Progress, Warned
from runner.core.policy import Policy
from runner.pack.data_rules import Room, UnavailableError
from runner.system import files, trees
from runner.system.locks import lock

if TYPE_CHECKING:
    from runner.pack.download import Downloads, Times


TRIES = 100
WAIT_S = 0.01
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


BLOCK_BYTES = 4 * MIB
_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EINVAL)
"""The errors of a place where there is nothing, or no file."""


class DataPlaces(Struct, frozen=True):
    """Where to search: $RAI_DATA_DIR, the project's ``data/``, the user's cache.

    ``origin`` is the folder that a sealed project was packed from, whose ``data/`` may
    hold what was not packed.
    """

    data_dir: Path | None
    project: Path
    cache: Path
    origin: Path | None = None

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders that users fill, in the order of the search."""
        own = (self.data_dir,) if self.data_dir else ()
        origin = (self.origin / "data",) if self.origin else ()
        return (*own, self.project / "data", *origin)

    def kept(self, resource: DataResource) -> Path:
        """Return the path in the cache, by checksum or else by address."""
        address = hashlib.sha256(resource.url.encode()).hexdigest()[:32]
        key = resource.md5.lower() if resource.md5 else f"url-{address}"
        return self.cache / key / resource.file_name

    def candidates(self, resource: DataResource) -> Iterator[tuple[Path, Path | None]]:
        """Yield each path to try, and the folder that no link may lead out of.

        That is the project, which may be hostile; the other folders are the user's own.
        """
        name, folder_name = resource.file_name, PurePosixPath(resource.directory).name
        for folder in self.folders:
            within = None if folder == self.data_dir else folder.parent.absolute()
            yield folder / name, within
            yield folder / folder_name / name, within
        yield self.kept(resource), None


class DataRules(Struct, frozen=True):
    """What downloads may do.

    ``keep`` is called with the bytes that are about to be added to those kept here; it
    may remove others, and raises RaiError if they are too many. ``times`` are those of
    downloads, None for the usual ones.
    """

    policy: Policy
    keep: Callable[[int], None]
    download: bool = True
    times: Times | None = None


def resolve(
    spec: BuildSpec, places: DataPlaces, rules: DataRules, held: ExitStack
) -> Generator[Event, None, tuple[DataMount, ...]]:
    """Find or download each file; return the mounts, one a directory.

    Yield DataReady or DataMissing for each resource, Warned, and Progress while it
    reads and downloads. A file that is not available is an event, not an exception.
    Nobody removes the kept files of the run before ``held`` is closed.

    Raises:
        NotAllowedError: they exceed the limit of data files, or a host is not allowed.
        ConfigError: the disk has no room for them.
    """
    search = _Search(places, rules, held, Room(spec.limits, places.cache, rules.keep))
    mounts: dict[str, list[DataFile]] = {}
    for resource in spec.data:
        file = yield from search.one(resource)
        if file is not None:
            mounts.setdefault(resource.directory, []).append(file)
    return tuple(DataMount(folder, tuple(files)) for folder, files in mounts.items())


class _Search:
    def __init__(
        self, places: DataPlaces, rules: DataRules, held: ExitStack, room: Room
    ) -> None:
        self.places, self.rules, self.held, self.room = places, rules, held, room

    @cached_property
    def downloads(self) -> Downloads:
        # The HTTP client is slow to import, and most files are found here.
        from runner.pack.download import Downloads, Times

        return Downloads(self.rules.policy, self.room, self.rules.times or Times())

    def one(self, resource: DataResource) -> Generator[Event, None, DataFile | None]:
        name, folder = resource.file_name, resource.directory
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            yield DataMissing(name, folder, f"{name!r} is not a file name")
            return None
        if file := (yield from self._here(resource)):
            yield DataReady(name, folder, str(file.path), file.md5)
            return file
        try:
            file = yield from self._fetched(resource)
        except UnavailableError as error:
            looked = ", ".join(map(str, (*self.places.folders, self.places.cache)))
            yield DataMissing(name, folder, f"it is not in {looked}, and {error}")
            return None
        yield DataReady(name, folder, resource.url, file.md5)
        return file

    def _here(self, resource: DataResource) -> Generator[Event, None, DataFile | None]:
        for path, within in self.places.candidates(resource):
            is_kept = path == self.places.kept(resource)
            try:
                if within is None and not path.is_file():
                    continue  # not asked of a project: its links may lead anywhere
                if is_kept:
                    self.held.enter_context(using(path.parent))
                file = yield from self._measured(path.absolute(), within)
            except OSError as error:
                if error.errno not in _NO_FILE:
                    hint = "; RAI_DATA_DIR may be set to the folder that it leads to"
                    hint *= error.errno == errno.EXDEV
                    yield Warned(f"{path} cannot be read: {error.strerror}{hint}")
                continue
            if is_kept:
                with suppress(OSError):
                    os.utime(path.parent)  # unused ones are removed in time
            if resource.md5 and file.md5 != resource.md5.lower():
                yield Warned(f"ignoring {path}: its md5 is not {resource.md5}")
                continue
            if not resource.md5:
                yield Warned(f"using {path} for {resource.url} unchecked: no md5 given")
            self.room.take(file.size_bytes)
            return file
        return None

    def _fetched(self, resource: DataResource) -> Generator[Progress, None, DataFile]:
        if not self.rules.download:
            raise UnavailableError("downloads are switched off")
        path = self.places.kept(resource)
        try:
            self.held.enter_context(using(path.parent, make=True))
        except OSError as error:
            text = f"{path.parent} cannot be written to: {error.strerror}"
            raise UnavailableError(text) from error
        try:
            yield from self.downloads.fetch(resource, path)
        finally:
            with suppress(OSError):  # it has what was downloaded before
                path.parent.rmdir()
        file = yield from self._measured(path.absolute())
        self.room.take(file.size_bytes)
        return file

    def _measured(
        self, path: Path, within: Path | None = None
    ) -> Generator[Progress, None, DataFile]:
        """Return a file with its checksum; raise an exception before a large one."""
        with files.opened(path, within) as file:
            size = os.fstat(file.fileno()).st_size
            self.room.need(size)
            md5, done = hashlib.md5(usedforsecurity=False), 0
            while data := file.read(min(BLOCK_BYTES, size - done)):
                md5.update(data)
                done += len(data)
                if size > BLOCK_BYTES:
                    yield Progress(f"check {path.name}", done, size)
            return DataFile(path.name, path, md5.hexdigest(), done, within)


@contextmanager
def using(folder: Path, *, make: bool = False) -> Iterator[None]:
    """Keep others from removing a folder; raise OSError if it is absent.

    With ``make`` it is made.
    """
    handle = _locked(folder, make)
    try:
        yield
    finally:
        os.close(handle)


@contextmanager
def removing(folder: Path) -> Iterator[bool]:
    """Yield whether a folder may be removed: no run uses it, nor begins to."""
    try:
        handle = os.open(folder, trees.FOLDER)
    except OSError:
        yield False
        return
    try:
        yield lock(handle) is not False
    finally:
        os.close(handle)


def _locked(folder: Path, make: bool) -> int:
    for _ in range(TRIES):
        if make:
            folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, _FOLDER)
        kept = False
        try:
            # Another process may have removed it before it was locked.
            with suppress(FileNotFoundError):
                kept = lock(handle, shared=True) is not False and os.path.samestat(
                    folder.stat(), os.fstat(handle)
                )
            if kept:
                return handle
        finally:
            if not kept:
                os.close(handle)
        time.sleep(WAIT_S)
    raise OSError(errno.EBUSY, "another process removes it", str(folder))
