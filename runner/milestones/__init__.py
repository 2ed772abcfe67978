"""Milestones by name, from files of this folder and of a site's own.

    find("final", folders)      # Milestone; UsageError for an unknown name

A site's file wins over ours of the same name.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from runner.core.milestone import Milestone

OURS = Path(__file__).parent


def find(name: str, folders: Sequence[Path] = ()) -> Milestone:
    """Return a milestone by its name, in any case; a folder's files win over ours.

    Raises:
        UsageError: there is none; the message lists those that there are.
        ConfigError: its file is wrong; carries every problem.
    """
    raise NotImplementedError


def names(folders: Sequence[Path] = ()) -> dict[str, Path]:
    """Return the names of all milestones with their files, in order of name."""
    raise NotImplementedError
