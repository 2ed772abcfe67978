"""`slurm[:PARTITION]`: where `rai run --on` hands a run to Slurm."""

from __future__ import annotations

import re

from msgspec import Struct

PLACE = "slurm"
_TARGET = re.compile(r"(?i:slurm)(?::(\w[\w.-]{0,99}))?", re.ASCII)


class SlurmTarget(Struct, frozen=True):
    """A partition of the cluster whose Slurm this machine has, "" for its default."""

    partition: str = ""

    def __str__(self) -> str:
        return f"{PLACE}:{self.partition}" if self.partition else PLACE


def parse(text: str) -> SlurmTarget | None:
    """Return what a text names; None if it is no place of Slurm."""
    found = _TARGET.fullmatch(text.strip())
    return SlurmTarget(found[1] or "") if found else None
