"""What a player says, and how long the judge waits for it."""

from __future__ import annotations

import math
import os
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from runner.judge import channel, player_process, trial
from runner.judge.bench import Seeds
from runner.judge.figures import Rates, Rules
from runner.judge.player_process import PlayerFaultError
from runner.judge.trial import TrialSetup
from tests.exploits.standin import naive


def test_an_entry_that_the_time_of_a_job_does_not_reach_is_refused_and_not_correct():
    unused: Any = None  # nothing is placed where nothing is called
    setting = TrialSetup(
        source=Path(os.devnull),
        bench=unused,
        rules=Rules(),
        accuracy="fp32",
        site=None,
        rates=Rates(1e12),
        throttled=lambda: False,
        others=lambda: 0,
        celsius=None,
        ends=perf_counter(),
    )
    entry = {"variant": "last", "convolutions": naive()}

    found = trial.measure(setting, entry, Seeds(b"seed"))

    assert not found["accepted"] and not found["correct"]
    assert found["why"][0].startswith("nothing was measured")
    assert found["checked"] == {"calls": 0, "values": 0} and found["ratio"] is None


def test_a_clock_of_a_call_is_one_that_a_gpu_can_have():
    assert player_process.sm_mhz({"sm_mhz": 1980, "more": "ignored"}) == 1980


@pytest.mark.parametrize("value", [math.nan, -1, 1e6, 10**300, True, "1", None])
def test_another_clock_is_a_fault_of_the_kernels(value):
    with pytest.raises(PlayerFaultError):
        player_process.sm_mhz({"sm_mhz": value})


@pytest.mark.parametrize(
    "name", ["accepted", "\ud800", "CUDA_ERROR_\x1b[2J", ["CUDA_ERROR_X"], 7]
)
def test_a_player_puts_no_words_of_its_own_into_an_outcome(name):
    assert player_process.fault_words(name) == "their process sends what is no answer"


def test_a_fault_has_the_words_of_the_judge_or_the_name_of_the_driver():
    assert player_process.fault_words("CUDA_ERROR_ASSERT") == "an assertion"
    assert player_process.fault_words("CUDA_ERROR_ECC_UNCORRECTABLE").startswith(
        "CUDA_ERROR_E"
    )


def test_a_player_that_reads_nothing_does_not_hold_the_judge():
    ours, its = channel.pair()
    with ours, its, pytest.raises(channel.LateError):
        while True:
            channel.send(ours, {"go": True})


def test_a_moment_that_has_passed_is_not_waited_for():
    ours, its = channel.pair()
    with ours, its, pytest.raises(channel.LateError):
        channel.receive(ours, -1.0)
