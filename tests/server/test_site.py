"""A real server with its workers, and people who use it."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path

import pytest

from runner.core.wire import API_VERSION
from runner.store.paths import RunPaths
from tests.kit import begun, direct, newer
from tests.kit.site import Site, serving
from tests.kit.waiting import until

pytestmark = [pytest.mark.local, pytest.mark.programs]

ROOT = Path(__file__).resolve().parents[2]
SLOW = (
    "[\"sh -c 'n=0; while [ $n -lt 50 ]; do n=$((n+1)); echo $n; sleep 0.05; done'\"]"
)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("site")) as found:
        yield found


@pytest.fixture
def site(served):
    """A server that serves, with what earlier tests left there."""
    if served.process.poll() is not None:
        served.start()
    return served


def test_from_an_invitation_to_a_second_persons_run(site, tmp_path):
    table = tmp_path / "teams.csv"
    table.write_text("team,person\nred,ada\nblue,bo\n")
    done = site.rai("invite", table, "--json")
    assert done.returncode == 0, done.stderr
    invited = json.loads(done.stdout)
    for one in invited["codes"]:
        person = site.stranger(one["team"], one["person"])
        words = ("--fingerprint", invited["fingerprint"])
        logged_in = person.rai("login", invited["url"], *words, input=one["code"])
        assert logged_in.returncode == 0, logged_in.stderr
        folder = begun.project(tmp_path / one["person"], "echo hello > out", "echo hi")
        ran = person.rai("run", "-p", folder, "-o", person.home / "out")
        assert ran.returncode == 0, ran.stderr
        assert "hi\n" in ran.stdout
        assert (person.home / "out" / "out").read_text() == "hello\n"
        shown = person.rai("show", "latest", "--json")
        assert json.loads(shown.stdout)["state"] == "done"


def test_a_server_one_version_ahead_of_its_clients_serves_them(tmp_path):
    with serving(tmp_path, module=newer.__name__) as site:
        ada = site.person("red", "ada")
        with ada.client() as client:
            facts = client.facts()
            assert (facts.version, facts.api) == (newer.VERSION, API_VERSION + 1)
            run = direct.queue(client, direct.seal(tmp_path / "p", '["echo hi > f"]'))
            follower = direct.follow(ada, run)
            copy = RunPaths(ada.runs / run)
            until(lambda: copy.record.exists() or follower.error, "it has no end")
            follower.check()
            assert client.run(run).reason == "done"
            assert client.queue().waiting == ()
            assert copy.build.exists()


@pytest.mark.parametrize(
    "store", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)]
)
def test_a_follower_gets_every_byte_once_while_the_server_is_killed(
    request, tmp_path, store
):
    given = {}
    if store == "postgresql":
        given["RAI_DATABASE_URL"] = request.getfixturevalue("postgresql_url")
    with serving(tmp_path, **given) as site:
        ada = site.person("red", "ada")
        with ada.client(60.0) as client:
            run = direct.queue(client, direct.seal(tmp_path / "p", SLOW))
            follower = direct.follow(ada, run, 60.0)
            copy = RunPaths(ada.runs / run)
            until(lambda: _size(copy.stdout) > 0, "no output comes")
            site.kill()
            site.start()
            direct.ended(client, run)
            until(copy.record.exists, "the copy has no end")
            follower.check()
        origin = RunPaths(site.runs / run)
        assert copy.stdout.read_text() == "".join(f"{n}\n" for n in range(1, 51))
        for name in ("events.jsonl", "stdout.log", "stderr.log"):
            assert (copy.root / name).read_bytes() == (origin.root / name).read_bytes()
        assert site.rai("doctor").returncode == 0
        if site.environ.pop("RAI_DATABASE_URL", ""):
            assert not (site.state / "store.sqlite").exists()
            assert "RAI_DATABASE_URL" in site.rai("people").stderr


def test_what_a_killed_server_had_of_an_upload_goes_at_its_start(site, tmp_path):
    ada, packed = site.person("red", "ada"), direct.seal(tmp_path / "p", '["true"]')
    aside = site.state / "uploads" / "arriving"
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(str(site.socket))
        link.sendall(
            f"PUT /api/v1/uploads/{'0' * 64} HTTP/1.1\r\nHost: x\r\nAuthorization:"
            f" Bearer {ada.token}\r\nContent-Length: 900000\r\n\r\n".encode()
            + bytes(600_000)
        )
        until(lambda: any(one.stat().st_size for one in aside.glob("*")))
        site.kill()
    assert list(aside.glob("*"))
    site.start()
    assert not list(aside.glob("*"))
    with ada.client() as client:
        assert direct.ended(client, direct.queue(client, packed)).reason == "done"


def test_sigterm_ends_streams_soon_and_leaves_runs_running(site, tmp_path):
    ada = site.person("red", "ada")
    with ada.client(60.0) as client:
        run = direct.queue(client, direct.seal(tmp_path / "p", SLOW))
        direct.follow(ada, run, 60.0)
        until(lambda: _size(RunPaths(ada.runs / run).stdout) > 0, "no output comes")
        assert site.stop() == 0
        assert not site.socket.exists()
        site.start()
        assert direct.ended(client, run).reason == "done"


def test_a_backup_of_a_live_server_is_restored_elsewhere(request, site, tmp_path):
    ada = site.person("red", "ada")
    site.rai("drain")
    with ada.client() as client:
        run = direct.queue(client, direct.seal(tmp_path / "p", '["echo again"]'))
    request.addfinalizer(lambda: site.rai("drain", "--off"))
    kept = tmp_path / "kept"
    site.environ["RAI_MILESTONES"] = str(tmp_path / "nowhere")
    done = site.rai("backup", kept)
    assert done.returncode == 2  # for that folder alone
    assert "nowhere is not copied" in done.stderr
    assert "holds secrets" in done.stdout
    del site.environ["RAI_MILESTONES"]
    assert site.rai("backup", tmp_path / "another").returncode == 0
    assert site.rai("backup", kept).returncode == 2
    assert "backup" in site.rai("audit").stdout
    other = Site(tmp_path / "other")
    try:
        shutil.copytree(kept, other.state)
        other.start()
        assert other.fingerprint == site.fingerprint
        ada.site = other
        other.rai("drain", "--off")
        with ada.client() as client:
            assert direct.ended(client, run).reason == "done"
    finally:
        other.close()


def test_the_doctor_finds_a_server_that_is_well(request, site):
    done = site.rai("doctor", "--json")
    found = {one["subject"]: one for one in json.loads(done.stdout)}
    assert done.returncode == 0, done.stdout
    for name in ("store", "server", "engines", "folder", "certificate"):
        assert found[name]["state"] == "ok"
    site.state.chmod(0o755)
    request.addfinalizer(lambda: site.state.chmod(0o700))
    site.kill()
    done = site.rai("doctor", "--json")
    found = {one["subject"]: one for one in json.loads(done.stdout)}
    assert done.returncode == 1
    assert found["server"]["state"] == found["folder"]["state"] == "missing"
    assert "chmod" in found["folder"]["advice"]


def test_only_one_server_serves_a_folder(site):
    other = Site(site.folder)
    try:
        with pytest.raises(AssertionError, match="a server serves"):
            other.start()
    finally:
        other.close()


def test_a_run_sees_nothing_of_the_server_and_its_runs(site, tmp_path):
    wanted = (site.state, site.socket, site.runs)
    look = "; ".join(f"ls -d {path} && echo seen" for path in wanted)
    ada = site.person("red", "ada")
    with ada.client() as client:
        packed = direct.seal(tmp_path / "p", json.dumps([f"sh -c '{look}; env'"]))
        run = direct.queue(client, packed)
        assert direct.ended(client, run).reason == "done"
    folder = site.runs / run
    assert "seen" not in (folder / "stdout.log").read_text()
    assert (folder / "stderr.log").read_text().count("No such file") == len(wanted)


def test_plain_http_beyond_this_machine_is_refused(site):
    done = site.rai("serve", "--listen", "0.0.0.0:0")
    assert done.returncode == 2
    assert "--tls self" in done.stderr


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
