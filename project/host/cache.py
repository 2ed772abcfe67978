"""A cache of compiled files, keyed by a hash of everything they are made from."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

DIGEST_BYTES = hashlib.sha256().digest_size
OTHERS_WRITE = 0o022
_INCLUDE = re.compile(rb'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)


def folder(kind: str) -> Path | None:
    """Return the user's cache folder for a kind of file; None without a home.

    A relative XDG_CACHE_HOME is ignored, as the XDG specification requires.
    """
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        home = named if named.is_absolute() else Path.home() / ".cache"
    except RuntimeError:
        return None
    return home / "rai" / kind


def key(parts: Iterable[bytes]) -> str:
    """Return a hash that differs where any part differs."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def sources(files: Iterable[Path], folders: Iterable[Path]) -> Iterator[bytes]:
    """Yield the text of files and of the headers that they include from folders."""
    return (path.read_bytes() for path in included(files, folders))


def included(files: Iterable[Path], folders: Iterable[Path]) -> Iterator[Path]:
    """Yield files, and the headers that they include from folders."""
    within, waiting, seen = list(folders), list(files), set()
    while waiting:
        path = waiting.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        yield path
        names = [os.fsdecode(name) for name in _INCLUDE.findall(path.read_bytes())]
        waiting += [place / name for name in names for place in within]


def read(path: Path) -> bytes | None:
    """Return a cached file's content, or None.

    It must be writable by this user only, and match the digest at its end.
    """
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            own = status.st_uid == os.geteuid() and not status.st_mode & OTHERS_WRITE
            content = file.read()
    except OSError:
        return None
    body, digest = content[:-DIGEST_BYTES], content[-DIGEST_BYTES:]
    return body if own and hashlib.sha256(body).digest() == digest else None


def keep(path: Path, content: bytes) -> None:
    """Write a file to the cache atomically; ignore a cache that is not writable."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            temporary = Path(folder, path.name)
            temporary.write_bytes(content + hashlib.sha256(content).digest())
            temporary.chmod(0o600)
            temporary.replace(path)
