"""People, their one-time codes and tokens, and what staff did.

Codes and tokens are made at random, and kept as their SHA-256 only.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Row, and_, delete, func, or_, select, update

from runner.core.errors import BusyError, UsageError
from runner.database.base import (
    STAFF,
    AuditEntry,
    Identity,
    Invitation,
    IssuedCode,
    PersonRow,
    TokenRow,
)
from runner.database.connections import Transactions, insert
from runner.database.tables import audit, codes, people, server, teams, tokens
from runner.wire.accounts import Scope

FIRST_ROLE = "student"
LONGEST_NAME = 100
USED_EVERY_S = 60.0
"""How often the last use of a token is written."""

LETTERS = "23456789abcdefghjkmnpqrstuvwxyz"
"""What a code is made of: no 0, O, 1, I or l, which look alike."""

GROUPS = 3
IN_A_GROUP = 5
SECRET_BYTES = 32
LONGEST = 200
"""Characters of a code or token; a longer one is not looked at."""


class Accounts(Transactions):
    """The part of a store that knows who somebody is, and what staff did."""

    def invite(
        self, invitations: Sequence[Invitation], now: float, valid_s: float
    ) -> list[IssuedCode]:
        """Add teams and people that are new, and issue a code for each invitation.

        A code of the same person that was not used yet is void from then on. An empty
        role leaves a team's as it is; a new team's is then "student". Raise UsageError
        for a name that cannot be shown in a line.
        """
        for one in invitations:
            _check_names(one)
        issued: dict[int, IssuedCode] = {}
        # In one order, so that two who invite the same people do not wait for each
        # other.
        order = sorted(
            range(len(invitations)),
            key=lambda i: (invitations[i].team, invitations[i].person, i),
        )
        with self.writing() as link:
            for place in order:
                one = invitations[place]
                code = _new_code()
                until = now + valid_s
                _add_person(link, one, now)
                _replace_code(link, one, code, until)
                issued[place] = IssuedCode(one.team, one.person, code, until)
        return [issued[place] for place in range(len(invitations))]

    def another(self, token_id: str, now: float, valid_s: float) -> IssuedCode:
        """Issue a code for another login of a token's person, of no wider scopes.

        It is void once the token is, as is a code of the person that was not used yet.
        """
        code, until = _new_code(), now + valid_s
        with self.writing() as link:
            query = select(tokens.c.team, tokens.c.person).where(
                tokens.c.id == token_id
            )
            one = Invitation(*link.execute(query).one())
            _replace_code(link, one, code, until, token_id)
        return IssuedCode(one.team, one.person, code, until)

    def redeem(
        self,
        code: str,
        device: str,
        now: float,
        valid_s: float | None,
        scopes: tuple[Scope, ...],
    ) -> tuple[str, Identity] | None:
        """Return a new token and whose it is; None for a code that is not valid.

        The token has those of ``scopes`` that its team's role may have. One by a code
        of ``another`` has no more than the token that made it, and ends with its time.
        """
        if (hashed := _code_hash(code)) is None:
            return None
        made = _new_token()
        until = None if valid_s is None else now + valid_s
        with self.writing() as link:
            # The code is gone with the statement that finds it, so it is good once.
            owner = link.execute(
                delete(codes)
                .where(codes.c.hash == hashed, codes.c.expires_at > now)
                .returning(codes.c.team, codes.c.person, codes.c.maker)
            ).first()
            if owner is None:
                return None
            if owner.maker:
                query = select(tokens).where(tokens.c.id == owner.maker)
                maker = link.execute(query).one()
                if maker.revoked_at is not None or _over(maker.expires_at, now):
                    return None
                scopes = tuple(one for one in scopes if one in _scopes(maker))
                ends = [at for at in (until, maker.expires_at) if at is not None]
                until = min(ends, default=None)
            role = link.execute(
                select(teams.c.role).where(teams.c.name == owner.team)
            ).scalar_one()
            scopes = tuple(
                one for one in scopes if one is not Scope.STAFF or role == STAFF
            )
            link.execute(
                tokens.insert().values(
                    id=made.id,
                    hash=_digest(made.secret),
                    team=owner.team,
                    person=owner.person,
                    scopes=" ".join(scopes),
                    device=device[:LONGEST_NAME],
                    created_at=now,
                    expires_at=until,
                )
            )
        who = Identity(made.id, owner.person, owner.team, role, scopes, until)
        return made.token, who

    def identify(self, token: str, now: float) -> Identity | None:
        """Return whose a token is; None if it is unknown, expired or revoked.

        Its last use is noted, at most once a minute.
        """
        if (given := _parts(token)) is None:
            return None
        query = (
            select(tokens, teams.c.role)
            .join(teams, teams.c.name == tokens.c.team)
            .where(tokens.c.id == given.id)
        )
        with self.reading() as link:
            row = link.execute(query).first()
        if row is None or not _same(given.secret, row.hash):
            return None
        if row.revoked_at is not None or _over(row.expires_at, now):
            return None
        if row.last_used is None or row.last_used <= now - USED_EVERY_S:
            # Of a full disk one can still fetch what is there.
            with suppress(BusyError):
                self._note_use(given.id, now)
        return Identity(
            row.id, row.person, row.team, row.role, _scopes(row), row.expires_at
        )

    def valid(self, token_id: str, now: float) -> bool:
        """Return whether a token that was identified before is valid still."""
        query = select(tokens.c.expires_at).where(
            tokens.c.id == token_id, tokens.c.revoked_at.is_(None)
        )
        with self.reading() as link:
            row = link.execute(query).first()
        return row is not None and not _over(row.expires_at, now)

    def revoke(self, token_id: str, now: float) -> bool:
        """Make a token invalid; return False if there is none such, or it was."""
        change = (
            update(tokens)
            .where(tokens.c.id == token_id, tokens.c.revoked_at.is_(None))
            .values(revoked_at=now)
        )
        with self.writing() as link:
            return link.execute(change).rowcount == 1

    def void_code(self, team: str, person: str) -> bool:
        """Make a person's unused code invalid; return False if there is none."""
        unused = delete(codes).where(codes.c.team == team, codes.c.person == person)
        with self.writing() as link:
            return bool(link.execute(unused).rowcount)

    def move_person(self, team: str, person: str, to: str) -> None:
        """Put a person into another team, with their logins and unused code.

        Raise UsageError where there is no such team, or it has a person of this name.
        """
        with self.writing() as link:
            if not link.execute(select(teams).where(teams.c.name == to)).first():
                raise UsageError(f"there is no team {to!r}")
            own = (people.c.team == team, people.c.name == person)
            since = link.execute(select(people.c.created_at).where(*own)).scalar_one()
            adding = insert(link, people).values(team=to, name=person, created_at=since)
            new = adding.on_conflict_do_nothing(index_elements=["team", "name"])
            if not link.execute(new.returning(people.c.name)).first():
                raise UsageError(f"the team {to} has a person {person} already")
            for table in (tokens, codes):
                theirs = (table.c.team == team, table.c.person == person)
                link.execute(update(table).where(*theirs).values(team=to))
            link.execute(delete(people).where(*own))

    def remove_person(self, team: str, person: str) -> None:
        """Forget a person, with their logins and unused code; their runs are kept."""
        with self.writing() as link:
            for table in (codes, tokens):
                theirs = (table.c.team == team, table.c.person == person)
                link.execute(delete(table).where(*theirs))
            own = (people.c.team == team, people.c.name == person)
            link.execute(delete(people).where(*own))

    def people(self) -> list[PersonRow]:
        """Return everybody, by team and name, with the number of unrevoked tokens."""
        usable = func.count(tokens.c.id).filter(tokens.c.revoked_at.is_(None))
        query = (
            select(
                people.c.team,
                people.c.name.label("person"),
                teams.c.role,
                usable.label("tokens"),
                func.max(tokens.c.last_used).label("last_used"),
            )
            .join(teams, teams.c.name == people.c.team)
            .outerjoin(
                tokens,
                and_(tokens.c.team == people.c.team, tokens.c.person == people.c.name),
            )
            .group_by(people.c.team, people.c.name, teams.c.role)
        )
        with self.reading() as link:
            found = [PersonRow(**row) for row in link.execute(query).mappings()]
        # Sorted here, as databases differ in the order of words.
        return sorted(found, key=lambda one: (one.team, one.person))

    def tokens(self, team: str = "", person: str = "") -> list[TokenRow]:
        """Return tokens, of a team or of a person of it, the newest first."""
        query = select(tokens).order_by(tokens.c.created_at.desc(), tokens.c.id.desc())
        if team:
            query = query.where(tokens.c.team == team)
        if person:
            query = query.where(tokens.c.person == person)
        with self.reading() as link:
            return [
                TokenRow(
                    row.id,
                    row.team,
                    row.person,
                    _scopes(row),
                    row.device,
                    row.created_at,
                    row.expires_at,
                    row.last_used,
                    row.revoked_at,
                )
                for row in link.execute(query)
            ]

    def drained(self) -> str:
        """Return why no run starts, "" if runs start."""
        with self.reading() as link:
            return str(link.execute(select(server.c.drained)).scalar_one())

    def drain(self, why: str) -> None:
        """Start no more runs, for this reason; "" starts them again."""
        with self.writing() as link:
            link.execute(update(server).values(drained=why))

    def audit(self, entry: AuditEntry) -> None:
        """Keep an act of staff."""
        with self.writing() as link:
            link.execute(
                audit.insert().values(
                    at=entry.at, who=entry.who, act=entry.act, about=entry.about
                )
            )

    def audited(self, limit: int = 100) -> list[AuditEntry]:
        """Return acts of staff, the newest first."""
        query = (
            select(audit.c.at, audit.c.who, audit.c.act, audit.c.about)
            .order_by(audit.c.id.desc())
            .limit(limit)
        )
        with self.reading() as link:
            return [AuditEntry(*row) for row in link.execute(query)]

    def check(self) -> None:
        """Raise RaiError if the store cannot be read and written."""
        with self.writing() as link:
            link.execute(update(server).values(checks=server.c.checks + 1))

    def _note_use(self, token_id: str, now: float) -> None:
        stale = or_(
            tokens.c.last_used.is_(None), tokens.c.last_used <= now - USED_EVERY_S
        )
        change = (
            update(tokens).where(tokens.c.id == token_id, stale).values(last_used=now)
        )
        with self.writing() as link:
            link.execute(change)


