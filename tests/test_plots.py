"""The plots and pictures of docs/kernels/ are those that the rows and tools/ give."""

from __future__ import annotations

import pytest
import results
from lab import goals, ledger

from tools import kernel_pictures, plots

FOUND = goals.results(ledger.latest(ledger.read(), results.GPU))


def test_the_plots_are_those_of_the_rows():
    for path, text in plots.drawn().items():
        assert path.read_text() == text, f"{path.name}: run make results"


def test_the_pictures_of_kernels_are_those_that_are_drawn():
    for path, text in kernel_pictures.drawn().items():
        assert path.read_text() == text, f"{path.name}: run tools/kernel_pictures.py"
        page = path.with_suffix(".md").read_text()
        assert f"]({path.name})" in page


def test_each_correct_variant_has_a_bar_with_its_model_and_the_vendors_time():
    correct = [result for result in FOUND if result.why is None]
    chart = plots.variants(correct)
    tiled = next(bar for bar in chart.bars if bar.label == "tiled")
    found = next(r for r in correct if (r.variant, r.images) == ("tiled", 10_000))
    assert len(chart.bars) == sum(result.images == 10_000 for result in correct)
    assert tiled.value == pytest.approx(found.ms / 1000)
    assert [mark.value for mark in tiled.marks] == pytest.approx(
        [found.model_ms / 1000, found.peer_ms / 1000]
    )


def test_without_rows_there_is_a_plot_of_nothing():
    assert plots.variants([]).bars == plots.sizes([]).bars == ()
