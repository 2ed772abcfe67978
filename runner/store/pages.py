"""Pages that a browser is shown, in a private folder of the home folder, for a day."""

from __future__ import annotations

import secrets
import time
from contextlib import suppress
from pathlib import Path

from runner import files
from runner.core import Problem
from runner.core.errors import ConfigError
from runner.store.paths import Home

KEPT_S = 24 * 3600
"""A browser may read a page again as long as it is open."""


_SUFFIXES = (".html", ".md", ".json", ".xml")


def keep(home: Home, what: str, page: str, suffix: str = ".html") -> Path:
    """Write a page under a new name, which begins with ``what``; return its path.

    Pages that are older than a day are removed.

    Raises:
        ConfigError: it cannot be written.
    """
    path = home.pages / f"{what}-{secrets.token_hex(8)}{suffix}"
    try:
        home.pages.mkdir(mode=0o700, parents=True, exist_ok=True)
        _sweep(home.pages)
        files.write(path, page.encode(errors="replace"))
    except OSError as error:
        text = f"{home.pages} cannot be written: {error.strerror}"
        hint = "set RAI_HOME to a folder that you can write to, or name a file with -o"
        raise ConfigError(Problem(text, hint=hint)) from error
    return path


def _sweep(folder: Path) -> None:
    oldest = time.time() - KEPT_S
    for page in folder.iterdir():
        with suppress(OSError):
            if page.suffix in _SUFFIXES and page.lstat().st_mtime < oldest:
                page.unlink()
