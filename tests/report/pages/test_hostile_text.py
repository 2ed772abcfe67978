"""What a run printed cannot become part of a page, and nothing else can be added."""

from __future__ import annotations

import pytest

from runner.report import page as pages
from runner.report.blocks import (
    Bar,
    BarChart,
    Pairs,
    Paragraph,
    Picture,
    ProgramOutput,
    Section,
    Table,
    TimelineView,
)
from tests.kit import sample_report as sample

HOSTILE = (
    "</script><script>window.owned = 1</script>",
    "<img src=x onerror='window.owned = 1'>",
    '" onfocus="window.owned = 1" autofocus x=\'',
    "</pre></details></table></section></main><h1>owned</h1>",
    "{{ 7 * 191 }} {% raw %} <!-- <![CDATA[ &lt;b&gt; ]]>",
    "<style>* { display: none }</style><base href='https://example.com/'>",
    "javascript:window.owned=1",
)
STEERING = "a\u202eb\u2028c\u0000d\ud800e\u200bf\x1b[31mg\rh"
SHOWN = r"a\u202eb\u2028c\x00d\ud800e\u200bf\x1b[31mg\rh"


def everywhere(*texts: str) -> str:
    """Return a page that shows these texts wherever one can stand."""
    return pages.report(texts[0], [_section(text) for text in texts], {})


def _section(text: str) -> Section:
    parts = (
        Pairs(((text, text),)),
        Table(text, (text, text), ((text, text),) * 3, names=frozenset({1})),
        Table("", (text,), ((text,),), right=frozenset({0}), anchors=(text,)),
        Paragraph(text),
        ProgramOutput(text, text, 7),
        Picture("p", text, BarChart(text, text, (Bar(text, 1.0, series=text),))),
        TimelineView(text, text),
    )
    return Section("all", text, parts)


@pytest.mark.browser
def test_hostile_text_is_shown_and_nothing_else(opened):
    names = "['script', 'style', 'img', 'h1', 'main', 'section', 'table', 'base']"
    count = f"{names}.map(name => document.getElementsByTagName(name).length)"
    usual = opened(everywhere(*("plain text",) * len(HOSTILE))).has(count)
    visit = opened(everywhere(*HOSTILE))
    assert visit.has(count) == usual
    assert visit.has("window.owned") is None
    printed = "document.querySelectorAll('main > section > .output pre')"
    assert visit.has(f"[...{printed}].map(e => e.textContent)") == list(HOSTILE)
    assert visit.has("document.title") == HOSTILE[0]


def test_characters_that_steer_text_are_escaped():
    page = everywhere(STEERING)
    assert SHOWN in page
    assert not any(odd in page for odd in "\u202e\u2028\u0000\ud800\u200b\x1b\r")


@pytest.mark.browser
def test_the_policy_lets_nothing_run_that_the_page_was_not_made_with(opened):
    added = (
        "<script>window.owned = 1</script>"
        "<img src='data:,' onerror='window.owned = 1'>"
        "<img src='https://example.com/a.png'>"
        "<style>body { color: rgb(1, 2, 3) }</style>"
        "<p id='styled' style='color: rgb(1, 2, 3)'>x</p>"
        "<script src='https://example.com/a.js'></script>"
        "<iframe src='https://example.com/'></iframe>"
        "<form action='https://example.com/'></form>"
        "<base href='https://example.com/'>"
    )
    visit = opened(sample.page().replace("</main>", f"{added}</main>"))
    assert visit.has("window.owned") is None
    assert visit.has("getComputedStyle(document.body).color") != "rgb(1, 2, 3)"
    styled = "getComputedStyle(document.getElementById('styled')).color"
    assert visit.has(styled) != "rgb(1, 2, 3)"
    assert not visit.has("document.baseURI").startswith("https:")
    visit.has("document.forms[0].requestSubmit()")
    with pytest.raises(Exception, match="TrustedHTML"):
        visit.has("document.body.innerHTML = '<b>x</b>'")
    rules = ("script-src", "style-src", "img-src", "base-uri", "form-action")
    visit.refused(*rules, "TrustedHTML")
