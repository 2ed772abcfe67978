"""Submissions: from a milestone and a project to runs and an outcome.

    proposal = submission.propose("final", Path("project"), Options())
    for event in submission.rehearse(proposal, Cancel()):
        ...                            # the last is SubmissionEnded, with the outcome

``files`` looks at the project, ``host`` at this machine, ``planning`` makes the judge's
job of plan.json, ``golden`` has the judge's own files, ``staging`` writes the folder of
each run, ``outcome`` says what came of it. Nothing here prints.
"""

from runner.submission.outcome import SubmissionOutcome
from runner.submission.proposal import Proposal, propose
from runner.submission.rehearse import (
    StageEnded,
    StageStarted,
    SubmissionEnded,
    SubmissionEvent,
    rehearse,
)

__all__ = [
    "Proposal",
    "StageEnded",
    "StageStarted",
    "SubmissionEnded",
    "SubmissionEvent",
    "SubmissionOutcome",
    "propose",
    "rehearse",
]
