"""A timeline in a browser: what it carries, shows, and does when it is used."""

from __future__ import annotations

import pytest

from runner.core.evidence import Lane, LaneKind
from runner.report import page as pages
from runner.report.blocks import Section, TimelineView
from tests.kit.browsing import Visit
from tests.kit.timelines import CALLS, GPU, RANGES, Span, timeline

pytestmark = pytest.mark.browser

VIEW = "document.querySelector('.timeline').timeline"
MS = 1_000_000
NAMES = [
    "conv_forward<float>(int)",
    "cudaLaunchKernel",
    "cudaMalloc",
    "layer 1",
    "pool",
]
NOTES = ((), (("grid", "834 x 1 x 1"), ("registers", "40")))
SPANS = (
    Span(0, 10 * MS, 4 * MS, 0, 1, link=7),
    Span(0, 20 * MS, 2 * MS, 4, 0, link=8),
    Span(0, 90 * MS, 1 * MS, 0, 0, merged=12),
    Span(1, 1 * MS, 60 * MS, 3),
    Span(1, 5 * MS, 20 * MS, 3),
    Span(2, 2 * MS, 1 * MS, 2),
    Span(2, 8 * MS, 1 * MS, 1, link=7),
    Span(2, 9 * MS, 1 * MS, 1, link=8),
)
"""By their places: 0 to 2 of the GPU, 3 and 4 ranges, 5 to 7 calls."""
WHOLE = [-0.8 * MS, 92.8 * MS]


def made(**changes):
    return timeline(SPANS, NAMES, notes=NOTES, **changes)


@pytest.fixture(scope="module")
def page(chromium, tmp_path_factory):
    """A page of the timeline above, which the tests of this module share."""
    file = tmp_path_factory.mktemp("timeline") / "page.html"
    file.write_text(pages.timeline_page("m3.1.py", made()), "utf-8")
    visit = Visit(chromium)
    visit.open(file, 1280, 800, "light")
    drawn(visit)
    yield visit
    visit.context.close()
    assert visit.said == []
    assert visit.asked_for == []


@pytest.fixture
def shown(page):
    """The page as it is when it is opened."""
    page.page.set_viewport_size({"width": 1280, "height": 800})
    page.page.mouse.move(0, 0)
    page.page.locator(".timeline-input").fill("")
    page.has(f"{VIEW}.finder.find(), {VIEW}.select(-1), {VIEW}.fit()")
    page.until(f"{VIEW}.width > 1200")
    page.page.locator(".timeline-canvas").focus()
    yield page
    for key in ("Shift", "Control"):
        page.page.keyboard.up(key)


def drawn(visit):
    visit.until("document.querySelector('.timeline').dataset.state === 'drawn'")


def seen(visit):
    return visit.has(f"[{VIEW}.from, {VIEW}.to]")


def length(visit):
    first, last = seen(visit)
    return last - first


def selected(visit):
    return visit.has(f"{VIEW}.selected")


def point(visit, span):
    """The middle of a span, within the window."""
    x, y = visit.has(
        f"(() => {{ const v = {VIEW}, s = {span}, p = v.painter;"
        "const middle = v.trace.start[s] + v.trace.length[s] / 2;"
        "const box = v.canvas.getBoundingClientRect(), [lane, row] = p.place(s);"
        "return [box.left + p.x(middle), box.top + p.y(lane.top + row * 20 + 9)]; })()"
    )
    return x, y


def press(visit, *keys):
    for key in keys:
        visit.page.keyboard.press(key)


def facts(visit):
    return visit.page.locator(".timeline-facts").inner_text()


