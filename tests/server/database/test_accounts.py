"""People, codes, tokens, acts of staff, and a store's health, on each database."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from sqlalchemy import text

from runner.core.errors import BusyError, RaiError, UsageError
from runner.core.wire import Scope
from runner.server.database import Store, open_store
from runner.server.database.accounts import AuditEntry, Identity, Invitation, PersonRow
from tests.kit.store_rows import DAY_S, NOW, RUN_ONLY, code, made, token


def test_a_code_makes_one_token_which_says_whose_it_is(store: Store):
    (one,) = store.invite([Invitation("red", "ada", "staff")], NOW, DAY_S)
    assert (one.team, one.person, one.expires_at) == ("red", "ada", NOW + DAY_S)
    both = (Scope.RUN, Scope.STAFF)
    given, who = made(store, one.code, 9 * DAY_S, both)
    until = NOW + 9 * DAY_S
    assert who == Identity(who.token_id, "ada", "red", "staff", both, until)
    assert given.startswith(f"rai_{who.token_id}_")
    assert store.identify(given, NOW + 2) == who
    assert store.redeem(one.code, "laptop", NOW + 1, None, both) is None


def test_a_code_is_known_however_it_is_typed(store: Store):
    for way in (
        lambda code: f" {code} ",
        lambda code: code.replace("-", " "),
        str.upper,
        lambda code: code.replace("-", ""),
    ):
        made(store, way(code(store)))
    code(store)
    for wrong in (
        *("", "-", "k7m2p-9xwqz-4hjtr", "'--"),
        *("é" * 15, "\0" * 15, "a" * 10**6),
    ):
        assert store.redeem(wrong, "", NOW, None, RUN_ONLY) is None


def test_a_code_expires_and_is_void_by_a_newer_one_or_by_staff(store: Store):
    first, second = code(store), code(store)
    assert store.redeem(first, "", NOW, None, RUN_ONLY) is None
    assert store.redeem(second, "", NOW + DAY_S, None, RUN_ONLY) is None
    assert store.redeem(second, "", NOW + DAY_S - 1, None, RUN_ONLY) is not None
    ada, bob = code(store, person="ada"), code(store, person="bob")
    assert store.void_code("red", "ada")
    assert not store.void_code("red", "ada")
    assert store.redeem(ada, "", NOW, None, RUN_ONLY) is None
    made(store, bob)


def test_codes_come_in_the_order_of_the_invitations(store: Store):
    wanted = [("red", "zoe"), ("blue", "ada"), ("red", "ada")]
    issued = store.invite([Invitation(*one) for one in wanted], NOW, DAY_S)
    assert [(one.team, one.person) for one in issued] == wanted
    assert len({one.code for one in issued}) == 3


def test_an_empty_role_leaves_a_teams_role(store: Store):
    token(store, role="staff")
    token(store, person="bob")
    assert [one.role for one in store.people()] == ["staff", "staff"]
    token(store, person="cleo", role="student")
    assert {one.role for one in store.people()} == {"student"}


def test_another_login_may_and_lasts_no_more_than_its_maker(store: Store):
    _, first = made(store, code(store, "crew", "sue", "staff"), DAY_S)
    maker = first.token_id
    late = store.another(maker, NOW, 600)
    assert store.redeem(late.code, "", NOW + 600, None, tuple(Scope)) is None
    good = store.another(maker, NOW, 600)
    _, who = made(store, good.code, None, tuple(Scope))
    assert (who.team, who.person, who.scopes) == ("crew", "sue", RUN_ONLY)
    assert who.expires_at == NOW + DAY_S
    void = store.another(maker, NOW, 600)
    store.revoke(maker, NOW)
    assert store.redeem(void.code, "", NOW, None, tuple(Scope)) is None
    assert store.valid(who.token_id, NOW)


def test_a_moved_person_keeps_logins_and_code_and_a_removed_one_has_none(store: Store):
    given = token(store, "red", "ada")
    token(store, "blue", "bob")
    unused = code(store)
    for to in ("green", "red"):
        with pytest.raises(UsageError):
            store.move_person("red", "ada", to)

    store.move_person("red", "ada", "blue")
    who = store.identify(given, NOW)
    assert who is not None
    assert (who.team, who.person) == ("blue", "ada")
    _, who = made(store, unused)
    assert who.team == "blue"
    store.remove_person("blue", "ada")
    assert store.identify(given, NOW) is None
    assert not store.valid(who.token_id, NOW)
    assert [(one.team, one.person) for one in store.people()] == [("blue", "bob")]


def test_a_name_that_cannot_be_shown_is_refused(store: Store):
    for name in ("", " ", "a\nb", "\0", "\x1b[31m", "a" * 101):
        for wrong in (Invitation(name, "ada"), Invitation("red", name)):
            with pytest.raises(UsageError, match="cannot be invited"):
                store.invite([Invitation("blue", "bob"), wrong], NOW, DAY_S)
    assert store.people() == []


def test_a_token_is_invalid_once_it_is_revoked_or_expired(store: Store):
    given, who = made(store, code(store), DAY_S)
    assert store.valid(who.token_id, NOW + DAY_S - 1)
    assert not store.valid(who.token_id, NOW + DAY_S)
    assert store.identify(given, NOW + DAY_S) is None
    assert store.revoke(who.token_id, NOW + 5)
    assert store.identify(given, NOW + 6) is None
    assert not store.valid(who.token_id, NOW + 6)
    assert not store.revoke(who.token_id, NOW + 7)
    assert not store.revoke("nobody", NOW)
    assert not store.valid("nobody", NOW)
    assert [row.revoked_at for row in store.tokens()] == [NOW + 5]


def test_no_altered_token_is_valid(store: Store):
    text = token(store)
    other = token(store, "blue", "bob")
    _, own, secret = text.split("_", 2)
    _, their_id, _ = other.split("_", 2)
    for wrong in (
        *("", "rai", "rai_", f"rai_{own}", f"rai_{own}_", f"rai__{secret}"),
        *(text[:-1], text + "A", text.upper(), text.replace("rai_", "Rai_")),
        *(f"rai_{their_id}_{secret}", f"rai_{own}_{'A' * 43}", "é" + text),
        *(f"rai_{own}\0_{secret}", "rai_" + "a" * 10**6, secret),
    ):
        assert store.identify(wrong, NOW) is None, wrong[:80]
    assert store.identify(text, NOW) is not None


def test_the_last_use_is_written_every_ten_minutes_where_it_can_be(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    given = token(store)
    uses = []
    for later in (0, 599, 600, 1000, 1300):
        store.identify(given, NOW + later)
        uses += [row.last_used for row in store.tokens()]
    assert uses == [NOW, NOW, NOW + 600, NOW + 600, NOW + 1300]

    def full() -> None:
        raise BusyError("database or disk is full")

    monkeypatch.setattr(store, "writing", full)
    assert store.identify(given, NOW + 9999) is not None
    assert store.people()[0].last_used == uses[-1]


def test_everybody_is_listed_with_the_tokens_that_are_not_revoked(store: Store):
    token(store, "red", "bob")
    text = token(store, "red", "ada", "staff")
    token(store, "red", "ada")
    store.invite([Invitation("Blue", "eve")], NOW, DAY_S)
    who = store.identify(text, NOW)
    assert who is not None
    store.revoke(who.token_id, NOW)
    assert store.people() == [
        PersonRow("Blue", "eve", "student", 0),
        PersonRow("red", "ada", "staff", 1, NOW),
        PersonRow("red", "bob", "staff", 1),
    ]


def test_tokens_are_listed_by_team_and_person_the_newest_first(store: Store):
    for at, person in ((3, "ada"), (1, "bob"), (2, "ada")):
        known = code(store, "red", person)
        store.redeem(known, f"device {at}", NOW + at, None, RUN_ONLY)
    store.redeem(code(store, "blue"), "\0\ud800" + "x" * 10**5, NOW, None, RUN_ONLY)
    devices = [row.device for row in store.tokens("red")]
    assert devices == ["device 3", "device 2", "device 1"]
    assert [row.device for row in store.tokens("red", "bob")] == ["device 1"]
    assert len(store.tokens()) == 4
    assert [row.device for row in store.tokens("blue")] == ["\ufffd?" + "x" * 98]
    assert {row.scopes for row in store.tokens()} == {RUN_ONLY}


def test_neither_codes_nor_tokens_are_in_the_file(tmp_path: Path):
    path = tmp_path / "store.sqlite"
    store = open_store(f"sqlite:///{path}")
    (one,) = store.invite([Invitation("red", "ada")], NOW, DAY_S)
    text = token(store, "blue", "bob")
    store.close()
    kept = path.read_bytes()
    for secret in (one.code, one.code.replace("-", ""), text, text.split("_", 2)[2]):
        assert secret.encode() not in kept
    assert path.stat().st_mode & 0o777 == 0o600


def test_acts_are_kept_the_newest_first(store: Store):
    acts = [AuditEntry(NOW, "ada", f"act {number}", "red") for number in range(5)]
    for act in acts:
        store.audit(act)
    odd = AuditEntry(NOW - 99, "ada\0", "revoke", "\ud800")
    store.audit(odd)
    assert store.audited(3) == [
        replace(odd, who="ada\ufffd", about="?"),
        *reversed(acts[3:]),
    ]
    assert len(store.audited()) == 6


def test_a_check_writes(tmp_path: Path):
    store = open_store(f"sqlite:///{tmp_path}/store.sqlite")
    log = tmp_path / "store.sqlite-wal"
    store.drain("")
    before = log.stat().st_size
    store.check()
    assert log.stat().st_size > before
    with store.writing() as link:
        link.execute(text("DROP TABLE server"))
    with pytest.raises(RaiError, match="no such table: server"):
        store.check()
    store.close()
