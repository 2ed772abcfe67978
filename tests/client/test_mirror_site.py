"""`rai run --on` from one person's machine to a real server, worker and sandbox."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator

import pytest

from runner.cli import remotely
from runner.client import profile
from tests.kit.begun import project
from tests.kit.site import Person, Site, serving
from tests.kit.waiting import until

pytestmark = [pytest.mark.local, pytest.mark.programs]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serving(tmp_path_factory.mktemp("site")) as found:
        yield found


@pytest.fixture(scope="module")
def ann(site: Site) -> Person:
    (code,) = site.codes("blue", "ann")
    found = site.stranger("blue", "ann")
    url = f"unix://{site.socket}"
    done = found.rai("login", url, input=f"{code}\n")
    assert done.returncode == 0, done.stderr
    found.token = profile.read(found.home / ".rai_profile").servers[url].token
    return found


def facts(person: Person, run: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(person.rai("show", run, "--json").stdout)
    return found


def test_a_run_there_is_as_a_run_here(ann, tmp_path):
    made = project(
        tmp_path / "project", "echo hello", "sh -c 'echo built > made; echo oh >&2'"
    )

    done = ann.rai("run", "-p", made, "-o", tmp_path / "out", "--json")

    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["state"] == "done"
    assert [one["exit_code"] for one in record["commands"]] == [0, 0]
    assert "hello\n" in done.stderr
    assert (tmp_path / "out" / "made").read_text() == "built\n"
    copy = ann.runs / record["id"]
    served = ann.site.runs / record["id"]
    for name in ("events.jsonl", "stdout.log", "stderr.log", "build.tar.zst"):
        assert (copy / name).read_bytes() == (served / name).read_bytes(), name
    assert record["project"] == str(made)


def test_a_detached_run_is_watched_and_ended_from_here(ann, tmp_path):
    made = project(tmp_path / "project", "sh -c 'echo begun; sleep 300'")
    run = ann.rai("run", "-p", made, "--detach").stdout.strip()
    with ann.started("attach", run) as watching:
        assert watching.stdout.readline() == "begun\n"
        ended = ann.rai("cancel", run)
        assert ended.stdout == f"Run {run} ended: cancelled.\n"
        assert watching.wait(60) == 130
        watching.communicate()
    assert facts(ann, run)["state"] == "cancelled"
    assert ann.rai("logs", run).stdout == "begun\n"


def test_sigterm_cancels_what_a_command_runs_there(ann, tmp_path):
    made = project(tmp_path / "project", "sh -c 'echo begun; sleep 300'")
    with ann.started("run", "-p", made, "--ci") as client:
        while "begun" not in client.stdout.readline():
            assert client.poll() is None
        client.send_signal(signal.SIGTERM)
        assert client.wait(60) == 130
        client.communicate()


def test_a_server_that_starts_again_loses_nothing_of_a_run(site, ann, tmp_path):
    loop = "for n in $(seq 100); do echo line $n; sleep 0.02; done"
    made = project(tmp_path / "project", f"sh -c '{loop}'")
    with ann.started("run", "-p", made) as client:
        first = os.read(client.stdout.fileno(), 1 << 16)  # nothing stays in a buffer
        site.kill()
        site.start()
        out, error = client.communicate(timeout=120)
    assert client.returncode == 0, error
    lines = [f"line {n}" for n in range(1, 101)]
    assert (first.decode() + out).splitlines() == lines
    assert "The connection is lost" in error


def test_a_run_waits_for_a_server_that_starts_again_and_says_so_once(
    site, ann, tmp_path
):
    made = project(tmp_path / "project", "echo hello")
    site.stop()
    with ann.started("run", "-p", made) as client:
        first = client.stderr.readline()
        site.start()
        out, error = client.communicate(timeout=120)
    assert "The server does not answer (no connection to unix:" in first
    assert (client.returncode, out) == (0, "hello\n"), error
    assert "does not answer" not in error


def test_ctrl_c_ends_the_wait_for_a_server_at_once(site, ann, tmp_path):
    made = project(tmp_path / "project", "echo hello")
    site.stop()
    with ann.started("run", "-p", made) as client:
        client.stderr.readline()
        client.send_signal(signal.SIGINT)
        _, error = client.communicate(timeout=remotely.STARTS_S / 2)
    site.start()
    assert client.returncode == 130
    assert "nothing of it is kept" in error


def test_a_save_cancels_the_run_there_and_queues_the_next(site, ann, tmp_path):
    say = "cat $RAI_SOURCE_DIR/word; exec sleep $(cat $RAI_SOURCE_DIR/pause)"
    made = project(tmp_path / "project", f"sh -c '{say}'")
    (made / "word").write_text("one\n")
    (made / "pause").write_text("300")
    with ann.started("run", "-p", made, "--watch", "-o", tmp_path / "out") as client:
        assert client.stdout.readline() == "one\n"
        (made / "pause").write_text("0")
        (made / "word").write_text("two\n")
        assert client.stdout.readline() == "two\n"
        until((tmp_path / "out").exists)
        client.send_signal(signal.SIGINT)
        _, error = client.communicate(timeout=60)
    assert client.returncode == 130, error
    assert error.count("Running on") == 1
    assert "cancelled: a file was saved" in error
    states = [one["state"] for one in json.loads(ann.rai("runs", "--json").stdout)]
    assert states[:2] == ["done", "cancelled"]
