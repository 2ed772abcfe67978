"""The pages of a server, as a browser asks for them."""

from __future__ import annotations

import logging
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode

import pytest
from msgspec.structs import replace

from runner.core import Reason, Stream
from runner.core.wire import Leaderboard, QueueState, TeamStanding
from runner.server import messages, pages, views
from runner.server.decision import QueueDecision
from runner.server.scheduling import ServerRules
from tests.kit import graded
from tests.kit.waiting import until
from tests.kit.web import RUN, Reply, WebServer, serving

pytestmark = pytest.mark.lengthy

PAGES = ("/", "/standings", "/standings/final", f"/runs/{RUN}", "/submissions/1")


def enter(web: WebServer, code: str, **how: str) -> Reply:
    """Send a code, as the page of a link does at once."""
    headers = {"Origin": "http://localhost", "Host": "localhost", **how}
    return web.ask("POST", "/enter", "", urlencode({"code": code}).encode(), headers)


class BrowserUser:
    """Somebody with a browser, which keeps a cookie."""

    def __init__(self, web: WebServer, team: str, role: str = "") -> None:
        self.web, self.token = web, web.token(team, role=role)
        code = web.ask("POST", "/api/v1/codes", self.token).json["code"]
        entered = enter(web, code)
        assert entered.status == 303, entered
        self.set_cookie = entered.headers["set-cookie"]
        self.cookie = self.set_cookie.partition(";")[0]

    def get(self, path: str, **headers: str) -> Reply:
        return self.web.ask("GET", path, headers={"Cookie": self.cookie, **headers})

    def send(
        self, path: str, origin: str | None = "http://localhost", **form: str
    ) -> Reply:
        headers = {"Cookie": self.cookie}
        headers |= {"Origin": origin} if origin is not None else {}
        return self.web.ask("POST", path, "", urlencode(form).encode(), headers)


@pytest.fixture
def site(tmp_path):
    """A server with a team blue, whose run waits and whose submission counts."""
    rules = ServerRules(low_disk_bytes=0, term=graded.TERM)
    with serving(tmp_path, rules) as web:
        assert web.put(web.token("blue"), RUN).status == 201
        graded.add(web.store, "blue", graded.measurement(0.5))
        yield web


@pytest.fixture
def blue(site):
    return BrowserUser(site, "blue")


@pytest.fixture
def staff(site):
    return BrowserUser(site, "staff", "staff")


def text(reply: Reply) -> str:
    return reply.body.decode()


def test_a_link_is_good_once_and_its_cookie_is_for_this_server_alone(site):
    token = site.token("blue")
    code = site.ask("POST", "/api/v1/codes", token).json["code"]
    for method in ("HEAD", "GET"):  # as for a preview of the link
        looked = site.ask(method, f"/enter?code={code}")
        assert looked.status == 200 and "set-cookie" not in looked.headers
    assert f'value="{code}"' in text(looked)
    assert enter(site, code, Origin="http://evil.example").status == 403
    plain, again = enter(site, code), enter(site, code)

    assert plain.status == 303
    cookie = plain.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie and "path=/" in cookie
    assert "secure" not in cookie
    assert again.status == 403 and "set-cookie" not in again.headers
    assert "`rai web` or" in text(again)
    code = site.ask("POST", "/api/v1/codes", token).json["code"]
    host = "gpu.example.org"
    behind_a_proxy = enter(site, code, Origin=f"https://{host}", Host=host)
    assert "; secure" in behind_a_proxy.headers["set-cookie"].lower()


def test_who_is_not_logged_in_is_told_how_to(site):
    for path in (*PAGES, "/staff"):
        found = site.ask("GET", path)
        assert found.status == 401 and "rai web" in text(found)
        assert found.headers["content-type"].startswith("text/html")


def test_a_session_is_no_token_and_a_token_no_session(site, blue):
    assert blue.get("/api/v1/me").status == 401
    assert site.ask("GET", "/", blue.token).status == 401


