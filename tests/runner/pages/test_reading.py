"""A page as readers use it: its colours, its width, its tables, on paper."""

from __future__ import annotations

import re

import pytest

from runner import pages, pictures
from runner.report import charts
from runner.report.blocks import ProgramOutput, Section, Table
from tests.runner.pages import sample

pytestmark = pytest.mark.browser
GROUND = "getComputedStyle(document.body).backgroundColor"
TOO_WIDE = "document.documentElement.scrollWidth - innerWidth"
OPEN_ALL = "document.querySelectorAll('details').forEach(d => { d.open = true })"

CROWDED = """[...document.querySelectorAll('svg')].flatMap(svg => {
  const page = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll('text:not([transform], :empty)')];
  const boxes = texts.map(text => text.getBoundingClientRect());
  const outside = boxes.map(b => b.left < page.left || b.right > page.right
    || b.top < page.top || b.bottom > page.bottom);
  const over = boxes.map((a, n) => boxes.some((b, m) => m < n && a.left < b.right
    && b.left < a.right && a.top + 3 < b.bottom && b.top + 3 < a.bottom));
  return texts.filter((_, n) => outside[n] || over[n]).map(text => text.textContent);
})"""
"""Texts of pictures that reach out of them or lie on another."""


def test_the_page_follows_the_system_until_the_reader_chooses(opened):
    visit = opened(sample.page(), scheme="dark")
    dark = visit.has(GROUND)
    visit.has("document.addEventListener('themechange', () => { window.told = true })")
    visit.page.get_by_role("button", name="Light").click()
    light = visit.has(GROUND)
    assert light != dark
    assert visit.has("window.told")
    for _ in range(20):  # the browser writes the choice down in its own time
        visit.page.reload()
        if visit.has(GROUND) == light:
            break
    assert visit.has(GROUND) == light
    assert visit.page.get_by_role("button", name="Dark").count() == 1


def test_the_page_is_never_wider_than_the_screen(opened):
    long = Section("long", "x" * 300, (ProgramOutput("y" * 300, "z" * 3000),))
    html = pages.report("w" * 300, (*sample.sections(), long), {})
    visit = opened(html, width=320)
    assert visit.has(TOO_WIDE) == 0
    visit.has(OPEN_ALL)
    for width in (320, 390, 768, 1280):
        visit.page.set_viewport_size({"width": width, "height": 800})
        assert visit.has(TOO_WIDE) == 0


def test_a_column_of_figures_is_sorted_by_size_not_by_letters(opened):
    rows = tuple((name, each) for name, each in zip("abcdef", TIMES, strict=True))
    table = Table("Times", ("name", "time"), rows, right=frozenset({1}))
    visit = opened(pages.report("T", (Section("a", "A", (table,)),), {}))
    head = visit.page.get_by_role("columnheader", name="time")
    cells = visit.page.locator("tbody td")
    seen = []
    for _ in range(3):
        head.get_by_role("button").click()
        seen.append((head.get_attribute("aria-sort"), cells.all_text_contents()))
    up = ["900.0 ns", "16.60 ms", "1.120 s", "3 min 20 s", "1 h 2 min"]
    assert seen == [
        ("descending", [*reversed(up), ""]),
        ("ascending", [*up, ""]),
        (None, list(TIMES)),
    ]


TIMES = ("16.60 ms", "", "1 h 2 min", "900.0 ns", "3 min 20 s", "1.120 s")


