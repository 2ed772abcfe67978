"""`rai run --on`, and commands that show runs on servers, with a pretended server."""

from __future__ import annotations

import json
import math
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from runner.cli.main import _status
from runner.client.problems import RefusedError
from runner.client.profile import ProfileEntry
from runner.core import Problem, Reason, RunRequest, State, Verdict
from runner.core.wire import QueueState, Refusal, RemoteRun
from runner.execution import places
from runner.store import claim, runs
from runner.store.claim import Standing
from runner.store.paths import Home, RunPaths
from tests.kit import begun
from tests.kit.recorded import (
    TEAM,
    URL,
    FakeServer,
    answer,
    archive_of,
    handed_over,
    profile_of,
    recorded,
    remote,
    said,
)

WRONG = Verdict(True, False, None, Reason.COMMAND_FAILED, "1 command failed")


class Site(FakeServer):
    """A server whose runs end as the test says, once it lets them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(lambda _: b"")
        self.folder = folder
        self.verdict: Verdict | None = Verdict(True, True, None, Reason.DONE)
        self.requests: dict[str, RunRequest] = {}
        self.ended: dict[str, RemoteRun] = {}
        self.open = threading.Event()
        self.open.set()
        self.taken = self.busy = 0
        self.refusal: RefusedError | None = None

    def client(self, entry: ProfileEntry, patience: object = None) -> Site:
        return self

    def has_upload(self, sha256: str, size: int, *, submission: bool) -> bool:
        return True

    def put_run(self, run: str, request: RunRequest) -> RemoteRun:
        self.reach()
        if self.refusal is not None:
            raise self.refusal
        if self.taken:
            self.taken -= 1
            raise RefusedError(Refusal(409, "another run has this id", Reason.USAGE))
        self.requests[run] = request
        return remote(QueueState.WAITING, id=run, ahead=2, why="the GPU is in use")

    def cancel(self, run: str) -> RemoteRun:
        self.reach()
        self.ended[run] = remote(id=run, reason=Reason.CANCELLED, why="by ann")
        return self.ended[run]

    def play(self, run: str, have: Mapping[str, int]) -> bytes:
        if self.busy:
            self.busy -= 1
            raise RefusedError(Refusal(429, "too many", Reason.RATE_LIMIT))
        if run not in self.requests:
            raise RefusedError(Refusal(404, "no such run"))
        if run in self.ended:
            return said(self.ended[run], over=True)
        if not self.open.is_set():
            waits = remote(QueueState.WAITING, id=run, ahead=2, why="the GPU is in use")
            return said(waits)
        served = RunPaths(self.folder / run)
        if not served.root.exists():
            recorded(self.folder, self.verdict, run=run)
        return answer(served, have, build=1 if self.build is None else None)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(tmp_path / "site")
    monkeypatch.setattr("runner.client.api.ServerClient", made.client)
    monkeypatch.setattr("runner.execution.server.ServerClient", made.client)
    monkeypatch.setenv("RAI_PROFILE_FILE", profile_of(tmp_path, URL, "rai_x_y"))
    monkeypatch.setenv("RAI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CI", raising=False)
    return made


@pytest.fixture
def project(tmp_path: Path) -> str:
    return str(begun.project(tmp_path / "project", "echo 1"))


def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def only_run(tmp_path: Path) -> RunPaths:
    (name,) = runs.names(home(tmp_path))
    return home(tmp_path).run(name)


def detached(site: Site, project: str, capfd) -> str:
    site.open.clear()
    assert _status(["run", "-p", project, "--on", URL, "--detach"]) == 0
    return capfd.readouterr().out.strip()


def test_the_exit_status_is_that_of_a_run_here(site, project, capfd):
    site.verdict = WRONG
    assert _status(["run", "-p", project, "--on", URL, "--json"]) == 1
    assert json.loads(capfd.readouterr().out)["exit_code"] == 1


def test_a_detached_run_waits_is_listed_and_can_be_attached_to(
    site, project, tmp_path, capfd
):
    run = detached(site, project, capfd)
    assert places.standing(only_run(tmp_path)) is Standing.ELSEWHERE
    assert _status(["ps"]) == 0
    assert "queued on gpu.example.org" in capfd.readouterr().out
    assert _status(["show", run]) == 0
    assert "waiting: 2 runs before it; the GPU is in use" in capfd.readouterr().out
    assert _status(["wait", run, "--timeout", "0.1s"]) == 124

    site.open.set()

    assert _status(["attach", run]) == 0
    assert "line 2" in capfd.readouterr().out


def test_an_id_that_another_run_has_is_made_anew(site, project, tmp_path):
    site.taken = 2
    assert _status(["run", "-p", project, "--on", URL]) == 0
    assert list(site.requests) == [only_run(tmp_path).id]


@pytest.mark.parametrize(
    ("status", "reason", "text"),
    [
        (400, Reason.BAD_SPEC, "commands.build is missing"),
        # It is not taken for a server that has the run's id.
        (409, Reason.NO_GPU, "this server has no GPU"),
    ],
)
def test_a_run_that_the_server_refuses_leaves_nothing(
    site, project, tmp_path, capfd, status, reason, text
):
    site.refusal = RefusedError(Refusal(status, "no", reason), Problem(text))

    assert _status(["run", "-p", project, "--on", URL]) == reason.exit_code

    assert text in capfd.readouterr().err
    assert runs.names(home(tmp_path)) == set()


def test_a_server_that_stays_away_before_a_run_begins_leaves_none(
    site, project, tmp_path, capfd
):
    site.away = math.inf
    assert _status(["run", "-p", project, "--on", URL]) == 8
    assert "no route to host" in capfd.readouterr().err
    assert runs.names(home(tmp_path)) == set()


def test_what_has_no_meaning_on_a_server_is_refused(site, project, capfd):
    assert _status(["run", "-p", project, "--on", URL, "--wait-for", "x"]) == 2
    assert f"--wait-for is not for runs on {URL}" in capfd.readouterr().err


def test_while_the_server_is_away_what_is_here_is_shown_and_nothing_ends(
    site, project, tmp_path, capfd
):
    run = detached(site, project, capfd)
    site.away = math.inf

    assert _status(["show", run]) == 0
    assert _status(["ps"]) == 0
    assert _status(["pull", run]) == 2
    assert _status(["cancel", run, "--no-wait"]) == 8

    told = capfd.readouterr()
    assert f"run {run} is shown as of" in told.err
    assert "no route to host" in told.err
    assert runs.read(only_run(tmp_path)).state is State.QUEUED


def test_a_cancel_that_found_no_server_is_passed_on_later(site, project, capfd):
    run = detached(site, project, capfd)
    site.away = math.inf
    assert _status(["cancel", run]) == 8
    site.away = 0
    assert _status(["wait", run]) == 130
    assert run in site.ended


def test_who_was_moved_to_another_team_follows_a_run_no_more(
    site, project, tmp_path, capfd
):
    run = detached(site, project, capfd)
    site.team, site.knows = "team-2", False
    assert _status(["attach", run]) == 9
    told = capfd.readouterr().err
    assert f"run {run} of team team-1 goes on without you" in told
    assert "you are of team team-2 now; log in as one of team-1" in told
    site.team, site.knows = TEAM, True
    site.open.set()
    assert _status(["attach", run]) == 0


def test_a_lost_connection_is_said_once_and_the_run_is_not_cancelled(
    site, project, capfd
):
    run = detached(site, project, capfd)
    site.away = math.inf
    back = threading.Timer(1.5, lambda: (site.open.set(), setattr(site, "away", 0)))
    back.start()

    assert _status(["attach", run]) == 0

    back.join()
    told = capfd.readouterr().err
    assert told.count("The connection is lost") == 1
    assert told.count("The connection is back.") == 1
    assert run not in site.ended


def test_a_run_on_a_server_is_removed_only_when_it_has_ended_or_by_force(
    site, project, tmp_path, capfd
):
    run = detached(site, project, capfd)
    assert _status(["rm", run]) == 2
    assert f"rai cancel {run}" in capfd.readouterr().err
    assert _status(["rm", "--yes", "--force", run]) == 0
    assert runs.names(home(tmp_path)) == set()


def test_the_sweep_leaves_a_run_on_a_server_however_old_it_is(
    site, project, tmp_path, capfd
):
    run = RunPaths(home(tmp_path).runs / detached(site, project, capfd))
    for _ in range(2):
        places.open_home(home(tmp_path).root)
    assert not run.record.exists()
    assert places.elsewhere(run) == "gpu.example.org"
    assert places.unseen(run) == ""


def test_a_copy_of_its_folder_is_another_run_that_nobody_carries_out(
    site, project, tmp_path, capfd
):
    run = RunPaths(home(tmp_path).runs / detached(site, project, capfd))
    other = RunPaths(run.root.with_name("fedcba9876"))
    shutil.copytree(run.root, other.root)

    assert places.standing(other) is Standing.GONE
    assert _status(["ps"]) == 0
    assert runs.read(other).state is State.LOST
    assert places.active(run)


def test_a_home_that_was_moved_goes_on_with_its_runs(
    site, project, tmp_path, capfd, monkeypatch
):
    run = detached(site, project, capfd)
    (tmp_path / "home").rename(tmp_path / "moved")
    monkeypatch.setenv("RAI_HOME", str(tmp_path / "moved"))
    site.open.set()
    assert _status(["wait", run]) == 0


def test_a_client_that_died_before_its_run_was_queued_leaves_a_lost_run(
    site, tmp_path, capfd
):
    made = handed_over(home(tmp_path).root)
    made.holder.unlink()
    claim.Claim(made).close()

    assert _status(["wait", made.id]) == 10

    assert runs.read(made).state is State.LOST
    assert site.requests == {}


def test_a_build_folder_that_could_not_be_fetched_is_fetched_by_pull(
    site, project, tmp_path, capfd
):
    site.build = None
    assert _status(["run", "-p", project, "--on", URL]) == 0
    run = only_run(tmp_path)
    assert "the build folder was not fetched" in capfd.readouterr().err
    assert _status(["pull", run.id]) == 10

    site.build = archive_of(tmp_path)

    assert _status(["pull", run.id, "-o", str(tmp_path / "got")]) == 0
    assert (tmp_path / "got" / "made").read_text() == "made"


@pytest.mark.usefixtures("noticed_pauses")
def test_a_server_that_is_too_busy_to_be_followed_is_asked_again(site, project, capfd):
    run = detached(site, project, capfd)
    site.busy = 3
    site.open.set()
    assert _status(["attach", run]) == 0
    assert "The connection is lost" in capfd.readouterr().err


def test_a_run_on_a_server_is_reported_to_ci_as_one_here(
    site, project, tmp_path, capfd
):
    site.verdict = WRONG
    junit = tmp_path / "junit.xml"
    words = ["run", "-p", project, "--on", URL, "--ci", "--junit", str(junit)]

    assert _status(words) == 1

    assert "<testsuite" in junit.read_text()
    assert only_run(tmp_path).id in junit.read_text()


def test_a_gate_judges_a_run_on_a_server(site, project, capfd):
    words = ["run", "-p", project, "--on", URL, "--fail-if"]
    assert _status([*words, "command[1].wall>0.01s"]) == 7
    assert _status([*words, "command[1].wall>10s"]) == 0


def test_this_machines_policy_does_not_judge_what_a_server_runs(
    site, project, monkeypatch
):
    def read() -> None:
        raise AssertionError("the policy was read")

    monkeypatch.setattr("runner.store.policy.read", read)
    assert _status(["run", "-p", project, "--on", URL]) == 0
