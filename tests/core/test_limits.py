"""A limit's row in the table is all that build files, policies and messages need."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core import LIMITS, Command, Limits, Profile, Reason, policy, quantities
from runner.core.errors import ConfigError
from runner.core.quantities import SWITCH
from runner.report.phrases import allowed
from runner.spec import buildfile
from tests.kit import policies

rows = pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.key)


@rows
def test_a_limit_is_written_as_it_is_read(limit):
    assert limit.kind.parse(limit.written()) == limit.of(Limits())


@given(st.integers(0, 10**9))
def test_every_whole_time_and_size_is_written_as_it_is_read(value):
    assert quantities.duration_s(quantities.duration_text(value)) == value
    assert quantities.size_bytes(quantities.size_text(value << 10)) == value << 10
    assert quantities.size_bytes(quantities.size_text(value)) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0s"), (0.25, "0.25s"), (90, "1m30s"), (5400, "1h30m"), (5400.1, "1h30m0.1s")],
)
def test_a_time_is_written_in_hours_minutes_and_seconds(value, text):
    assert quantities.duration_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1000, "1000"), (3 << 19, "1536KiB"), (1 << 50, "1024TiB")],
)
def test_a_size_is_written_in_the_greatest_unit_that_fits(value, text):
    assert quantities.size_text(value) == text


@rows
def test_a_build_file_sets_every_limit_and_a_policy_caps_it(limit, tmp_path):
    asked = "on" if limit.kind is SWITCH else limit.kind.write(3 * limit.of(Limits()))
    text = f"rai: {{image: x}}\nresources: {{limits: {{{limit.key}: {asked}}}}}\n"
    spec, problems = buildfile.parse(text + "commands: {build: [make]}\n", "f.yml")
    rules = policies.read(tmp_path, f"limits: {{{limit.key}: {limit.written()}}}\n")

    assert not problems
    assert limit.written(spec.limits) == asked
    (over,) = policy.over(spec.limits, Profile.STRICT, rules)
    assert over.message.startswith(f"resources.limits.{limit.key} is ")
    assert f"{tmp_path}/policy.yml:1:" in over.message


def test_a_wrong_limit_is_answered_with_its_default_and_its_least(tmp_path):
    with pytest.raises(ConfigError) as caught:
        policies.read(tmp_path, "limits: {memory: 1M, pids: 0}\n")
    assert [problem.hint for problem in caught.value.problems] == [
        "expected a size of at least 6MiB, e.g. `memory: 8GiB`",
        "expected a whole number from 8, e.g. `pids: 512`",
    ]


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (Reason.TIME_LIMIT, "exceeded the run's time limit of 1h"),
        (Reason.MEMORY_LIMIT, "exceeded the memory limit of 8GiB"),
        (Reason.PIDS_LIMIT, "exceeded the limit of 512 processes"),
        (Reason.OUTPUT_LIMIT, "wrote more than 256MiB to one stream"),
        (Reason.DISK_LIMIT, "wrote more than 2GiB to the build folder"),
        (Reason.CANCELLED, ""),
    ],
)
def test_a_command_that_met_a_limit_is_told_which_and_how_much(reason, said):
    command = Command("make", timeout_s=90)
    assert allowed(reason, command, Limits(), wall_s=8) == said


def test_a_command_that_met_its_own_timeout_is_told_that_one():
    command = Command("make", timeout_s=90)
    said = allowed(Reason.TIME_LIMIT, command, Limits(), wall_s=90)
    assert said == "exceeded its timeout of 1m30s"
