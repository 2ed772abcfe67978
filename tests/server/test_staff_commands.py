"""What staff do at a server's folder, whether it serves or not."""

from __future__ import annotations

import csv
import json
import stat
import sys
import time

import pytest

from runner.cli.main import _status
from runner.core import Reason
from runner.core.wire import Capacity, Scope, ServerGpu
from runner.server import rules, workers
from runner.server.database import Store
from runner.server.scheduling import QueueRow
from runner.store.home import make
from tests.kit.calling import rai
from tests.kit.store_rows import new_store


@pytest.fixture
def state(tmp_path, monkeypatch):
    """Make a server's folder, as its first start does."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    (folder / "server.yml").write_text(rules.TEMPLATE.read_text())
    monkeypatch.setenv("RAI_SERVER_STATE", str(folder))
    return folder


@pytest.fixture
def store(state):
    opened = new_store(state, Store)
    yield opened
    opened.close()


def invited(*words, input=""):
    done = rai("server", "invite", *words, "--json", input=input)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["codes"]


def log_in(store, *codes):
    return [
        store.redeem(one["code"], "laptop", time.time(), None, (Scope.RUN,))[0]
        for one in codes
    ]


def test_a_table_on_stdin_becomes_codes_that_are_shown_once(state, store):
    codes = invited("-", input="person,team,role\nada,red,\nbo,blue,staff\n")
    assert [(one["team"], one["person"]) for one in codes] == [
        ("red", "ada"),
        ("blue", "bo"),
    ]
    log_in(store, *codes)
    assert {(one.person, one.role) for one in store.people()} == {
        ("ada", "student"),
        ("bo", "staff"),
    }
    code = codes[0]["code"].encode()
    assert not any(code in path.read_bytes() for path in state.glob("store.sqlite*"))


def test_codes_go_into_a_new_file_of_ones_own_and_not_onto_the_screen(
    state, store, tmp_path
):
    file = tmp_path / "codes.csv"
    words = ("server", "invite", "-", "-o", file)

    done = rai(*words, input="red,ada\nblue,bo\n")

    assert done.returncode == 0 and str(file) in done.stderr + done.stdout
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with file.open(newline="") as text:
        rows = list(csv.DictReader(text))
    assert [(row["team"], row["person"]) for row in rows] == [
        ("red", "ada"),
        ("blue", "bo"),
    ]
    assert all(row["code"] not in done.stdout + done.stderr for row in rows)
    assert rows[0]["expires"].endswith("+00:00")
    log_in(store, *rows)

    again = rai(*words, input="red,ada\n")
    assert again.returncode == 2 and "is there already" in again.stderr
    other = tmp_path / "other.csv"
    assert rai("server", "invite", "-", "-o", other, input="red\n").returncode == 2
    assert not other.exists()


@pytest.mark.parametrize(
    "words",
    [
        ("a.csv", "b.csv"),
        ("--role", "staff", "a.csv"),
        ("--team", "red", "--role", "king", "ada"),
        ("--team", "red", "ada", "ada"),
        ("--team", "../red", "ada"),
        ("nowhere.csv",),
        ("-",),
    ],
)
def test_an_invitation_that_makes_no_sense_invites_nobody(state, store, words):
    done = rai("server", "invite", *words, input="red,ada\nblue\nblue,bo,king\n")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert words != ("-",) or ("stdin:2" in done.stderr and "stdin:3" in done.stderr)
    assert store.people() == []


def test_a_person_who_is_revoked_has_no_code_any_more_either(state, store):
    first, second, third = invited("-", input="red,ada\nred,bo\nblue,cy\n")
    assert rai("server", "revoke", "ada").stdout == "Ended: 1 unused code\n"
    assert rai("server", "revoke", "--team", "red").stdout == "Ended: 1 unused code\n"
    for code in (first, second):
        assert store.redeem(code["code"], "", time.time(), None, ()) is None
    assert store.redeem(third["code"], "", time.time(), None, ()) is not None
    assert "red/ada" in rai("server", "audit").stdout


def test_tokens_are_listed_and_revoked_by_person_team_or_id(state, store):
    codes = invited("-", input="red,ada\nred,bo\nblue,bo\ngreen,cy\n")
    ada, red_bo, blue_bo, cy = log_in(store, *codes)
    listed = rai("server", "people").stdout
    assert all(one.split("_")[1] in listed for one in (ada, red_bo, blue_bo, cy))
    assert not any(one in listed for one in (ada, red_bo, blue_bo, cy))
    now = time.time()

    several = rai("server", "revoke", "bo")
    assert several.returncode == 2
    assert "blue/bo" in several.stderr
    assert rai("server", "revoke", "blue/bo").stdout == "Ended: 1 token\n"
    assert store.identify(blue_bo, now) is None
    assert rai("server", "revoke", cy.split("_")[1]).stdout == "Ended: 1 token\n"
    assert store.identify(cy, now) is None
    assert store.identify(red_bo, now) is not None
    assert rai("server", "revoke", "--team", "red").stdout == "Ended: 2 tokens\n"
    assert store.identify(ada, now) is None
    assert "Nothing to end" in rai("server", "revoke", "--team", "red").stdout
    for words in (("dee",), ("--team", "black"), ()):
        assert rai("server", "revoke", *words).returncode == 2
    states = rai("server", "people").stdout
    assert states.count("revoked") == 4


def add_run(store, name, person, team="red", begun=False):
    known = (name, team, person, "student", "", "", time.time())
    row = QueueRow(*known, parcel=b"{}")
    store.add_run(row)
    if begun:
        store.claim(name, 0)
        store.started(name, time.time())


def test_a_person_who_is_revoked_or_removed_has_no_run_any_more(state, store):
    codes = invited("-", input="red,ada\nred,bo\nblue,cy\n")
    _, bo, _ = log_in(store, *codes)
    add_run(store, "000000000a", "ada")
    add_run(store, "000000000b", "ada", begun=True)
    add_run(store, "000000000c", "bo")

    assert rai("server", "revoke", bo.split("_")[1]).stdout == "Ended: 1 token\n"
    assert not store.run("000000000c").cancelled
    assert rai("server", "revoke", "ada").stdout == "Ended: 1 token, 2 runs\n"
    waited, going = store.run("000000000a"), store.run("000000000b")
    assert (waited.state, waited.reason) == ("ended", Reason.CANCELLED)
    assert (going.state, going.cancelled) == ("running", True)
    assert waited.why == going.why == "staff ended the access of ada"

    done = rai("server", "people", "--remove", "red/bo")
    assert done.stdout == "red/bo removed. Ended: 1 run\n"
    assert store.run("000000000c").state == "ended"
    people = {(one.team, one.person) for one in store.people()}
    assert people == {("red", "ada"), ("blue", "cy")}
    acts = [(one.act, one.about) for one in store.audited()]
    assert acts[0] == ("remove", "red/bo")


def test_a_person_is_moved_to_another_team_with_their_login(state, store):
    (ada, _) = log_in(store, *invited("-", input="red,ada\nblue,bo\n"))
    add_run(store, "000000000a", "ada")

    done = rai("server", "people", "--move", "ada", "blue")
    assert done.stdout == "ada is in blue now; earlier runs stay with red\n"
    assert store.identify(ada, time.time()).team == "blue"
    assert store.run("000000000a").team == "red"
    assert store.audited()[0].about == "red/ada to blue"
    for words in (("ada", "green"), ("ada", "blue"), ("dee", "red")):
        assert rai("server", "people", "--move", *words).returncode == 2
    assert rai("server", "people", "--remove", ada.split("_")[1]).returncode == 2


def test_each_act_is_kept_with_who_did_it(state, store):
    from runner.system import machine

    invited("--team", "red", "ada", "bo")
    for words in (("--off", "why"), ("x" * 201,)):
        assert rai("server", "drain", *words).returncode == 2
    assert rai("server", "drain", "a  new\tdriver").returncode == 0
    assert store.drained() == "a new driver"
    assert rai("server", "drain", "--off").returncode == 0
    assert store.drained() == ""
    acts = [
        (one.who, one.act, one.about)
        for one in store.audited()
        if one.who.startswith("unix:")
    ]
    who = f"unix:{machine.user()}"
    assert acts == [
        (who, "drain off", ""),
        (who, "drain", "a new driver"),
        (who, "invite", "2 people of red"),
    ]
    assert "a new driver" in rai("server", "audit").stdout


def test_without_a_server_every_command_says_how_to_make_one(tmp_path, monkeypatch):
    monkeypatch.setenv("RAI_SERVER_STATE", str(tmp_path / "none"))
    commands = (
        ("invite", "--team", "red", "ada"),
        ("people",),
        ("revoke", "ada"),
        ("drain",),
        ("gpu",),
        ("audit",),
        ("backup", str(tmp_path / "b")),
        ("doctor",),
    )
    for words in commands:
        done = rai("server", *words)
        assert done.returncode == 2, words
        assert "rai server serve" in done.stderr
    assert not (tmp_path / "none").exists()


def test_a_store_elsewhere_is_not_mistaken_for_the_folders_own(state):
    reached = '{"url":"u","socket":"s","home":"h","elsewhere":true}'
    (state / "reached.json").write_text(reached)
    done = rai("server", "people")
    assert done.returncode == 2
    assert "RAI_DATABASE_URL" in done.stderr


def test_a_gpu_is_let_back_by_hand(state, store):
    assert rai("server", "gpu", "clear").returncode == 2
    unknown = rai("server", "gpu", "clear", "GPU-1")
    assert unknown.returncode == 2
    assert "not looked at its GPUs yet" in unknown.stderr
    home = make(state / "home")
    gpus = (ServerGpu("GPU-1", "a GPU"), ServerGpu("GPU-2", "a GPU"))
    workers.keep(home, Capacity("0", ("local",), gpus))
    workers.GpusOut(home.root).failed(["GPU-1"], "0123456789", time.time())
    assert "run 0123456789 ended with an error" in rai("server", "gpu").stdout
    assert rai("server", "gpu", "clear", "GPU-3").returncode == 2
    assert rai("server", "gpu", "clear", "GPU-1").returncode == 0
    assert "error" not in rai("server", "gpu").stdout
    assert "GPU-1" in rai("server", "audit").stdout


def test_without_the_extra_a_server_says_what_to_install(state, monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    monkeypatch.setitem(sys.modules, "uvicorn", None)

    for words in (["serve"], ["invite", "teams.csv"], ["doctor"]):
        assert _status(["server", *words, "--state", str(state)]) == 2
        error = capfd.readouterr().err
        assert "a server needs sqlalchemy, uvicorn" in error
        assert "pip install '.[server]'" in error
    assert _status(["server", "serve", "--help"]) == 0
