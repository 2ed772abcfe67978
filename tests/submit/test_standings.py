"""One's own accepted submissions, by milestone, class, GPU model and engine."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from runner.core.measurement import Measurement, MeasurementHost, from_json, to_json
from runner.core.milestone import Trust
from runner.submit.standings import RankedVariant, standings
from tests.kit import judge_cases as made

HOST = MeasurementHost("Final", Trust.RANKED, engine="docker")


def measured(
    *ratios: float, engine: str = "docker", gpu: str = "NVIDIA H200", at: float = 1.0
) -> Measurement:
    """Return a submission that counts, with a variant for each ratio."""
    read = made.read(made.ACCEPTED)
    entries = tuple(
        replace(read.entries[0], variant=f"v{ratio}", ratio=ratio) for ratio in ratios
    )
    assert read.gpu
    return replace(
        read,
        entries=entries,
        gpu=replace(read.gpu, name=gpu),
        host=replace(HOST, engine=engine, at=at),
    )


def listed(*found: Measurement, milestone: str | None = None) -> list[RankedVariant]:
    named = [(f"run{n}", "", one) for n, one in enumerate(found)]
    return standings(named, milestone)


def test_the_best_is_first_of_those_that_compare():
    found = listed(
        measured(1.2),
        measured(0.7),
        measured(0.5, engine="local"),
        measured(0.6, gpu="NVIDIA A40"),
    )

    assert [(one.gpu, one.engine, one.ratio, one.run) for one in found] == [
        ("NVIDIA A40", "docker", 0.6, "run3"),
        ("NVIDIA H200", "docker", 0.7, "run1"),
        ("NVIDIA H200", "docker", 1.2, "run0"),
        ("NVIDIA H200", "local", 0.5, "run2"),
    ]


def test_each_variant_of_a_submission_is_an_entry():
    assert [one.variant for one in listed(measured(3.0, 1.0))] == ["v1.0", "v3.0"]


@pytest.mark.parametrize(
    "wrong",
    [
        replace(measured(0.7), host=None),
        replace(measured(0.7), host=replace(HOST, why_not_ranked=("a rehearsal",))),
        replace(
            measured(0.7),
            entries=tuple(
                replace(entry, accepted=False, why=("it was hot",))
                for entry in measured(0.7, 0.8).entries
            ),
        ),
    ],
    ids=["of no submission", "a rehearsal", "not accepted"],
)
def test_what_does_not_count_is_not_listed(wrong):
    assert listed(wrong) == []


def test_only_the_latest_of_results_without_a_time_is_listed():
    def checked(at: float) -> Measurement:
        return replace(measured(0.7), gpu=None, host=replace(HOST, at=at))

    (found,) = listed(checked(1.0), checked(3.0), checked(2.0))
    assert found.run == "run1"


def test_one_milestone_can_be_chosen():
    name = measured(0.7).milestone
    assert len(listed(measured(0.7), milestone=name)) == 1
    assert listed(measured(0.7), milestone="m3") == []


def test_what_is_kept_counts_as_before():
    assert from_json(to_json(measured(0.7))).counts
