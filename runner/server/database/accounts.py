"""People, their one-time codes and tokens, and what staff did.

Codes and tokens are made at random, and kept as their SHA-256 only.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import asdict
from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    and_,
    delete,
    func,
    or_,
    select,
    update,
)

from runner.core import Problem
from runner.core.errors import BusyError, UsageError
from runner.core.wire import Scope
from runner.server.database.connections import Transactions, put
from runner.server.database.tables import audit, codes, people, server, teams, tokens
from runner.server.scheduling import STAFF, STUDENT

LONGEST_NAME = 100
USED_EVERY_S = 600.0
"""How often the last use of a token is written."""

LETTERS = "23456789abcdefghjkmnpqrstuvwxyz"
"""What a code is made of: no 0, O, 1, I or l, which look alike."""

GROUPS = 3
IN_A_GROUP = 5
LONGEST_CODE = 200
"""Characters of a code as it is typed; a longer one is not looked at."""

TOKEN = "rai_([0-9A-Za-z]{1,64})_([0-9A-Za-z_-]{16,128})"
"""A token: its id, which may be seen, and its secret."""


class Invitation(Struct, frozen=True):
    """One line of teams.csv: a person of a team, with the role of the team's runs."""

    team: str
    person: str
    role: str = ""


class IssuedCode(Struct, frozen=True):
    """A one-time code for a person, which is shown once and kept as its hash."""

    team: str
    person: str
    code: str
    expires_at: float


class Identity(Struct, frozen=True):
    """Whose a token is."""

    token_id: str
    person: str
    team: str
    role: str
    scopes: tuple[Scope, ...]
    expires_at: float | None = None

    @property
    def staff(self) -> bool:
        """Whether it is one of the staff, with a token that is good for that."""
        return self.role == STAFF.name and Scope.STAFF in self.scopes


class PersonRow(Struct, frozen=True):
    """A person, and when any of their tokens was last used."""

    team: str
    person: str
    role: str
    tokens: int
    last_used: float | None = None


class TokenRow(Struct, frozen=True):
    """A token without what makes it valid: `rai_<id>_<secret>`."""

    id: str
    team: str
    person: str
    scopes: tuple[Scope, ...]
    device: str
    created_at: float
    expires_at: float | None
    last_used: float | None
    revoked_at: float | None


