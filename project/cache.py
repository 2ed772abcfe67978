"""What was compiled, kept: one file under a name made of all that it is made from."""

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
    """Name this user's folder for a kind of file; None for a user without a home.

    As the XDG base directory specification says, a relative path counts as none.
    """
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        home = named if named.is_absolute() else Path.home() / ".cache"
    except RuntimeError:
        return None
    return home / "rai" / kind


def key(parts: Iterable[bytes]) -> str:
    """Make a name that is another one where any part is."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def sources(files: Iterable[Path], folders: Iterable[Path]) -> Iterator[bytes]:
    """Give the files, and each header in the folders that they include by its name."""
    within, waiting, seen = list(folders), list(files), set()
    while waiting:
        path = waiting.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        yield (text := path.read_bytes())
        names = [os.fsdecode(name) for name in _INCLUDE.findall(text)]
        waiting += [place / name for name in names for place in within]


def read(path: Path) -> bytes | None:
    """Read what only this user can write, when its digest at the end shows it whole."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            own = status.st_uid == os.geteuid() and not status.st_mode & OTHERS_WRITE
            content = file.read()
    except OSError:
        return None
    kept, digest = content[:-DIGEST_BYTES], content[-DIGEST_BYTES:]
    return kept if own and hashlib.sha256(kept).digest() == digest else None


def keep(path: Path, content: bytes) -> None:
    """Write aside and rename; a cache that cannot be written is none."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as place:
            aside = Path(place, path.name)
            aside.write_bytes(content + hashlib.sha256(content).digest())
            aside.chmod(0o600)
            aside.replace(path)
