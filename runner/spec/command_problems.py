"""Find errors and likely mistakes in a command line before it runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from runner.core import Place, Problem, Severity
from runner.spec import commandline
from runner.spec.commandline import Piece, PieceKind
from runner.spec.fields import one_off

_BETWEEN = frozenset({"\n", ";", "&&", "||"})
"""What stands between commands that one shell runs."""

_Warnings = Iterator[tuple[str, str]]
"""Pairs of a message and its hint."""

SHELLS = frozenset({"ash", "bash", "dash", "fish", "ksh", "sh", "su", "zsh"})
"""Programs that run the word after -c as a script."""

SCRIPTED = frozenset({"eval", "ssh"})
"""Programs that run all of their words as a script."""

MOST_BYTES = 100_000
"""Linux starts no program with a word of 128 KiB, and a line may grow by quotes."""

_CURLY = "[“”„‘’]"
_BLANKS = r"[\u00a0\u00ad\u2000-\u200f\u2028-\u202f\u205f\u2060\u3000\ufeff]"
_DASHES = ("–", "—", "−")
_SCRIPT = re.compile(r"-[a-z]*c|--command")
_LITERAL = r"(?<!\\)(?:\\\\)*(\$[A-Za-z_]\w*|\$[{(]|`)"


PROGRAMS = (
    *("bash", "cmake", "compute-sanitizer", "cuda-gdb", "cuda-memcheck", "cuobjdump"),
    *("echo", "grep", "make", "mkdir", "ncu", "ninja", "nsys", "nvcc", "nvdisasm"),
    *("nvidia-smi", "nvprof", "pip3", "python", "python2", "python3"),
    *("pythonw", "time", "timeout", "unzip", "valgrind", "wget"),
)
"""Programs whose names are often typed."""

SHORTEST = 4
"""Shorter names are too much like those of other programs: cat, act."""

LONG = 6
"""From this length on one wrong letter is surely a mistake, and not another program."""

TIMERS = ("time", "/usr/bin/time")


def problems(line: str, place: Place | None = None) -> list[Problem]:
    """Return the errors and likely mistakes of a line."""
    if "\0" in line:
        return [Problem("the command contains a NUL character", place, "remove it")]
    size = len(line.encode(errors="surrogatepass"))
    if size > MOST_BYTES:
        text = f"the command is {size:,} bytes; at most {MOST_BYTES:,} can be started"
        return [Problem(text, place, "put it into a file of the project, and run that")]
    try:
        pieces, why = commandline.read(line)
    except commandline.UnclosedError as error:
        return [error.problem(place)]
    words = commandline.words(pieces)
    if not words or not commandline.text(words[0]):
        return [Problem("the command does not name a program", place)]
    found = [
        *_look_alikes(words, direct=why is None),
        *_kept_literal(words),
        *_lost(pieces),
    ]
    if names := meant([commandline.text(word) for word in words]):
        found += [
            (f"`{names[0]}` is not a known program", f"did you mean `{names[1]}`?")
        ]
    return [Problem(text, place, hint, Severity.WARNING) for text, hint in found]


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
        if blank[0].isspace():
            yield f"{code} looks like a space, but is not one", "type a space instead"
        else:
            yield f"{code} cannot be seen, and is part of a word", "remove it"
    if curly := odd and re.search(_CURLY, odd):
        hint = "if you mean a quote, write \" or '"
        yield f"`{curly[0]}` is an ordinary character, not a quote", hint
    for word in words:
        if word[0].raw.startswith(_DASHES):
            hint = "if you mean an option, write `-`"
            yield f"`{word[0].raw[0]}` is not a hyphen", hint


def _kept_literal(words: list[list[Piece]]) -> _Warnings:
    """Yield a warning about expansions in quotes, unless a shell runs these."""
    found: dict[str, None] = {}
    for at, word in enumerate(words):
        name = commandline.text(word).rpartition("/")[2]
        rest = (commandline.text(one) for one in words[at + 1 :])
        if name in SCRIPTED or (name in SHELLS and any(map(_SCRIPT.fullmatch, rest))):
            break
        for piece in word:
            if piece.kind is PieceKind.DOUBLE:
                found |= dict.fromkeys(re.findall(_LITERAL, piece.raw))
    if found:
        shown = ", ".join(f"`{one}`" for one in found)
        how = "is" if len(found) == 1 else "are"
        text = f"{shown} {how} not expanded: in a build file double quotes keep it"
        hint = "remove the quotes, or run the line with `/bin/bash -c '...'`"
        yield f"{text} literal, as single quotes do", hint


def _lost(pieces: list[Piece]) -> _Warnings:
    """Yield a warning about a line that ends with a change of its own shell."""
    parts: list[list[Piece]] = [[]]
    for piece in pieces:
        if piece.kind is not PieceKind.OPERATOR:
            parts[-1].append(piece)
        elif piece.raw in _BETWEEN:
            parts.append([])
        else:
            return
    last = next(filter(None, map(commandline.words, reversed(parts))), [])
    first = commandline.text(last[0]) if last else ""
    if first in commandline.STATEFUL or (
        last and all(map(commandline.assignment, last))
    ):
        hint = "join it with what should use it: `... && ...`, or a `|` block of lines"
        yield f"what `{first}` changes lasts only until this command ends", hint


def meant(words: Sequence[str]) -> tuple[str, str] | None:
    """Return what was typed and the program that was meant; None if nothing is wrong.

    ``words`` are those of a command line. A path is never a mistake.
    """
    if words[:1] and words[0] in TIMERS and words[1:]:
        words = words[1:]
    first, second = [*words, "", ""][:2]
    if not first.isascii() or "/" in first or first in PROGRAMS:
        return None
    if second.startswith("-") and first + second in PROGRAMS:
        return f"{first} {second}", first + second
    return next(((first, name) for name in PROGRAMS if _mistyped(first, name)), None)


def _mistyped(typed: str, name: str) -> bool:
    """Whether two letters are swapped, or one of a long name is wrong or missing.

    Versions are no mistakes, and neither is another first letter: cython, ipython.
    """
    version = "0123456789.-"
    if len(name) < SHORTEST or typed.rstrip(version) == name.rstrip(version):
        return False
    if not one_off(typed, name):
        return False
    one, other = Counter(typed), Counter(name)
    odd = "".join((one - other) + (other - one))
    return not odd or (len(name) >= LONG and typed[:1] == name[:1] and odd.isalpha())
