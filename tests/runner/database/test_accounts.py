"""People, codes and tokens, on each database."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.core.errors import UsageError
from runner.database.base import Identity, Invitation, PersonRow
from runner.database.store import Store, open_store
from runner.wire.accounts import Scope
from tests.runner.database.rows import DAY_S, NOW, RUN_ONLY, token


def test_a_code_makes_one_token_which_says_whose_it_is(store: Store):
    issued = store.invite([Invitation("red", "ada", "staff")], NOW, DAY_S)
    (one,) = issued
    assert (one.team, one.person, one.expires_at) == ("red", "ada", NOW + DAY_S)
    both = (Scope.RUN, Scope.STAFF)
    made = store.redeem(one.code, "laptop", NOW + 1, 9 * DAY_S, both)
    assert made is not None
    text, who = made
    until = NOW + 1 + 9 * DAY_S
    assert who == Identity(who.token_id, "ada", "red", "staff", both, until)
    assert text.startswith(f"rai_{who.token_id}_")
    assert store.identify(text, NOW + 2) == who
    assert store.redeem(one.code, "laptop", NOW + 1, None, both) is None


@pytest.mark.parametrize("typed", ["{}", " {} ", "spaces", "upper", "joined"])
def test_a_code_is_known_however_it_is_typed(store: Store, typed: str):
    (one,) = store.invite([Invitation("red", "ada")], NOW, DAY_S)
    ways = {
        "spaces": one.code.replace("-", " "),
        "upper": one.code.upper(),
        "joined": one.code.replace("-", ""),
    }
    given = ways.get(typed, typed.format(one.code))
    assert store.redeem(given, "", NOW, None, RUN_ONLY) is not None


@pytest.mark.parametrize(
    "given", ["", "-", "k7m2p-9xwqz-4hjtr", "é" * 15, "\0" * 15, "a" * 10**6, "'--"]
)
def test_what_is_no_code_makes_no_token(store: Store, given: str):
    store.invite([Invitation("red", "ada")], NOW, DAY_S)
    assert store.redeem(given, "", NOW, None, RUN_ONLY) is None


def test_a_code_expires_and_a_newer_one_makes_it_void(store: Store):
    (first,) = store.invite([Invitation("red", "ada")], NOW, DAY_S)
    (second,) = store.invite([Invitation("red", "ada")], NOW, DAY_S)
    assert store.redeem(first.code, "", NOW, None, RUN_ONLY) is None
    assert store.redeem(second.code, "", NOW + DAY_S, None, RUN_ONLY) is None
    assert store.redeem(second.code, "", NOW + DAY_S - 1, None, RUN_ONLY) is not None


def test_codes_come_in_the_order_of_the_invitations(store: Store):
    wanted = [("red", "zoe"), ("blue", "ada"), ("red", "ada")]
    issued = store.invite([Invitation(*one) for one in wanted], NOW, DAY_S)
    assert [(one.team, one.person) for one in issued] == wanted
    assert len({one.code for one in issued}) == 3


def test_an_empty_role_leaves_a_teams_role(store: Store):
    first = token(store, role="staff")
    second = token(store, person="bob")
    roles = [store.identify(each, NOW) for each in (first, second)]
    assert [who and who.role for who in roles] == ["staff", "staff"]
    token(store, person="cleo", role="student")
    again = store.identify(first, NOW)
    assert again is not None
    assert again.role == "student"


def test_another_login_may_and_lasts_no_more_than_its_maker(store: Store):
    (one,) = store.invite([Invitation("crew", "sue", "staff")], NOW, DAY_S)
    made = store.redeem(one.code, "desk", NOW, DAY_S, RUN_ONLY)
    assert made is not None
    maker = made[1].token_id

    late = store.another(maker, NOW, 600)
    assert store.redeem(late.code, "", NOW + 600, None, tuple(Scope)) is None
    good = store.another(maker, NOW, 600)
    found = store.redeem(good.code, "phone", NOW + 9, None, tuple(Scope))
    assert found is not None
    who = found[1]
    assert (who.team, who.person, who.scopes) == ("crew", "sue", RUN_ONLY)
    assert who.expires_at == NOW + DAY_S
    void = store.another(maker, NOW, 600)
    store.revoke(maker, NOW)
    assert store.redeem(void.code, "", NOW, None, tuple(Scope)) is None
    assert store.valid(who.token_id, NOW)


def test_a_moved_person_keeps_logins_and_code_and_a_removed_one_has_none(store: Store):
    text = token(store, "red", "ada")
    token(store, "blue", "bob")
    (code,) = store.invite([Invitation("red", "ada")], NOW, DAY_S)
    for to in ("green", "red"):
        with pytest.raises(UsageError):
            store.move_person("red", "ada", to)

    store.move_person("red", "ada", "blue")
    who = store.identify(text, NOW)
    assert who is not None
    assert (who.team, who.person) == ("blue", "ada")
    made = store.redeem(code.code, "", NOW, None, RUN_ONLY)
    assert made is not None
    assert made[1].team == "blue"
    store.remove_person("blue", "ada")
    assert store.identify(text, NOW) is None
    assert not store.valid(made[1].token_id, NOW)
    assert [(one.team, one.person) for one in store.people()] == [("blue", "bob")]


def test_a_voided_code_logs_nobody_in(store: Store):
    ada, bob = store.invite(
        [Invitation("red", "ada"), Invitation("red", "bob")], NOW, DAY_S
    )
    assert store.void_code("red", "ada")
    assert not store.void_code("red", "ada")
    assert store.redeem(ada.code, "laptop", NOW, DAY_S, RUN_ONLY) is None
    assert store.redeem(bob.code, "laptop", NOW, DAY_S, RUN_ONLY) is not None


@pytest.mark.parametrize("name", ["", " ", "a\nb", "\0", "\x1b[31m", "a" * 101])
def test_a_name_that_cannot_be_shown_is_refused(store: Store, name: str):
    for wrong in (Invitation(name, "ada"), Invitation("red", name)):
        with pytest.raises(UsageError, match="cannot be invited"):
            store.invite([Invitation("blue", "bob"), wrong], NOW, DAY_S)
    assert store.people() == []


def test_a_token_is_invalid_once_it_is_revoked_or_expired(store: Store):
    (one,) = store.invite([Invitation("red", "ada")], NOW, DAY_S)
    made = store.redeem(one.code, "laptop", NOW, DAY_S, RUN_ONLY)
    assert made is not None
    text, who = made
    assert store.valid(who.token_id, NOW + DAY_S - 1)
    assert not store.valid(who.token_id, NOW + DAY_S)
    assert store.identify(text, NOW + DAY_S) is None
    assert store.revoke(who.token_id, NOW + 5)
    assert store.identify(text, NOW + 6) is None
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


def test_the_last_use_is_written_once_a_minute(store: Store):
    text = token(store)
    uses = []
    for later in (0, 59, 60, 100, 130):
        store.identify(text, NOW + later)
        uses += [row.last_used for row in store.tokens()]
    assert uses == [NOW, NOW, NOW + 60, NOW + 60, NOW + 130]
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
        (one,) = store.invite([Invitation("red", person)], NOW, DAY_S)
        store.redeem(one.code, f"device {at}", NOW + at, None, RUN_ONLY)
    token(store, "blue", "ada")
    devices = [row.device for row in store.tokens("red")]
    assert devices == ["device 3", "device 2", "device 1"]
    assert [row.device for row in store.tokens("red", "bob")] == ["device 1"]
    assert len(store.tokens()) == 4
    assert {row.scopes for row in store.tokens()} == {RUN_ONLY}


def test_what_a_client_calls_itself_may_be_anything(store: Store):
    (one,) = store.invite([Invitation("red", "ada")], NOW, DAY_S)
    store.redeem(one.code, "\0\ud800" + "x" * 10**5, NOW, None, RUN_ONLY)
    (row,) = store.tokens()
    assert row.device == "\ufffd?" + "x" * 98


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
