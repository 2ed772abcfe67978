"""The course's printed lines become inferences; nothing else does."""

import pytest

from runner.core import Findings, Inference
from tests.kit.sourceless import find

RUN_2019 = """\
Loading fashion-mnist data... done
Loading model... done
New Inference
Op Time: 0.021169
Op Time: 0.068800
Correctness: 0.7653 Model: ece408
"""
RUN_2017 = """\
New Inference
Loading fashion-mnist data... done
Loading model... done
Op Time: 12.146829
Correctness: 0.8562 Model: ece408-high
"""
ONE_OF_2019 = Inference((0.021169, 0.0688), 0.7653, "ece408")
ONE_OF_2017 = Inference((12.146829,), 0.8562, "ece408-high")


def inferences(text: str) -> tuple[Inference, ...]:
    return find(text).inferences


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("Op Time: 0.021169", Inference((0.021169,))),
        ("Op Time: 0.000000", Inference((0.0,))),
        ("Op Time: 3", Inference((3.0,))),
        ("Op Time: 1.5e-05", Inference((1.5e-05,))),
        ("Op Time: 79464.3 ms", Inference((79.4643,))),
        ("Op Time: 12.5ms", Inference((0.0125,))),
        ("Op Time: 1.6e+06 ms", Inference((1600.0,))),
        ("   Op Time: 0.5   ", Inference((0.5,))),
        ("C= 1Op Time: 0.5", Inference((0.5,))),  # a project prints no newline
        ("Op Time: 0.5Op Time: 0.6", Inference((0.5, 0.6))),
        ("Layer 1 OpTime: 4.882009 ms", Inference((0.004882009,))),
        ("Layer Time: 90405.3 ms", Inference(layer_times_s=(90.4053,))),
        ("Correctness: 0.8562", Inference(correctness=0.8562)),
        ("Correctness: 1.0 Model: baseline", Inference((), 1.0, "baseline")),
        ("Correctness: 0 Model: mine", Inference((), 0.0, "mine")),
        (
            "Correctness: 0.629 Batch Size: 10000 Model: ece408-low",
            Inference((), 0.629, "ece408-low"),
        ),
        ("EvalMetric: {'accuracy': 0.8154}", Inference(accuracy=0.8154)),
        (
            "EvalMetric: {'accuracy': np.float64(0.8154)}",
            Inference(accuracy=0.8154),
        ),
        ("Test Accuracy: 0.8714", Inference(accuracy=0.8714)),
        (
            "Agreement: 0.9987 Model: ece408 (synthetic)",
            Inference(model="ece408", agreement=0.9987),
        ),
    ],
)
def test_each_printed_form_is_read(line, found):
    assert inferences(line) == (found,)
    assert inferences(f"before\n{line}\nafter\n") == (found,)


@pytest.mark.parametrize(
    "line",
    [
        "Op Time: nan",
        "Op Time: inf",
        "Op Time: -0.5",
        "Op Time: 0.5 or so",
        "Op Time: [ some time ]",
        "Op Time:",
        "Op Times: 11 s",
        "the 'Op Time: 3",
        "(Op Time: 3",
        "op time: 3",
        "Layer Time: 90405.3 ms or so",
        "Op Time: 0.5 Op Time: about 0.6",
        "echo Op Time: 0.5 Op Time: 0.6",
        "Op Time: Layer Time: 0.5 ms",
        "Layer 1 LayerTime: 63.512461 ms",
        "OP 1: 11.170585",
        "+ echo Op Time: 0.5",
        "    # Op Time: 0.5",
        "- echo 'Op Time: 0.5'",
        '✱ Running /bin/bash -c "echo Op Time: 0.5"',
        "==305== NVPROF is profiling process 305, command: echo Op Time: 0.5",
        "Op Time: **0.5**",
        "Op Time: 0x10",
        "Op Time: ٣",
        "Correctness: 1.2 Model: ece408",
        "Correctness: %s Model: %s",
        "Correctness: 0.9 Model: ece408 (synthetic)",
        "Agreement: 0.9 Model: ece408",
        "EvalMetric: {'accuracy': nan}",
        "EvalMetric: {'loss': 0.8}",
        "Test Accuracy: 87.14",
        "Train Accuracy: 0.5",
    ],
)
def test_what_only_resembles_a_figure_is_none(line):
    assert find(line) == Findings()
    assert find(f"before\n{line}\nafter\n") == Findings()


@pytest.mark.parametrize(
    ("text", "found"),
    [(RUN_2019, ONE_OF_2019), (RUN_2017, ONE_OF_2017)],
)
def test_new_inference_may_stand_before_or_after_the_loading_lines(text, found):
    assert inferences(text) == (found,)
    assert inferences(text * 3) == (found,) * 3


@pytest.mark.parametrize(
    "text",
    [
        "Op Time: 0.021169 Op Time: 0.068800 Correctness: 0.7653 Model: ece408",
        "New Inference Op Time: 0.021169\tOp Time: 0.068800\n"
        "Correctness: 0.7653 Model: ece408",
        "New Inference Op Time: 0.021169 Op Time: 0.068800\n\n"
        "Correctness: 0.7653 Batch Size: 10000 Model: ece408",
        "Op Time: 21.169 ms Op Time: 68.8 ms Correctness: 0.7653 Model: ece408",
    ],
)
def test_several_figures_on_one_line_are_all_read(text):
    assert inferences(text) == (ONE_OF_2019,)