class _Token(Struct, frozen=True):
    """A token's two parts: its id, which may be seen, and its secret."""

    id: str
    secret: str

    @property
    def token(self) -> str:
        """The token as its owner keeps it."""
        return f"rai_{self.id}_{self.secret}"


def _new_code() -> str:
    """Return a new code with 74 random bits, such as k7m2p-9xwqz-4hjtr."""
    return "-".join(
        "".join(secrets.choice(LETTERS) for _ in range(IN_A_GROUP))
        for _ in range(GROUPS)
    )


def _code_hash(code: str) -> str | None:
    """Return the hash of a code as somebody typed it; None if it can be no code."""
    if len(code) > LONGEST:
        return None
    letters = "".join(code.lower().split()).replace("-", "")
    if len(letters) != GROUPS * IN_A_GROUP or not set(letters) <= set(LETTERS):
        return None
    return _digest(letters)


def _new_token() -> _Token:
    """Return a new token."""
    return _Token(secrets.token_hex(6), secrets.token_urlsafe(SECRET_BYTES))


def _parts(token: str) -> _Token | None:
    """Return the parts of a token; None if it can be none."""
    if len(token) > LONGEST or not token.isascii():
        return None
    rai, _, rest = token.partition("_")
    token_id, _, secret = rest.partition("_")
    return _Token(token_id, secret) if rai == "rai" and token_id else None