def test_a_session_ends_with_the_login_that_made_it_and_by_logging_out(site, blue):
    other = BrowserUser(site, "blue")
    assert other.send("/leave").status == 200
    assert other.get("/").status == 401
    assert blue.get("/").status == 200
    site.ahead += pages.SESSION_S + 1
    assert blue.get("/").status == 401


def test_every_page_has_a_policy_that_runs_the_servers_own_script_only(blue, staff):
    for person, path in [*((blue, path) for path in PAGES), (staff, "/staff")]:
        found = person.get(path)
        assert found.status == 200, (path, found)
        policy = found.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert "<script>" not in text(found) and " style=" not in text(found)
        assert not re.search(r"(src|href)=.(https?:)?//", text(found))


def test_another_teams_things_are_not_there_and_staffs_page_is_staffs(site, staff):
    red = BrowserUser(site, "red")
    for path in (f"/runs/{RUN}", f"/runs/{RUN}/output?after=0", "/submissions/1"):
        assert red.get(path).status == 404
        assert staff.get(path).status == 200
    assert red.get("/staff").status == 403
    why = {"what": "annul", "why": "mine"}
    assert red.send("/submissions/1/decide", **why).status == 403
    extend = {"team": "red", "milestone": "final", "by": "2d", "why": "ill"}
    assert red.send("/staff/extend", **extend).status == 403
    assert red.send(f"/runs/{RUN}/cancel").status == 404
    assert site.store.run(RUN).cancelled is False


@pytest.mark.parametrize(
    "origin", [None, "null", "http://evil.example", "http://", "http://["]
)
def test_a_change_is_taken_from_a_page_of_this_server_only(site, blue, origin):
    assert blue.send(f"/runs/{RUN}/cancel", origin).status == 403
    assert site.store.run(RUN).cancelled is False
    assert blue.send(f"/runs/{RUN}/cancel").status == 303
    assert site.store.run(RUN).state is QueueState.ENDED


def test_a_get_changes_nothing(site, blue):
    assert blue.get(f"/runs/{RUN}/cancel").status in (404, 405)
    assert site.store.run(RUN).state is QueueState.WAITING


def test_names_are_text_on_every_page(site, staff):
    evil = "<img src=x onerror=alert(1)>"
    token = site.token(evil)
    assert site.put(token, "1123456789", project=f"/{evil}").status == 201
    graded.add(site.store, evil, graded.measurement(0.6))
    for path in ("/", "/staff", "/standings/final", "/runs/1123456789"):
        assert "<img" not in text(staff.get(path))
    assert "&lt;img" in text(staff.get("/staff"))


def test_standings_show_ones_own_team_and_others_by_names_that_tell_nothing(site, blue):
    for number in range(79):
        ratio = 0.4 + number / 100
        graded.add(site.store, f"team-{number}", graded.measurement(ratio))
    found = blue.get("/standings/final")

    assert "team-" not in text(found)
    assert "blue (you)" in text(found)
    assert text(found).count("<circle") == 80
    assert text(found).count('class="own"/>') == 1
    assert len(found.body) < 30_000


def test_staff_see_names_in_standings_only_where_they_ask_for_them(site, blue, staff):
    assert "blue" not in text(staff.get("/standings/final"))
    assert "blue" in text(staff.get("/standings/final?names"))
    graded.add(site.store, "red", graded.measurement(0.7))
    assert "red" not in text(blue.get("/standings/final?names")).partition("<main")[2]


def test_a_milestone_that_is_being_written_hides_no_others(tmp_path, site, blue):
    site.site.milestones = (tmp_path,)
    (tmp_path / "a.yml").write_text("trust: [")
    assert "blue (you)" in text(blue.get("/standings"))


