"""The GPUs that no run gets: those of a run that ended with an error of its GPU.

A GPU stays out for a minute at least, and until its state is well; or until somebody
lets it back. The decisions are pure; the file outlives the server.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct, json
from msgspec.structs import replace

from runner import files

LEAST_S = 60.0
MOST_BYTES = 1 << 20
FILE = "gpus.json"


class GpuNote(Struct, frozen=True):
    """Why a GPU is out, "" if it is not, since when, and when it came back last."""

    why: str = ""
    since: float = 0.0
    back: float = 0.0

    @property
    def words(self) -> str:
        """Return why it is out and since when, for people."""
        clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        return f"{self.why}; out since {clock}" if self.why else ""


Notes = Mapping[str, GpuNote]
"""By the UUID of a GPU, or of a slice of one."""

NONE: Notes = MappingProxyType({})


def failed(notes: Notes, uuids: Sequence[str], run_id: str, at: float) -> Notes:
    """Return the notes after a run that ended at a time with an error of its GPUs.

    One that came back since stays.
    """
    changes = {}
    for uuid in uuids:
        note = notes.get(uuid, GpuNote())
        if at > max(note.back, note.since):
            why = note.why or f"run {run_id} ended with an error of this GPU"
            changes[uuid] = replace(note, why=why, since=at)
    return {**notes, **changes} if changes else notes


def looked(notes: Notes, problems: Mapping[str, str], at: float) -> Notes:
    """Return the notes after a look at the states of GPUs at a time.

    ``problems`` has what is wrong with each GPU that was seen, "" for nothing.
    """
    back = [u for u, note in notes.items() if due(note, at) and problems.get(u) == ""]
    return {**notes, **{uuid: GpuNote(back=at) for uuid in back}} if back else notes


def cleared(notes: Notes, uuid: str, at: float) -> Notes:
    """Return the notes after somebody has let a GPU back."""
    return {**notes, uuid: GpuNote(back=at)} if uuid in notes else notes


def due(note: GpuNote, at: float) -> bool:
    """Whether a GPU that is out may come back at a time."""
    return bool(note.why) and at >= note.since + LEAST_S


class GpusOut:
    """The notes of one home folder, which `rai server gpu clear` changes too."""

    def __init__(self, home: Path, clock: Callable[[], float] = time.time) -> None:
        self._home, self._clock = home, clock

    def failed(self, uuids: Sequence[str], run_id: str, at: float) -> None:
        """Put the GPUs out that a run held which ended with their error."""
        self._change(lambda notes: failed(notes, uuids, run_id, at))

    def looked(self, problems: Mapping[str, str], at: float) -> None:
        """Let the GPUs back that are well."""
        self._change(lambda notes: looked(notes, problems, at))

    def clear(self, uuid: str) -> None:
        """Let a GPU back."""
        self._change(lambda notes: cleared(notes, uuid, self._clock()))

    def due(self, since: float) -> bool:
        """Whether a look that is newer than ``since`` may let a GPU back now."""
        now = self._clock()
        return any(
            due(note, now) and since < note.since + LEAST_S
            for note in self._notes().values()
        )

    def words(self) -> dict[str, str]:
        """Return the GPUs that are out, and why."""
        return {u: note.words for u, note in self._notes().items() if note.why}

    def _notes(self) -> Notes:
        try:
            data = files.read_below(self._home, FILE, MOST_BYTES)
            return json.decode(data, type=dict[str, GpuNote])
        except (OSError, ValueError):
            return NONE  # none was out yet, or damaged: then each GPU is tried again

    def _change(self, change: Callable[[Notes], Notes]) -> None:
        """Change the notes, one process and thread after the other."""
        lock = os.open(self._home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = self._notes()
            if (after := change(before)) is not before:
                files.write(self._home / FILE, json.encode(after))
        finally:
            os.close(lock)
