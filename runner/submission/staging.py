"""Write the folder of each run of a submission: generated, private, removed after.

with staging.area(settings.home) as area:
    folder = area.stage(milestone.run("compile"), parts)  # for `session.prepare`
    after = area.stage(milestone.run("measure"), parts, {"compile": paths.build})
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from runner.core.judge_job import JudgeJob
from runner.core.milestone import Held, MilestoneRun
from runner.submission.files import SubmittedFile
from runner.submission.golden import GoldenFiles


class StagedParts(Struct, frozen=True):
    """What a run can hold, but earlier builds. The job is None where there is none."""

    golden: GoldenFiles
    team: tuple[SubmittedFile, ...] = ()
    job: JudgeJob | None = None


class StagingArea:
    """The private folder of one submission."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def stage(
        self, run: MilestoneRun, parts: StagedParts, builds: Mapping[str, Path] = {}
    ) -> Path:
        """Write the folder of a run with its rai_build.yml; return it.

        ``builds`` has the build archives (build.tar.zst) of earlier runs, by the run's
        name in the milestone.

        Raises:
            RaiError: an archive is hostile, or what it must have is not in it.
        """
        raise NotImplementedError


@contextmanager
def area(home: Path) -> Iterator[StagingArea]:
    """Make a folder in `home/submissions`, and remove it afterwards.

    What a killed process left there is removed too.
    """
    raise NotImplementedError
    yield StagingArea(home)


def build_text(run: MilestoneRun) -> str:
    """Return the rai_build.yml of a run."""
    raise NotImplementedError


def taken(held: Held, archive: Path, into: Path) -> dict[str, int]:
    """Unpack the files of a build folder that ``held`` names; return their sizes."""
    raise NotImplementedError
