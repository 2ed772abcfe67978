"""A submission, from a project's folder to its outcome, on an engine with a script."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from runner.core import Gpu, GpuSituation, GpuWay, Reason, WayTried
from runner.core.errors import Cancel, RaiError
from runner.core.measurement import Measurement, read
from runner.core.milestone import Trust
from runner.execution.prepare import Options
from runner.spec import milestones
from runner.store import runs
from runner.store.paths import Home
from runner.submit import host, judging, outcome, submission
from runner.submit.outcome import SubmissionOutcome
from tests.kit import judge_cases as made
from tests.kit import sample_submission as sample
from tests.kit.fake_engine import FakeEngine, FakeResult
from tests.kit.judge_cases import ACCEPTED, refused
from tests.kit.program import rai

COMPILE = "python3 -m runner.judge.compiling"
MEASURE = "python3 -m runner.judge.measuring"
GPU = Gpu("GPU-1", "NVIDIA H200", 0, compute="9.0")
ONE_GPU = GpuSituation((WayTried(GpuWay.NODES),), (GPU,), "580.159.04")
WRONG_NUMBER = {
    "call": 4,
    "layer": "conv2",
    "image": 7,
    "map": 3,
    "row": 2,
    "column": 1,
    "found": "nan",
    "expected": 0.5,
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return sample.write(tmp_path / "team")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def engine(*entries: dict[str, object], **more: object) -> FakeEngine:
    """Return an engine whose runs leave a cubin and a measurement of these entries."""
    build = {"0.cubin": b"\x7fELF", "compiled.json": b'{"units": []}'}
    if entries:
        build["measurement.json"] = json.dumps(made.measurement(*entries)).encode()
    return FakeEngine(build=build, situation=ONE_GPU, **more)  # type: ignore[arg-type]


def judge(
    project: Path,
    home: Home,
    engine: FakeEngine,
    gpus: str | None = None,
    *,
    rehearse: bool = False,
) -> SubmissionOutcome:
    options = Options(home=home.root, gpus=gpus)
    proposal = submission.propose("final", project, options, engine, rehearse=rehearse)
    *_, last = judging.judge(proposal, Cancel())
    return last.outcome


def test_an_accepted_submission_keeps_its_measurement_beside_the_run(project, home):
    fake = engine(ACCEPTED)

    found = judge(project, home, fake)

    assert found.reason is Reason.DONE and fake.ran == [COMPILE, MEASURE]
    assert list(found.runs) == ["compile", "measure"]
    assert outcome.sentence(found).startswith("Submission to final: accepted: 1.1")
    assert outcome.sentence(found).endswith("; counted: rai ranking final.")
    kept = runs.measurement_of(home.run(found.last))
    assert isinstance(kept, Measurement) and kept.host is not None
    assert kept.host.runs == found.runs and kept.counts
    assert list(kept.host.sources) == [sample.SOURCE]


def test_a_rehearsal_is_judged_alike_and_does_not_count(project, home):
    found = judge(project, home, engine(ACCEPTED), rehearse=True)

    assert found.accepted and found.measurement and not found.measurement.counts
    assert outcome.sentence(found).endswith("; not counted: a rehearsal.")


def test_a_slice_of_a_gpu_does_not_count(project, home):
    fake = engine(ACCEPTED)
    fake.situation = replace(ONE_GPU, gpus=(replace(GPU, parent="GPU-0"),))

    found = judge(project, home, fake, GPU.uuid)

    assert found.measurement and not found.measurement.counts
    assert host.SLICE in outcome.sentence(found)


def test_a_failure_is_told_in_the_judges_last_words(project, home):
    said = b"what the team's program printed\nrai_convolve failed: SIGSEGV\n"
    fake = engine(script={MEASURE: FakeResult(stderr=said, exit_code=2)})

    found = judge(project, home, fake)

    assert found.message == "the judge failed: measure: rai_convolve failed: SIGSEGV"


def test_without_a_report_there_is_one_warning_that_says_how_to_make_one(project, home):
    (project / "report.pdf").unlink()

    options = Options(home=home.root)
    found = submission.propose("final", project, options, engine(ACCEPTED))

    (warning,) = found.warnings
    assert "report.pdf is missing" in str(warning)
    assert "`rai report latest --open`" in str(warning)


def test_the_runs_are_recorded_as_the_projects_and_nothing_staged_stays(project, home):
    found = judge(project, home, engine(ACCEPTED))

    for name, run in found.runs.items():
        record = runs.read(home.run(run))
        assert record.project == str(project) and record.title == f"final: {name}"
        assert record.git is None and record.limits is not None
        assert record.hidden == (name == "compile")
    assert not list(home.submissions.iterdir())


@pytest.mark.programs
@pytest.mark.parametrize(
    ("script", "listed"),
    [({}, "measure"), ({COMPILE: FakeResult(exit_code=1)}, "compile")],
    ids=["to its end", "as far as it came"],
)
def test_a_submission_is_one_line_of_the_history(project, home, script, listed):
    judge(project, home, engine(ACCEPTED, script=script))

    done = rai("history", env={**os.environ, "RAI_HOME": str(home.root)})

    (line,) = done.stdout.splitlines()[1:]
    assert f"(final: {listed})" in line


def test_only_the_measure_run_gets_a_gpu(project, home):
    found = judge(project, home, engine(ACCEPTED))

    given = [runs.read(home.run(run)) for run in found.runs.values()]
    assert [record.gpu is not None for record in given if record] == [False, True]


@pytest.mark.parametrize(
    ("entry", "reason", "said"),
    [
        (
            refused("wrong result", correct=False, wrong=WRONG_NUMBER),
            Reason.WRONG_ANSWER,
            "not accepted: wrong result",
        ),
        (
            refused("the kernels failed", correct=False, fault="an illegal address"),
            Reason.GPU_FAULT,
            "not accepted: the kernels failed",
        ),
        (
            refused("3 kinds of inputs were not checked", correct=False),
            Reason.TIME_LIMIT,
            "not accepted: 3 kinds of inputs were not checked",
        ),
        (
            refused("1 other program used the GPU"),
            Reason.BUSY,
            "not accepted: 1 other program used the GPU",
        ),
    ],
)
def test_what_is_refused_has_the_reason_of_its_cause(
    project, home, entry, reason, said
):
    found = judge(project, home, engine(entry))

    assert found.reason is reason and said in outcome.sentence(found)
    assert runs.measurement_of(home.run(found.last)) == found.measurement
    assert found.record and found.record.verdict
    assert found.record.verdict.reason is Reason.DONE, "the judge itself did not fail"


@pytest.mark.parametrize(
    ("others", "reason"), [(0, Reason.TIME_LIMIT), (1, Reason.BUSY)]
)
def test_kernels_too_slow_to_be_checked_are_the_teams_unless_others_ran(others, reason):
    slow = refused("3 kinds of inputs were not checked", correct=False)
    text = json.dumps(made.measurement(slow) | {"others": others})

    found, _ = outcome.judged(read(text.encode()), Trust.RANKED)

    assert found is reason


def test_a_measurement_of_a_judge_that_failed_counts_nothing(project, home):
    fake = engine(ACCEPTED, script={MEASURE: FakeResult(exit_code=1)})

    found = judge(project, home, fake)

    assert found.reason is Reason.INTERNAL and found.measurement is None


@pytest.mark.parametrize(
    ("script", "reason", "said"),
    [
        ({COMPILE: FakeResult(exit_code=1)}, Reason.COMMAND_FAILED, "compile: "),
        (
            {COMPILE: FakeResult(exit_code=137, reason=Reason.TIME_LIMIT)},
            Reason.TIME_LIMIT,
            "compile: ",
        ),
        ({COMPILE: FakeResult(cancels=True)}, Reason.CANCELLED, "cancelled"),
        ({MEASURE: FakeResult(exit_code=2)}, Reason.INTERNAL, "the judge failed"),
        ({}, Reason.INTERNAL, "the judge failed: measure left no measurement.json"),
        (
            {MEASURE: FakeResult(exit_code=137, reason=Reason.MEMORY_LIMIT)},
            Reason.MEMORY_LIMIT,
            "measure: ",
        ),
    ],
)
def test_without_a_measurement_the_run_that_ended_it_tells_why(
    project, home, script, reason, said
):
    found = judge(project, home, engine(script=script))

    assert found.reason is reason and said in outcome.sentence(found)
    assert (
        found.measurement is None and runs.measurement_of(home.run(found.last)) is None
    )
    if COMPILE in script:
        assert list(found.runs) == ["compile"]


@pytest.mark.parametrize(
    "left", [b"{}", b"[" * 10**5, b" " * (5 << 20), b'{"version": 1, "host": {}}']
)
def test_what_is_no_measurement_is_a_failure_of_the_judge(project, home, left):
    fake = engine()
    fake.build = {**fake.build, "measurement.json": left}

    found = judge(project, home, fake)

    assert found.reason is Reason.INTERNAL
    assert not home.run(found.last).measurement.exists()


def test_a_ranked_submission_that_names_no_gpu_is_a_failure_of_the_judge(project, home):
    fake = engine()
    fake.build = {**fake.build, "measurement.json": json.dumps(made.checked()).encode()}

    found = judge(project, home, fake)

    assert found.reason is Reason.INTERNAL
    assert "on no GPU" in found.message


def test_every_problem_of_files_and_machine_is_said_at_once(project, home):
    (project / sample.SOURCE).write_text("// changed\n")

    with pytest.raises(RaiError) as caught:
        submission.propose("final", project, Options(home=home.root), FakeEngine())

    assert caught.value.reason is Reason.USAGE
    text = str(caught.value)
    assert sample.SOURCE in text and "final is measured on a GPU" in text
    assert not home.root.exists()


def test_without_a_gpu_a_whole_project_has_that_one_problem(project, home):
    with pytest.raises(RaiError) as caught:
        submission.propose("m3", project, Options(home=home.root), FakeEngine())

    assert caught.value.reason is Reason.NO_GPU
    assert len(caught.value.problems) == 1


def test_a_judge_that_needs_a_gpu_is_not_left_out_where_there_is_none():
    milestone = replace(milestones.find("m3"), trust=Trust.CHECKED)

    with pytest.raises(RaiError) as caught:
        host.find(milestone, engine=FakeEngine())

    assert caught.value.reason is Reason.NO_GPU


def test_an_engine_that_confines_nothing_is_refused(project, home):
    with pytest.raises(RaiError) as caught:
        submission.propose("final", project, Options("bare", home=home.root))

    assert caught.value.reason is Reason.NOT_ALLOWED
