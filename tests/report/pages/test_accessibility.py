"""What axe-core and a keyboard find on a page."""

from __future__ import annotations

from itertools import pairwise, product

import pytest

from tests.kit import sample_report as sample

pytestmark = pytest.mark.browser
PHONE, DESKTOP = 390, 1280


def test_axe_finds_nothing_wrong(opened):
    visit = opened(sample.page(), bypass_csp=True)
    visit.has("document.querySelectorAll('details').forEach(d => { d.open = true })")
    found = {}
    for width, scheme in product((PHONE, DESKTOP), ("light", "dark")):
        visit.page.set_viewport_size({"width": width, "height": 800})
        visit.page.emulate_media(color_scheme=scheme)
        found[width, scheme] = visit.findings()
    assert not any(found.values()), found


def test_axe_finds_what_is_wrong(opened):
    visit = opened("<!doctype html><title>x</title><img src='data:,'>", bypass_csp=True)
    assert any("image-alt" in line for line in visit.findings())


def test_the_first_stop_of_the_keyboard_skips_to_the_content(opened):
    page = opened(sample.page()).page
    page.keyboard.press("Tab")
    link = page.locator(":focus")
    assert link.text_content() == "Skip to the content"
    assert link.bounding_box()["y"] >= 0
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.locator("main :focus").count() == 1


def test_what_has_the_focus_is_outlined(opened):
    visit = opened(sample.page())
    for _ in range(12):
        visit.page.keyboard.press("Tab")
        outline = "getComputedStyle(document.activeElement).outline"
        assert "solid 3px" in visit.has(outline) or "3px solid" in visit.has(outline)


def test_a_table_that_scrolls_is_a_stop_of_the_keyboard(opened):
    visit = opened(sample.page(), width=390)
    name = "Op Times by script, variant and size"
    visit.page.get_by_role("region", name=name).focus()
    visit.page.keyboard.press("ArrowRight")
    visit.until("document.activeElement.scrollLeft > 0")


def test_a_region_has_the_name_of_its_table(opened):
    page = opened(sample.page()).page
    name = "GPU activities that together take over 90 % of the time"
    assert page.get_by_role("table", name=name).count() == 1
    assert page.get_by_role("rowheader", name="[CUDA memcpy HtoD]").count() == 1
    assert page.get_by_role("columnheader", name="average").count() == 1


def test_headings_go_down_one_level_at_a_time(opened):
    visit = opened(sample.page())
    heads = (
        "[...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].map(h => +h.tagName[1])"
    )
    levels = visit.has(heads)
    assert levels.count(1) == 1 and levels[0] == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))