def test_the_deadline_that_a_team_has_is_on_top(tmp_path):
    ours = pages.milestones.read("final", ())[0].decode()
    (tmp_path / "final.yml").write_text(f"{ours}deadline: 2033-05-18 00:00 UTC\n")
    (tmp_path / "s").mkdir()
    with serving(tmp_path / "s", ServerRules(low_disk_bytes=0, term="x")) as web:
        web.site.milestones = (tmp_path,)
        web.clock = lambda: 1_999_987_200.0 - 100 * 60
        staff, blue = BrowserUser(web, "staff", "staff"), BrowserUser(web, "blue")
        assert "1 h 40 min left" in text(blue.get("/standings/final"))
        extend = {"team": "blue", "milestone": "final", "by": "2d", "why": "ill"}
        assert staff.send("/staff/extend", **extend).status == 303
        assert "2 days 1 h left" in text(blue.get("/standings/final"))
        assert "1 h 40 min left" in text(staff.get("/standings/final"))
        (entry,) = web.store.audited(1)
        assert (entry.who, entry.act) == ("staff/ann", "extend")
        wrong = staff.send("/staff/extend", **{**extend, "by": "soon"})
        assert wrong.status == 400 and "no duration" in text(wrong)


def test_staff_decide_about_a_submission_and_the_team_sees_why(site, blue, staff):
    assert "accepted" in text(blue.get("/submissions/1"))
    done = staff.send("/submissions/1/decide", what="annul", why="it was  copied")
    assert done.status == 303
    assert "annulled by staff: it was copied" in text(blue.get("/submissions/1"))
    assert "annulled by staff" in text(staff.get("/staff"))
    assert "blue" not in text(blue.get("/standings/final")).partition("<main")[2]
    assert staff.send("/submissions/1/decide", what="annul", why=" ").status == 400
    assert staff.send("/submissions/1/decide", what="shred", why="x").status == 400


def test_a_team_chooses_what_counts_where_it_may(tmp_path, site, blue):
    graded.add(site.store, "blue", graded.measurement(0.7))
    site.site.milestones = (tmp_path,)
    button = "Have this one count"
    assert button not in text(blue.get("/submissions/2"))
    ours = pages.milestones.read("final", ())[0].decode()
    (tmp_path / "final.yml").write_text(f"{ours}counts: chosen\n")
    assert button in text(blue.get("/submissions/1"))
    assert blue.send("/submissions/1/choose").status == 303
    assert button not in text(blue.get("/submissions/1"))
    assert button in text(blue.get("/submissions/2"))


def test_a_grid_cell_tells_what_counts_or_came_of_the_last_one(site, staff):
    for team in ("none", "wrong", "late"):
        site.token(team)
    graded.add(site.store, "wrong", None, reason=Reason.WRONG_ANSWER)
    graded.add(site.store, "late", graded.measurement(0.7), late_s=3600.0)
    found = text(staff.get("/staff"))
    rows = dict(re.findall(r'<tr><th scope="row">(\w+)</th><td>(.*?)</td>', found))
    plain = {team: re.sub("<[^>]+>", "", cell) for team, cell in rows.items()}
    assert plain == {
        "blue": "1.000 ms",
        "late": "1.400 ms 1h late",
        "none": "none",
        "wrong": "wrong answer",
    }


def test_what_did_not_change_is_not_sent_again(site, blue):
    for path in ("/", "/standings/final"):
        first = blue.get(path)
        same = {"If-None-Match": first.headers["etag"]}
        assert (again := blue.get(path, **same)).status == 304 and not again.body
        graded.add(site.store, "red", graded.measurement(0.8))
        site.ask("GET", "/api/v1/queue", blue.token)  # the server looks at its store
        assert blue.get(path, **same).status == 200


def test_what_is_decided_of_the_queue_makes_a_page_another(site, blue):
    first = {"If-None-Match": blue.get("/").headers["etag"]}
    site.decision = QueueDecision(note="the disk is full")
    assert "The disk is full" in text(blue.get("/", **first))


def test_what_changed_while_a_page_was_made_is_sent_again(site, blue, monkeypatch):
    real = views.queue

    def meanwhile(*its):
        found = real(*its)
        graded.add(site.store, "red", graded.measurement(0.8))
        site.ask("GET", "/api/v1/queue", blue.token)
        return found

    monkeypatch.setattr(views, "queue", meanwhile)
    first = blue.get("/").headers["etag"]
    assert blue.get("/", **{"If-None-Match": first}).status == 200


