"""GNU time's and the shells' lines become times; look-alikes do not."""

import pytest

from runner.core import Findings, TimeUsage
from runner.figures.scanner import find

TAIL = "0inputs+2624outputs (0major+27189minor)pagefaults 0swaps"


@pytest.mark.parametrize(
    ("text", "usage"),
    [
        (
            "5.47user 3.58system 0:05.21elapsed 173%CPU "
            f"(0avgtext+0avgdata 2958336maxresident)k\n{TAIL}\n",
            TimeUsage(5.47, 3.58, 5.21, 173, 2958336),
        ),
        (
            "101.02user 8.16system 1:31.65elapsed 119%CPU\n",
            TimeUsage(101.02, 8.16, 91.65, 119),
        ),
        (
            "4000.00user 10.00system 1:02:03elapsed 107%CPU (0avgtext",
            TimeUsage(4000.0, 10.0, 3723.0, 107),
        ),
        (
            "0.00user 0.00system 0:00.00elapsed ?%CPU "
            "(0avgtext+0avgdata 1532maxresident)k\n",
            TimeUsage(0.0, 0.0, 0.0, None, 1532),
        ),
        ("4.30user 2.48system 4.57elapsed\n", TimeUsage(4.3, 2.48, 4.57)),
        ("4.30user 2.48system 1:02:03.50elapsed\n", TimeUsage(4.3, 2.48, 3723.5)),
        ("real 4.95\nuser 10.01\nsys 4.43\n", TimeUsage(10.01, 4.43, 4.95)),
        (
            "\nreal\t6m40.644s\nuser\t6m39.668s\nsys\t0m0.968s\n",
            TimeUsage(399.668, 0.968, 400.644),
        ),
        (
            "real\t0m 4.95s\nuser\t0m 10.01s\nsys\t0m 4.43s\n",
            TimeUsage(10.01, 4.43, 4.95),
        ),
    ],
)
def test_each_form_of_time_is_read(text, usage):
    assert find(text) == Findings(time_usage=(usage,))
    assert find("before\n" + text + "after") == Findings(time_usage=(usage,))


@pytest.mark.parametrize(
    "text",
    [
        "user: 18.13\nsystem: 5.48\nelapsed: 0:10.17\n",
        "real 4.95\n",
        "real 4.95\nuser 10.01\n",
        "real 4.95\nsomething else\nuser 10.01\nsys 4.43\n",
        "real 4.95\nuser\t0m1.000s\nsys 4.43\n",
        "5.47user 3.58system\n",
        "5.47user 3.58system 1:2.00elapsed\n",
        "5.47user 3.58system 1:02:03:04elapsed\n",
        "5.47 user 3.58 system 0:05.21 elapsed\n",
        "it took 5.47user 3.58system 0:05.21elapsed 173%CPU\n",
        "7user 3.58system 0:05.21elapsed 173%CPU\n",
        "%Uuser %Ssystem %eelapsed\n",
        '✱ Running /usr/bin/time -f "%Uuser %Ssystem %eelapsed" python x.py\n',
        f"{TAIL}\n",
    ],
)
def test_what_only_resembles_a_timing_is_none(text):
    assert find(text) == Findings()
