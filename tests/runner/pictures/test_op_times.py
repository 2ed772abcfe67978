"""Pictures of Op Times over commits."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from runner.report.axes import axis
from runner.report.op_times import OpTimePlot, PlotPoint, PlottedSeries
from tests.runner.pictures.drawn import ODD, Drawn, check_harmless, drawn


def plot(series: dict[str, list[float]], places: tuple[str, ...] = ()) -> OpTimePlot:
    longest = max(map(len, series.values()))
    found = tuple(
        PlottedSeries(
            name, tuple(PlotPoint(n, (t,), (f"run{n}",)) for n, t in enumerate(times))
        )
        for name, times in series.items()
    )
    names = places or tuple(f"commit{n}" for n in range(longest))
    every = [time_s for times in series.values() for time_s in times]
    return OpTimePlot(names, found, axis(every), "conv", ("+: the files differed",))


def heights(picture: Drawn) -> list[tuple[str, float]]:
    """Return each point's title, and how far down it is."""
    found = []
    for part in [*picture.all("g"), *picture.all("use")]:
        titles = [each.text or "" for each in part if each.tag.endswith("title")]
        places = [each for each in part.iter() if each.tag.endswith("use")]
        if titles and places:
            found.append((titles[0], float(places[0].attrib["y"])))
    return found


def test_a_point_tells_what_it_is_and_a_longer_time_is_higher():
    found = dict(heights(drawn(plot({"a": [0.1, 0.2], "b": [0.3, 0.4]}))))
    down = [
        found[f"{ms}.0 ms: {name}, commit commit{n}, run{n}"]
        for ms, name, n in ((100, "a", 0), (200, "a", 1), (300, "b", 0), (400, "b", 1))
    ]
    assert down == sorted(down, reverse=True)
    assert down[0] - down[1] == pytest.approx(down[2] - down[3], abs=0.1)


def test_times_of_several_decades_stand_on_a_logarithmic_axis_with_plain_marks():
    picture = drawn(plot({"a": [0.001, 0.01, 0.1]}))
    down = [y for _, y in heights(picture)]
    assert abs((down[0] - down[1]) - (down[1] - down[2])) < 0.1
    assert {"Op Time, logarithmic: conv", "1 ms", "10 ms", "100 ms"} <= set(
        picture.words
    )


def test_a_median_of_several_times_has_each_of_them_as_a_dot():
    times = (0.1, 0.2, 0.6)
    point = PlotPoint(0, times, ("one", "two"))
    one = OpTimePlot(("c",), (PlottedSeries("a", (point,)),), axis(times))
    picture = drawn(one)
    assert "200.0 ms, median of 3: a, commit c, 2 runs" in picture.titles
    assert len(picture.all("use")) == 3 + 1 + 1  # and in the legend


def test_lines_differ_by_dashes_and_markers_too():
    picture = drawn(plot({f"series {n}": [n + 1.0, n + 2.0] for n in range(8)}))
    dashed = {each.attrib.get("stroke-dasharray") for each in picture.all("path")}
    assert len(dashed - {None}) == 3
    markers = {each.attrib["href"] for each in picture.all("use")}
    assert len(markers) == 8
    assert {f"series {n}: {n + 2}.000 s" for n in range(8)} <= set(picture.words)
    assert "+: the files differed." in picture.words


def test_names_of_commits_do_not_lie_on_each_other():
    places = tuple(f"{n:08x}" for n in range(100))
    picture = drawn(plot({"a": [1.0] * 100}, places))
    shown = [each for each in picture.all("text") if each.text in places]
    assert 5 <= len(shown) < 15
    across = [float(each.attrib["x"]) for each in shown]
    assert min(b - a for a, b in pairwise(across)) > 8 * 5


def test_what_others_named_is_text_and_nothing_else():
    long = {ODD: [0.1] * 300, ODD * 50: [1e9] * 300, "_hidden": [0.0] * 300}
    picture = drawn(plot(long, (ODD,) * 300))
    check_harmless(picture)
    assert "&lt;script&gt;" in picture.text
    assert len(heights(picture)) == 900
    for text in picture.all("text"):
        assert 0 <= float(text.attrib["x"]) <= picture.width
        assert 0 <= float(text.attrib["y"]) <= picture.height
    assert not re.search(r"\d{12}", " ".join(picture.words))
