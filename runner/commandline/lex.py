"""Split a command line into quoted and unquoted pieces.

The pieces follow POSIX quoting: nothing is special in single quotes; in double quotes a
backslash escapes only ``$``, a backtick, ``"``, ``\\`` and a line end; outside of
quotes it escapes any character.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

_TOKEN = re.compile(
    r"""(?P<continuation>\\\n)
    | (?P<blank>[ \t\r]+)
    | (?P<escaped>\\.?)
    | (?P<single>'[^']*')
    | (?P<double>"(?:[^"\\]|\\.)*")
    | (?P<verbatim>\$'(?:[^'\\]|\\.)*')
    | (?P<open>\$'|["'])
    | (?P<operator>\n|&&|\|\||\|&|;;|<<<|<<-?|>>|[<>]&|&>|[;&|<>()])
    | (?P<bare>(?:[^ \t\r\n'"\\;&|<>()$]|\$\$|\$(?!'))+)""",
    re.VERBOSE | re.DOTALL,
)
_IN_DOUBLE = re.compile(r'\\([$`"\\\n])', re.DOTALL)
_SPACE = " \t\r\n"
_COMMENT = re.compile(r"#[^\n]*")


class PieceKind(StrEnum):
    """What a piece of a command line is."""

    BLANK = "blank"
    BARE = "bare"
    ESCAPED = "escaped"
    SINGLE = "single"
    DOUBLE = "double"
    OPERATOR = "operator"
    VERBATIM = "verbatim"
    COMMENT = "comment"

    @property
    def quoted(self) -> bool:
        """Whether it is in quotes."""
        return self in (PieceKind.SINGLE, PieceKind.DOUBLE)

    @property
    def in_word(self) -> bool:
        """Whether it is part of a word."""
        return self not in (PieceKind.BLANK, PieceKind.OPERATOR, PieceKind.COMMENT)


class Piece(Struct, frozen=True):
    """A part of the line: ``raw`` as it is written, ``value`` without quoting."""

    kind: PieceKind
    raw: str
    value: str


class UnclosedError(ValueError):
    """A quote is not closed; the text is the quote character."""


def pieces(line: str, *, comments: bool) -> list[Piece]:
    """Split a line; without ``comments`` a ``#`` is an ordinary character.

    White space and line ends around the line are dropped.

    Raises:
        UnclosedError: a quote is not closed.
    """
    found = list(_Lexer(line, comments).pieces())
    while found and not found[-1].raw.strip(_SPACE):
        found.pop()
    return found


def words(line: list[Piece]) -> list[list[Piece]]:
    """Group the pieces into words, without the pieces between words."""
    groups: list[list[Piece]] = [[]]
    for piece in line:
        if piece.kind.in_word:
            groups[-1].append(piece)
        else:
            groups.append([])
    return [group for group in groups if group]


def text(word: list[Piece]) -> str:
    """Return a word as a program gets it."""
    return "".join(piece.value for piece in word)


class _Lexer:
    def __init__(self, line: str, comments: bool) -> None:
        self._line = line.lstrip(_SPACE)
        self._comments = comments
        self._at = 0
        self._here: list[str] = []
        """The delimiters of the here documents that begin on the next line."""

    def pieces(self) -> Iterator[Piece]:
        word_begins = True
        while self._at < len(self._line):
            piece = self._comment() if word_begins else None
            piece = piece or self._next()
            if piece is None:
                continue
            word_begins = not piece.kind.in_word
            yield piece
            if piece.raw in ("<<", "<<-") and piece.kind is PieceKind.OPERATOR:
                self._here.append(self._delimiter())
            elif piece.raw == "\n" and self._here:
                yield self._here_documents()

    def _comment(self) -> Piece | None:
        match = _COMMENT.match(self._line, self._at) if self._comments else None
        if match is None:
            return None
        self._at = match.end()
        return Piece(PieceKind.COMMENT, match[0], "")

    def _next(self) -> Piece | None:
        match = _TOKEN.match(self._line, self._at)
        assert match is not None, "every character begins a token"
        self._at = match.end()
        group, raw = match.lastgroup or "", match[0]
        if group == "open":
            raise UnclosedError(raw[-1])
        if group == "continuation":
            return None
        return Piece(PieceKind(group), raw, _value(group, raw))

    def _delimiter(self) -> str:
        rest = pieces(self._line[self._at :].partition("\n")[0], comments=False)
        return text(next(iter(words(rest)), []))

    def _here_documents(self) -> Piece:
        start = self._at
        for end in self._here:
            for line in self._line[self._at :].splitlines(keepends=True):
                self._at += len(line)
                if line.strip("\t\n") == end:
                    break
        self._here.clear()
        body = self._line[start : self._at]
        return Piece(PieceKind.VERBATIM, body, body)


def _value(group: str, raw: str) -> str:
    if group == "single":
        return raw[1:-1]
    if group == "double":
        return _IN_DOUBLE.sub(lambda m: "" if m[1] == "\n" else m[1], raw[1:-1])
    if group == "escaped":
        return raw[1:] or raw
    return raw