def _digest(secret: str) -> str:
    """Return the SHA-256 of a secret; it has too many bits to be found from that."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _same(secret: str, kept: str) -> bool:
    """Whether a secret has this hash; the time it takes tells nothing of either."""
    return hmac.compare_digest(_digest(secret), kept)


def _check_names(one: Invitation) -> None:
    for what, name in (("team", one.team), ("person", one.person)):
        if not name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
            raise UsageError(
                f"the {what} {name[:LONGEST_NAME]!r} cannot be invited: a name has 1 to"
                f" {LONGEST_NAME} characters that can be shown"
            )


def _add_person(link: Connection, one: Invitation, now: float) -> None:
    adding = insert(link, teams).values(
        name=one.team, role=one.role or FIRST_ROLE, created_at=now
    )
    link.execute(
        adding.on_conflict_do_update(
            index_elements=["name"], set_={"role": adding.excluded.role}
        )
        if one.role
        else adding.on_conflict_do_nothing(index_elements=["name"])
    )
    link.execute(
        insert(link, people)
        .values(team=one.team, name=one.person, created_at=now)
        .on_conflict_do_nothing(index_elements=["team", "name"])
    )


def _replace_code(
    link: Connection, one: Invitation, code: str, until: float, maker: str | None = None
) -> None:
    new = {"hash": _code_hash(code), "expires_at": until, "maker": maker}
    adding = insert(link, codes).values(team=one.team, person=one.person, **new)
    link.execute(
        adding.on_conflict_do_update(index_elements=["team", "person"], set_=new)
    )


def _over(expires_at: float | None, now: float) -> bool:
    return expires_at is not None and expires_at <= now


def _scopes(row: Row[Any]) -> tuple[Scope, ...]:
    return tuple(Scope(word) for word in row.scopes.split())
