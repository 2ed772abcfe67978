"""Which runs are removed: the policy alone, without a file or a clock."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runner.core.quantities import DAY_S
from runner.store.prune import KeptRun, Retention, expired, for_space

NOW = 100 * DAY_S


def entry(
    name: str,
    age_s: float = 0.0,
    size: int = 1,
    project: str = "/p",
    tag: str = "",
) -> KeptRun:
    at = NOW - age_s
    return KeptRun(name, project, at, at, tag, size)


RUNS = st.lists(
    st.tuples(
        st.floats(-DAY_S, 60 * DAY_S),
        st.integers(0, 100),
        st.sampled_from(["/a", "/b", "/c"]),
        st.sampled_from(["", "", "kept"]),
    ),
    max_size=20,
).map(lambda drawn: [entry(f"{n}", *facts) for n, facts in enumerate(drawn)])
KEEP = st.builds(
    Retention,
    st.just(float("inf")) | st.floats(0, 50 * DAY_S),
    st.just(float("inf")) | st.integers(0, 500),
)


def total(runs: list[KeptRun]) -> int:
    return sum(run.size_bytes or 0 for run in runs)


def age(run: KeptRun) -> float:
    return NOW - (run.ended_at)


def latest(runs: list[KeptRun]) -> set[str]:
    by_age = sorted(runs, key=lambda run: (run.ended_at, run.id))
    return set({run.project: run.id for run in by_age}.values())


@given(RUNS, KEEP, st.booleans())
def test_tagged_runs_stay_and_no_run_is_removed_twice(runs, keep, spare):
    gone = expired(runs, keep, NOW, spare_latest=spare)
    assert not any(run.tag for run in gone)
    assert len({run.id for run in gone}) == len(gone)
    assert all(run in runs for run in gone)


@given(RUNS, KEEP)
def test_by_hand_nothing_is_left_that_is_too_old_or_too_much(runs, keep):
    gone = expired(runs, keep, NOW)
    left = [run for run in runs if run not in gone]
    free = [run for run in left if not run.tag]
    assert all(age(run) <= keep.age_s for run in free)
    assert total(left) <= keep.size_bytes or not free


@given(RUNS, KEEP, st.booleans())
def test_a_run_that_is_young_enough_is_removed_only_to_make_the_rest_fit(
    runs, keep, spare
):
    gone = expired(runs, keep, NOW, spare_latest=spare)
    if gone and age(gone[-1]) <= keep.age_s:
        assert total([run for run in runs if run not in gone[:-1]]) > keep.size_bytes


@given(RUNS, KEEP)
def test_the_policy_spares_the_latest_of_each_project_while_they_fit(runs, keep):
    gone = expired(runs, keep, NOW, spare_latest=True)
    if spared := [run for run in gone if run.id in latest(runs)]:
        left = [r for r in runs if r not in gone or r in spared]
        assert all(
            run.tag or run in spared for run in left if run.id not in latest(runs)
        )
        assert total(left) > keep.size_bytes


@given(RUNS, st.floats(0, 50 * DAY_S))
def test_a_longer_time_keeps_all_that_a_shorter_one_does(runs, age_s):
    longer = expired(runs, Retention(age_s + DAY_S), NOW)
    assert {r.id for r in longer} <= {
        r.id for r in expired(runs, Retention(age_s), NOW)
    }


@given(RUNS)
def test_without_bounds_nothing_is_removed(runs):
    assert Retention().endless
    assert expired(runs, Retention(), NOW) == []


@given(RUNS, st.integers(0, 1000))
def test_for_space_the_oldest_go_but_none_of_today_and_no_latest_and_no_tagged(
    runs, wanted
):
    gone = for_space(runs, wanted, NOW)
    assert all(age(r) > DAY_S and not r.tag and r.id not in latest(runs) for r in gone)
    assert total(gone[:-1]) < wanted or not gone
    may_go = [
        r for r in runs if age(r) > DAY_S and not r.tag and r.id not in latest(runs)
    ]
    assert total(gone) >= min(wanted, total(may_go))
    kept = [run for run in may_go if run not in gone]
    assert all(age(old) >= age(new) for old in gone for new in kept)


def test_the_oldest_go_first_until_the_rest_fits():
    runs = [entry("new", 1, 10), entry("old", 9, 10), entry("mid", 5, 10)]
    gone = expired(runs, Retention(size_bytes=10), NOW)
    assert [run.id for run in gone] == ["old", "mid"]
