"""Op Times over commits: what is drawn, and how a terminal shows it."""

from __future__ import annotations

import re

import pytest

from runner.core import (
    CommandRecord,
    Findings,
    GitState,
    Inference,
    Outcome,
    RunRecord,
    Source,
)
from runner.report.axes import axis
from runner.report.op_times import MOST_SERIES, OpTimePlot, op_time_plot
from runner.terminal.plot import lines
from runner.terminal.text import cells

ODD = "\x1b]0;x\x07\x9b2J\u202e✱ <script>alert(1)</script>\"'&]]>\ud800"


def timed(
    *times: float,
    variant: str = "",
    text: str = "python m3.1.py",
    outcome: Outcome = Outcome.OK,
    under: tuple[str, ...] = (),
) -> CommandRecord:
    source = Source(1, text, variant, 100, under)
    found = tuple(Inference((time_s,), source=source) for time_s in times)
    return CommandRecord(0, text, None, outcome, findings=Findings(found))


def ran(
    at: float, commit: str, *commands: CommandRecord, dirty: bool = False
) -> RunRecord:
    git = GitState(commit * 40, "main", dirty) if commit else None
    name = f"{at:.0f}{commit}"
    return RunRecord(name, "/home/me/conv", "f", at, git=git, commands=commands)


def plotted(*runs: RunRecord, word: str | None = None) -> OpTimePlot:
    plot = op_time_plot(runs, 0.0, word)
    assert plot is not None
    return plot


def test_commits_stand_in_the_order_of_their_first_runs_and_share_their_times():
    plot = plotted(
        ran(4.0, "a", timed(0.5)),
        ran(3.0, "b", timed(0.2)),
        ran(1.0, "a", timed(0.3)),
        ran(2.0, "a", timed(0.1)),
    )
    assert plot.places == ("aaaaaaaa", "bbbbbbbb")
    (one,) = plot.series
    assert one.name == "conv, python m3.1.py, batch 100"
    assert [(p.place, p.times_s, p.median_s) for p in one.points] == [
        (0, (0.3, 0.1, 0.5), 0.3),
        (1, (0.2,), 0.2),
    ]
    assert one.points[0].runs == ("1a", "2a", "4a")


def test_a_run_with_changes_or_without_git_has_a_place_of_its_own():
    plot = plotted(
        ran(1.0, "a", timed(0.5)),
        ran(2.0, "a", timed(0.5), dirty=True),
        ran(3.0, "a", timed(0.5), dirty=True),
        ran(4.0, "", timed(0.5)),
    )
    assert plot.places[:3] == ("aaaaaaaa", "aaaaaaaa+", "aaaaaaaa+")
    assert plot.places[3][:4] in ("Jan ", "Dec ")
    assert plot.notes == ("+: the files differed from the commit",)


def test_each_script_variant_and_batch_is_a_series_named_by_what_differs():
    plot = plotted(
        ran(
            1.0,
            "a",
            timed(0.5, variant="tiled"),
            timed(0.4, variant="tensor"),
            timed(0.6, variant="tensor", under=("nvprof",)),
            timed(0.3, 0.2, variant="twice"),
        )
    )
    assert plot.common == "conv, python m3.1.py, batch 100"
    assert [one.name for one in plot.series] == [
        "tiled",
        "tensor",
        "tensor, under nvprof",
        "twice",
        "twice, (2)",
    ]


def test_a_command_that_failed_or_printed_none_is_not_drawn():
    bad = timed(9.0, outcome=Outcome.WRONG)
    assert op_time_plot([ran(1.0, "a", bad), ran(2.0, "b")], 0.0) is None
    plot = plotted(ran(1.0, "a", bad), ran(2.0, "b", timed(0.5)), ran(3.0, "c"))
    assert plot.places == ("bbbbbbbb",)
    assert plot.notes == ("2 runs have no Op Time of a command that succeeded",)


def test_a_word_chooses_commands():
    one, other = timed(0.5, text="python m2.1.py"), timed(0.4, text="python m3.1.py")
    plot = plotted(ran(1.0, "a", one, other), word="m2")
    assert [series.name for series in plot.series] == [
        "conv, python m2.1.py, batch 100"
    ]


def test_of_many_series_those_with_the_most_points_are_drawn():
    rare = [timed(0.5, variant=f"rare{n}") for n in range(20)]
    runs = [ran(n, "ab"[n], *rare[: 20 * (n == 0)], timed(0.1)) for n in (0, 1)]
    plot = plotted(*runs)
    assert len(plot.series) == MOST_SERIES
    assert "" not in {one.name for one in plot.series}
    assert len(plot.series[-1].points) == 2
    assert plot.notes == ("13 series are left out, as there are more than 8",)


@pytest.mark.parametrize(
    ("times", "logarithmic", "marks"),
    [
        ((0.02, 0.05), False, ["20 ms", "30 ms", "40 ms", "50 ms"]),
        ((0.001, 1.0), True, ["1 ms", "10 ms", "100 ms", "1 s"]),
        ((0.0, 0.0), False, ["0 s"]),
        ((float("nan"), float("inf")), False, ["0.5 s", "1 s", "1.5 s"]),
    ],
)
def test_an_axis_has_room_for_its_times_and_round_marks(times, logarithmic, marks):
    found = axis(times)
    assert found.logarithmic is logarithmic
    shown = found.marks(5)
    assert len(shown) <= 5
    assert all(0.0 <= found.share(at) <= 1.0 for at, _ in shown)
    if max(times) < 2 and min(times) > 0:
        assert [text for _, text in shown] == marks
        assert 0 < found.share(min(times)) < found.share(max(times)) < 1


def many(count: int) -> OpTimePlot:
    return plotted(
        *(
            ran(n, f"{n:x}"[-1], timed(0.1 + n / 100, variant=ODD), dirty=True)
            for n in range(count)
        ),
        ran(count, "f", timed(5.0, text="x" * 5000)),
    )


@pytest.mark.parametrize("width", [24, 40, 80, 120, 300])
@pytest.mark.parametrize("count", [1, 7, 300])
def test_no_line_of_a_plot_is_wider_than_the_terminal(width, count):
    shown = [*lines(many(count), width)]
    assert max(map(cells, shown)) <= width
    assert len(shown) < 32
    text = "".join(shown)
    assert "a" in text and "b" in text
    assert not set(text) & {*"\x07\x1b\x9b\u202e✱\ud800"}


def test_the_higher_of_two_times_is_drawn_above_the_lower():
    shown = [*lines(plotted(ran(1.0, "a", timed(0.1)), ran(2.0, "b", timed(0.2))), 60)]
    rows = [n for n, line in enumerate(shown) if re.search(r"[┤│].*a", line)]
    first, last = shown[rows[0]], shown[rows[-1]]
    assert len(rows) == 2
    assert first.rindex("a") > last.rindex("a")
    assert "aaaaaaaa" in "".join(shown) and "bbbbbbbb" in "".join(shown)