def test_pages_that_ask_again_and_again_write_nothing_into_the_log(site, blue, caplog):
    caplog.set_level(logging.INFO, messages.NAME)
    for path in PAGES:
        tag = blue.get(path).headers.get("etag", "")
        blue.get(path, **{"If-None-Match": tag})
    blue.get("/runs/none")

    def written() -> set[str]:
        lines = [one.facts for one in caplog.records if one.msg == "request"]
        return {facts["path"] for facts in lines}

    until(lambda: "/runs/none" in written())
    assert not written() & set(PAGES)


def test_that_staff_look_at_all_teams_is_kept_once(site, staff):
    for _ in range(2):
        assert staff.get("/staff").status == 200
    (entry,) = site.store.audited(10)
    assert (entry.who, entry.about) == ("staff/ann", "the submissions of all teams")


def test_points_are_shown_whole(tmp_path):
    ours = pages.milestones.read("final", ())[0].decode()
    (tmp_path / "final.yml").write_text(f"{ours}points: [{{points: 12.25}}]\n")
    (tmp_path / "s").mkdir()
    with serving(
        tmp_path / "s", ServerRules(low_disk_bytes=0, term=graded.TERM)
    ) as web:
        web.site.milestones = (tmp_path,)
        graded.add(web.store, "blue", graded.measurement(0.5))
        assert "<dd>12.25</dd>" in text(BrowserUser(web, "blue").get("/submissions/1"))


def test_the_queue_says_ones_place_and_a_verdict_what_to_do(site, blue):
    graded.add(site.store, "blue", None, reason=Reason.WRONG_ANSWER)
    red = site.token("red", "eve")
    for number in range(12):
        assert site.put(red, f"a{number:09}", project="/secret").status == 201
    found = text(blue.get("/"))
    assert "13 runs wait" in found and found.count("<td>red</td>") == 9
    assert RUN in found and "secret" not in found and "a000000000" not in found
    assert "wrong answer" in found and Reason.WRONG_ANSWER.advice in found


def test_output_comes_in_its_order_as_text_and_in_parts(site, blue, monkeypatch):
    site.begin(RUN)
    say = site.runs.say
    say(RUN, b"one\r\n\x1b[31mred\x1b[0m\x1b]0;title\x07 50%\r100%\n")
    say(RUN, b"two\n", Stream.STDERR)
    say(RUN, b"<b>three</b>\n")
    page = text(blue.get(f"/runs/{RUN}"))
    shown = page.partition('id="output"')[2].partition("</pre>")[0]
    assert shown.endswith("one\n100%\ntwo\n&lt;b&gt;three&lt;/b&gt;\n")

    monkeypatch.setattr(views, "OUTPUT_BYTES", 400)
    everything, after, parts = "", 0, 0
    for number in range(60):
        say(RUN, f"line {number}\n".encode())
    site.end(RUN)
    while True:
        part = blue.get(f"/runs/{RUN}/output?after={after}").json
        everything, after, parts = everything + part["text"], part["after"], parts + 1
        if part["over"]:
            break
    wanted = "".join(f"line {number}\n" for number in range(60))
    assert everything == "one\n100%\ntwo\n<b>three</b>\n" + wanted
    assert parts > 3
    assert "This is its end" in text(blue.get(f"/runs/{RUN}"))


def test_output_that_is_cut_into_pieces_is_shown_whole(site, blue):
    site.begin(RUN)
    large = "x" * 3 * views.OUTPUT_BYTES + "end\n"
    whole = f"é \x1b[31mred\x1b[0m\n{large}".encode()
    shown, after = "", 0
    for piece in (whole[:1], whole[1:6], whole[6:]):
        site.runs.say(RUN, piece)
        part = blue.get(f"/runs/{RUN}/output?after={after}").json
        shown, after = shown + part["text"], part["after"]
    assert shown == f"é red\n{large}"


