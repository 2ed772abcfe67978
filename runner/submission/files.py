"""Look at a project's folder: the required files, the team's, and plan.json.

No link out of the folder is followed. Each file is read once: what was checked is what
is sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from runner.core import Problem
from runner.core.milestone import Milestone
from runner.core.plan import SubmissionPlan

PLAN = "plan.json"


class SubmittedFile(Struct, frozen=True):
    """A file of the project, as it was read.

    ``path`` is relative to the project, ``name`` to the folder it is staged in.
    """

    path: str
    name: str
    content: bytes
    sha256: str

    @property
    def size_bytes(self) -> int:
        """The bytes of its content."""
        return len(self.content)


class Submitted(Struct, frozen=True):
    """What a project sends for a milestone, and every problem found.

    ``plan`` is None where the milestone has none, or it is wrong. ``digests`` has the
    SHA-256 of each file that the plan names, by its path; a file that cannot be read is
    absent there, and a problem.
    """

    project: Path
    required: tuple[SubmittedFile, ...]
    team: tuple[SubmittedFile, ...]
    plan: SubmissionPlan | None
    digests: dict[str, str]
    problems: tuple[Problem, ...]

    @property
    def total_bytes(self) -> int:
        """The bytes of the required files and the team's."""
        return sum(file.size_bytes for file in (*self.required, *self.team))


def look(project: Path, milestone: Milestone) -> Submitted:
    """Read what a milestone asks of a project; all problems are in the result.

    Raises:
        UsageError: there is no such folder.
    """
    raise NotImplementedError


def digests(project: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of files of a project, by name; leave out what has none."""
    raise NotImplementedError
