"""Parse YAML text to a tree with places, and explain its errors in plain words."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Any

import yaml
from msgspec import Struct
from yaml.reader import Reader

from runner.core import Place, Problem, Severity


class Problems:
    """The problems of one file, in the order in which they were found."""

    def __init__(self) -> None:
        self.found: list[Problem] = []

    def error(self, message: str, place: Place | None, hint: str = "") -> None:
        """Add an error, which makes the file unusable."""
        self.found.append(Problem(message, place, hint))

    def warn(self, message: str, place: Place | None, hint: str = "") -> None:
        """Add a warning."""
        self.found.append(Problem(message, place, hint, Severity.WARNING))

    @property
    def errors(self) -> int:
        """The number of errors."""
        return sum(p.severity is Severity.ERROR for p in self.found)

    @property
    def fatal(self) -> bool:
        """Whether there is an error."""
        return self.errors > 0

    def in_file_order(self) -> list[Problem]:
        """Return the problems sorted by place; those without a place come first."""

        def position(problem: Problem) -> tuple[int, int]:
            place = problem.place
            return (place.line, place.column) if place else (0, 0)

        return sorted(self.found, key=position)


_SHOWN = 60
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


class ScalarNode(Struct, frozen=True):
    """A value as text.

    ``plain`` is whether it was written without quotes; ``span`` is where it starts and
    ends in the file, quotes included.
    """

    place: Place
    text: str
    plain: bool = True
    span: tuple[int, int] = (0, 0)

    @property
    def null(self) -> bool:
        """Whether YAML reads this as null."""
        return self.plain and self.text in _NULLS


class SequenceNode(Struct, frozen=True):
    """A list."""

    place: Place
    items: tuple[Node, ...]


class MappingNode(Struct, frozen=True):
    """Keys with their values, in the order of the file."""

    place: Place
    entries: tuple[tuple[ScalarNode, Node], ...]

    def get(self, key: str) -> Node | None:
        """Return the value of a key."""
        return next((value for k, value in self.entries if k.text == key), None)

    def key(self, key: str) -> ScalarNode | None:
        """Return the key itself, with its place."""
        return next((k for k, _ in self.entries if k.text == key), None)

    def __iter__(self) -> Iterator[str]:
        return (key.text for key, _ in self.entries)


Node = ScalarNode | SequenceNode | MappingNode


def kind(node: Node) -> str:
    """Return a node's kind for use in a sentence."""
    if isinstance(node, MappingNode):
        return "a mapping"
    if isinstance(node, SequenceNode):
        return "a list"
    text = " ".join(node.text.split())
    return f'"{text}"' if len(text) <= _SHOWN else f'"{text[:_SHOWN]}..."'


class Explanation(Struct, frozen=True):
    """What is wrong and what to do.

    ``at_context`` is whether to show the place where the construct began.
    """

    message: str
    hint: str
    at_context: bool = False


_NO_TAB = Explanation(
    "a tab is used where YAML allows only spaces",
    "indent with spaces, e.g. two a level",
)
_AFTER_QUOTE = Explanation(
    "there is text after a closing quote or bracket",
    "put the whole value in quotes of the other kind, or write it after `>-` "
    "on a line of its own",
)
_INDENTATION = Explanation(
    "the indentation of this line does not match the lines above",
    "begin keys, or items, that belong together in the same column",
)
_COLON = Explanation(
    "a `:` is not expected here",
    "if it is part of the value, put the value in quotes; if not, check the "
    "indentation, and that the line above has a space after its `:`",
)
_ANCHOR = Explanation(
    "a value cannot begin with a bare `&` or `*`", "put the value in quotes"
)
_UNCLOSED = Explanation(
    "a `[` or `{` is opened here and not closed",
    "close it, put a comma between its items, or put the value in quotes",
    at_context=True,
)
_FOLLOWS = Explanation(
    "text follows `>` or `|` on the same line",
    "begin the text on the next line, or put the value in quotes",
)
_ESCAPE = Explanation(
    "YAML has no such `\\` escape in double quotes",
    "use single quotes around the value, or write `\\\\`",
)
_PHRASES = (
    ("violates indentation", _NO_TAB),
    ("where an indentation space is expected", _NO_TAB),
    (
        "could not find expected ':'",
        Explanation(
            "this line is neither `key: value` nor `- item`",
            "a key needs a `:` and a space after it, and a command a `- ` before it",
            at_context=True,
        ),
    ),
    ("mapping values are not allowed", _COLON),
    (
        "sequence entries are not allowed",
        Explanation("a `- ` cannot begin here", "begin the list on a line of its own"),
    ),
    (
        "unexpected end of stream",
        Explanation(
            "a quote is opened here and never closed", "close it", at_context=True
        ),
    ),
    (
        "unexpected document",
        Explanation(
            "a quote is opened here and not closed before `---`",
            "close it",
            at_context=True,
        ),
    ),
    ("unknown escape character", _ESCAPE),
    ("decimal number", _ESCAPE),
    (
        "document start>",
        Explanation(
            "there is text after the end of the document",
            "check its indentation, or remove the `...` above it",
        ),
    ),
    (
        "incompatible YAML document",
        Explanation("the file is for another version of YAML", "remove its `%YAML`"),
    ),
    ("comment or line break", _FOLLOWS),
    ("comment or a line break", _FOLLOWS),
    ("expected ',' or", _UNCLOSED),
    ("node content", _UNCLOSED),
    ("alphabetic or numeric character", _ANCHOR),
)


