"""What is wrong or odd about a command line, before anything runs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runner.commandline import lex, shell
from runner.commandline.lex import Kind, Piece
from runner.core import Place, Problem, Severity

_Odd = Iterator[tuple[str, str]]
"""Messages, each with its hint."""

SHELLS = frozenset(
    {"ash", "bash", "dash", "eval", "fish", "ksh", "sh", "ssh", "su", "zsh"}
)
"""What reads a quoted word as a script."""

_CURLY = "[“”„‘’]"
_BLANKS = r"[\u00a0\u00ad\u2000-\u200f\u2028-\u202f\u205f\u2060\u3000\ufeff]"
_DASHES = ("–", "—", "−")
_LITERAL = r"(?<!\\)(?:\\\\)*(\$[A-Za-z_]\w*|\$[{(]|`)"


def problems(line: str, place: Place | None = None) -> list[Problem]:
    """Find all that is wrong or odd about a line."""
    if "\0" in line:
        return [Problem("the command contains a NUL character", place, "remove it")]
    try:
        pieces, why = shell.read(line)
    except lex.UnclosedError as error:
        return [unclosed(error, place)]
    words = lex.words(pieces)
    if not words or not lex.text(words[0]):
        return [Problem("the command names no program", place)]
    return [
        Problem(message, place, hint, Severity.WARNING)
        for message, hint in (
            *_look_alikes(words, direct=why is None),
            *_kept_literal(words),
            *_lost(pieces, words),
        )
    ]


def unclosed(error: lex.UnclosedError, place: Place | None) -> Problem:
    """Say that a quote is not closed."""
    hint = (
        f"close it, or write `\\{error}` for the character itself; "
        "a ` #` in it ends the line for YAML"
    )
    return Problem(f"a `{error}` is opened and never closed", place, hint)


def _look_alikes(words: list[list[Piece]], direct: bool) -> _Odd:
    if direct and any(word[0].raw.startswith("#") for word in words):
        hint = "what follows it is passed to the program as words"
        yield "a `#` begins no comment in a command", hint
    if any(word[0].raw in ("\\ ", "\\\t") for word in words):
        hint = "leave it out: in a folded or plain text the lines are joined already"
        yield "a `\\` makes the space after it part of a word", hint
    bare = [piece.raw for word in words for piece in word if piece.kind is Kind.BARE]
    odd = "\n".join(raw for raw in bare if not raw.isascii())
    if blank := odd and re.search(_BLANKS, odd):
        code = f"U+{ord(blank[0]):04X}"
        yield f"there is a {code}, which looks like a space", "type a space instead"
    if curly := odd and re.search(_CURLY, odd):
        hint = "write \" or ' if a quote is meant"
        yield f"`{curly[0]}` is no quote but an ordinary character", hint
    for word in words:
        if word[0].raw.startswith(_DASHES):
            hint = "write `-` if an option is meant"
            yield f"`{word[0].raw[0]}` is no minus sign", hint


def _kept_literal(words: list[list[Piece]]) -> _Odd:
    """Warn of what looks like an expansion in quotes, unless a shell will read it."""
    for word in words:
        if lex.text(word).rpartition("/")[2] in SHELLS:
            return
        for piece in word:
            found = piece.kind is Kind.DOUBLE and re.search(_LITERAL, piece.raw)
            if found:
                hint = "leave the quotes out, or run the line with `/bin/bash -c '...'`"
                yield f"`{found[1]}` stays as it is: quotes keep it literal", hint
                return


def _lost(pieces: list[Piece], words: list[list[Piece]]) -> _Odd:
    """Warn of a line that only changes the shell which ends with it."""
    if any(piece.kind is Kind.OPERATOR for piece in pieces):
        return
    first = lex.text(words[0])
    if first in shell.STATEFUL or all(shell.assignment(word) for word in words):
        hint = "join it with what shall feel it: `... && ...`, or a `|` block of lines"
        yield f"what `{first}` changes in its shell ends with this command", hint
