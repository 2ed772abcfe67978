"""What nvidia-smi prints, as of real machines' forms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.gpu.nvidia import smi
from tests.runner.gpus import machines

OLD = 'Field "mig.mode.current" is not a valid field to query.\n'


def test_the_query_asks_for_what_is_read():
    (asked,) = (word for word in smi.QUERY if word.startswith("--query-gpu="))
    assert tuple(asked.removeprefix("--query-gpu=").split(",")) == smi.FIELDS


def test_a_line_tells_gpu_state_and_driver():
    answer = smi.parse(machines.H200.row("580.159.04"))
    (gpu,), (state,) = answer.gpus, answer.states
    assert (gpu.name, gpu.compute) == ("NVIDIA H200", "9.0")
    assert gpu.memory_bytes == 143771 << 20
    assert state.memory_clock_mhz == 3201
    assert answer.driver == "580.159.04"
    assert state.processes is None


def test_what_a_card_does_not_tell_is_left_out():
    row = machines.RTX.row("570.124.06").replace("76.40", "[N/A]")
    (state,) = smi.parse(row.replace(" 33,", " [Not Supported],")).states
    assert (state.power_w, state.temperature_c, state.problem) == (None, None, "")


def test_a_lost_gpu_has_a_problem():
    row = machines.H200.row("580.159.04").replace(" 33,", " [GPU is lost],")
    (state,) = smi.parse(row).states
    assert state.problem == "it does not answer: GPU is lost"


def test_a_gpu_in_mig_mode_is_never_given_whole():
    answer = smi.parse(machines.A100.row("550.90.07"))
    assert answer.gpus == ()
    assert answer.sliced == (f"GPU 0 (NVIDIA A100-SXM4-40GB, {machines.A100.uuid})",)


@pytest.mark.parametrize(
    "text",
    [
        OLD,
        "Failed to initialize NVML: Driver/library version mismatch\n",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        "No devices were found\n",
    ],
)
def test_where_it_cannot_serve_its_first_words_are_kept(text):
    answer = smi.parse(text)
    assert (answer.gpus, answer.problem) == ((), text.strip())


@given(st.text())
def test_no_text_makes_a_gpu_of_nothing(text):
    assert smi.parse(text, processes=True).gpus == ()
