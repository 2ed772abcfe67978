"""Backups of a server: a folder that is laid out as the server's own.

Of the store it has the database's own copy, and else what a server cannot be made again
from without: its settings, its certificate with the key, the site's milestones, and the
uploads of the runs that have not ended.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path

from runner import files
from runner.core.errors import RaiError, UsageError
from runner.database import Store, open_store
from runner.server.paths import DATABASE_VARIABLE, ServerFolder
from runner.server.reached import sqlite_url
from runner.server.uploadfiles import upload_path


def backup(
    folder: ServerFolder, store: Store, milestones: Iterable[Path], into: Path
) -> str:
    """Write a backup aside, then give it its name; only this user can read it.

    Return the command that writes the store into it, "" where that is done: a store on
    PostgreSQL is copied by the database's own program.

    Raises:
        UsageError: there is something of that name.
        RaiError: the store cannot be read, or the folder not be written.
    """
    if into.exists():
        raise UsageError(f"{into} is there already: name a new folder")
    new = ServerFolder(files.aside(into.absolute()))
    shutil.rmtree(new.root, ignore_errors=True)
    try:
        new.root.mkdir(mode=0o700)
        _copy_uploads(folder, new, store)
        if copied := store.copy(new.database):
            # Those of runs that were queued meanwhile: what waits in the copy is whole.
            with closing(open_store(sqlite_url(new.database))) as kept:
                _copy_uploads(folder, new, kept)
        for path in (folder.rules, folder.certificate, folder.key):
            _copy(path, new.root / path.relative_to(folder.root))
        for path in milestones:
            place = new.root / "milestones" / path.absolute().relative_to("/")
            shutil.copytree(path, place, symlinks=True, dirs_exist_ok=True)
        os.sync()
        new.root.rename(into)
    except OSError as error:
        raise RaiError(files.problem(error), advice="") from error
    finally:
        shutil.rmtree(new.root, ignore_errors=True)
    file = shlex.quote(str(into.absolute() / "store.pgdump"))
    url = f'"postgresql:${{{DATABASE_VARIABLE}#*:}}"'
    return "" if copied else f"pg_dump --format=custom --file={file} {url}"


def _copy_uploads(folder: ServerFolder, new: ServerFolder, store: Store) -> None:
    """Copy the uploads of runs that have not ended, but for those that are copied."""
    for row in store.unfinished():
        known = (row.team, row.sha256)
        if not (to := upload_path(new.uploads, *known)).exists():
            _copy(upload_path(folder.uploads, *known), to)


def _copy(path: Path, to: Path) -> None:
    """Copy a file with its mode, if it is there."""
    with suppress(FileNotFoundError):
        to.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copy(path, to)
