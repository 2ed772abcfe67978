"""`rai run --on`, and commands that show runs on servers, with a pretended server."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from runner import places
from runner.archive import BUILD, BuildWriter
from runner.cli.main import _status
from runner.core import Problem, Reason, RunRequest, State, Verdict
from runner.remote.api import NONE
from runner.remote.problems import RefusedError, UnreachableError
from runner.remote.profile import ProfileEntry
from runner.store import claim, runs
from runner.store.claim import Standing
from runner.store.paths import Home, RunPaths
from runner.wire.accounts import Me, Scope
from runner.wire.refusals import Refusal
from runner.wire.remote_runs import QueueState, RemoteRun
from tests.runner.remote.recorded import (
    TEAM,
    URL,
    answer,
    handed_over,
    recorded,
    remote,
    said,
)
from tests.waiting import until

WRONG = Verdict(True, False, None, Reason.COMMAND_FAILED, "1 command failed")


class Site:
    """A server whose runs end as the test says, once it lets them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.verdict: Verdict | None = Verdict(True, True, None, Reason.DONE)
        self.requests: dict[str, RunRequest] = {}
        self.ended: dict[str, RemoteRun] = {}
        self.open = threading.Event()
        self.open.set()
        self.away = False
        self.taken = 0
        self.busy = 0
        self.build: bytes | None = b"no archive"
        self.refusal: RefusedError | None = None

    def client(self, entry: ProfileEntry, patience: object = None) -> PretendedClient:
        return PretendedClient(self)


class PretendedClient:
    """A client of the site."""

    def __init__(self, site: Site) -> None:
        self.site, self.entry = site, ProfileEntry(URL, "token", team=TEAM)
        self.patience = NONE

    def __enter__(self) -> PretendedClient:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def _reach(self) -> None:
        if self.site.away:
            raise UnreachableError(f"{URL} cannot be reached: no route to host")

    def me(self) -> Me:
        self._reach()
        return Me("ann", TEAM, "student", "t", (Scope.RUN,), None)

    def has_upload(self, sha256: str, size: int) -> bool:
        return True

    def put_run(self, run: str, request: RunRequest) -> RemoteRun:
        self._reach()
        if self.site.refusal is not None:
            raise self.site.refusal
        if self.site.taken:
            self.site.taken -= 1
            raise RefusedError(Refusal(409, "another run has this id", Reason.USAGE))
        self.site.requests[run] = request
        return remote(QueueState.WAITING, id=run, ahead=2, why="the GPU is in use")

    def cancel(self, run: str) -> RemoteRun:
        self._reach()
        self.site.ended[run] = remote(id=run, reason=Reason.CANCELLED, why="by ann")
        return self.site.ended[run]

    @contextmanager
    def tail(
        self, run: str, have: Mapping[str, int], wait_s: int
    ) -> Iterator[io.BufferedReader]:
        self._reach()
        if self.site.busy:
            self.site.busy -= 1
            raise RefusedError(Refusal(429, "too many", Reason.RATE_LIMIT))
        if run not in self.site.requests:
            raise RefusedError(Refusal(404, "no such run"))
        if run in self.site.ended:
            data = said(self.site.ended[run], over=True)
        elif not self.site.open.is_set():
            waits = remote(QueueState.WAITING, id=run, ahead=2, why="the GPU is in use")
            data = said(waits)
        else:
            served = RunPaths(self.site.folder / run)
            if not served.root.exists():
                recorded(self.site.folder, self.site.verdict, run=run)
            build = 1 if self.site.build is None else None
            data = answer(served, have, build=build)
        yield io.BufferedReader(io.BytesIO(data))  # type: ignore[arg-type]

    def download(self, run: str, name: str, path: Path, most_bytes: int) -> int:
        if self.site.build is None:
            raise RefusedError(Refusal(404, "there is none"))
        return path.write_bytes(self.site.build)


