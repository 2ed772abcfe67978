"""Small files of a run's folder: tag, note, latest Tick, where it was sent."""

from __future__ import annotations

import os
import re
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

from msgspec import Struct, json
from msgspec.structs import replace

from runner.core import Problem, RunRecord, RunRequest, State
from runner.core.events import Tick, from_line, to_line
from runner.core.quantities import Moment
from runner.core.request import MOST_PARCEL_BYTES
from runner.core.screen import printable
from runner.core.wire import RemoteRun
from runner.store import claim
from runner.store.paths import RunPaths
from runner.system import files

LINE_BYTES = 4096


def write_latest(paths: RunPaths, tick: Tick, at: float) -> None:
    """Replace the latest Tick; on a full disk the one before stays."""
    with suppress(OSError):
        files.write(paths.latest, to_line(tick, at))


def read_latest(paths: RunPaths) -> tuple[float, Tick] | None:
    """Return the latest Tick and its time, or None."""
    try:
        with files.open_regular(paths.latest) as file:
            at, event = from_line(file.read(LINE_BYTES))
    except (OSError, ValueError):
        return None
    return (at, event) if isinstance(event, Tick) else None


def remove_latest(paths: RunPaths) -> None:
    """Remove it: the run has ended."""
    with suppress(OSError):
        paths.latest.unlink(missing_ok=True)


MOST_SEEN_BYTES = 256 << 10


class SeenRun(Struct, frozen=True):
    """A run as its server showed it at a time, in seconds since 1970."""

    run: RemoteRun
    at: Moment


def write_seen(paths: RunPaths, run: RemoteRun) -> None:
    """Keep what the server said just now."""
    files.write(paths.seen, json.encode(SeenRun(run, round(time.time(), 3))) + b"\n")


def read_seen(paths: RunPaths) -> SeenRun | None:
    """Return what the server said last; None if it said nothing."""
    return files.read_json(paths.seen, MOST_SEEN_BYTES, SeenRun)


MOST_BYTES = 4096
BEAT_S = 2.0


class SlurmSubmission(Struct, frozen=True):
    """A run that was handed to a ``place``, and ``target`` there, such as slurm:gpu.

    ``name`` is the name of its job, ``number`` the number, "" until the place has
    answered. ``run`` is the run's id: a copy of the folder under another name was not
    handed over. ``again`` is whether who handed it over asks again if the place has
    never had it, as a server does.
    """

    run: str
    place: str
    target: str
    name: str
    number: str = ""
    again: bool = False


def write_submission(paths: RunPaths, handed: SlurmSubmission) -> None:
    """Keep where a run was handed to."""
    files.write(paths.handed, json.encode(handed) + b"\n")


def read_submission(paths: RunPaths) -> SlurmSubmission | None:
    """Return where a run was handed to; None if it was not, or the file is damaged."""
    handed = files.read_json(paths.handed, MOST_BYTES, SlurmSubmission)
    return handed if handed and handed.run == paths.id else None


class LifeSign:
    """Shows on a shared file system that this process lives, by the time of a file.

    Locks and numbers of processes tell nothing on another machine.
    """

    def __init__(self, *runs: RunPaths) -> None:
        self._files, self._over = [paths.beat for paths in runs], threading.Event()
        self._thread = threading.Thread(target=self._work, name="rai-beat", daemon=True)

    def __enter__(self) -> Self:
        self._touch()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(BEAT_S)

    def _work(self) -> None:
        while not self._over.wait(BEAT_S):
            self._touch()

    def _touch(self) -> None:
        for file in self._files:
            # The file system may be away for a while, or full.
            with suppress(OSError):
                files.stamp(file)


def beat_age_s(paths: RunPaths, now_s: float) -> float:
    """Return how long ago a run's process gave a sign of life; infinity if never.

    ``now_s`` is the file system's time, as ``files.time_there`` returns it.
    """
    changes = [now_s - at for at in map(changed_s, (paths.beat, paths.holder)) if at]
    return max(min(changes), 0.0) if changes else float("inf")


