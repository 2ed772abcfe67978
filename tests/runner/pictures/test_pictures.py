"""Pictures in general: the same everywhere, for all schemes, with nothing of others."""

from __future__ import annotations

import os
import re
import sys

import pytest

from runner import pictures
from runner.pictures import colours
from runner.report.charts import Bar, BarChart
from tests.program import run_program
from tests.runner.pictures.drawn import drawn

CHART = BarChart(
    "Op Time $1$", "s", (Bar("a", 1.0, series="x"), Bar("b", 2.0, series="y"))
)
PROGRAM = """
from runner import pictures
from tests.runner.pictures.test_pictures import CHART
print(pictures.svg(CHART), end="")
"""
WITHOUT = """
import sys
sys.modules["matplotlib"] = None
from runner import pictures
from runner.report.charts import BarChart
try:
    pictures.svg(BarChart("", "", ()))
except pictures.PicturesMissingError as error:
    print(error.problems[0].hint)
"""


def python(code: str, folder, **variables: str) -> str:
    path = os.pathsep.join(filter(None, sys.path))
    environ = {"PYTHONPATH": path, "PATH": os.environ["PATH"], **variables}
    command = [sys.executable, "-c", code]
    done = run_program(command, cwd=folder, env=environ, check=True)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.programs
def test_settings_of_the_folder_and_the_user_change_nothing(tmp_path):
    settings = "svg.fonttype: path\ntext.usetex: True\nfont.size: 40\nbackend: TkAgg\n"
    for folder in (tmp_path, tmp_path / ".config/matplotlib"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "matplotlibrc").write_text(settings)
    variables = {"HOME": str(tmp_path), "PYTHONHASHSEED": "7", "MPLCONFIGDIR": ""}
    text = python(PROGRAM, tmp_path, **variables)
    assert text == pictures.svg(CHART)
    made = {path.name for path in tmp_path.iterdir()}
    assert made <= {"matplotlibrc", ".config", ".cache"}
    assert {path.name for path in tmp_path.glob(".cache/*")} <= {"rai"}


@pytest.mark.programs
def test_without_matplotlib_the_error_says_what_to_install(tmp_path):
    hint = python(WITHOUT, tmp_path, HOME=str(tmp_path))
    assert f"{sys.executable} -m pip install matplotlib" in hint
    assert not list(tmp_path.iterdir())


def test_a_picture_has_a_name_and_a_text_for_screen_readers():
    picture = drawn(CHART)
    ids = picture.root.attrib["aria-labelledby"].split()
    found = {
        each.attrib["id"]: each.text for each in picture.root if "id" in each.attrib
    }
    assert [found[each] for each in ids] == [
        "Op Time $1$",
        "2 bars: a, x: 1.000 s; b, y: 2.000 s",
    ]


def test_pictures_of_one_page_share_no_id():
    one = drawn(CHART)
    other = drawn(BarChart("another", "s", CHART.bars))
    ids = [set(re.findall(r'\bid="([^"]+)"', each.text)) for each in (one, other)]
    assert ids[0] and not ids[0] & ids[1]


def test_each_colour_has_another_one_for_dark():
    picture = drawn(CHART)
    paints = {
        (name, value)
        for each in picture.root.iter()
        for name, value in each.attrib.items()
        if name in ("fill", "stroke") and value.startswith("#")
    }
    assert {value for _, value in paints} <= set(colours.NAMED)
    for each in picture.root.iter():
        classes = each.attrib.get("class", "").split()
        for name, kind in (("fill", "f"), ("stroke", "s")):
            if (colour := each.attrib.get(name, "")).startswith("#"):
                assert f"{kind}-{colours.NAMED[colour]}" in classes
    for ink in colours.INKS:
        assert f"light-dark({ink.light},{ink.dark})" in pictures.STYLE


def luminance(colour: str) -> float:
    shares = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_texts_and_colours_stand_out_from_the_paper():
    for ink in (colours.TEXT, colours.FAINT):
        assert contrast(ink.light, colours.PAPER.light) >= 4.5
        assert contrast(ink.dark, colours.PAPER.dark) >= 4.5
    for ink in colours.SERIES:
        assert contrast(ink.light, colours.PAPER.light) >= 3
        assert contrast(ink.dark, colours.PAPER.dark) >= 3