def test_a_table_is_copied_as_markdown_and_as_csv(opened):
    rows = (
        ("a|b, <i>", "1"),
        ('=2+2 "x"', "2"),
        (sample.LONG_NAME, "3"),
        ("@you #1 www.x.org", "4"),
    )
    table = Table("T", ("na,me", "n"), rows, frozenset({1}), frozenset({0}))
    visit = opened(
        pages.report("T", (Section("a", "A", (table,)),), {}),
        permissions=["clipboard-read", "clipboard-write"],
    )

    def copied(button: str) -> str:
        visit.page.get_by_role("button", name=button).click()
        visit.until("document.getElementById('said').textContent === 'Copied'")
        return visit.has("navigator.clipboard.readText()")

    markdown = copied("Copy as Markdown: T")
    assert markdown.splitlines()[:3] == [
        "| na,me | n |",
        "| --- | ---: |",
        "| a&#124;b, &#60;i&#62; | 1 |",
    ]
    whole = re.sub("[:_*]", lambda sign: f"&#{ord(sign.group())};", sample.LONG_NAME)
    assert whole.replace("<", "&#60;").replace(">", "&#62;") in markdown
    assert "&#64;&#8203;you &#35;&#8203;1 www&#46;x.org" in markdown
    csv = copied("Copy as CSV: T").replace("\r\n", "\n").splitlines()
    assert csv[:3] == ['"na,me",n', '"a|b, <i>",1', '"\'=2+2 ""x""",2']


def test_a_long_name_is_whole_when_it_is_asked_for(opened):
    page = opened(sample.page()).page
    whole = page.get_by_text(sample.LONG_NAME, exact=True).first
    assert not whole.is_visible()
    page.locator("summary", has_text="cutlass::Kernel2<").first.click()
    assert whole.is_visible()


def test_an_output_scrolls_in_its_own_box(opened):
    visit = opened(sample.page())
    box = "document.querySelector('#output-build ~ figure pre')"
    assert visit.has(f"{box}.clientHeight") < 600
    assert visit.has(f"{box}.scrollHeight") > 2000
    assert visit.has(f"{box}.tabIndex") == 0


def test_paper_shows_all_in_black_on_white_without_buttons(opened):
    visit = opened(sample.page(), scheme="dark")
    visit.page.get_by_role("button", name="Light").click()
    visit.page.get_by_role("button", name="Dark").click()
    visit.page.emulate_media(media="print")
    ink = "getComputedStyle(document.querySelector('main')).color"
    assert visit.has(ink) == "rgb(27, 32, 39)"
    shown = "[...document.querySelectorAll('button')].filter(b => b.checkVisibility())"
    assert visit.has(f"{shown}.every(b => b.closest('th'))")
    assert visit.page.get_by_text("Op Time 1").is_visible()
    assert visit.page.get_by_role("navigation").count() == 0
    box = "document.querySelector('#output-build ~ figure pre')"
    assert visit.has(f"{box}.clientHeight === {box}.scrollHeight")
    visit.has("dispatchEvent(new Event('beforeprint'))")
    assert visit.page.get_by_text(sample.LONG_NAME, exact=True).first.is_visible()
    visit.has("dispatchEvent(new Event('afterprint'))")
    assert visit.has("document.querySelectorAll('main details[open]').length") == 0


def test_without_scripts_all_is_there_and_no_button_is(opened):
    page = opened(sample.page(), java_script_enabled=False).page
    assert page.get_by_role("button").count() == 0
    assert page.get_by_role("link", name="Run times").first.is_visible()
    assert page.get_by_text("Correctness: 0.7653 Model: ece408").is_visible()


def test_texts_of_pictures_are_inside_and_none_lies_on_another(opened):
    marks = (charts.Mark("floor", 0.4), charts.Mark("peer", 1.7))
    bars = [charts.Bar("m" * n, 1.3**n, series="Ω", marks=marks) for n in range(40)]
    points = [charts.RoofPoint("k", 1.0 + n % 7, 1e12) for n in range(30)]
    roofs = (charts.Roof("FP32", flops=6e13), charts.Roof("HBM", None, 5e12))
    curves = [charts.Curve("W" * n, ((1, 1), (9, 1 + n / 50))) for n in range(8)]
    every = (
        charts.BarChart("W" * 99, "s", tuple(bars), logarithmic=True),
        charts.Roofline("t", roofs, tuple(points)),
        charts.LineChart("t", "images", "s", tuple(curves), logarithmic=True),
    )
    visit = opened("".join(map(pictures.svg, every)), width=1000)
    assert visit.has(CROWDED) == []
