"""Parse YAML text to a tree, with PyYAML.

Scalars stay text and tags construct nothing. The tree is built from the parser's
events, since ``yaml.compose`` crashes the process on deep nesting, refuses an anchor
that is defined again, and hides the places of aliases and tags.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Any

import yaml
from yaml.reader import Reader

from runner.core import Place
from runner.yamlfile.explanations import MERGE, explain
from runner.yamlfile.nodes import Mapping, Node, Problems, Scalar, Sequence

_MARKS = ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


def decode(raw: bytes, file: str, problems: Problems) -> str | None:
    """Decode UTF-8, or UTF-16 with a byte order mark; None, and a problem, if wrong."""
    encoding = next((name for mark, name in _MARKS if raw.startswith(mark)), "utf-8")
    try:
        return raw.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode(encoding, "replace").removeprefix("\ufeff")
        problems.error(
            _not_text(raw, error.start, encoding),
            place_of(before, len(before), file),
            "save the file as UTF-8",
        )
    return None


def _not_text(raw: bytes, start: int, encoding: str) -> str:
    if encoding != "utf-8":
        return "the file begins as UTF-16, but is not valid UTF-16"
    byte = raw[start : start + 1]
    meant = byte.decode("cp1252", "replace")
    guess = (
        f"; it may be a `{meant}` in a Windows encoding" if meant.isprintable() else ""
    )
    return f"the byte 0x{byte.hex()} is not UTF-8{guess}"


MOST_BYTES = 256 * 1024
_MOST_NODES = 20_000
_MOST_DEPTH = 20

_BYTE_ORDER = "\ufeff"
"""PyYAML accepts it anywhere, libyaml only at the beginning of a text."""

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
    text = text.removeprefix(_BYTE_ORDER)
    if len(text.encode("utf-8", "replace")) > MOST_BYTES:
        problems.error(
            f"the file is larger than {MOST_BYTES >> 10} KiB",
            Place(file, 1, 1),
            "keep data in other files",
        )
        return None
    if odd := Reader.NON_PRINTABLE.search(text) or re.search(_BYTE_ORDER, text):
        problems.error(
            f"the character U+{ord(odd[0]):04X} is not allowed in YAML",
            place_of(text, odd.start(), file),
            "remove it, and save the file as plain UTF-8 text",
        )
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
        problems.error(MERGE.message, place_of(text, merge.start(), file), MERGE.hint)
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
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                node = self._node(next(self._events), 0)
                root = self._one_document(root, node, documents)
        return root

    def _one_document(self, root: Node | None, node: Node, documents: int) -> Node:
        if root is None:
            return node
        if not (isinstance(node, Scalar) and node.null):
            raise _RefusedError(
                f"document number {documents} begins here, and only one is allowed",
                node.place,
                "keep one, and remove the `---` line",
            )
        self._problems.warn("there is a `---` line with nothing after it", node.place)
        return root

    def _node(self, event: Any, depth: int) -> Node:  # noqa: ANN401 (yaml.Event)
        place = self._place(event)
        self._count(1, place)
        if depth > _MOST_DEPTH:
            raise _RefusedError(
                f"values are nested more than {_MOST_DEPTH} levels deep", place
            )
        if isinstance(event, yaml.AliasEvent):
            return self._alias(str(event.anchor), place)
        before = self._nodes
        node = self._new(event, place, depth)
        if event.anchor:
            self._anchors[event.anchor] = (node, self._nodes - before + 1)
        return node

    def _new(self, event: Any, place: Place, depth: int) -> Node:  # noqa: ANN401
        self._note_tag(event, place)
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, place)
        if isinstance(event, yaml.SequenceStartEvent):
            return Sequence(place, tuple(self._items(yaml.SequenceEndEvent, depth)))
        return self._mapping(place, depth)

    def _scalar(self, event: yaml.ScalarEvent, place: Place) -> Scalar:
        span = _span(event)
        plain = bool(event.implicit[0])
        source = self._text[slice(*span)]
        if plain and (swallowed := _SWALLOWED.search(source)):
            self._problems.warn(
                f"this line continues the text that begins on line {place.line}",
                place_of(self._text, span[0] + swallowed.start(1), self._file),
                "to make it an item, put its `- ` in the same column as the others",
            )
        return Scalar(place, event.value, plain, span)

    def _note_tag(self, event: Any, place: Place) -> None:  # noqa: ANN401
        tag = event.tag
        if tag and not tag.startswith("tag:yaml.org,"):
            self._problems.warn(
                f"`{tag}` is a YAML tag and is ignored",
                place,
                "if it is part of the value, put the whole value in quotes",
            )

    def _items(self, end: type[Any], depth: int) -> Iterator[Node]:
        for event in self._events:
            if isinstance(event, end):
                return
            yield self._node(event, depth + 1)

    def _mapping(self, place: Place, depth: int) -> Mapping:
        flat = list(self._items(yaml.MappingEndEvent, depth))
        entries: dict[str, tuple[Scalar, Node]] = {}
        merged: list[Node] = []
        for key, value in zip(flat[::2], flat[1::2], strict=True):
            if not isinstance(key, Scalar):
                self._problems.error(
                    "a key is not plain text",
                    key.place,
                    "if it begins with `{` or `[`, put it in quotes",
                )
            elif key.text == "<<" and key.plain:
                merged += value.items if isinstance(value, Sequence) else (value,)
            elif first := entries.get(key.text):
                self._problems.error(
                    f"duplicate key `{key.text}`",
                    key.place,
                    f"the first one is on line {first[0].place.line}; keep one of them",
                )
            else:
                entries[key.text] = (key, value)
        for other in merged:
            for key, value in other.entries if isinstance(other, Mapping) else ():
                entries.setdefault(key.text, (key, value))
        return Mapping(place, tuple(entries.values()))

    def _alias(self, name: str, place: Place) -> Node:
        if name not in self._anchors:
            raise _RefusedError(
                f"`*{name}` is an alias, and no anchor `&{name}` is defined above",
                place,
                "if no alias is meant, put the value in quotes",
            )
        node, size = self._anchors[name]
        self._count(size, place)
        return node

    def _count(self, nodes: int, place: Place) -> None:
        self._nodes += nodes
        if self._nodes > _MOST_NODES:
            raise _RefusedError(
                f"the file has more than {_MOST_NODES} values, aliases included", place
            )

    def _place(self, event: Any) -> Place:  # noqa: ANN401 (yaml.Event)
        mark = event.start_mark
        return Place(self._file, mark.line + 1, mark.column + 1)


def _span(event: Any) -> tuple[int, int]:  # noqa: ANN401 (yaml.ScalarEvent)
    return event.start_mark.index, event.end_mark.index


def dump(values: dict[str, object]) -> str:
    """Return a YAML document of mappings, lists and scalars, in the order given."""
    text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=10_000)
    return str(text)