def test_a_page_begins_with_the_end_of_much_output(site, blue):
    site.begin(RUN)
    for number in range(9):
        site.runs.say(RUN, f"{number}\n".encode() * (views.OUTPUT_BYTES // 8))
    page = text(blue.get(f"/runs/{RUN}"))
    shown = page.partition('id="output"')[2].partition("</pre>")[0]
    assert shown.endswith("8\n") and "5\n" in shown and "4\n" not in shown
    assert "This is its end" in page


@pytest.mark.parametrize("after", ["", "-1", "x", "1" * 16])
def test_a_place_in_the_output_that_is_none_is_refused(blue, after):
    assert blue.get(f"/runs/{RUN}/output?after={after}").status == 400


def test_a_report_is_made_once_the_run_has_ended_and_shown_in_a_sandbox(site, blue):
    site.begin(RUN)
    site.runs.say(RUN, b"<script>alert(1)</script>\n")
    site.end(RUN)
    found = blue.get(f"/runs/{RUN}/report")

    assert found.status == 200, text(found)
    policy = found.headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts;")
    assert "allow-same-origin" not in policy and "connect-src" not in policy
    assert "&lt;script&gt;alert(1)" in text(found)
    missing = blue.get(f"/runs/{RUN}/timeline")
    assert missing.status == 400 and "no build folder" in text(missing)


@pytest.fixture
def slow(site, tmp_path, monkeypatch):
    """A program that makes pages until there is a file `go`; it notes its folders."""
    site.begin(RUN)
    site.end(RUN)
    program, noted, go = (tmp_path / name for name in ("slow", "noted", "go"))
    wait = f"while [ ! -e {go} ]; do sleep 0.05; done"
    program.write_text(f'#!/bin/sh\necho "$TMPDIR" >> {noted}\n{wait}\n')
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    return noted


def test_a_page_that_takes_long_is_refused_and_leaves_no_file(blue, slow, monkeypatch):
    monkeypatch.setattr(pages, "MAKE_S", 0.5)
    found = blue.get(f"/runs/{RUN}/timeline")
    assert found.status == 400 and "not made within 0.5 s" in text(found)
    assert f"rai timeline {RUN}" in text(found)
    assert not Path(slow.read_text().strip()).exists()


def test_a_team_has_one_page_made_at_a_time_and_none_for_who_has_gone(site, blue, slow):
    links = []
    for _ in range(3):
        links.append(site.connection())
        path = f"/runs/{RUN}/report"
        links[-1].request("GET", path, headers={"Cookie": blue.cookie})
    until(lambda: slow.exists() and len(site.site.under_way) == 3)
    for link in links:
        link.close()
    slow.with_name("go").touch()
    until(lambda: not site.site.under_way)
    assert len(slow.read_text().split()) == 1


def test_a_page_is_no_longer_made_once_its_session_ended(site, blue, slow):
    token_id = blue.cookie.split("_")[1]
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(blue.get, f"/runs/{RUN}/report")
        until(slow.exists)
        site.store.revoke(token_id, site.now())
        assert asked.result().status == 401
    folder = Path(slow.read_text().strip())
    until(lambda: not folder.exists())


def test_times_that_are_alike_stand_above_each_other():
    board = Leaderboard("fp32", "gpu", "docker", ())
    assert views.board(board).dots == ()
    one = views.board(replace(board, standings=(_standing(1.0),)))
    assert len(one.dots) == 1 and 0 < one.dots[0].x < views.WIDTH
    many = [_standing(1.0), _standing(1.0001), _standing(2.0)]
    dots = views.board(replace(board, standings=tuple(many))).dots
    assert dots[0].x == pytest.approx(dots[1].x, abs=1) and dots[0].y > dots[1].y
    assert dots[2].x > dots[1].x and dots[2].y == dots[0].y


def _standing(ms):
    return TeamStanding(
        *(1, "a team", False, "", ms, ms, None, 0.0, graded.AT, 0),
    )
