"""What users say about Slurm: the place `slurm[:PARTITION]`, and words for sbatch."""

from __future__ import annotations

import re
import shlex

from msgspec import Struct

PLACE = "slurm"
_TARGET = re.compile(r"(?i:slurm)(?::(\w[\w.-]{0,99}))?", re.ASCII)

OPTIONS = (
    *("account", "comment", "constraint", "cpus-per-task", "exclude", "nice", "qos"),
    "reservation",
)
"""What users and sites may add to sbatch. What else a job needs, the run says."""

_WORD = re.compile(f"--(?:{'|'.join(OPTIONS)})=.{{1,1000}}")
_LONGEST = 4000


class SlurmTarget(Struct, frozen=True):
    """A partition of the cluster whose Slurm this machine has, "" for its default."""

    partition: str = ""

    def __str__(self) -> str:
        return f"{PLACE}:{self.partition}" if self.partition else PLACE


def parse(text: str) -> SlurmTarget | None:
    """Return what a text names; None if it is no place of Slurm."""
    found = _TARGET.fullmatch(text.strip())
    return SlurmTarget(found[1] or "") if found else None


def words(text: str) -> tuple[str, ...] | None:
    """Return words for sbatch, written as for a shell; None if one is not allowed.

    An option's value has to be in its word: sbatch would take a word alone as the name
    of a script.
    """
    try:
        found = tuple(shlex.split(text)) if len(text) <= _LONGEST else ()
    except ValueError:  # a quote without its end
        return None
    fit = all(_WORD.fullmatch(word) and word.isprintable() for word in found)
    return found if found and fit else None
