"""Fetching a file that a broken connection does not begin anew."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from runner import files
from runner.remote.connection import PIECE_BYTES, BodyStream, HttpAnswer
from runner.remote.problems import NoServerError, UnreachableError
from runner.remote.retrying import Patience, Pauses

PARTIAL = 206
NO_SUCH_RANGE = 416

Opened = Callable[
    [Mapping[str, str]], AbstractContextManager[tuple[HttpAnswer, BodyStream]]
]
"""Asks for the file with these headers."""

_LENGTH = re.compile(r"\d{1,18}")
_RANGE = re.compile(r"bytes (?:(\d{1,18})-\d{1,18}|\*)/(\d{1,18})")


def fetch(
    opened: Opened, path: Path, most_bytes: int, url: str, patience: Patience
) -> int:
    """Fetch a file to a path; return its size in bytes.

    It is written aside, where an earlier attempt left its beginning, and renamed.

    Raises:
        UnreachableError: the server is away for longer than one's patience.
        NoServerError: it sends over ``most_bytes``, or another part than asked for.
    """
    part = files.aside(path)
    pauses = Pauses(patience)
    while True:
        have = part.stat().st_size if part.exists() else 0
        headers = {"Range": f"bytes={have}-"} if have else {}
        try:
            with opened(headers) as (answer, body):
                if _take(answer, body, part, have, most_bytes, url):
                    break
        except UnreachableError as error:
            if part.exists() and part.stat().st_size > have:
                pauses.restart()
            pauses.wait(error)
    part.replace(path)
    return path.stat().st_size


def _take(
    answer: HttpAnswer,
    body: BodyStream,
    part: Path,
    have: int,
    most_bytes: int,
    url: str,
) -> bool:
    """Write what comes; return False if it has to be asked for from its beginning."""
    found = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    if answer.status == NO_SUCH_RANGE:
        if found and int(found[2]) == have:
            return True
        if not have:
            raise NoServerError(f"{url} has no beginning of {part.name}")
        part.unlink()
        return False
    at = have if answer.status == PARTIAL else 0
    if answer.status == PARTIAL and not (found and found[1] and int(found[1]) == at):
        raise NoServerError(f"{url} sends another part of a file than asked for")
    length = _LENGTH.fullmatch(answer.headers.get("Content-Length", ""))
    whole = at + int(length[0]) if length else at
    too_large = whole > most_bytes
    with part.open("r+b" if have else "wb") as file:
        file.truncate(at)
        file.seek(at)
        while not too_large and (piece := body.read1(PIECE_BYTES)):
            file.write(piece)
            at += len(piece)
            too_large = at > most_bytes
    if too_large:
        part.unlink()
        raise NoServerError(f"{url} sends over {most_bytes:,} bytes of a file")
    if at < whole:
        raise UnreachableError(f"{url} broke off in the middle of a file")
    return True