def explain(problem: str, context: str, line: str, column: int) -> Explanation:
    """Return the explanation of an error at the ``column`` (from 0) of ``line``."""
    here, before = line[column : column + 1], line[:column]
    if "cannot start any token" in problem:
        text = f"a value cannot begin with `{here}`"
        quote = Explanation(text, "put the whole value in quotes")
        return _NO_TAB if here == "\t" else quote
    closed = before.rstrip(" \t&*").endswith(('"', "'", "]", "}"))
    if "expected key" in problem or "block end" in problem or "'-' ind" in problem:
        return _AFTER_QUOTE if closed else _INDENTATION
    if closed and "alphabetic or numeric" in problem:
        return _AFTER_QUOTE
    for phrase, explanation in _PHRASES:
        if phrase in problem:
            return explanation
    return Explanation(f"this is not YAML: {problem or context}", "")


_MARKS = ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


def decode(raw: bytes, file: str, problems: Problems) -> str | None:
    """Decode UTF-8, or UTF-16 with a byte order mark; None, and a problem, if wrong."""
    encoding = next((name for mark, name in _MARKS if raw.startswith(mark)), "utf-8")
    try:
        return raw.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode(encoding, "replace").removeprefix("\ufeff")
        text = "the file begins as UTF-16, but is not valid UTF-16"
        if encoding == "utf-8":
            byte = raw[error.start : error.start + 1]
            text = f"the byte 0x{byte.hex()} is not UTF-8"
            if (meant := byte.decode("cp1252", "replace")).isprintable():
                text += f"; it may be a `{meant}` in a Windows encoding"
        place = place_of(before, len(before), file)
        problems.error(text, place, "save the file as UTF-8")
    return None


MOST_BYTES = 256 * 1024
_MOST_NODES = 20_000
_MOST_DEPTH = 20

_MERGE_MARK = re.compile(r"^(?:<{7} |={7}$|>{7} )", re.MULTILINE)
_SWALLOWED = re.compile(r"[\r\n][ \t]*(- )")
LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's loader if PyYAML was built with it, otherwise the slower one in Python."""


class _RefusedError(Exception):
    """The text is YAML that rai does not accept."""

    def __init__(self, message: str, place: Place, hint: str = "") -> None:
        super().__init__(message)
        self.place, self.hint = place, hint


def compose(
    text: str, file: str, problems: Problems, loader: type[Any] = LOADER
) -> Node | None:
    """Return the tree of a document; None if it is empty or cannot be parsed.

    Errors and warnings are added to ``problems``; after an error the tree may be
    incomplete.
    """
    text = text.removeprefix("\ufeff")
    if len(text.encode("utf-8", "replace")) > MOST_BYTES:
        large = f"the file is larger than {MOST_BYTES >> 10} KiB"
        problems.error(large, Place(file, 1, 1), "keep data in other files")
        return None
    # PyYAML accepts a byte order mark anywhere, libyaml only at the beginning.
    if odd := Reader.NON_PRINTABLE.search(text) or re.search("\ufeff", text):
        name = f"the character U+{ord(odd[0]):04X} is not allowed in YAML"
        hint = "remove it, and save the file as plain UTF-8 text"
        problems.error(name, place_of(text, odd.start(), file), hint)
        return None
    try:
        return _Composer(text, yaml.parse(text, loader), file, problems).document()
    except _RefusedError as error:
        problems.error(str(error), error.place, error.hint)
    except yaml.MarkedYAMLError as error:
        _add_syntax_error(error, text, file, problems)
    return None


def place_of(text: str, index: int, file: str) -> Place:
    """Return the place of the character at ``index``."""
    before = text[:index].replace("\r\n", "\n").replace("\r", "\n")
    line = before.count("\n")
    return Place(file, line + 1, len(before) - before.rfind("\n"))


def _add_syntax_error(
    error: yaml.MarkedYAMLError, text: str, file: str, problems: Problems
) -> None:
    if merge := _MERGE_MARK.search(text):
        hint = (
            "keep one of the two versions, and remove the lines with `<<<<<<<`,"
            " `=======` and `>>>>>>>`"
        )
        place = place_of(text, merge.start(), file)
        problems.error("git left merge conflict markers here", place, hint)
        return
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    lines = text.splitlines()
    there = lines[line] if line < len(lines) else ""
    found = explain(error.problem or "", error.context or "", there, column)
    if found.at_context and error.context_mark:
        line, column = error.context_mark.line, error.context_mark.column
    problems.error(found.message, Place(file, line + 1, column + 1), found.hint)


