"""Make the judge's job of a team's plan, or say every problem. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from runner.core import Problem
from runner.core.judge_job import JudgeJob
from runner.core.milestone import Milestone
from runner.core.plan import SubmissionPlan


def job(
    milestone: Milestone,
    architecture: str,
    gpu: str = "",
    plan: SubmissionPlan | None = None,
    digests: Mapping[str, str] | None = None,
) -> tuple[JudgeJob | None, tuple[Problem, ...]]:
    """Return the job of a milestone on a GPU, or every problem and no job.

    ``architecture`` is e.g. `sm_90`, "" without a GPU; ``gpu`` is the GPU's name, for
    the site's reference time. ``plan`` and ``digests`` are those of ``Submitted``.
    """
    raise NotImplementedError
