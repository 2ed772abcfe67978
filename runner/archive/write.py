"""Write a project's archive: aside first, then renamed."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

from runner import files
from runner.archive.blocks import Blocks
from runner.archive.caps import UPLOAD, Caps
from runner.archive.contents import (
    Kind,
    Member,
    Survey,
    cannot_read,
)
from runner.archive.header import BLOCK, header
from runner.core import Archive, Problem, Severity
from runner.core.errors import NotAllowedError, UsageError
from runner.core.events import Progress

PROGRESS_BYTES = 8 << 20
RECORD = 20 * BLOCK
"""The tar format ends a stream at a multiple of this."""


def pack(
    survey: Survey, into: Path, caps: Caps = UPLOAD
) -> Generator[Progress, None, Archive]:
    """Write what the survey found; return the Archive.

    The same content gives the same ``sha256``. NotAllowedError over a ceiling;
    UsageError naming every file that vanished, changed or cannot be read.
    """
    if over := survey.over(caps):
        raise NotAllowedError(*over)
    part = files.aside(into)
    try:
        with part.open("wb") as out, Blocks(out) as blocks:
            yield from _members(survey, blocks)
            blocks.write(bytes(2 * BLOCK))
            blocks.write(bytes(-blocks.raw_bytes % RECORD))
            sha256 = blocks.finish()
        part.replace(into)
    finally:
        part.unlink(missing_ok=True)
    return Archive(
        into, sha256, into.stat().st_size, blocks.raw_bytes, len(survey.members)
    )


def _members(survey: Survey, blocks: Blocks) -> Iterator[Progress]:
    total, done, shown = survey.total_bytes, 0, 0
    problems = [p for p in survey.problems if p.severity is Severity.ERROR]
    yield Progress("pack", 0, total)
    for member in survey.members:
        if problem := _add(survey.project, member, blocks):
            problems.append(problem)
        done += member.size_bytes
        if done - shown >= PROGRESS_BYTES:
            shown = done
            yield Progress("pack", done, total)
    if problems:
        raise UsageError(*problems)
    yield Progress("pack", total, total)


def _add(project: Path, member: Member, blocks: Blocks) -> Problem | None:
    if member.kind is not Kind.FILE:
        blocks.write(header(member, 0))
        return None
    try:
        # A link may have taken the place of a file or a folder since the survey.
        file = files.descriptor(project, member.name)
    except OSError as error:
        return cannot_read(member.name, error)
    try:
        return _copy(file, member, blocks)
    except OSError as error:
        return cannot_read(member.name, error)
    finally:
        os.close(file)


def _copy(file: int, member: Member, blocks: Blocks) -> Problem | None:
    if os.fstat(file).st_size != member.size_bytes:
        return _changed(member)
    blocks.write(header(member, member.size_bytes))
    left = member.size_bytes
    while left:
        count = os.readv(file, [blocks.space()[:left]])
        if count == 0:
            return _changed(member)
        blocks.filled(count)
        left -= count
    blocks.write(bytes(-member.size_bytes % BLOCK))
    return None


def _changed(member: Member) -> Problem:
    return Problem(f"{member.name!r} changed while it was packed", hint="try again")