def changed_s(path: Path) -> float:
    """Return when a file was changed by the file system's clock; 0 if it is not there.

    It is opened for that: a network file system then asks its server.
    """
    try:
        with files.open_regular(path) as file:
            return os.fstat(file.fileno()).st_mtime
    except OSError:
        return 0.0


def parcel_of(paths: RunPaths) -> RunRequest | None:
    """Return the parcel of a run; None if there is none that can be read."""
    return files.read_json(paths.parcel, MOST_PARCEL_BYTES, RunRequest)


def begun_record(paths: RunPaths) -> RunRecord | None:
    """Return the record of a run that was sealed and never begun."""
    found = parcel_of(paths)
    try:
        created_at = paths.parcel.stat().st_mtime
    except OSError:
        return None
    if found is None:
        return None
    return RunRecord(
        paths.id,
        found.project,
        found.spec_file,
        created_at,
        git=found.git,
        env_given=found.env_given,
        only=found.only,
        title=found.title,
        repeat=found.repeat,
    )


def waiting_record(paths: RunPaths) -> RunRecord | None:
    """Return the record of a run that waits at another place; None of any other."""
    if read_submission(paths) is None:
        holder = claim.holder(paths)
        if holder is None or holder.place == claim.HERE or holder.run != paths.id:
            return None
    found = begun_record(paths)
    return None if found is None else replace(found, state=State.QUEUED)


MOST_CHARACTERS = 64
RESERVED = ("latest",)
LONGEST_NOTE = 500

_TAG = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MOST_CHARACTERS - 1}}}")
_LIKE_AN_ID = re.compile(r"[0-9a-f]+")


def tag_problem(tag: str) -> Problem | None:
    """Return why a text cannot be a tag; None if it can."""
    if tag in RESERVED:
        text, hint = ": it names the newest run", "choose another name"
    elif not _TAG.fullmatch(tag):
        text = ""
        hint = (
            f"use at most {MOST_CHARACTERS} letters, digits, dots, underscores and"
            " hyphens; begin with a letter or a digit"
        )
    elif _LIKE_AN_ID.fullmatch(tag):
        text = ": it reads as the beginning of a run's id"
        hint = f"use a character other than 0-9 and a-f, as in run-{tag}"
    else:
        return None
    return Problem(f"{tag[:80]!r} cannot be a tag{text}", hint=hint)


def read_tag(paths: RunPaths) -> str:
    """Return a run's tag, "" if it has none or none that is valid."""
    tag = _read_text(paths.tag, MOST_CHARACTERS + 1)
    return "" if tag_problem(tag) else tag


def write_text(file: Path, text: str) -> None:
    """Keep a run's tag or note in its file; "" for none."""
    if text:
        files.write(file, f"{text}\n".encode())
    else:
        file.unlink(missing_ok=True)


def note_problem(note: str) -> Problem | None:
    """Return why a text cannot be a note; None if it can."""
    if not note.strip():
        return Problem("the note is empty")
    if len(note) > LONGEST_NOTE:
        text = f"the note has {len(note)} characters; {LONGEST_NOTE} are allowed"
        return Problem(text)
    if "\n" in note or "\t" in note or printable(note) != note:
        text = "the note has a character that cannot be shown as it is"
        return Problem(text, hint="write it in one line of plain text")
    return None


def read_note(paths: RunPaths) -> str:
    """Return a run's note, "" if it has none or none that is valid."""
    # As UTF-8, with its line's end.
    found = _read_text(paths.note, 4 * LONGEST_NOTE + 1)
    return "" if note_problem(found) else found


def _read_text(file: Path, most_bytes: int) -> str:
    """Return the text of a file, "" if there is none that can be read."""
    try:
        if not file.exists():  # most runs have none; this is the fastest to ask
            return ""
        return files.read_below(file.parent, file.name, most_bytes).decode().strip()
    except (OSError, ValueError):
        return ""
