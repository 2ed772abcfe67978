"""Which files a command line has a profiler write, and which of those are there.

Only the words are looked at, so a file is taken for a profile where a command that ran
names it and the build folder has it. What only a shell knows may be anything.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from runner.commandline import lex, shell
from runner.commandline.lex import Kind, Piece
from runner.commandline.profilers import (
    DIGITS,
    NVPROF,
    TOOLS,
    Tool,
    output,
)
from runner.core import ProfileFile

BUILD = "/build"
FEWEST = 3
"""Letters that must be known of a name of which a part is not, lest all files fit."""

_SHELLS = frozenset({"ash", "bash", "dash", "ksh", "sh", "zsh"})
_DEPTH = 3
_ANY = "\0"
_PLACES = {
    "RAI_BUILD_DIR": BUILD,
    "BUILD_DIR": BUILD,
    "RAI_SOURCE_DIR": "/src",
    "SOURCE_DIR": "/src",
}
_VARIABLE = re.compile(r"\$(?:\{(\w+)[^}]*\}|(\w+)|[$@*#?!-]|$)|`")
_SIGN = re.compile(r"%(?:([pin])|h|q\{[^}]*\}|(%))")
_SCRIPT = re.compile(r"-[a-z]*c")
_REDIRECTION = re.compile(r"[<>]")


def claimed(
    lines: Sequence[tuple[int, str]], files: Mapping[str, int]
) -> dict[int, tuple[ProfileFile, ...]]:
    """Give each command the profiles that it wrote, by its number.

    ``files`` are the sizes of the build folder's files, by their paths in it. Of
    several commands that name a file the last of ``lines`` has it.
    """
    owners: dict[str, tuple[int, ProfileFile]] = {}
    for index, line in lines:
        for tool, form in _exports(line):
            for path, size in files.items():
                if form.fullmatch(path) and path.isprintable():
                    owners[path] = index, ProfileFile(tool.name, path, size)
    found: dict[int, tuple[ProfileFile, ...]] = {}
    for index, file in owners.values():
        found[index] = (*found.get(index, ()), file)
    return found


def exporting(line: str) -> bool:
    """Whether a line has a profiler write a file."""
    return next(_exports(line), None) is not None


def _exports(line: str) -> Iterator[tuple[Tool, re.Pattern[str]]]:
    """Give each profiler that the line starts, and the form of its files' paths."""
    try:
        pieces, _ = shell.read(line)
    except lex.UnclosedError:
        return
    for tool, name, folder in _named(pieces, BUILD, _DEPTH):
        if (form := _form(tool, posixpath.join(folder, name))) is not None:
            yield tool, form


def _named(
    pieces: list[Piece], folder: str, depth: int
) -> Iterator[tuple[Tool, str, str]]:
    """Give each profiler, the name that its file gets, and where it runs."""
    for words in _commands(pieces):
        texts = [_text(word) for word in words]
        if texts[0] == "cd" and len(texts) > 1:
            folder = posixpath.join(folder, texts[1])
            continue
        for place, text in enumerate(texts):
            program, rest = text.rpartition("/")[2], texts[place + 1 :]
            if (tool := TOOLS.get(program)) is not None:
                if (name := output(tool, rest)) is not None:
                    yield tool, name, folder
                break
            if program in _SHELLS and depth:
                script = _script(words[place + 1 :])
                yield from _named(script, folder, depth - 1)
                break


def _commands(pieces: list[Piece]) -> Iterator[list[list[Piece]]]:
    """Part a line into its commands, without what they read from and write to."""
    words: list[list[Piece]] = []
    redirected = False
    for group in _groups(pieces):
        if group[0].kind is not Kind.OPERATOR:
            if not redirected:
                words.append(group)
            redirected = False
        elif _REDIRECTION.search(group[0].raw):
            redirected = True
        elif words:
            yield words
            words = []
    if words:
        yield words


def _groups(pieces: list[Piece]) -> Iterator[list[Piece]]:
    """Give words and operators, each as its pieces."""
    word: list[Piece] = []
    for piece in pieces:
        if piece.kind.in_word:
            word.append(piece)
            continue
        if word:
            yield word
            word = []
        if piece.kind is Kind.OPERATOR:
            yield [piece]
    if word:
        yield word


def _text(word: list[Piece]) -> str:
    """Give a word, with a sign for what only a shell knows."""
    return "".join(
        _VARIABLE.sub(_place, piece.value)
        if piece.kind in (Kind.BARE, Kind.DOUBLE)
        else piece.value
        for piece in word
    )


def _place(variable: re.Match[str]) -> str:
    return _PLACES.get(variable[1] or variable[2] or "", _ANY)


def _script(words: list[list[Piece]]) -> list[Piece]:
    """Give what a shell is told to run by ``-c``."""
    texts = [lex.text(word) for word in words]
    for option, script in pairwise(texts):
        if _SCRIPT.fullmatch(option):
            try:
                return lex.pieces(script, comments=True)
            except lex.UnclosedError:
                return []
        if not option.startswith("-"):
            break
    return []


def _form(tool: Tool, name: str) -> re.Pattern[str] | None:
    """Give what the path of a file in the build folder is like, if it is there."""
    path = posixpath.normpath(_SIGN.sub(_sign, name))
    if tool is not NVPROF:
        path = re.sub(rf"{tool.endings}$", "", path)
    known = re.sub(f"[{_ANY}{DIGITS}]", "", posixpath.basename(path))
    vague = len(known) < FEWEST and re.search(f"[{_ANY}{DIGITS}]", path)
    if not path.startswith(f"{BUILD}/") or (vague and tool is NVPROF):
        return None
    below = re.sub(f"{_ANY}+", _ANY, path.removeprefix(f"{BUILD}/"))
    form = re.escape(below)
    form = form.replace(re.escape(_ANY), "[^/]*").replace(re.escape(DIGITS), "[0-9]+")
    return re.compile(form + tool.endings)


def _sign(sign: re.Match[str]) -> str:
    return DIGITS if sign[1] else sign[2] or _ANY
