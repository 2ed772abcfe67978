"""A command line: split, planned as a program or a script, and its profilers."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from runner.core import Invocation, Place, Problem, ProfileFile
from runner.core.errors import SpecError

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
_COMMENT = re.compile(r"(?P<comment>#[^\n]*)")


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

    def problem(self, place: Place | None) -> Problem:
        """Return it as a problem, with what to do."""
        hint = (
            f"close it, or write `\\{self}` for the character itself; "
            "a ` #` in it ends the line for YAML"
        )
        return Problem(f"a `{self}` is not closed", place, hint)


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
        comment_may_begin = self._comments
        while self._at < len(self._line):
            comment = comment_may_begin and _COMMENT.match(self._line, self._at)
            match = comment or _TOKEN.match(self._line, self._at)
            assert match is not None, "every character begins a token"
            self._at = match.end()
            group, raw = match.lastgroup or "", match[0]
            if group == "open":
                raise UnclosedError(raw[-1])
            if group == "continuation":
                continue
            piece = Piece(PieceKind(group), raw, _value(group, raw))
            comment_may_begin = self._comments and not piece.kind.in_word
            yield piece
            if raw in ("<<", "<<-") and piece.kind is PieceKind.OPERATOR:
                rest = pieces(self._line[self._at :].partition("\n")[0], comments=False)
                self._here.append(text(next(iter(words(rest)), [])))
            elif raw == "\n" and self._here:
                yield self._here_documents()

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
    if group == "comment":
        return ""
    if group == "single":
        return raw[1:-1]
    if group == "double":
        return _IN_DOUBLE.sub(lambda m: "" if m[1] == "\n" else m[1], raw[1:-1])
    if group == "escaped":
        return raw[1:] or raw
    return raw


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
_LONE_DOLLAR = re.compile(r"(?<![$\\])(?:\$\$)*\$$")


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
    if groups:
        first, value = groups[0], text(groups[0])
        if variable := assignment(first):
            return f"sets `{variable}`"
        if value in BUILTINS:
            return f"`{value}` is a builtin"
        if _shape(first) in RESERVED:
            return f"begins with `{value}`"
    for before, piece in zip([None, *line], line, strict=False):
        if piece.kind is PieceKind.OPERATOR:
            substitution = before and before.raw.endswith("$") and piece.raw == "("
            return _unquoted("$(" if substitution else piece.raw)
        if piece.kind is PieceKind.VERBATIM:
            return _unquoted("$'")
        if piece.kind is PieceKind.BARE and (found := _EXPANSION.search(piece.raw)):
            return _unquoted(found[0])
    for shape in map(_shape, groups):
        if shape.startswith("~"):
            return _unquoted("~")
        if found := _GLOB.search(shape):
            return _unquoted(found[0][0])
        if _BRACES.search(shape):
            return _unquoted("{")
    return None


def assignment(word: list[Piece]) -> str | None:
    """Return the variable that the word sets as the first of a line, or None."""
    match = _ASSIGNMENT.match(_shape(word))
    return match[1] if match else None


def script(line: list[Piece]) -> str:
    """Return the line as a script in which the quoted parts stay literal."""
    parts = [""]
    for piece in line:
        if piece.kind in (PieceKind.SINGLE, PieceKind.DOUBLE):
            # A literal `$` before what is now in single quotes would begin a `$'...'`.
            if _LONE_DOLLAR.search(parts[-1]):
                parts[-1] = parts[-1][:-1] + "\\$"
            parts.append("'" + piece.value.replace("'", "'\\''") + "'")
        elif piece.kind is PieceKind.BLANK:
            parts.append(piece.raw.replace("\r", " "))
        elif piece.kind is not PieceKind.COMMENT:
            parts.append(piece.raw)
    return "".join(parts)


def _shape(word: list[Piece]) -> str:
    """Return the word with a NUL in place of each quoted or escaped piece."""
    return "".join(p.raw if p.kind is PieceKind.BARE else "\0" for p in word)


def _unquoted(raw: str) -> str:
    if raw == "\n":
        return "has more than one line"
    return f"has an unquoted {'backtick' if raw == '`' else f'`{raw}`'}"


_TOOL = re.compile(
    r"(?<![\w.-])(?:(?P<nvprof>nvprof)|(?P<nsys>nsys\s+(?:profile|launch|nvprof))"
    r"|(?P<ncu>ncu|nv-nsight-cu-cli)|(?P<compute_sanitizer>compute-sanitizer)"
    r"|(?P<cuda_memcheck>cuda-memcheck)|(?P<valgrind>valgrind))(?![\w./-])"
    r"(?!\s+(?:-i|--import)\b)"
)
_SCRIPT = re.compile(r"(?<![\w.-])(?:m[0-9][._][0-9]|final)\.py((?:\s+[^\s;|&()<>]+)*)")
_WORDS = re.compile(r"[^\s\"']+")
_COUNT = re.compile(r"[1-9][0-9]{0,8}")


_WRITERS = {
    ".nvprof": ("nvprof",),
    ".nvvp": ("nvprof",),
    ".prof": ("nvprof",),
    # The nvprof of rai's images writes ncu's reports as well.
    ".ncu-rep": ("ncu", "nvprof"),
    ".nsight-cuprof-report": ("ncu",),
    ".nsys-rep": ("nsys",),
    ".qdrep": ("nsys",),
    ".sqlite": ("nsys",),
}
"""Each suffix, and the profilers that write such files."""

_WORD = re.compile(r"[^\s\"'/=;|&()<>]+")

# nvprof appends the process id, and a number if a name is used more than once.
_NUMBERS = re.compile(r"(?:\.[0-9]+){1,2}$")


def tools(line: str) -> tuple[str, ...]:
    """Return the profilers and memory checkers that a line starts, in its order."""
    found = (str(match.lastgroup) for match in _TOOL.finditer(line))
    return tuple(dict.fromkeys(name.replace("_", "-") for name in found))


def batch_size(line: str) -> int | None:
    """Return how many images a line gives to the course's scripts.

    None if it names none, or several. The scripts take it as a whole number; one that
    follows an option may be that option's value.
    """
    found = {_count(match[1]) for match in _SCRIPT.finditer(line)}
    return found.pop() if len(found) == 1 else None


def _count(arguments: str) -> int | None:
    before = ""
    for word in _WORDS.findall(arguments):
        if _COUNT.fullmatch(word) and not before.startswith("-"):
            return int(word)
        before = word
    return None


def claimed(
    lines: Sequence[tuple[int, str]], files: Mapping[str, int]
) -> dict[int, tuple[ProfileFile, ...]]:
    """Return the profiles that each command wrote, by the command's number.

    ``files`` are the sizes of the build folder's files, by their paths in it.
    """
    # The words of a line may be names of files, without a profile's suffix.
    commands = [
        (index, tools(line), {_split(word)[0] for word in _WORD.findall(line)})
        for index, line in lines
    ]
    found: dict[int, tuple[ProfileFile, ...]] = {}
    for path, size in files.items():
        name, suffix = _split(posixpath.basename(path))
        writers = _WRITERS.get(suffix, ()) if path.isprintable() else ()
        owners = [
            (name in names, place, index, tool)
            for place, (index, tools, names) in enumerate(commands)
            for tool in writers
            if tool in tools
        ]
        if owners:
            _, _, index, tool = max(owners)
            found[index] = (*found.get(index, ()), ProfileFile(tool, path, size))
    return found


def _split(name: str) -> tuple[str, str]:
    """Return a file's name without a profile's suffix and numbers, and the suffix."""
    stem, suffix = posixpath.splitext(_NUMBERS.sub("", name))
    return (stem, suffix) if suffix in _WRITERS else (name, "")


def plan(line: str) -> Invocation:
    """Return how a line is started; raise SpecError for an unclosed quote."""
    try:
        pieces, why = read(line)
    except UnclosedError as error:
        raise SpecError([error.problem(None)]) from None
    if why is not None:
        return Invocation((), f"bash: {why}", script(pieces))
    return Invocation(tuple(map(text, words(pieces))), "no shell needed")


def argv(invocation: Invocation, bash: bool) -> tuple[str, ...]:
    """Return the words to exec; ``bash`` is whether bash is installed."""
    if invocation.script is None:
        return invocation.argv
    if bash:
        return ("bash", "-o", "pipefail", "-c", invocation.script)
    return ("sh", "-c", invocation.script)
