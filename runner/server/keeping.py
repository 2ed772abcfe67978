"""Backups of a server: one tar file, which is made while the server serves.

It holds the store as the database's own copy, and what a server cannot be made again
from without: its settings, its certificate with the key, and whole uploads.
"""

from __future__ import annotations

import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from runner import files
from runner.core import Problem
from runner.core.errors import UsageError
from runner.database.backup import backup as back_up
from runner.database.restoring import restore as restore_store
from runner.server import reached
from runner.server.paths import ServerFolder

STORE = "store"
MOST_MEMBERS = 1_000_000
_UPLOAD = re.compile(r"uploads/[0-9a-f]{16}/[0-9a-f]{64}\.part")


class KeptBackup(Struct, frozen=True):
    """What a backup holds: its size in bytes and the number of its uploads."""

    bytes: int
    uploads: int


def backup(folder: ServerFolder, environ: Mapping[str, str], file: Path) -> KeptBackup:
    """Write a backup aside, then give it its name; only this user can read it.

    Raises:
        RaiError: the store cannot be read.
        OSError: the file cannot be written.
    """
    url = reached.database_url(folder, environ)
    part = files.aside(file)
    uploads = 0
    with files.naming(file):
        try:
            part.unlink(missing_ok=True)
            handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            with (
                os.fdopen(handle, "wb") as out,
                tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar,
                tempfile.TemporaryDirectory(prefix="rai-", dir=file.parent) as made,
            ):
                store = Path(made, STORE)
                back_up(url, store)
                tar.add(store, STORE)
                for path in _single(folder):
                    if path.exists():
                        tar.add(path, str(path.relative_to(folder.root)))
                for path in sorted(folder.uploads.glob("*/*.part")):
                    uploads += _added(tar, path, folder)
            part.rename(file)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    return KeptBackup(file.stat().st_size, uploads)


def restore(file: Path, folder: ServerFolder, environ: Mapping[str, str]) -> None:
    """Make a server's folder and store of a backup.

    Raises:
        UsageError: the folder holds something, or the file is no backup.
        RaiError: the store is not empty, or cannot be written.
    """
    if folder.root.is_dir() and any(folder.root.iterdir()):
        text = f"{folder.root} is not empty"
        hint = "a backup is restored to a new folder: name one by --state"
        raise UsageError(Problem(text, hint=hint))
    url = reached.database_url(folder, environ)
    if not file.is_file():
        raise UsageError(f"there is no file {file}")
    try:
        with tarfile.open(file, mode="r:") as tar:
            members = _checked(tar, folder, file)
            folder.uploads.mkdir(mode=0o700, parents=True)
            folder.root.chmod(0o700)
            for member, path in members:
                _write(tar, member, path)
    except tarfile.TarError as error:
        raise UsageError(f"{file} is no backup: {error}") from error
    copy = folder.root / STORE
    restore_store(copy, url)
    copy.unlink()


def _added(tar: tarfile.TarFile, path: Path, folder: ServerFolder) -> int:
    """Add an upload, unless it was removed meanwhile; return how many were added.

    What is appended to it while it is read is left out: its client sends it again.
    """
    try:
        file = files.open_regular(path)
    except OSError:
        return 0
    with file:
        name = str(path.relative_to(folder.root))
        facts = tar.gettarinfo(arcname=name, fileobj=file)
        tar.addfile(facts, file)
    return 1


def _checked(
    tar: tarfile.TarFile, folder: ServerFolder, file: Path
) -> list[tuple[tarfile.TarInfo, Path]]:
    """Return the members and where each belongs; only names of a backup are taken."""
    known = {str(path.relative_to(folder.root)): path for path in _single(folder)} | {
        STORE: folder.root / STORE
    }
    found: dict[str, tuple[tarfile.TarInfo, Path]] = {}
    for member in tar:
        path = known.get(member.name)
        if _UPLOAD.fullmatch(member.name):
            path = folder.root / member.name
        if path is None or not member.isreg() or len(found) > MOST_MEMBERS:
            raise UsageError(f"{file} is no backup: it has {member.name!r}")
        found[member.name] = (member, path)
    for name in (STORE, folder.rules.name):
        if name not in found:
            raise UsageError(f"{file} is no backup: it has no {name}")
    return list(found.values())


def _single(folder: ServerFolder) -> tuple[Path, ...]:
    return folder.rules, folder.certificate, folder.key


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    content = tar.extractfile(member)
    assert content is not None  # it is a regular file
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with content, os.fdopen(handle, "wb") as out:
        shutil.copyfileobj(content, out)