def test_the_page_decodes_what_was_packed(opened):
    starts = [2**51, 2**51 + 255, 2**51 + 70_000]
    spans = [
        *SPANS,
        *(Span(2, start, start // 3, place + 1) for place, start in enumerate(starts)),
    ]
    packed = timeline(spans, NAMES, notes=NOTES, left_out=5)
    visit = opened(pages.timeline_page("t", packed))
    drawn(visit)
    trace = f"{VIEW}.trace"
    for column in ("lane", "start", "length", "name", "facts", "merged"):
        assert visit.has(f"Array.from({trace}.{column})") == list(
            getattr(packed, column)
        ), column
    assert visit.has(f"{trace}.names") == NAMES
    assert visit.has(f"{trace}.notes") == [[list(p) for p in note] for note in NOTES]
    assert visit.has(f"{trace}.leftOut") == 5
    assert visit.has(f"Array.from({trace}.linked(0))") == [6]
    assert visit.has(f"Array.from({trace}.linked(3))") == []


def test_the_work_of_the_gpus_is_seen_at_first_and_the_whole_when_asked_for(opened):
    visit = opened(pages.timeline_page("m3.1.py", made()))
    drawn(visit)
    assert seen(visit) == pytest.approx([8.4 * MS, 92.6 * MS], rel=0.01)
    visit.page.get_by_role("button", name="Whole").click()
    assert seen(visit) == pytest.approx(WHOLE, rel=0.03)


def test_counts_are_called_approximate_where_spans_were_merged(opened):
    visit = opened(pages.timeline_page("t", made(left_out=11)))
    drawn(visit)
    visit.until("document.querySelector('.timeline-sums') !== null")
    assert "≈ 13 ×" in visit.page.locator(".timeline-sums").inner_text()
    assert "counts and sums by name are approximate" in visit.page.content()


def test_lanes_of_a_process_begin_with_its_gpu_and_nest_calls(shown):
    lanes = f"{VIEW}.processes[0].lanes"
    assert shown.has(f"{lanes}.map((lane) => lane.title)") == [
        GPU.title,
        RANGES.title,
        CALLS.title,
    ]
    rows = f"{lanes}.map((lane) => lane.rows.map((row) => row.spans))"
    assert shown.has(rows) == [[[0, 1, 2]], [[3], [4]], [[5, 6, 7]]]


def test_the_wheel_zooms_where_the_mouse_is(shown):
    x, y = point(shown, 0)
    shown.page.mouse.move(x, y)
    shown.page.mouse.wheel(0, -600)
    shown.until(f"{VIEW}.to - {VIEW}.from < 50e6")
    assert point(shown, 0)[0] == pytest.approx(x, abs=1)
    shown.page.keyboard.down("Shift")
    before = seen(shown)
    shown.page.mouse.wheel(0, 100)
    shown.until(f"{VIEW}.from > {before[0]}")
    assert length(shown) == pytest.approx(before[1] - before[0])


def test_dragging_pans_and_a_drag_with_shift_zooms_to_its_range(shown):
    press(shown, "+", "+")
    before = seen(shown)
    x, y = point(shown, 3)
    mouse = shown.page.mouse
    mouse.move(x, y)
    mouse.down()
    mouse.move(x - 120, y, steps=3)
    mouse.up()
    assert seen(shown)[0] > before[0]
    assert length(shown) == pytest.approx(before[1] - before[0])
    assert selected(shown) == -1
    left, right = shown.has(f"[{VIEW}.time(500), {VIEW}.time(800)]")
    box = shown.page.locator(".timeline-canvas").bounding_box()
    shown.page.keyboard.down("Shift")
    mouse.move(box["x"] + 500, y)
    mouse.down()
    mouse.move(box["x"] + 800, y, steps=3)
    mouse.up()
    assert seen(shown) == pytest.approx([left, right], rel=0.01)


def test_a_click_selects_and_a_second_one_zooms_to_the_span(shown):
    shown.page.mouse.click(*point(shown, 0))
    assert selected(shown) == 0
    text = facts(shown)
    for fact in (
        "conv_forward<float>(int)",
        "duration\n4 ms",
        "start\n10 ms",
        "m3.1.py (14), GPU 0, stream 7",
        "grid\n834 x 1 x 1",
        "registers\n40",
        "Launched by",
        "2 ms before",
    ):
        assert fact in text
    shown.page.mouse.dblclick(*point(shown, 0))
    assert length(shown) == pytest.approx(4 * MS * 1.8)
    x, y = point(shown, 0)
    shown.page.mouse.click(x, y + 250)
    assert selected(shown) == -1


def test_with_nothing_selected_the_names_in_view_are_summed_up(shown):
    shown.until("document.querySelector('.timeline-sums') !== null")
    shown.has(f"{VIEW}.show(11e6, 21e6)")
    shown.until(
        "document.querySelector('.timeline-facts p').textContent.endsWith(' 10 ms')"
    )
    cells = shown.page.locator(".timeline-sums tr").all_inner_texts()
    assert [row.split("\t") for row in cells] == [
        ["3 ms", "1 ×", "conv_forward"],  # as much of it as is in view
        ["1 ms", "1 ×", "pool"],
        ["20 ms", "2 ×", "layer 1"],
    ]


def test_a_link_leads_to_what_a_call_launched_and_back(shown):
    shown.page.mouse.click(*point(shown, 1))
    shown.page.get_by_role("button", name="cudaLaunchKernel").click()
    assert selected(shown) == 7
    assert "Launched\xa0" in facts(shown).replace("\n", "\xa0").replace(" ", "\xa0")
    assert "11 ms later" in facts(shown)
    press(shown, "l")
    assert selected(shown) == 1


def test_a_span_that_stands_for_others_says_so(shown):
    shown.page.mouse.click(*point(shown, 2))
    assert "12 spans, too close together" in facts(shown)


def test_keys_zoom_pan_and_show_the_whole(shown):
    whole = seen(shown)
    press(shown, "+")
    assert length(shown) == pytest.approx((whole[1] - whole[0]) * 0.6)
    near = seen(shown)
    press(shown, "ArrowRight")
    assert seen(shown)[0] > near[0]
    press(shown, "ArrowLeft")
    assert seen(shown) == pytest.approx(near)
    press(shown, "-")
    assert seen(shown) == pytest.approx(whole)
    press(shown, "+", "+", "Home")
    assert seen(shown) == pytest.approx(whole)


def test_times_have_the_unit_that_suits_them(shown):
    axis = f"{VIEW}.painter.found"

    def labels(first, last):
        shown.has(f"{VIEW}.show({first}, {last})")
        shown.has(f"{VIEW}.paint()")
        return shown.has(f"{axis}.places.map(([, label]) => label)")

    assert {"20 ms", "40 ms", "60 ms", "80 ms"} <= set(labels(*WHOLE))
    assert {"+10 µs", "+20 µs"} <= set(labels(10 * MS, 10.05 * MS))
    assert shown.has(f"{axis}.origin") == "10 ms"
    assert {"+100 ns", "+120 ns"} <= set(labels(90 * MS + 90, 90 * MS + 190))
    assert shown.has(f"{axis}.origin") == "90 ms"


def test_enter_goes_from_span_to_span_and_escape_leaves(shown):
    press(shown, "Enter")
    assert selected(shown) == 0
    press(shown, "Enter", "Enter")
    assert selected(shown) == 2
    assert "conv_forward" in shown.page.locator(".timeline-live").inner_text()
    press(shown, "Enter")  # to the next lane
    assert selected(shown) == 3
    press(shown, "Shift+Enter")
    assert selected(shown) == 2
    focus = "document.activeElement.className"
    assert shown.has(focus) == "timeline-canvas"
    press(shown, "Escape")
    assert selected(shown) == -1
    press(shown, "Tab")
    assert shown.has(focus) != "timeline-canvas"


def test_the_search_counts_sums_up_and_goes_through_its_matches(shown):
    press(shown, "/")
    shown.page.keyboard.type("CONV")
    found = shown.page.locator(".timeline-found")
    shown.until("document.querySelector('.timeline-found').textContent !== ''")
    assert found.inner_text() == "13 matches, 5 ms"  # one of them stands for 12
    press(shown, "Enter")
    assert selected(shown) == 0
    press(shown, "Enter")
    assert selected(shown) == 2
    press(shown, "Enter")
    assert selected(shown) == 0
    press(shown, "Escape")
    assert found.inner_text() == ""
    assert shown.has("document.activeElement.className") == "timeline-canvas"


def test_one_finger_pans(opened):
    visit = opened(
        pages.timeline_page("t", made()), width=390, has_touch=True, is_mobile=True
    )
    drawn(visit)
    visit.has(f"{VIEW}.show(10e6, 50e6)")
    box = visit.page.locator(".timeline-canvas").bounding_box()
    y = box["y"] + 80
    touch = visit.context.new_cdp_session(visit.page)

    def send(kind, *xs):
        points = [{"x": box["x"] + x, "y": y, "id": n} for n, x in enumerate(xs)]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    send("touchStart", 200)
    for x in (170, 140, 110, 100):
        send("touchMove", x)
    send("touchEnd")
    visit.until(f"{VIEW}.from > 15e6")
    assert length(visit) == pytest.approx(40 * MS)
    visit.page.touchscreen.tap(*point(visit, 3))


def test_nothing_is_wider_than_a_phone(opened):
    wide = Lane("p" * 300, "t" * 300, LaneKind.GPU)
    long = timeline(SPANS, ["n" * 900] * 5, (wide,) * 3, NOTES)
    visit = opened(pages.timeline_page("x" * 300, long), width=360)
    drawn(visit)
    visit.has(f"{VIEW}.select(0)")
    assert visit.has("document.documentElement.scrollWidth") <= 360


def test_several_timelines_of_a_page_do_not_meet(opened):
    views = tuple(TimelineView(name, f"view {name}") for name in "ab")
    both = {"a": made(), "b": timeline([Span(0, 5, 10)])}
    report = pages.report("r", [Section("t", "Timelines", views)], both)
    visit = opened(report)
    visit.until("document.querySelectorAll('[data-state=drawn]').length === 2")
    second = visit.page.locator(".timeline-canvas").nth(1)
    second.focus()
    press(visit, "Enter")
    every = "[...document.querySelectorAll('.timeline')]"
    assert visit.has(f"{every}.map((one) => one.timeline.selected)") == [-1, 0]


def test_the_wheel_scrolls_a_report_until_its_timeline_is_used(opened):
    view = TimelineView("a", "a")
    sections = [Section("t", "T", (view,)), Section("u", "U", (view, view))]
    visit = opened(pages.report("r", sections, {"a": made()}))
    visit.until("document.querySelectorAll('[data-state=drawn]').length === 3")
    visit.has("document.querySelector('.timeline-canvas').scrollIntoView()")
    before = seen(visit)
    visit.page.mouse.move(*point(visit, 3))
    at = visit.has("scrollY")
    visit.page.mouse.wheel(0, 50)
    visit.until(f"scrollY > {at}")
    assert seen(visit) == before


def test_names_are_text_whatever_they_say(opened):
    hostile = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
    lane = Lane(hostile, hostile, LaneKind.GPU)
    notes = ((), ((hostile, "\u202e</dl>" + hostile),))
    visit = opened(
        pages.timeline_page(
            hostile, timeline([Span(0, 1, 9, facts=1)], [hostile], [lane], notes)
        )
    )
    drawn(visit)
    visit.page.locator(".timeline-canvas").focus()
    press(visit, "Enter")
    assert hostile in visit.page.locator(".timeline-name").inner_text()
    assert "\\u202e</dl>" in facts(visit)
    assert visit.has("document.images.length") == 0


def test_a_page_whose_spans_are_damaged_says_so(opened):
    page = pages.timeline_page("t", made())
    visit = opened(page.replace('timeline-data">', 'timeline-data">AAAA'))
    visit.until("document.querySelector('.timeline').dataset.state === 'failed'")
    assert "cannot be drawn" in facts(visit)


def test_paper_has_all_lanes_on_white(opened):
    lanes = [Lane("p", f"stream {number}", LaneKind.GPU) for number in range(50)]
    spans = [Span(number, number * 10, 10) for number in range(50)]
    visit = opened(
        pages.timeline_page("t", timeline(spans, lanes=lanes)), scheme="dark"
    )
    drawn(visit)
    assert visit.has(f"{VIEW}.height < {VIEW}.tall")
    visit.has("window.dispatchEvent(new Event('beforeprint'))")
    assert visit.has(f"{VIEW}.height === {VIEW}.tall")
    assert visit.has(f"{VIEW}.colours.ground") == "rgb(255, 255, 255)"
    visit.has("window.dispatchEvent(new Event('afterprint'))")
    assert visit.has(f"{VIEW}.height < {VIEW}.tall")
    assert visit.has(f"{VIEW}.colours.ground") != "rgb(255, 255, 255)"