class _Composer:
    """Builds the tree from the parser's events; aliases share their anchor's node."""

    def __init__(
        self, text: str, events: Iterator[Any], file: str, problems: Problems
    ) -> None:
        self._text = text
        self._events = events
        self._file = file
        self._problems = problems
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._nodes = 0

    def document(self) -> Node | None:
        root: Node | None = None
        documents = 0
        for event in self._events:
            if not isinstance(event, yaml.DocumentStartEvent):
                continue
            documents += 1
            node = self._node(next(self._events), 0)
            if root is None:
                root = node
            elif isinstance(node, ScalarNode) and node.null:
                text = "there is a `---` line with nothing after it"
                self._problems.warn(text, node.place)
            else:
                text = f"document number {documents} begins here, and only one is"
                hint = "keep one, and remove the `---` line"
                raise _RefusedError(f"{text} allowed", node.place, hint)
        return root

    def _node(self, event: Any, depth: int) -> Node:  # noqa: ANN401 (yaml.Event)
        mark = event.start_mark
        place = Place(self._file, mark.line + 1, mark.column + 1)
        self._count(1, place)
        if depth > _MOST_DEPTH:
            text = f"values are nested more than {_MOST_DEPTH} levels deep"
            raise _RefusedError(text, place)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(str(event.anchor), place)
        if event.tag and not event.tag.startswith("tag:yaml.org,"):
            text = f"`{event.tag}` is a YAML tag and is ignored"
            hint = "if it is part of the value, put the whole value in quotes"
            self._problems.warn(text, place, hint)
        before = self._nodes
        node: Node
        if isinstance(event, yaml.ScalarEvent):
            node = self._scalar(event, place)
        elif isinstance(event, yaml.SequenceStartEvent):
            items = tuple(self._items(yaml.SequenceEndEvent, depth))
            node = SequenceNode(place, items)
        else:
            node = self._mapping(place, depth)
        if event.anchor:
            self._anchors[event.anchor] = (node, self._nodes - before + 1)
        return node

    def _scalar(self, event: Any, place: Place) -> ScalarNode:  # noqa: ANN401
        span = event.start_mark.index, event.end_mark.index
        plain = bool(event.implicit[0])
        source = self._text[slice(*span)]
        if plain and (swallowed := _SWALLOWED.search(source)):
            text = f"this line continues the text that begins on line {place.line}"
            there = place_of(self._text, span[0] + swallowed.start(1), self._file)
            hint = "to make it an item, put its `- ` in the same column as the others"
            self._problems.warn(text, there, hint)
        return ScalarNode(place, event.value, plain, span)

    def _items(self, end: type[Any], depth: int) -> Iterator[Node]:
        for event in self._events:
            if isinstance(event, end):
                return
            yield self._node(event, depth + 1)

    def _mapping(self, place: Place, depth: int) -> MappingNode:
        flat = list(self._items(yaml.MappingEndEvent, depth))
        entries: dict[str, tuple[ScalarNode, Node]] = {}
        merged: list[Node] = []
        for key, value in zip(flat[::2], flat[1::2], strict=True):
            if not isinstance(key, ScalarNode):
                hint = "if it begins with `{` or `[`, put it in quotes"
                self._problems.error("a key is not plain text", key.place, hint)
            elif key.text == "<<" and key.plain:
                merged += value.items if isinstance(value, SequenceNode) else (value,)
            elif first := entries.get(key.text):
                at = first[0].place.line
                hint = f"the first one is on line {at}; keep one of them"
                self._problems.error(f"duplicate key `{key.text}`", key.place, hint)
            else:
                entries[key.text] = (key, value)
        for other in merged:
            for key, value in other.entries if isinstance(other, MappingNode) else ():
                entries.setdefault(key.text, (key, value))
        return MappingNode(place, tuple(entries.values()))

    def _alias(self, name: str, place: Place) -> Node:
        if name not in self._anchors:
            text = f"`*{name}` is an alias, and no anchor `&{name}` is defined above"
            hint = "if no alias is meant, put the value in quotes"
            raise _RefusedError(text, place, hint)
        node, size = self._anchors[name]
        self._count(size, place)
        return node

    def _count(self, nodes: int, place: Place) -> None:
        self._nodes += nodes
        if self._nodes > _MOST_NODES:
            text = f"the file has more than {_MOST_NODES} values, aliases included"
            raise _RefusedError(text, place)


def dump(values: dict[str, object]) -> str:
    """Return a YAML document of mappings, lists and scalars, in the order given."""
    return str(
        yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=10_000)
    )
