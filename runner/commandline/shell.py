"""Decide whether a line needs a shell, and build the script for it."""

from __future__ import annotations

import re

from runner.commandline.lex import Piece, PieceKind, pieces, text, words


def names(listed: str) -> frozenset[str]:
    """Return the words of a string."""
    return frozenset(listed.split())


RESERVED = names(
    "! [[ ]] { } case coproc do done elif else esac fi for function if in select then "
    "until while"
)
"""Reserved words of a shell, without ``time``, which is a program too."""

STATEFUL = names(
    ". alias bind cd declare dirs enable export local popd pushd readonly set shift "
    "shopt source trap typeset ulimit umask unalias unset"
)
"""Builtins that only change their shell, so their effect ends with it."""

BUILTINS = STATEFUL | names(
    ": bg break builtin caller command compgen complete continue disown eval exec exit "
    "fc fg getopts hash help history jobs let logout mapfile read readarray return "
    "suspend times type wait"
)
"""Builtins, of which there may be no program."""

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^]]*\])?\+?=")
_EXPANSION = re.compile(r"\$(?:[A-Za-z_]\w*|[0-9{@*#?$!-])|`")
_GLOB = re.compile(r"[*?]|\[[^]]+\]")
_BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")
_LONE_DOLLAR = re.compile(r"(?<!\$)(?:\$\$)*\$$")


def read(line: str) -> tuple[list[Piece], str | None]:
    """Return the pieces of a line, and what in it needs a shell or None.

    With a shell a ``#`` begins a comment; without one it is an ordinary character.
    """
    cut = pieces(line, comments=True)
    if why := reason(cut):
        return cut, why
    plain = pieces(line, comments=False)
    return (cut, "has a comment") if reason(plain) else (plain, None)


def reason(line: list[Piece]) -> str | None:
    """Return what in the line needs a shell; None if nothing does."""
    groups = words(line)
    if groups and (first := _of_first_word(groups[0])):
        return first
    for before, piece in zip([None, *line], line, strict=False):
        if piece.kind is PieceKind.OPERATOR:
            substitution = before and before.raw.endswith("$") and piece.raw == "("
            return _unquoted("$(" if substitution else piece.raw)
        if piece.kind is PieceKind.VERBATIM:
            return _unquoted("$'")
        if piece.kind is PieceKind.BARE and (found := _EXPANSION.search(piece.raw)):
            return _unquoted(found[0])
    return next(filter(None, map(_of_shape, groups)), None)


def assignment(word: list[Piece]) -> str | None:
    """Return the variable that the word sets as the first of a line, or None."""
    match = _ASSIGNMENT.match(_shape(word))
    return match[1] if match else None


def script(line: list[Piece]) -> str:
    """Return the line as a script in which the quoted parts stay literal."""
    followers: list[Piece | None] = [*line[1:], None]
    parts = (_part(*pair) for pair in zip(line, followers, strict=True))
    return "".join(parts)


def _part(piece: Piece, follower: Piece | None) -> str:
    if piece.kind.quoted:
        return "'" + piece.value.replace("'", "'\\''") + "'"
    if piece.kind is PieceKind.COMMENT:
        return ""
    if piece.kind is PieceKind.BLANK:
        return piece.raw.replace("\r", " ")
    # A literal `$` before a piece that is now single-quoted would begin a `$'...'`.
    if follower and follower.kind.quoted and _LONE_DOLLAR.search(piece.raw):
        return piece.raw[:-1] + "\\$"
    return piece.raw


def _of_first_word(word: list[Piece]) -> str | None:
    if variable := assignment(word):
        return f"sets `{variable}`"
    value = text(word)
    if value in BUILTINS:
        return f"`{value}` is a builtin"
    if _shape(word) in RESERVED:
        return f"begins with `{value}`"
    return None


def _of_shape(word: list[Piece]) -> str | None:
    shape = _shape(word)
    if shape.startswith("~"):
        return _unquoted("~")
    if found := _GLOB.search(shape):
        return _unquoted(found[0][0])
    return _unquoted("{") if _BRACES.search(shape) else None


def _shape(word: list[Piece]) -> str:
    """Return the word with a NUL in place of each quoted or escaped piece."""
    return "".join(p.raw if p.kind is PieceKind.BARE else "\0" for p in word)


def _unquoted(raw: str) -> str:
    if raw == "\n":
        return "has more than one line"
    return f"has an unquoted {'backtick' if raw == '`' else f'`{raw}`'}"
