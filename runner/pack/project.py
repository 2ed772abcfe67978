"""The project of a run: a folder to pack, or a parcel that was packed before."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from runner.core import Archive, GitState, Problem, RunRequest
from runner.core import events as ev
from runner.core.errors import NotAllowedError, UsageError
from runner.core.request import MOST_PARCEL_BYTES, from_json, to_json
from runner.core.work import UPLOAD, Caps
from runner.pack import git
from runner.pack.contents import Survey, exceeded, survey
from runner.pack.read import DamagedArchiveError, open_tar, unpack
from runner.pack.write import CHUNK, PackCache, pack, zstd
from runner.system import files, machine, trees

LONGEST_HEADERS = 16 << 10
"""More than the headers and padding of one member take."""


class FolderProject:
    """A folder of this machine, packed as it is now.

    ``home`` is the name of rai's own home folder, if it is in it.
    ``shown`` is the client's own folder, where this one was made of it, ``commit`` the
    commit whose files this one has, if it was made of one.
    """

    def __init__(
        self,
        folder: Path,
        caps: Caps = UPLOAD,
        home: str = "",
        cache: PackCache | None = None,
        shown: Path | None = None,
        commit: GitState | None = None,
    ) -> None:
        self.folder, self.shown = folder, shown or folder
        self._commit = commit
        self._cache = cache
        self.caps = caps
        self._home = home

    def git(self) -> GitState | None:
        """Return the client's commit, None outside a repository."""
        return self._commit or git.state(self.shown)

    def open(self, into: Path) -> None:
        """Use the user's folder as it is."""

    def pack(self, into: Path) -> Generator[ev.Event, None, Archive]:
        """Pack what the ignore rules leave; yield Warned and Progress."""
        found = self.survey()
        for problem in found.warnings:
            where = f"{problem.place}: " if problem.place else ""
            yield ev.Warned(where + problem.finding)
        return (yield from pack(found, into, self.caps, self._cache))

    def survey(self) -> Survey:
        """Return what of the folder is sent and what is left out."""
        return survey(self.folder, self._home, self.caps)

    def names(self) -> frozenset[str]:
        """Return the names that the ignore rules leave.

        Raise NotAllowedError over a ceiling.
        """
        found = self.survey()
        if over := exceeded(found, self.caps):
            raise NotAllowedError(*over)
        return frozenset(member.name for member in found.members)

    def close(self) -> None:
        """Leave the user's folder as it is."""


PACKED = "the packed project"
"""What errors call it, whose path on a server is nobody's business."""


class SealedProject:
    """A project packed before: the very bytes that ``parcel`` names by checksum.

    ``scratch`` is a folder that does not exist yet; the project is unpacked there for
    as long as the run lasts.
    """

    def __init__(
        self, archive: Path, parcel: RunRequest, scratch: Path, caps: Caps = UPLOAD
    ) -> None:
        self._archive = archive
        self._parcel = parcel
        self.folder, self.shown = scratch, Path(parcel.project)
        self._caps = caps
        self._packed: Archive | None = None

    def git(self) -> GitState | None:
        """Return the commit that the client had."""
        return self._parcel.git

    def open(self, into: Path) -> None:
        """Bring the archive to ``into``, check it, and unpack it.

        Raises:
            UsageError: its content is not what the parcel says.
        """
        in_place = self._archive == into
        part = into if in_place else files.aside(into)
        try:
            if not in_place:
                shutil.copyfile(self._archive, part)
            sha256, raw_bytes = _checksum(part, self._caps)
            if sha256 != self._parcel.sha256:
                text = f"{PACKED} is not the project that its parcel names"
                raise UsageError(f"{text}: its checksum is {sha256}")
            members = unpack(part, self.folder, self._caps, called=PACKED).members
            part.replace(into)
        except DamagedArchiveError as error:
            raise UsageError(*error.problems) from error
        except OSError as error:
            if fault := files.disk_fault(error, into):
                raise fault from error
            raise UsageError(f"{PACKED}: {error.strerror}") from error
        finally:
            if not in_place:
                part.unlink(missing_ok=True)
        size = into.stat().st_size
        self._packed = Archive(into, sha256, size, raw_bytes, members)

    def pack(self, into: Path) -> Generator[ev.Event, None, Archive]:
        """Return the facts of the archive that ``open`` copied."""
        if self._packed is None:
            self.open(into)
        assert self._packed
        for warning in self._parcel.warnings:
            yield ev.Warned(warning)
        yield ev.Progress("pack", self._packed.raw_bytes, self._packed.raw_bytes)
        return self._packed

    def names(self) -> frozenset[str]:
        """Return the names of all that was packed."""
        found = trees.entries(self.folder)
        return frozenset("/".join((*one.above, one.name)) for one in found)

    def close(self) -> None:
        """Remove the unpacked project."""
        with suppress(OSError):
            trees.remove(self.folder)


Project = FolderProject | SealedProject
"""The project of a run, which opens it, packs it, and closes it at the end.

``folder`` has its files on this machine while it is open, for building images and
finding data files; ``shown`` is the client's own folder, which that may be a copy of.
"""


def seal(
    asked: RunRequest,
    packed: Archive,
    git: GitState | None,
    into: Path,
    warnings: tuple[str, ...] = (),
) -> RunRequest:
    """Write the parcel of a packed project, and return what was asked with its facts.

    The parcel is what is needed to run it again, but for what no file keeps.
    """
    sealed = replace(
        asked, sha256=packed.sha256, user=machine.user(), git=git, warnings=warnings
    )
    files.write(into, to_json(sealed.kept))
    return sealed


def read_parcel(path: Path) -> RunRequest:
    """Read a parcel's file; raise UsageError if it is absent, too large or damaged."""
    try:
        data = files.read_below(path.parent, path.name, MOST_PARCEL_BYTES)
        return from_json(data).kept  # others may have written it
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path} is not a parcel: {error}") from error


def most_bytes(caps: Caps) -> int:
    """Return how long the archive of a project may be."""
    return caps.total_bytes + caps.members * LONGEST_HEADERS


def _checksum(archive: Path, caps: Caps) -> tuple[str, int]:
    """Return the SHA-256 and the size of an archive's tar stream.

    Raises:
        UsageError: it is damaged, or larger than a project may be.
    """
    digest, size = hashlib.sha256(), 0
    most = most_bytes(caps)
    try:
        with open_tar(archive) as stream:
            while chunk := stream.read(CHUNK):
                digest.update(chunk)
                size += len(chunk)
                if size > most:
                    hint = "the setting project_size says how much"
                    text = f"{PACKED} holds more than a project may"
                    raise UsageError(Problem(text, hint=hint))
    except (zstd.ZstdError, EOFError) as error:
        raise UsageError(f"{PACKED} is damaged: {error}") from error
    return digest.hexdigest(), size
