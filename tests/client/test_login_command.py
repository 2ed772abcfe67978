"""`rai login`, its `--status`, `rai queue` and `rai logout`, from the command line."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runner.cli import suggestions
from runner.client import profile
from runner.client.profile import ProfileEntry
from tests.kit import played
from tests.kit.calling import rai
from tests.kit.played import TOKEN, PlayedServer, as_json, refusal

pytestmark = pytest.mark.programs


@pytest.fixture(autouse=True)
def folder(home: Path) -> None:
    home.mkdir(exist_ok=True)


@pytest.fixture
def logged_in(server: PlayedServer, url: str) -> str:
    done = rai("login", url, input=f"{server.code}\n")
    assert done.returncode == 0
    return url


@pytest.mark.parametrize("by_file", [False, True])
def test_a_login_keeps_the_token_and_says_who_one_is_and_where_runs_go(
    server, url, tmp_path, by_file
):
    code = tmp_path / "code"
    code.write_text(f"  {server.code}\n")
    given = ["--code-file", code] if by_file else []
    done = rai("login", url, *given, input=code.read_text())
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"Logged in at {url} as ada, team kernels.",
        "The token is valid until it is revoked.",
        "`rai run` runs there now; `rai run --on here` runs on this machine.",
    ]
    kept = profile.read(profile.path())
    assert kept.host == url
    assert kept.servers[url].token == TOKEN
    shown = done.stdout + rai("login", "--status").stdout
    assert TOKEN not in shown and server.code not in shown


def test_a_wrong_code_is_refused_and_nothing_is_kept(url):
    done = rai("login", url, input="wrong\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no such code" in done.stderr
    assert not profile.path().exists()


@pytest.mark.parametrize("given", ["", "\n", "  \n"])
def test_without_a_code_nothing_is_sent(server, url, given):
    done = rai("login", url, input=given)
    assert done.returncode == 2
    assert "there is no code" in done.stderr
    assert [path for method, path, _ in server.asked if method == "POST"] == []


def test_a_second_server_does_not_become_the_host(logged_in, tmp_path):
    with played.serving(socket_path=tmp_path / "s") as (server, other):
        done = rai("login", other, input=f"{server.code}\n")
    assert f"`rai run` still runs at {logged_in}." in done.stdout
    assert profile.read(profile.path()).host == logged_in


def test_a_setting_that_names_another_server_is_said(server, url, monkeypatch):
    monkeypatch.setenv("RAI_SERVER", "here")
    done = rai("login", url, input=f"{server.code}\n")
    assert f"`rai run --on {url}` runs there" in done.stdout
    assert "the setting `server` is here" in done.stdout


def test_a_shell_completes_the_servers_that_one_is_logged_in_at(url):
    profile.keep(ProfileEntry(url, TOKEN), profile.path())

    assert suggestions.servers("http:") == [url]
    assert [one for one in suggestions.places("") if one != "slurm"] == ["here", url]


def test_logging_in_again_revokes_the_token_before(server, logged_in):
    server.asked.clear()
    assert rai("login", logged_in, input=f"{server.code}\n").returncode == 0
    assert ("DELETE", "/api/v1/tokens/current") in [one[:2] for one in server.asked]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["here"], 2, "needs no login"),
        (["http://127.0.0.1:9"], 8, "no connection to http://127.0.0.1:9"),
        (["--status"], 2, "rai login URL"),
    ],
)
def test_what_no_server_can_be_asked_is_an_error_of_one_line(words, code, said):
    done = rai("login", *words, input="x\n")
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("wrong", "said", "asked"),
    [
        ("profile", "it is no profile of this rai", 0),
        ("folder", "no file can be kept in ", 0),
        ("server", "serves clients from 7.0 on", 1),
    ],
)
def test_what_would_fail_a_login_is_said_before_the_code_is_used(
    server, url, monkeypatch, tmp_path, wrong, said, asked
):
    if wrong == "profile":
        profile.path().write_text("export RAI_TEAM_NAME=x\n")
    elif wrong == "folder":
        monkeypatch.setenv("RAI_PROFILE_FILE", str(tmp_path / "no" / "profile"))
    else:
        facts = played.FACTS | {"version": "7.0", "least_client": "7.0"}
        server.plays["GET", "/"] = lambda _: as_json(facts)
    done = rai("login", url, input=f"{server.code}\n")
    assert done.returncode == 2
    assert said in done.stderr
    assert len(server.asked) == asked


def test_the_status_says_what_is_left(server, logged_in):
    limits = {"at_once": 2, "left_today": 1, "disk_used": 1 << 30, "network": False}
    limits |= {"disk_bytes": 20 << 30, "resets_at": time.time() - 5}
    server.plays["GET", "/me"] = lambda _: as_json(played.ME | {"limits": limits})
    done = rai("login", "--status")
    assert done.returncode == 0
    rows = dict(line.split(None, 1) for line in done.stdout.splitlines())
    assert rows["server"] == logged_in
    assert rows["today"] == "1 run left; more now"
    assert rows["disk"] == "1.0 GiB of 20.0 GiB used"
    assert rows["network"] == "runs have none"
    assert "images" not in rows
    said = json.loads(rai("login", "--status", "--json").stdout)
    assert said["server"] == logged_in
    assert said["limits"]["left_today"] == 1


def test_names_of_a_server_steer_no_terminal(server, url):
    me = played.ME | {"person": "a\x1b]0;x\x07", "team": "t\u202e"}
    server.plays["POST", "/login"] = lambda request: (
        (request.body() and None) or as_json({"token": TOKEN, "me": me}, 201)
    )
    server.plays["GET", "/me"] = lambda _: as_json(me)
    done = rai("login", url, input="x\n")
    said = (
        done.stdout
        + rai("login", "--status").stdout
        + rai("login", "--status", "--json").stdout
    )
    assert done.returncode == 0
    assert not {"\x1b", "\x07", "\u202e"} & set(said)


RUNNING = {
    **played.WAITING,
    "id": "aaaaaaaaaa",
    "state": "running",
    "started_at": 1.0,
    "gpus": 1,
    "person": "ada",
    "project": "m3",
}
OTHERS = {
    **played.WAITING,
    "id": "bbbbbbbbbb",
    "team": "others",
    "mine": False,
    "ahead": 0,
    "estimate_s": 200.0,
    "why": "every GPU is in use",
}
OWN = {**played.WAITING, "ahead": 1, "estimate_s": 10.0}
VIEW = {"gpus": 1, "gpus_free": 0, "slots": 2, "slots_free": 2}


def test_the_queue_is_shown_in_the_order_of_the_starts(server, logged_in):
    view = VIEW | {"running": [RUNNING], "waiting": [OTHERS, OWN]}
    server.plays["GET", "/queue"] = lambda _: as_json(view)
    done = rai("queue")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    ids = ("aaaaaaaaaa", "bbbbbbbbbb", "0123456789")
    assert all(run in line for run, line in zip(ids, lines[1:4], strict=True))
    assert "kernels (yours)" in lines[1] and "kernels (yours)" in lines[3]
    assert "(yours)" not in lines[2]
    assert "in about 3 min" in lines[2] and lines[2].endswith("every GPU is in use")
    assert lines[3].split()[0] == "2" and "in less than a minute" in lines[3]
    assert lines[-1] == "Free: 0 of 1 GPU, 2 of 2 slots."
    assert json.loads(rai("queue", "--json").stdout)["waiting"][0]["team"] == "others"


@pytest.mark.usefixtures("logged_in")
def test_runs_of_a_server_steer_no_terminal(server):
    odd = dict.fromkeys(("team", "person", "project", "why"), "a\x1b]0;x\x07\u202e")
    ended = {"state": "ended", "reason": "runner_lost", "ended_at": 2.0}
    view = VIEW | {"running": [RUNNING | odd], "waiting": [OWN | odd], "note": "\u202e"}
    server.plays["GET", "/queue"] = lambda _: as_json(view)
    page = {"runs": [RUNNING | odd, OWN | odd | ended]}
    server.plays["GET", "/runs"] = lambda _: as_json(page)
    said = ""
    for words in (["queue"], ["queue", "--json"], ["runs"], ["runs", "--json"]):
        done = rai(*words)
        assert done.returncode == 0, done.stderr
        said += done.stdout + done.stderr
    assert said.count("aaaaaaaaaa") == 4
    assert not {"\x1b", "\x07", "\u202e"} & set(said)


@pytest.mark.usefixtures("logged_in")
def test_an_empty_queue_that_is_drained_says_so(server):
    view = VIEW | {"running": [], "waiting": [], "note": "drained until noon\x1b[1m"}
    server.plays["GET", "/queue"] = lambda _: as_json(view)
    done = rai("queue")
    assert done.stdout == "Nothing runs or waits. Free: 0 of 1 GPU, 2 of 2 slots.\n"
    assert done.stderr == "warning: drained until noon\\x1b[1m\n"


def test_logging_out_revokes_and_forgets_the_token(server, logged_in):
    done = rai("logout")
    assert done.returncode == 0
    assert done.stdout == (
        f"Logged out at {logged_in}. `rai run` runs on this machine.\n"
    )
    assert server.asked[-1][:2] == ("DELETE", "/api/v1/tokens/current")
    assert TOKEN not in profile.path().read_text()
    assert rai("logout").stdout == "You are not logged in.\n"


def test_logging_out_works_offline_and_says_that_the_token_is_still_good(tmp_path):
    with played.serving(socket_path=tmp_path / "s") as (server, url):
        assert rai("login", url, input=f"{server.code}\n").returncode == 0
    done = rai("logout", url)
    assert done.returncode == 0
    assert "the token could not be revoked" in done.stderr
    assert profile.read(profile.path()).servers == {}


def test_logging_out_with_a_token_that_ended_before_is_fine(server, logged_in):
    server.plays["DELETE", "/tokens/current"] = lambda _: refusal(401)
    done = rai("logout", logged_in)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_run_without_a_server_does_not_load_its_client(url):
    profile.keep(ProfileEntry(url, TOKEN), profile.path())
    code = """
import sys
from pathlib import Path
from runner.cli import run
from runner.client import profile
from runner.store.settings import Settings
assert profile.chosen("here", Settings(Path())) is None
assert profile.chosen(None, Settings(Path())).token
loaded = {"requests", "http.client", "runner.client.api"} & {*sys.modules}
sys.exit(str(loaded) if loaded else 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
