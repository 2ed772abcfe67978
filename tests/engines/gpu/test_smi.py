"""What nvidia-smi prints, as of real machines' forms."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runner.engines.gpu import installed
from tests.kit import gpu_machines as machines


def test_the_query_asks_for_what_is_read():
    (asked,) = (word for word in installed.QUERY if word.startswith("--query-gpu="))
    assert tuple(asked.removeprefix("--query-gpu=").split(",")) == installed.FIELDS


def test_what_a_card_does_not_tell_is_left_out():
    row = machines.RTX.row("570.124.06").replace("76.40", "[N/A]")
    (state,) = installed.parse(row.replace(" 33,", " [Not Supported],")).states
    assert (state.power_w, state.temperature_c, state.problem) == (None, None, "")


def test_a_lost_gpu_has_a_problem():
    row = machines.H200.row("580.159.04").replace(" 33,", " [GPU is lost],")
    (state,) = installed.parse(row).states
    assert state.problem == "it does not answer: GPU is lost"


def test_a_gpu_in_mig_mode_is_never_given_whole():
    answer = installed.parse(machines.A100.row("550.90.07"))
    assert answer.gpus == ()
    assert answer.sliced == (f"GPU 0 (NVIDIA A100-SXM4-40GB, {machines.A100.uuid})",)


@given(st.text())
def test_no_text_makes_a_gpu_of_nothing(text):
    assert installed.parse(text, processes=True).gpus == ()