class AuditEntry(Struct, frozen=True):
    """An act of staff, or a change of who may do what."""

    at: float
    who: str
    act: str
    about: str = ""


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
        issued = {}
        with self.writing() as link:
            # In one order, so that two who invite the same people do not wait for each
            # other.
            for one in sorted(invitations, key=lambda one: (one.team, one.person)):
                team = {"name": one.team, "role": one.role or STUDENT.name}
                change = {"role": one.role} if one.role else {}
                put(link, teams, team | {"created_at": now}, change)
                person = {"team": one.team, "name": one.person, "created_at": now}
                put(link, people, person)
                code = _issued(link, one.team, one.person, now + valid_s)
                issued[one.team, one.person] = code
        return [issued[one.team, one.person] for one in invitations]

    def another(self, token_id: str, now: float, valid_s: float) -> IssuedCode:
        """Issue a code for another login of a token's person, of no wider scopes.

        It is void once the token is, as is a code of the person that was not used yet.
        """
        query = select(tokens.c.team, tokens.c.person).where(tokens.c.id == token_id)
        with self.writing() as link:
            team, person = link.execute(query).one()
            return _issued(link, team, person, now + valid_s, token_id)

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
        token_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        until = None if valid_s is None else now + valid_s
        known = and_(codes.c.hash == hashed, codes.c.expires_at > now)
        whose = (codes.c.team, codes.c.person, codes.c.maker)
        with self.writing() as link:
            # The code is gone with the statement that finds it, so it is good once.
            gone = link.execute(delete(codes).where(known).returning(*whose)).first()
            if gone is None:
                return None
            team, person, maker_id = gone
            if maker_id:
                query = select(tokens).where(tokens.c.id == maker_id, _valid(now))
                if (maker := link.execute(query).first()) is None:
                    return None
                scopes = tuple(one for one in scopes if one in _scopes(maker.scopes))
                ends = [at for at in (until, maker.expires_at) if at is not None]
                until = min(ends, default=None)
            of_team = select(teams.c.role).where(teams.c.name == team)
            role = link.execute(of_team).scalar_one()
            if role != STAFF.name:
                scopes = tuple(one for one in scopes if one is not Scope.STAFF)
            link.execute(
                tokens.insert().values(
                    id=token_id,
                    hash=_digest(secret),
                    team=team,
                    person=person,
                    scopes=" ".join(scopes),
                    device=device[:LONGEST_NAME],
                    created_at=now,
                    expires_at=until,
                )
            )
        who = Identity(token_id, person, team, role, scopes, until)
        return f"rai_{token_id}_{secret}", who

    def identify(self, token: str, now: float) -> Identity | None:
        """Return whose a token is; None if it is unknown, expired or revoked.

        Its last use is noted, at most every ten minutes.
        """
        if (given := re.fullmatch(TOKEN, token)) is None:
            return None
        known = (tokens.c.id == given[1], _valid(now))
        whose = teams.c.name == tokens.c.team
        query = select(tokens, teams.c.role).join(teams, whose).where(*known)
        with self.reading() as link:
            row = link.execute(query).first()
        # The time that this takes tells nothing of either.
        if row is None or not hmac.compare_digest(_digest(given[2]), row.hash):
            return None
        if row.last_used is None or row.last_used <= now - USED_EVERY_S:
            use = update(tokens).where(tokens.c.id == given[1]).values(last_used=now)
            # Of a full disk one can still fetch what is there.
            with suppress(BusyError), self.writing() as link:
                link.execute(use)
        scopes = _scopes(row.scopes)
        return Identity(row.id, row.person, row.team, row.role, scopes, row.expires_at)

    def valid(self, token_id: str, now: float) -> bool:
        """Return whether a token that was identified before is valid still."""
        query = select(tokens.c.id).where(tokens.c.id == token_id, _valid(now))
        with self.reading() as link:
            return link.execute(query).first() is not None

    def revoke(self, token_id: str, now: float) -> bool:
        """Make a token invalid; return False if there is none such, or it was."""
        usable = (tokens.c.id == token_id, tokens.c.revoked_at.is_(None))
        with self.writing() as link:
            change = update(tokens).where(*usable).values(revoked_at=now)
            return link.execute(change).rowcount == 1

    def void_code(self, team: str, person: str) -> bool:
        """Make a person's unused code invalid; return False if there is none."""
        with self.writing() as link:
            unused = delete(codes).where(_whose(codes, team, person))
            return bool(link.execute(unused).rowcount)

    def move_person(self, team: str, person: str, to: str) -> None:
        """Put a person into another team, with their logins and unused code.

        Raise UsageError where there is no such team, or it has a person of this name.
        """
        own = _whose(people, team, person)
        with self.writing() as link:
            if not link.execute(select(teams).where(teams.c.name == to)).first():
                hint = f"an invitation makes it: rai server invite --team {to} PERSON"
                raise UsageError(Problem(f"there is no team {to!r}", hint=hint))
            since = link.execute(select(people.c.created_at).where(own)).scalar_one()
            if not put(link, people, {"team": to, "name": person, "created_at": since}):
                raise UsageError(f"the team {to} has a person {person} already")
            for table in (tokens, codes):
                theirs = _whose(table, team, person)
                link.execute(update(table).where(theirs).values(team=to))
            link.execute(delete(people).where(own))

    def remove_person(self, team: str, person: str) -> None:
        """Forget a person, with their logins and unused code; their runs are kept."""
        with self.writing() as link:
            for table in (codes, tokens, people):
                link.execute(delete(table).where(_whose(table, team, person)))

    def people(self) -> list[PersonRow]:
        """Return everybody, by team and name, with the number of unrevoked tokens."""
        usable = func.count(tokens.c.id).filter(tokens.c.revoked_at.is_(None))
        owner = and_(tokens.c.team == people.c.team, tokens.c.person == people.c.name)
        query = (
            select(
                people.c.team,
                people.c.name.label("person"),
                teams.c.role,
                usable.label("tokens"),
                func.max(tokens.c.last_used).label("last_used"),
            )
            .join(teams, teams.c.name == people.c.team)
            .outerjoin(tokens, owner)
            .group_by(people.c.team, people.c.name, teams.c.role)
        )
        with self.reading() as link:
            found = [PersonRow(*row) for row in link.execute(query)]
        # Sorted here, as databases differ in the order of words.
        return sorted(found, key=lambda one: (one.team, one.person))

    def tokens(self, team: str = "", person: str = "") -> list[TokenRow]:
        """Return tokens, of a team or of a person of it, the newest first."""
        query = select(*(tokens.c[name] for name in TokenRow.__struct_fields__))
        query = query.order_by(tokens.c.created_at.desc(), tokens.c.id.desc())
        if team:
            query = query.where(tokens.c.team == team)
        if person:
            query = query.where(tokens.c.person == person)
        with self.reading() as link:
            return [
                TokenRow(**{**row, "scopes": _scopes(row["scopes"])})
                for row in link.execute(query).mappings()
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
            link.execute(audit.insert().values(asdict(entry)))

    def audited(self, limit: int = 100) -> list[AuditEntry]:
        """Return acts of staff, the newest first."""
        query = select(*(audit.c[name] for name in AuditEntry.__struct_fields__))
        query = query.order_by(audit.c.id.desc()).limit(limit)
        with self.reading() as link:
            return [AuditEntry(*row) for row in link.execute(query)]

    def last_act(self, act: str, about: str) -> float:
        """Return when staff last did something of which the text begins so, or 0.0."""
        done = (audit.c.act == act, audit.c.about.startswith(about, autoescape=True))
        with self.reading() as link:
            found = link.execute(select(func.max(audit.c.at)).where(*done)).scalar()
        return float(found or 0.0)

    def check(self) -> None:
        """Raise RaiError if the store cannot be read and written."""
        with self.writing() as link:
            link.execute(update(server).values(checks=server.c.checks + 1))


def _scopes(words: str) -> tuple[Scope, ...]:
    return tuple(map(Scope, words.split()))


def _check_names(one: Invitation) -> None:
    for what, name in (("team", one.team), ("person", one.person)):
        if not name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
            raise UsageError(
                f"the {what} {name[:LONGEST_NAME]!r} cannot be invited: a name has 1 to"
                f" {LONGEST_NAME} characters that can be shown"
            )


def _whose(table: Table, team: str, person: str) -> ColumnElement[bool]:
    """Return the condition that a row of a table is a person's."""
    name = table.c.name if table is people else table.c.person
    return and_(table.c.team == team, name == person)


def _valid(now: float) -> ColumnElement[bool]:
    """Return the condition that a token is neither revoked nor expired."""
    lasts = or_(tokens.c.expires_at.is_(None), tokens.c.expires_at > now)
    return and_(tokens.c.revoked_at.is_(None), lasts)


def _issued(
    link: Connection, team: str, person: str, until: float, maker: str | None = None
) -> IssuedCode:
    """Return a new code of 74 random bits, such as k7m2p-9xwqz-4hjtr.

    It takes the place of the code that the person had.
    """
    size, choice = range(IN_A_GROUP), secrets.choice
    groups = ["".join(choice(LETTERS) for _ in size) for _ in range(GROUPS)]
    code = "-".join(groups)
    new = {"hash": _code_hash(code), "expires_at": until, "maker": maker}
    put(link, codes, {"team": team, "person": person, **new}, new)
    return IssuedCode(team, person, code, until)


def _code_hash(code: str) -> str | None:
    """Return the hash of a code as somebody typed it; None if it can be no code."""
    if len(code) > LONGEST_CODE:
        return None
    letters = "".join(code.lower().split()).replace("-", "")
    if len(letters) != GROUPS * IN_A_GROUP or not set(letters) <= set(LETTERS):
        return None
    return _digest(letters)


def _digest(secret: str) -> str:
    """Return the SHA-256 of a secret; it has too many bits to be found from that."""
    return hashlib.sha256(secret.encode()).hexdigest()