def test_a_line_may_hold_several_inferences():
    line = "New Inference Op Time: 0.021169 Op Time: 0.068800 "
    end = "Correctness: 0.7653 Model: ece408 "

    assert inferences((line + end) * 2) == (ONE_OF_2019,) * 2


@pytest.mark.parametrize("gap", ["\n", " "])
def test_layer_times_stand_beside_op_times(gap):
    lines = ["Conv-GPU==", "Layer Time: 90405.3 ms", "Op Time: 89759.2 ms"]
    lines += ["Conv-GPU==", "Layer Time: 1700.62 ms", "Op Time: 1283.42 ms"]
    lines += ["", "Test Accuracy: 0.8714"]

    assert inferences(gap.join(lines)) == (
        Inference(
            (89.7592, 1.28342), accuracy=0.8714, layer_times_s=(90.4053, 1.70062)
        ),
    )


def test_a_long_gap_within_a_line_is_no_matter():
    assert find(" " * 900 + "Op Time: 0.5" + " " * 30_000 + "x") == Findings()


def test_a_program_that_died_leaves_its_op_times_without_a_correctness():
    died = "New Inference\nOp Time: 1.500000\nSegmentation fault\n"

    assert inferences(died) == (Inference((1.5,)),)
    assert inferences(died + RUN_2019) == (Inference((1.5,)), ONE_OF_2019)
    assert inferences(died + "✱ Running x\nOp Time: 2.000000\n") == (
        Inference((1.5,)),
        Inference((2.0,)),
    )


def test_a_start_alone_is_no_inference():
    assert inferences("Loading model... done\nNew Inference\nKilled\n") == ()


def test_an_agreement_on_made_up_images_is_never_an_accuracy():
    text = (
        "Loading synthetic data... done\nLoading model... done\nNew Inference\n"
        "Op Time: 0.100000\n"
    )
    (agreed,) = inferences(text + "Agreement: 1.0 Model: ece408 (synthetic)\n")
    (claimed,) = inferences(text + "Correctness: 0.9 Model: ece408\n")
    (measured,) = inferences(text + "EvalMetric: {'accuracy': 0.9}\n")

    assert agreed == Inference((0.1,), model="ece408", agreement=1.0)
    assert agreed.synthetic
    assert claimed == Inference((0.1,), model="ece408")
    assert measured == Inference((0.1,))


def test_the_next_runs_real_images_count_again_after_made_up_ones():
    text = "Loading synthetic data... done\nAgreement: 1.0 Model: x (synthetic)\n"

    assert inferences(text + RUN_2019)[1] == ONE_OF_2019


def test_mini_dnns_table_of_timings_belongs_to_the_accuracy_above_it():
    text = (
        "Test batch size: 1000\nConv-GPU==\nConv-GPU==\n\nTest Accuracy: 0.886\n"
        "-----------\n-  TIMINGS\n-----------\nLayer 1 GPUTime: 4.862905 ms\n"
        "Layer 1 OpTime: 4.882009 ms\nLayer 1 LayerTime: 63.512461 ms\n"
        "Layer 2 OpTime: 16.544541 ms\n"
    )

    assert inferences(text) == (
        Inference(
            (0.004882009, 0.016544541), accuracy=0.886, layer_times_s=(0.063512461,)
        ),
    )


def test_a_second_table_of_timings_belongs_to_another_run():
    table = "Layer 1 OpTime: 16 ms\nLayer 2 OpTime: 52 ms\n"
    other = "Layer 1 OpTime: 1.6 ms\nLayer 2 OpTime: 5.2 ms\n"
    text = f"Test Accuracy: 0.8714\n{table}### 1000\n{other}Test Accuracy: 0.886\n"

    assert inferences(text) == (
        Inference((0.016, 0.052), accuracy=0.8714),
        Inference((0.0016, 0.0052)),
        Inference(accuracy=0.886),
    )
    assert inferences(table + other) == (
        Inference((0.016, 0.052)),
        Inference((0.0016, 0.0052)),
    )


def test_op_times_that_a_report_lists_once_more_are_no_other_inference():
    listed = "Op Time: 0.021169\nOp Time: 0.068800\n"

    assert inferences(f"{RUN_2019}### Op times\n{listed}") == (ONE_OF_2019,)


def test_the_same_op_times_of_a_run_that_then_died_are_another_inference():
    died = RUN_2019.partition("Correctness")[0]

    assert len(inferences(RUN_2019 + died)) == 2


def test_a_report_that_quotes_a_whole_inference_in_bold_counts_once():
    whole = "Op Time: **0.448302**\n\nCorrectness: **0.8562** Model: **ece408-high**\n"

    assert inferences(whole) == (Inference((0.448302,), 0.8562, "ece408-high"),)


def test_a_report_that_repeats_parts_of_its_output_in_bold_adds_nothing():
    prose = "Op Time: **12.146829**\n\nCorrectness: **0.8562** with the Model: **x**\n"

    assert inferences(prose + "```\n" + RUN_2017 + "```\n") == (ONE_OF_2017,)


def test_a_flood_of_inferences_keeps_the_first_ones_and_the_last():
    text = "".join(f"Correctness: 0.5 Model: m{n}\n" for n in range(5000))
    found = inferences(text)

    assert len(found) == 1000
    assert [found[0].model, found[998].model, found[-1].model] == [
        "m0",
        "m998",
        "m4999",
    ]
