"""Find errors and likely mistakes in a command line before it runs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runner.commandline import lex, shell, typos
from runner.commandline.lex import Piece, PieceKind
from runner.core import Place, Problem, Severity

_Warnings = Iterator[tuple[str, str]]
"""Pairs of a message and its hint."""

SHELLS = frozenset(
    {"ash", "bash", "dash", "eval", "fish", "ksh", "sh", "ssh", "su", "zsh"}
)
"""Programs that run a quoted word as a script."""

MOST_BYTES = 100_000
"""Linux starts no program with a word of 128 KiB, and a line may grow by quotes."""

_CURLY = "[“”„‘’]"
_BLANKS = r"[\u00a0\u00ad\u2000-\u200f\u2028-\u202f\u205f\u2060\u3000\ufeff]"
_DASHES = ("–", "—", "−")
_LITERAL = r"(?<!\\)(?:\\\\)*(\$[A-Za-z_]\w*|\$[{(]|`)"


def problems(line: str, place: Place | None = None) -> list[Problem]:
    """Return the errors and likely mistakes of a line."""
    if "\0" in line:
        return [Problem("the command contains a NUL character", place, "remove it")]
    size = len(line.encode(errors="surrogatepass"))
    if size > MOST_BYTES:
        text = f"the command is {size:,} bytes; at most {MOST_BYTES:,} can be started"
        return [Problem(text, place, "put it into a file of the project, and run that")]
    try:
        pieces, why = shell.read(line)
    except lex.UnclosedError as error:
        return [unclosed(error, place)]
    words = lex.words(pieces)
    if not words or not lex.text(words[0]):
        return [Problem("the command does not name a program", place)]
    return [
        Problem(message, place, hint, Severity.WARNING)
        for message, hint in (
            *_look_alikes(words, direct=why is None),
            *_kept_literal(words),
            *_lost(pieces, words),
            *_misspelled(words),
        )
    ]


def unclosed(error: lex.UnclosedError, place: Place | None) -> Problem:
    """Return the problem of a quote that is not closed."""
    hint = (
        f"close it, or write `\\{error}` for the character itself; "
        "a ` #` in it ends the line for YAML"
    )
    return Problem(f"a `{error}` is not closed", place, hint)


def _look_alikes(words: list[list[Piece]], direct: bool) -> _Warnings:
    if direct and any(word[0].raw.startswith("#") for word in words):
        hint = "the rest of the line is passed to the program as arguments"
        yield "a `#` does not begin a comment in this command", hint
    if any(word[0].raw in ("\\ ", "\\\t") for word in words):
        hint = "remove it: YAML joins the lines of folded or plain text already"
        yield "a `\\` makes the space after it part of a word", hint
    bare = [
        piece.raw for word in words for piece in word if piece.kind is PieceKind.BARE
    ]
    odd = "\n".join(raw for raw in bare if not raw.isascii())
    if blank := odd and re.search(_BLANKS, odd):
        code = f"U+{ord(blank[0]):04X}"
        yield f"{code} looks like a space, but is not one", "type a space instead"
    if curly := odd and re.search(_CURLY, odd):
        hint = "if you mean a quote, write \" or '"
        yield f"`{curly[0]}` is an ordinary character, not a quote", hint
    for word in words:
        if word[0].raw.startswith(_DASHES):
            hint = "if you mean an option, write `-`"
            yield f"`{word[0].raw[0]}` is not a hyphen", hint


def _kept_literal(words: list[list[Piece]]) -> _Warnings:
    """Yield warnings about expansions in quotes, unless the program is a shell."""
    for word in words:
        if lex.text(word).rpartition("/")[2] in SHELLS:
            return
        for piece in word:
            found = piece.kind is PieceKind.DOUBLE and re.search(_LITERAL, piece.raw)
            if found:
                hint = "remove the quotes, or run the line with `/bin/bash -c '...'`"
                yield f"`{found[1]}` is not expanded: quotes keep it literal", hint
                return


def _lost(pieces: list[Piece], words: list[list[Piece]]) -> _Warnings:
    """Yield a warning about a line that only changes its own shell."""
    if any(piece.kind is PieceKind.OPERATOR for piece in pieces):
        return
    first = lex.text(words[0])
    if first in shell.STATEFUL or all(shell.assignment(word) for word in words):
        hint = "join it with what should use it: `... && ...`, or a `|` block of lines"
        yield f"what `{first}` changes lasts only until this command ends", hint


def _misspelled(words: list[list[Piece]]) -> _Warnings:
    """Yield a warning about a program that is surely another."""
    if found := typos.meant([lex.text(word) for word in words]):
        typed, name = found
        yield f"`{typed}` is not a known program", f"did you mean `{name}`?"