def archive_of(folder: Path) -> bytes:
    """Return the archive of a build folder with one file, as an engine keeps it."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        member = tarfile.TarInfo("build/made")
        member.size = 4
        tar.addfile(member, io.BytesIO(b"made"))
    with BuildWriter(folder / "made.tar.zst", BUILD) as writer:
        writer.write(stream.getvalue())
    return (folder / "made.tar.zst").read_bytes()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(tmp_path / "site")
    monkeypatch.setattr("runner.remote.api.ServerClient", made.client)
    profile = tmp_path / "profile"
    profile.write_text(f"servers:\n  {URL}:\n    token: rai_x_y\n    team: {TEAM}\n")
    profile.chmod(0o600)
    monkeypatch.setenv("RAI_PROFILE_FILE", str(profile))
    monkeypatch.setenv("RAI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CI", raising=False)
    return made


@pytest.fixture
def project(tmp_path: Path) -> str:
    folder = tmp_path / "project"
    folder.mkdir()
    spec = {"rai": {"image": "debian"}, "commands": {"build": ["echo 1"]}}
    (folder / "rai_build.yml").write_text(json.dumps(spec))
    return str(folder)


def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def only_run(tmp_path: Path) -> RunPaths:
    (name,) = runs.names(home(tmp_path))
    return home(tmp_path).run(name)


def detached(site: Site, project: str, capfd) -> str:
    site.open.clear()
    assert _status(["run", "-p", project, "--on", URL, "--detach"]) == 0
    return capfd.readouterr().out.strip()


def test_a_run_on_a_server_is_shown_and_ends_as_one_here(
    site, project, tmp_path, capfd
):
    assert _status(["run", "-p", project, "--on", URL]) == 0

    told = capfd.readouterr()
    assert "line 0 é\nline 1 é\n" in told.out
    assert "✱ Running on gpu.example.org as ann of team-1." in told.err
    assert "✱ Running echo 1" in told.err
    run = only_run(tmp_path)
    assert f"✱ Run {run.id} done" in told.err
    sealed = hashlib.sha256(run.source.read_bytes()).hexdigest()
    assert site.requests[run.id].upload == sealed
    record = runs.read(run)
    assert (record.state, record.verdict.reason) == (State.DONE, Reason.DONE)
    assert not places.active(run)
    assert _status(["show", run.id]) == 0
    assert _status(["attach", run.id]) == 0
    assert _status(["wait", run.id]) == 0


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


def test_a_waiting_run_that_is_cancelled_ends_as_cancelled(site, project, capfd):
    run = detached(site, project, capfd)

    assert _status(["cancel", run]) == 0

    assert capfd.readouterr().out == f"Run {run} ended: cancelled.\n"
    assert _status(["wait", run]) == 130
    assert _status(["attach", run]) == 130
    assert f"✱ Run {run} cancelled: by ann" in capfd.readouterr().err


def test_an_id_that_another_run_has_is_made_anew(site, project, tmp_path):
    site.taken = 2
    assert _status(["run", "-p", project, "--on", URL]) == 0
    assert list(site.requests) == [only_run(tmp_path).id]


def test_a_run_that_the_server_refuses_leaves_nothing(site, project, tmp_path, capfd):
    refusal = Refusal(400, "wrong", Reason.BAD_SPEC)
    site.refusal = RefusedError(refusal, Problem("commands.build is missing"))

    assert _status(["run", "-p", project, "--on", URL]) == 2

    assert "commands.build is missing" in capfd.readouterr().err
    assert runs.names(home(tmp_path)) == set()


def test_a_server_without_the_gpus_of_a_run_is_not_taken_for_one_with_its_id(
    site, project, tmp_path, capfd
):
    refusal = Refusal(409, "Conflict", Reason.NO_GPU)
    site.refusal = RefusedError(refusal, Problem("this server has no GPU"))

    assert _status(["run", "-p", project, "--on", URL]) == 11

    told = capfd.readouterr().err
    assert "this server has no GPU" in told
    assert "bug" not in told
    assert runs.names(home(tmp_path)) == set()


def test_a_server_that_stays_away_before_a_run_begins_leaves_none(
    site, project, tmp_path, capfd
):
    site.away = True
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
    site.away = True

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
    site.away = True
    assert _status(["cancel", run]) == 8
    site.away = False
    assert _status(["wait", run]) == 130
    assert run in site.ended


def test_a_lost_connection_is_said_once_and_the_run_is_not_cancelled(
    site, project, capfd
):
    run = detached(site, project, capfd)
    site.away = True
    back = threading.Timer(1.5, lambda: (site.open.set(), setattr(site, "away", False)))
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


def test_two_commands_follow_the_same_run(site, project, tmp_path, capfd):
    run = detached(site, project, capfd)
    with places.followed([only_run(tmp_path)]) as first:
        until(lambda: first[0].settled)
        site.open.set()
        assert _status(["wait", run]) == 0


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
