"""Submissions: from a milestone and a project to runs and an outcome.

    proposal = submission.propose("final", Path("project"), Options())
    for event in submission.judge(proposal, Cancel()):
        ...                            # the last is SubmissionEnded, with the outcome

``files`` looks at the project, ``host`` at this machine, ``planning`` makes the judge's
job of plan.json, ``staging`` writes the folder of each run, ``outcome`` says what came
of it, ``standings`` lists those that count. Nothing here prints.
"""

from runner.submission.judging import (
    StageEnded,
    StageStarted,
    SubmissionEnded,
    judge,
)
from runner.submission.outcome import SubmissionOutcome
from runner.submission.proposal import described, propose
