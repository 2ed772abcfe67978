"""Lines that delivery cut in two are one again, and nothing else is joined."""

import pytest

from runner.core import Findings, Inference
from runner.findings import find

RUN = """\
✱ Running /usr/bin/time python m2.1.py
Loading fashion-mnist data... done
Loading model... done
New Inference
Op Time: 11.170585
Op Time: 62.900722
Correctness: 0.7653 Model: ece408
89.86user 10.13system 1:18.52elapsed 127%CPU (0avgtext+0avgdata 6045132maxresident)k
0inputs+2824outputs (0major+2310115minor)pagefaults 0swaps
✱ Running python m1.1.py
Loading fashion-mnist data... done
EvalMetric: {'accuracy': 0.8154}
real 4.95
user 10.01
sys 4.43
✱ Running ./m1 10000
Test batch size: 10000
Op Time: 79464.3 ms
Op Time: 1384.19 ms
Test Accuracy: 0.8714

real\t6m40.644s
user\t6m39.668s
sys\t0m0.968s
Agreement: 0.9987 Model: baseline (synthetic)
"""


def cut(text: str, place: int) -> str:
    """Cut as a relayed log is: both pieces trimmed, each on lines of its own."""
    return f"{text[:place].rstrip()}\n{text[place:].lstrip()}"


def test_a_cut_anywhere_changes_no_figure():
    whole = find(RUN)
    assert [len(whole.inferences), len(whole.time_usage)] == [4, 3]

    changed = [n for n in range(1, len(RUN)) if find(cut(RUN, n)) != whole]

    assert [RUN[n - 10 : n] for n in changed] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Op Time: 0.0\n21169\n", Inference((0.021169,))),
        ("Op Time: 1384.19\nms\n", Inference((1.38419,))),
        ("Op Time: 138\n4.19 ms\n", Inference((1.38419,))),
        ("Op\nTime: 0.021169\n", Inference((0.021169,))),
        ("Op Time:\n0.021169\n", Inference((0.021169,))),
        ("Correctness: 0.7653 Model: ece4\n08\n", Inference((), 0.7653, "ece408")),
        ("Correctness: 0.8562\nModel: mine\n", Inference((), 0.8562, "mine")),
        (
            "Correctness: 0.8562 Model: ece408\n-high\n",
            Inference((), 0.8562, "ece408-high"),
        ),
        ("Test Accuracy: 0.87\n14\n", Inference(accuracy=0.8714)),
    ],
)
def test_halves_of_a_figure_are_one_figure(text, found):
    assert find(text) == Findings(inferences=(found,))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Op Time: 0.021169\n10\n", Inference((0.021169,))),
        ("Op Time: 0.5\n10\n", Inference((0.5,))),
        ("Op Time: 0.5\ndone\n", Inference((0.5,))),
        ("Correctness: 0.7653 Model: ece408\ndone\n", Inference((), 0.7653, "ece408")),
        ("Correctness: 0.8562 Model: mine\n2\n", Inference((), 0.8562, "mine")),
        ("Test Accuracy: 0.8714\n10\n", Inference(accuracy=0.8714)),
    ],
)
def test_a_whole_figure_takes_nothing_from_the_next_line(text, found):
    assert find(text) == Findings(inferences=(found,))


def test_the_percentage_tells_whose_the_digits_before_gnu_times_line_are():
    line = "8.13user 5.48system 0:10.17elapsed {}%CPU (0avgtext+0avgdata 6maxresident)k"

    (mended,) = find("1\n" + line.format(232)).time_usage
    (whole,) = find("1\n" + line.format(133)).time_usage

    assert [mended.user_s, whole.user_s] == [18.13, 8.13]


def test_a_heading_and_a_number_below_it_are_no_op_time():
    assert find("Op Time:\n0.5\n") == Findings()
