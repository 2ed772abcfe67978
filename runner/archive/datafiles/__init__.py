"""Find data files by name and checksum on this machine, or download them."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Generator, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct

from runner import files
from runner.archive.datafiles.failed import UnavailableError
from runner.core import DataFile, DataMount, DataResource
from runner.core.events import DataMissing, DataReady, Event, Progress, Warned

if TYPE_CHECKING:
    from runner.archive.datafiles.download import Downloads


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


def resolve(
    resources: tuple[DataResource, ...], places: DataPlaces, *, download: bool = True
) -> Generator[Event, None, tuple[DataMount, ...]]:
    """Find or download each file; return the mounts, one a directory.

    Yield DataReady or DataMissing for each resource, Warned, and Progress while it
    downloads. A file that is not available is an event, not an exception.
    """
    search = _Search(places, download)
    mounts: dict[str, list[DataFile]] = {}
    for resource in resources:
        file = yield from search.one(resource)
        if file is not None:
            mounts.setdefault(resource.directory, []).append(file)
    return tuple(DataMount(folder, tuple(files)) for folder, files in mounts.items())


class _Search:
    def __init__(self, places: DataPlaces, download: bool) -> None:
        self.places = places
        self.download = download

    @cached_property
    def downloads(self) -> Downloads:
        # The HTTP client is slow to import, and most files are found here.
        from runner.archive.datafiles.download import Downloads

        return Downloads()

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
            if not path.is_file():
                continue
            try:
                file = _measured(path.absolute(), within)
            except OSError as error:
                yield Warned(_cannot_read(path, error))
                continue
            self._used(path, resource)
            if not resource.md5:
                yield Warned(f"using {path} for {resource.url} unchecked: no md5 given")
                return file
            if file.md5 == resource.md5.lower():
                return file
            yield Warned(f"ignoring {path}: its md5 is not {resource.md5}")
        return None

    def _used(self, path: Path, resource: DataResource) -> None:
        """Note that a run uses a downloaded file; unused ones are removed in time."""
        if path == self.places.kept(resource):
            with suppress(OSError):
                os.utime(path.parent)

    def _fetched(self, resource: DataResource) -> Generator[Progress, None, DataFile]:
        if not self.download:
            raise UnavailableError("downloads are switched off")
        path = self.places.kept(resource)
        yield from self.downloads.fetch(resource.url, path, resource.md5)
        return _measured(path.absolute())


def _measured(path: Path, within: Path | None = None) -> DataFile:
    with files.opened(path, within) as file:
        md5 = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False))
        return DataFile(path.name, path, md5.hexdigest(), file.tell(), within)


def _cannot_read(path: Path, error: OSError) -> str:
    text = f"{path} cannot be read: {error.strerror}"
    if error.errno == errno.EXDEV:
        return f"{text}; RAI_DATA_DIR may be set to the folder that it leads to"
    return text
