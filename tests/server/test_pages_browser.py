"""The pages of a server in a browser: by keyboard, on a phone, and as things change."""

from __future__ import annotations

from itertools import product

import pytest

from runner.core import Reason
from runner.server.scheduling import ServerRules
from tests.kit import browsing, graded
from tests.kit.web import RUN, serving

pytestmark = pytest.mark.browser
ACROSS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"


@pytest.fixture
def site(tmp_path):
    """A server with twenty teams, of which blue has a run that goes on."""
    rules = ServerRules(low_disk_bytes=0, term=graded.TERM)
    with serving(tmp_path, rules) as web:
        for number in range(19):
            graded.add(web.store, f"team-{number}", graded.measurement(1 + number / 9))
        graded.add(web.store, "blue", graded.measurement(0.5))
        graded.add(web.store, "blue", None, reason=Reason.WRONG_ANSWER)
        assert web.put(web.token("blue"), RUN).status == 201
        web.begin(RUN)
        web.runs.say(RUN, b"hello\n")
        yield web


@pytest.fixture
def entered(chromium, site):
    """Return a page of somebody who came in by a link; it may say nothing wrong."""
    said, opened = [], []

    def enter(team: str, role: str = "", **settings):
        token = site.token(team, role=role)
        code = site.ask("POST", "/api/v1/codes", token).json["code"]
        context = chromium.new_context(ignore_https_errors=True, **settings)
        context.set_default_timeout(browsing.PATIENCE_S * 1000)
        opened.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        base = f"https://127.0.0.1:{site.doors.port}"
        page.goto(f"{base}/enter?code={code}")
        if not settings.get("java_script_enabled", True):
            page.get_by_role("button", name="Go on").click()
        page.wait_for_url(f"{base}/")
        return page, base

    yield enter
    for context in opened:
        context.close()
    assert [line for line in said if "a status of 401" not in line] == []


def test_axe_finds_nothing_wrong_on_any_page(entered):
    found = {}
    page, base = entered("staff", "staff", bypass_csp=True)
    paths = ("/", "/standings/final", f"/runs/{RUN}", "/submissions/21", "/staff")
    for path, scheme in product(paths, ("light", "dark")):
        page.emulate_media(color_scheme=scheme)
        page.goto(base + path)
        page.evaluate(browsing.AXE.read_text("utf-8"))
        report = page.evaluate("axe.run({resultTypes: ['violations']})")
        found[path, scheme] = [
            (rule["id"], node["html"][:200])
            for rule in report["violations"]
            for node in rule["nodes"]
        ]
    assert not any(found.values()), found


def test_a_phone_shows_every_page_without_scrolling_across(entered):
    page, base = entered("staff", "staff", viewport={"width": 390, "height": 800})
    for path in ("/", "/standings/final", f"/runs/{RUN}", "/submissions/21", "/staff"):
        page.goto(base + path)
        assert page.evaluate(ACROSS), path


def test_a_page_follows_what_happens_and_keeps_what_one_types(entered, site):
    page, base = entered("staff", "staff")
    page.goto(f"{base}/submissions/21")
    page.get_by_label("Why, for the team").fill("half a word")
    other, _ = entered("blue")
    other.goto(f"{base}/runs/{RUN}")
    assert "hello" in other.locator("#output").inner_text()
    site.runs.say(RUN, b"<b>more</b>\n")
    other.get_by_text("<b>more</b>").wait_for()
    site.end(RUN)
    other.get_by_role("link", name="Report").wait_for()
    assert page.get_by_label("Why, for the team").input_value() == "half a word"


def test_a_page_whose_session_is_over_says_so(entered, site):
    page, base = entered("blue")
    page.goto(f"{base}/runs/{RUN}")
    for token in site.store.tokens("blue"):
        site.store.revoke(token.id, site.now())
    page.get_by_role("heading", name="Log in").wait_for()


def test_a_run_is_cancelled_and_a_submission_decided_by_keyboard(entered, site):
    page, base = entered("staff", "staff")
    page.goto(f"{base}/runs/{RUN}")
    page.get_by_role("button", name="Cancel this run").focus()
    page.keyboard.press("Enter")
    page.get_by_text("It is being cancelled.").wait_for()
    assert site.store.run(RUN).cancelled
    page.goto(f"{base}/staff")
    page.get_by_role("link", name="wrong answer").or_(
        page.get_by_role("link", name="1.000 ms")
    ).first.focus()
    page.keyboard.press("Enter")
    page.locator("select[name=what]").select_option("annul")
    page.get_by_label("Why, for the team").fill("a copy")
    page.keyboard.press("Enter")
    page.get_by_text("annulled by staff: a copy").wait_for()


def test_a_report_in_its_sandbox_reaches_nothing_of_the_page(entered, site):
    site.end(RUN)
    page, base = entered("blue")
    page.goto(f"{base}/runs/{RUN}/report")
    assert page.evaluate("document.documentElement.classList.contains('scripted')")
    assert page.evaluate("self.origin") == "null"


def test_without_a_script_every_page_is_there(entered):
    page, base = entered("blue", java_script_enabled=False)
    page.goto(f"{base}/runs/{RUN}")
    assert "hello" in page.locator("#output").inner_text()
    page.goto(f"{base}/standings/final")
    assert page.get_by_role("row").count() == 21
