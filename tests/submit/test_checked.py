"""Milestone 2 for real: a team's host code plays in a sandbox, and the judge checks."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from runner.core import Reason
from runner.core.errors import Cancel
from runner.engines import make
from runner.execution.prepare import Options
from runner.spec import milestones
from runner.submit import handouts, judging, submission
from runner.submit.outcome import SubmissionOutcome
from tests.kit import sample_submission as sample
from tests.kit.handouts import fill_in

pytestmark = [
    pytest.mark.usefixtures("few_images"),
    pytest.mark.local,
    pytest.mark.programs,
    pytest.mark.lengthy,
    pytest.mark.cpp,
]

CPP = Path(__file__).resolve().parents[2] / "project" / "cpp"
PLAY = """\
#include "convolution.h"
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
__attribute__((constructor)) void play() { BODY; _exit(0); }
void rai_convolve(float *, const float *, const float *, int, int, int, int, int, int,
                  int) {}
"""


def judge(tmp_path: Path, source: str) -> SubmissionOutcome:
    """Judge milestone 2 with a team's file, in the local engine's sandbox."""
    project = tmp_path / "team"
    folder = project / "project" / "cpp"
    folder.mkdir(parents=True)
    (project / "report.pdf").write_bytes(sample.report())
    shutil.copyfile(CPP / "convolution.h", folder / "convolution.h")
    (folder / "convolution.cpp").write_text(source)
    options = Options(home=tmp_path / "home")
    proposal = submission.propose("m2", project, options, make("local"))
    *_, last = judging.judge(proposal, Cancel())
    return last.outcome


def test_a_solved_handout_is_correct(tmp_path):
    handouts.write(tmp_path / "mine", milestones.find("m2"))
    fill_in(tmp_path / "mine")
    found = judge(tmp_path, (tmp_path / "mine/convolution.cpp").read_text())

    assert found.reason is Reason.DONE, found.message
    assert list(found.runs) == ["inputs", "compile", "play", "check"]
    assert found.measurement
    assert found.measurement.gpu is None


@pytest.mark.parametrize(
    ("body", "reason", "says"),
    [
        ('mkfifo("/build/0.y", 0666)', Reason.WRONG_ANSWER, "it was not written"),
        pytest.param(
            'ftruncate(open("/build/0.y", O_CREAT | O_WRONLY, 0666), 1ll << 40)',
            Reason.WRONG_ANSWER,
            "expected 836,352",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            'std::fputs("{}", std::fopen("/build/measurement.json", "w"))',
            Reason.WRONG_ANSWER,
            "it was not written",
            marks=pytest.mark.slow,
        ),
        (
            'std::puts("Correctness: 1"); for (;;) std::printf("%999d\\n", 1)',
            Reason.OUTPUT_LIMIT,
            "1MiB",
        ),
        pytest.param(
            "*(volatile int *)8 = 1",
            Reason.COMMAND_FAILED,
            "play: rai_convolve failed for ",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["a FIFO", "a terabyte", "a measurement", "endless output", "a crash"],
)
def test_what_it_leaves_in_place_of_y_counts_for_nothing(tmp_path, body, reason, says):
    found = judge(tmp_path, PLAY.replace("BODY", body))

    assert found.reason is reason
    assert says in found.message
