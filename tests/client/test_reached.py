"""Runs of a server from machines that did not send them: whose, and by whom.

Each machine has a home and a login of its own; all ask one server, over HTTP.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.cli.main import _status
from runner.core import Reason, RunRequest
from runner.core.request import to_json
from runner.store import claim, runs
from runner.store.paths import Home
from tests.kit.recorded import archive_of, profile_of, told_of_its_end
from tests.kit.waiting import until
from tests.kit.web import SPEC, WebServer, serving

pytestmark = pytest.mark.programs

ELSEWHERE = "fedcba9876"


class Machine:
    """Somebody's machine, on which the commands of a test are typed."""

    def __init__(
        self, web: WebServer, folder: Path, token: str, patch: pytest.MonkeyPatch
    ) -> None:
        self.home, self._patch = Home(folder / "home"), patch
        folder.mkdir()
        self._profile = profile_of(folder, f"unix://{web.socket}", token)

    def rai(self, *words: str) -> int:
        self._patch.setenv("RAI_PROFILE_FILE", self._profile)
        self._patch.setenv("RAI_HOME", str(self.home.root))
        return _status(list(words))


class Room:
    """A server with the runs of several people, each with machines of their own."""

    def __init__(self, web: WebServer, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.web, self._folder, self._patch = web, folder, patch
        self._machines = 0

    def machine(self, team: str, person: str, role: str = "") -> Machine:
        self._machines += 1
        folder = self._folder / f"machine-{self._machines}"
        token = self.web.token(team, person, role)
        return Machine(self.web, folder, token, self._patch)

    def queued(self, team: str = "blue", person: str = "ann") -> str:
        """Queue a run by somebody on yet another machine; return its id."""
        answer = self.web.put(self.web.token(team, person))
        assert answer.status == 201, answer.body
        return str(answer.json["id"])

    def begun(self, team: str = "blue", person: str = "ann") -> str:
        run = self.queued(team, person)
        self.web.begin(run)
        self.web.runs.write(run, "spec.yml", SPEC.encode())
        return run

    def ended(self, team: str = "blue", person: str = "ann") -> str:
        run = self.begun(team, person)
        self.web.runs.say(run, b"hello\n")
        self.web.runs.write(run, "build.tar.zst", archive_of(self._folder))
        self.web.end(run)
        told_of_its_end(self.web, run, self.web.token(team, person))
        return run


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    monkeypatch.delenv("CI", raising=False)
    with serving(tmp_path) as web:
        yield Room(web, tmp_path, monkeypatch)


def test_an_ended_run_is_read_on_another_machine_of_its_team(room, tmp_path, capfd):
    run, there = room.ended(), room.machine("blue", "bob")

    assert there.rai("logs", run) == 0
    assert capfd.readouterr().out == "hello\n"
    assert there.rai("show", run, "--json") == 0
    shown = json.loads(capfd.readouterr().out)
    assert (shown["id"], shown["state"]) == (run, "done")
    assert there.rai("pull", run, "-o", str(tmp_path / "got")) == 0
    assert (tmp_path / "got" / "made").read_text() == "made"
    assert there.rai("attach", run) == 0
    assert there.rai("wait", run) == 0
    assert there.rai("report", run, "--format", "md") == 0
    capfd.readouterr()
    other = room.ended()
    assert there.rai("diff", run, other) == 0
    paths = there.home.run(run)
    assert runs.read(paths) == runs.read(room.web.runs.paths(run))
    assert claim.holder(paths).team == "blue"


def test_every_command_finds_a_run_that_no_earlier_one_did(room, tmp_path):
    words = (
        *(("attach",), ("logs",), ("show",), ("wait",), ("report", "--format", "md")),
        ("pull", "-o", str(tmp_path / "got")),
    )
    run = room.ended()
    for name, *options in words:
        assert room.machine("blue", "ann").rai(name, run, *options) == 0, name


def test_a_run_that_goes_on_is_watched_and_one_that_waits_is_shown(room, capfd):
    there = room.machine("blue", "bob")
    waiting, running = room.queued(), room.begun()

    assert there.rai("show", waiting, "--json") == 0
    shown = json.loads(capfd.readouterr().out)
    assert (shown["state"], shown["project"]) == ("queued", "/home/ann/project")
    room.web.runs.say(running, b"so far\n")
    assert there.rai("logs", running) == 0
    assert capfd.readouterr().out == "so far\n"
    assert there.rai("wait", running, "--timeout", "0.2s") == 124


def test_its_owner_cancels_a_run_from_another_machine(room, capfd):
    run = room.queued()

    assert room.machine("blue", "ann").rai("cancel", run) == 0

    assert capfd.readouterr().out == f"Run {run} ended: cancelled.\n"
    assert room.web.store.run(run).cancelled


def test_a_team_mate_who_cancels_is_told_whose_run_it_is_and_reads_on(room, capfd):
    run, there = room.begun(), room.machine("blue", "bob")

    assert there.rai("cancel", run) == Reason.NOT_ALLOWED.exit_code

    told = f"{run} is ann's run; ask ann or staff to cancel it\n"
    assert capfd.readouterr().err == told
    assert not room.web.store.run(run).cancelled
    assert not there.home.run(run).cancel.exists()
    room.web.runs.say(run, b"goes on\n")

    def read() -> bool:  # once what the first command began has left the copy
        assert there.rai("logs", run) == 0
        return capfd.readouterr().out == "goes on\n"

    until(read)


def test_another_teams_run_is_as_one_that_is_not_there(room, capfd):
    run, there = room.ended(), room.machine("red", "eve")
    for command in [
        "attach",
        "logs",
        "show",
        "pull",
        "wait",
        "diff",
        "report",
        "cancel",
    ]:
        assert there.rai(command, run) == 2
        first = capfd.readouterr().err
        assert there.rai(command, ELSEWHERE) == 2

        assert "`rai runs` lists the runs" in first
        assert capfd.readouterr().err.count("no run") == first.count("no run") == 1
    assert not runs.names(there.home)


def test_without_the_server_it_is_said_that_it_was_not_asked(room, capfd):
    there = room.machine("blue", "ann")
    room.web.socket.unlink()

    assert there.rai("show", ELSEWHERE) == Reason.BUSY.exit_code

    assert f"no connection to unix://{room.web.socket}" in capfd.readouterr().err


def test_a_run_whose_files_are_gone_is_said_to_be(room, capfd):
    run = room.ended()
    room.web.runs.remove([run])
    room.web.store.removed([run])

    assert room.machine("blue", "ann").rai("show", run) != 0

    assert f"keeps no files of run {run}" in capfd.readouterr().err


def test_what_is_no_run_is_not_kept(room, capfd):
    there, run = room.machine("blue", "ann"), room.ended()
    parcel = room.web.runs.paths(run).parcel
    for text in (
        b"",
        b"{}",
        b"[" * 100_000,
        to_json(RunRequest("p", "s", "t", "0"))[:-9],
    ):
        parcel.write_bytes(text)
        assert there.rai("show", run) != 0
        assert "sends what is no run" in capfd.readouterr().err
    assert not runs.names(there.home)


def listed(there: Machine, capfd: pytest.CaptureFixture[str], *words: str) -> list:
    assert there.rai("runs", "--json", *words) == 0
    told = capfd.readouterr()
    assert told.err == ""
    return json.loads(told.out)


def test_the_list_has_the_teams_runs_that_are_not_here_by_the_same_fields(room, capfd):
    there, run = room.machine("blue", "bob"), room.ended()
    waiting, own = room.queued(), room.queued("blue", "bob")
    room.queued("red", "eve")

    found = listed(there, capfd)
    assert [one["id"] for one in found] == [own, waiting, run]
    assert [one["state"] for one in found] == ["queued", "queued", "done"]
    assert {one["on"] for one in found} == {str(room.web.socket)}
    assert found[1]["whose"] == "ann"
    assert there.rai("runs") == 0
    shown = capfd.readouterr().out
    assert f"queued on {room.web.socket}, ann" in shown
    assert f"ok on {room.web.socket}, ann" in shown
    assert there.rai("wait", run) == 0
    capfd.readouterr()
    again = listed(there, capfd)
    assert [one["id"] for one in again] == [own, waiting, run]
    assert again[0].keys() == again[2].keys()
    assert again[2]["on"] is None


def test_the_options_of_the_list_choose_among_the_servers_runs_too(room, capfd):
    there, run = room.machine("blue", "ann"), room.queued()
    other = room.queued()
    assert [one["id"] for one in listed(there, capfd, "-n", "1")] == [other]
    assert len(listed(there, capfd, "--project", "proj")) == 2
    for nothing in (("--project", "else"), ("--tag", "a*"), ("--on", "here")):
        assert listed(there, capfd, *nothing) == []
    assert run in {one["id"] for one in listed(there, capfd, "--since", "1h")}


def test_a_server_that_is_away_costs_one_line_of_the_list(room, capfd):
    there, run = room.machine("blue", "ann"), room.ended()
    assert there.rai("wait", run) == 0
    capfd.readouterr()
    room.web.socket.unlink()

    assert there.rai("runs") == 0

    told = capfd.readouterr()
    assert run in told.out
    (line,) = told.err.splitlines()
    assert f"the runs on {room.web.socket} are not listed: no connection" in line


def test_staff_list_show_read_pull_and_cancel_any_teams_run(room, tmp_path, capfd):
    there, run = room.machine("crew", "sue", "staff"), room.ended()
    going = room.begun("red", "eve")

    assert listed(there, capfd) == []
    found = listed(there, capfd, "--all")
    assert [(one["id"], one["whose"]) for one in found] == [
        (going, "red/eve"),
        (run, "blue/ann"),
    ]
    assert there.rai("logs", run) == 0
    assert capfd.readouterr().out == "hello\n"
    assert there.rai("show", run) == 0
    assert there.rai("pull", run, "-o", str(tmp_path / "got")) == 0
    assert there.rai("cancel", going, "--no-wait") == 0
    assert room.web.store.run(going).cancelled
    acts = [(one.act, one.about) for one in room.web.store.audited()]
    assert ("cancel", f"run {going} of red/eve") in acts
    assert ("read", f"run {run} of blue/ann") in acts


def test_all_runs_are_for_staff_alone(room, capfd):
    assert room.machine("blue", "ann").rai("runs", "--all") == (
        Reason.NOT_ALLOWED.exit_code
    )
    assert "only staff see the runs of all teams" in capfd.readouterr().err


def test_staff_drain_from_their_own_machine_and_nobody_else_does(room, capfd):
    url = f"unix://{room.web.socket}"
    room.queued()

    student = room.machine("blue", "ann").rai("server", "drain", "--on", url)
    assert student == Reason.NOT_ALLOWED.exit_code
    assert "only staff may drain the queue" in capfd.readouterr().err
    assert room.web.store.drained() == ""
    sue = room.machine("crew", "sue", "staff")
    assert sue.rai("server", "drain", "a new driver", "--on", url) == 0
    assert capfd.readouterr().out == "No run starts; 0 still running, 1 waiting\n"
    assert room.web.store.drained() == "a new driver"
    assert sue.rai("server", "drain", "--off") == 0  # no server's store is here
    assert room.web.store.drained() == ""
    acts = [(one.who, one.act, one.about) for one in room.web.store.audited()]
    assert acts == [
        ("crew/sue", "drain off", ""),
        ("crew/sue", "drain", "a new driver"),
    ]


def test_a_second_device_logs_in_by_a_code_of_the_first(room, tmp_path, capfd):
    first = room.machine("blue", "ann")
    assert first.rai("login", "--another", "--json") == 0
    made = json.loads(capfd.readouterr().out)
    assert 590 < made["expires_at"] - room.web.now() <= 600
    code = str(tmp_path / "code")
    Path(code).write_text(made["code"])
    second = room.machine("red", "bob")

    assert second.rai("login", made["server"], "--code-file", code) == 0
    assert "as ann, team blue" in capfd.readouterr().out
    assert second.rai("login", made["server"], "--code-file", code) == (
        Reason.NOT_ALLOWED.exit_code
    )
    assert second.rai("login", "--status") == 0
    assert second.rai("logout") == 0
    assert second.rai("login", "--status") == Reason.USAGE.exit_code
