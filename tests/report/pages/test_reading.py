"""A page as readers use it: its colours, its width, its tables, on paper."""

from __future__ import annotations

import pytest

from runner.report import page as pages
from runner.report.blocks import Paragraph, ProgramOutput, Section
from tests.kit import sample_report as sample

pytestmark = pytest.mark.browser
TOO_WIDE = "document.documentElement.scrollWidth - innerWidth"
OPEN_ALL = "document.querySelectorAll('details').forEach(d => { d.open = true })"


def test_the_page_follows_the_system(opened):
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = opened(sample.page(), scheme="dark").has(ground)
    assert dark != opened(sample.page()).has(ground)


def test_the_page_is_never_wider_than_the_screen(opened):
    long = Section("long", "x" * 300, (ProgramOutput("y" * 300, "z" * 3000),))
    html = pages.report("w" * 300, (*sample.sections(), long), {})
    visit = opened(html, width=320)
    assert visit.has(TOO_WIDE) == 0
    visit.has(OPEN_ALL)
    for width in (320, 390, 768, 1280):
        visit.page.set_viewport_size({"width": width, "height": 800})
        assert visit.has(TOO_WIDE) == 0


def test_a_long_name_is_whole_when_it_is_asked_for(opened):
    page = opened(sample.page()).page
    whole = page.get_by_text(sample.LONG_NAME, exact=True).first
    assert not whole.is_visible()
    page.locator("summary", has_text="cutlass::Kernel2<").first.click()
    assert whole.is_visible()


def test_an_output_scrolls_in_its_own_box(opened):
    visit = opened(sample.page())
    box = "document.querySelector('#output details:last-of-type pre')"
    visit.has(f"{box}.closest('details').open = true")
    assert visit.has(f"{box}.clientHeight") < 600
    assert visit.has(f"{box}.scrollHeight") > 2000
    assert visit.has(f"{box}.tabIndex") == 0


def test_a_link_to_a_folded_part_unfolds_it(opened):
    folded = Section("far", "Far", (Paragraph("what is folded"),), folded=True)
    visit = opened(pages.report("T", (*sample.sections(), folded), {}))
    shown = visit.page.get_by_text("what is folded")
    assert not shown.is_visible()
    for _ in range(2):
        visit.page.get_by_role("link", name="Far").click()
        shown.wait_for(state="visible")
        assert (
            visit.has("document.getElementById('far').getBoundingClientRect().top")
            < 800
        )
        visit.has("document.querySelector('#far > details').open = false")


def test_paper_shows_all_in_black_on_white_without_buttons(opened):
    visit = opened(sample.page(), scheme="dark")
    visit.page.emulate_media(media="print")
    ink = "getComputedStyle(document.querySelector('main')).color"
    assert visit.has(ink) == "rgb(27, 32, 39)"
    assert visit.page.locator("button:visible").count() == 0
    assert visit.page.get_by_text("Op Time 1").is_visible()
    assert visit.page.get_by_role("navigation").count() == 0
    visit.has("dispatchEvent(new Event('beforeprint'))")
    assert visit.page.get_by_text(sample.LONG_NAME, exact=True).first.is_visible()
    visit.has("dispatchEvent(new Event('afterprint'))")
    assert visit.has("document.querySelectorAll('main details[open]').length") == 0


def test_without_scripts_all_is_there_and_no_button_is(opened):
    page = opened(sample.page(), java_script_enabled=False).page
    assert page.get_by_role("button").count() == 0
    assert page.get_by_role("link", name="Run times").first.is_visible()
    assert page.get_by_text("Correctness: 0.7653 Model: ece408").count() == 1
