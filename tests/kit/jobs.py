"""How an engine carries out a job, run for real: its output, times, rounds and limits.

It is of the contract too. Engines without images do all this by the same code, however
they start a command, so that one of them shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from msgspec.structs import replace

from runner.core import Reason, Step
from runner.core.events import CommandStarted, RoundEnded
from tests.kit.contract import LONG, MB
from tests.kit.running import Subject, run, shell


@pytest.fixture
def impatient(subject: Subject) -> tuple[Subject, float]:
    """The engine, with a short time-out for its own calls, and more seconds than that.

    Where it has none, some are enough.
    """
    return subject, 1.5


def test_a_silent_command_ticks_each_second_and_loses_nothing_of_what_it_says_then(
    impatient: tuple[Subject, float],
):
    subject, silent_s = impatient
    result = run(subject, [f"echo first; sleep {silent_s}; echo then; exit 3"])
    assert (result.codes, result.stdout) == ([3], b"first\nthen\n")
    elapsed_s = [tick.elapsed_s for tick in result.ticks]
    assert all(later - before > 0.9 for before, later in pairwise([0, *elapsed_s]))
    kinds = [type(event).__name__ for event in result.events]
    between = kinds[kinds.index("Output") + 1 :]
    assert "Tick" in between[: between.index("Output")]


def test_lines_and_one_line_of_megabytes_arrive_whole_and_in_order(subject: Subject):
    long = "head -c 4000000 /dev/zero | tr '\\0' x"
    numbers, line = run(subject, ["seq 600000", long]).said
    assert numbers == b"".join(b"%d\n" % n for n in range(1, 600_001))
    assert line == b"x" * 4 * MB


def test_wall_and_processor_time_are_those_of_the_command(subject: Subject):
    busy = "n=0; while [ $n -lt 60000 ]; do n=$((n+1)); done"
    idle, working = run(subject, ["sleep 0.5", busy]).finished
    assert idle.wall_s >= 0.5
    assert idle.cpu_s is not None
    assert idle.cpu_s < 0.3
    assert working.cpu_s is not None
    assert 0.03 < working.cpu_s <= working.wall_s * 2 + 0.5


def test_the_first_failure_skips_the_rest_unless_the_command_may_fail(
    subject: Subject,
):
    may_fail = shell("exit 5", continue_on_error=True)
    result = run(subject, [may_fail, "echo a", "exit 5", "echo b"])
    assert (result.codes, result.stdout) == ([5, 0, 5], b"a\n")
    assert [s.index for s in result.skipped] == [3]
    assert "command 3 failed" in result.skipped[0].why


def rounds(*scripts: str) -> Callable[[], tuple[Step, ...]]:
    """Return a function that has one more round of each of these scripts, in turn."""
    numbers = enumerate(scripts, 1)

    def more() -> tuple[Step, ...]:
        number, script = next(numbers, (0, ""))
        step = replace(shell(script), index=number, repeats=0, round=number)
        return (step,) if script else ()

    return more


def test_further_rounds_run_where_the_first_one_did_until_one_fails(subject: Subject):
    again = "echo again >> $RAI_BUILD_DIR/kept; wc -l < $RAI_BUILD_DIR/kept"
    more = rounds(again, again, "exit 3", "echo no")
    result = run(subject, ["echo x > kept"], more=more)
    assert result.codes == [0, 0, 0, 3]
    assert [f.index for f in result.finished] == [0, 1, 2, 3]
    assert (result.stdout.split(), result.skipped) == ([b"2", b"3"], [])
    assert result.content("build/kept") == b"x\nagain\nagain\n"
    told = [
        event.round
        for event in result.events
        if isinstance(event, (RoundEnded, CommandStarted))
    ]
    assert told[:6] == [0, 0, 1, 1, 2, 2]
    kinds = [type(event) for event in result.events]
    assert kinds[kinds.index(RoundEnded) + 1] is CommandStarted


def test_the_output_of_all_rounds_together_has_the_limit(subject: Subject):
    script = "head -c 600000 /dev/zero"
    more = rounds(script, script, script)
    result = run(subject, [script], output_bytes=MB, more=more)
    assert [f.reason for f in result.finished] == [None, Reason.OUTPUT_LIMIT]
    assert len(result.stdout) == MB


def test_each_round_has_the_time_of_the_job(subject: Subject):
    # Together three take longer than the limit, each by far not.
    more = rounds("sleep 0.6", "sleep 0.6", "sleep 60")
    result = run(subject, ["sleep 0.6"], time_s=1.6, more=more)
    reasons = [f.reason for f in result.finished]
    assert reasons == [None, None, None, Reason.TIME_LIMIT]


def test_a_run_that_is_cancelled_between_rounds_starts_no_other(subject: Subject):
    result = run(
        subject, ["echo go"], more=rounds("sleep 0.3; echo go on"), cancel_at=b"go"
    )
    assert len(result.finished) == 1
    assert "build" in result.members


def test_the_time_of_the_job_is_that_of_all_its_commands(subject: Subject):
    result = run(subject, ["sleep 0.3", LONG, "echo never"], time_s=1.2)
    assert [f.reason for f in result.finished] == [None, Reason.TIME_LIMIT]


def test_a_command_that_ignores_the_request_to_end_is_killed(subject: Subject):
    script = "trap '' TERM; while :; do sleep 0.1; done"
    result = run(subject, [shell(script, timeout_s=0.3)], stop_grace_s=0.3)
    assert result.finished[0].reason is Reason.TIME_LIMIT


def test_output_without_end_is_ended_at_the_limit(subject: Subject):
    result = run(subject, ["yes", "echo never"], output_bytes=MB)
    assert [f.reason for f in result.finished] == [Reason.OUTPUT_LIMIT]
    assert len(result.stdout) == MB
    assert len(result.skipped) == 1


def test_a_command_that_ends_before_it_is_stopped_still_met_its_limit(subject: Subject):
    result = run(subject, ["echo hi"], output_bytes=1)
    assert result.stdout == b"h"
    assert [f.reason for f in result.finished] == [Reason.OUTPUT_LIMIT]
