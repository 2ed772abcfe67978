"""Read typed values from a mapping and collect every problem.

A grammar maps the dotted path of a mapping to the keys that it may have; the items of
a list are at ``path[]``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator
from collections.abc import Mapping as Table
from typing import TypeVar

from msgspec import Struct

from runner.core import Limit, Place
from runner.core.quantities import COUNT, SWITCH, TEXT, TIME, Kind
from runner.spec.yamlfile import (
    MappingNode,
    Node,
    Problems,
    ScalarNode,
    SequenceNode,
    compose,
    decode,
    kind,
)

ARMING = frozenset({"expect", "needs", "timeout", "limits", "env"})
"""Keys without which a file would check, hold or give less than it seems to say."""

Grammar = Table[str, Collection[str]]
_Default = TypeVar("_Default")
_Value = TypeVar("_Value")


class Fields(Struct, frozen=True):
    """One mapping, read by its grammar."""

    node: MappingNode
    grammar: Grammar
    problems: Problems
    path: str = ""

    @classmethod
    def parse(
        cls, raw: bytes, file: str, grammar: Grammar
    ) -> tuple[Fields | None, Problems]:
        """Read a file's bytes; None if it is empty, or no mapping."""
        problems = Problems()
        text = decode(raw, file, problems)
        node = compose(text, file, problems) if text is not None else None
        return cls.of(node, grammar, problems), problems

    @classmethod
    def of(
        cls,
        node: Node | None,
        grammar: Grammar,
        problems: Problems,
        path: str = "",
        example: str = "",
        if_empty: str = "",
    ) -> Fields | None:
        """Read a node as a mapping; None, and a problem, if it is not one."""
        if node is None:
            return None
        if isinstance(node, ScalarNode) and node.null:
            problems.warn(f"{path or 'the file'} is empty", node.place, if_empty)
            return None
        node = _spaced(node, grammar, problems, path)
        if not isinstance(node, MappingNode):
            keys = ", ".join(f"`{key}:`" for key in grammar[_shape(path)])
            problems.error(
                f"{path or 'the file'} is {kind(node)}",
                node.place,
                f"expected a mapping with keys such as {example or keys}",
            )
            return None
        fields = cls(node, grammar, problems, path)
        fields._note_unknown()
        return fields

    def has(self, key: str) -> bool:
        """Whether the mapping has the key, with or without a value."""
        return self.node.get(key) is not None

    def place(self, key: str = "") -> Place:
        """Return the place of a key's value, or of the mapping."""
        return ((self.node.get(key) if key else None) or self.node).place

    def name(self, key: str) -> str:
        """Return a key's dotted path; that of the mapping for ""."""
        return ".".join(filter(None, (self.path, key)))

    def error(self, key: str, text: str, hint: str = "") -> None:
        """Add an error: what is wrong with a key's value, or the mapping for ""."""
        self.problems.error(f"{self.name(key)} {text}", self.place(key), hint)

    def warn(self, key: str, text: str, hint: str = "") -> None:
        """Add a warning, as ``error`` does."""
        self.problems.warn(f"{self.name(key)} {text}", self.place(key), hint)

    def child(self, key: str, example: str = "", if_empty: str = "") -> Fields | None:
        """Read a mapping; ``if_empty`` is the hint if the key has no value."""
        node, path = self.node.get(key), self.name(key)
        return Fields.of(node, self.grammar, self.problems, path, example, if_empty)

    def section(self, key: str, example: str = "") -> Fields:
        """Read a mapping; return an empty one if it is absent."""
        empty = MappingNode(self.place(key), ())
        return self.child(key, example) or Fields(
            empty, self.grammar, self.problems, self.name(key)
        )

    def items(self, key: str, example: str) -> Iterator[tuple[str, Node]]:
        """Read a list; yield the path of each item, and the item."""
        node = self.node.get(key)
        if isinstance(node, SequenceNode):
            for number, item in enumerate(node.items, 1):
                yield f"{self.name(key)}[{number}]", item
        elif isinstance(node, ScalarNode) and node.null:
            self.warn(key, "is empty")
        elif node is not None:
            self._wrong(key, node, "a list", example)

    def item(self, node: Node, path: str) -> Fields | None:
        """Read an item of a list as a mapping."""
        return Fields.of(node, self.grammar, self.problems, path)

    def mappings(self, key: str, example: str) -> Iterator[Fields]:
        """Read a list of mappings; what is none is a problem, and left out."""
        for path, node in self.items(key, example):
            if item := self.item(node, path):
                yield item

    def text(
        self, key: str, default: _Default, example: str = "some text"
    ) -> str | _Default:
        """Read text, without surrounding white space."""
        return self.read(key, default, TEXT, example)

    def whole(
        self, key: str, default: _Default, example: str = "2", at_least: int = 1
    ) -> int | _Default:
        """Read a whole number."""
        return self.read(key, default, COUNT.at_least(at_least), example)

    def boolean(self, key: str, default: _Default) -> bool | _Default:
        """Read true or false."""
        return self.read(key, default, SWITCH, "true")

    def duration_s(
        self, key: str, default: _Default, example: str = "10m"
    ) -> float | _Default:
        """Read a time above zero, in seconds."""
        return self.read(key, default, TIME, example)

    def limit(self, limit: Limit, default: _Default) -> float | _Default:
        """Read a limit by its row."""
        return self.read(limit.key, default, limit.kind, limit.written())

    def read(
        self, key: str, default: _Default, wanted: Kind[_Value], example: str
    ) -> _Value | _Default:
        """Read a value of a kind; an invalid one is a problem and gives the default."""
        node = self.node.get(key)
        if node is None:
            return default
        value = None
        if isinstance(node, ScalarNode):
            if not node.text.strip() or node.null:
                self.warn(key, "is empty")
                return default
            value = wanted.parse(node.text.strip())
        if value is None:
            self._wrong(key, node, wanted.words, example)
            return default
        return value

    def _wrong(self, key: str, node: Node, expected: str, example: str) -> None:
        hint = f"expected {expected}, e.g. `{key}: {example}`"
        self.error(key, f"is {kind(node)}", hint)

    def _note_unknown(self) -> None:
        known = self.grammar[_shape(self.path)]
        for key, _ in self.node.entries:
            if key.text in known:
                continue
            where = f" in {self.path}" if self.path else ""
            text = f"unknown key `{key.text}`{where}"
            meant = (n for n in known if n in ARMING and one_off(key.text.lower(), n))
            if near := next(meant, None):
                self.problems.error(text, key.place, f"did you mean `{near}`?")
                continue
            hint = _remedy(key.text, known, self.grammar, _shape(self.path))
            self.problems.warn(text, key.place, hint)


def resembling(word: str, known: Collection[str]) -> str | None:
    """Return the known word that is most like ``word``, if any is."""
    lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower().replace("-", "_"), lower, n=1)
    return lower[close[0]] if close else None


def one_off(typed: str, known: str) -> bool:
    """Whether a letter is missing, too many, wrong, or swapped with the next one."""
    short, long = sorted((typed, known), key=len)
    while short and short[0] == long[0]:
        short, long = short[1:], long[1:]
    swapped = short[:2] == long[1::-1] and short[2:] == long[2:]
    return swapped or long[1:] in (short, short[1:])


def _spaced(node: Node, grammar: Grammar, problems: Problems, path: str) -> Node:
    """Read `count:1` as if a space followed the colon, with a warning."""
    if not isinstance(node, ScalarNode) or not node.plain:
        return node
    pairs = [word.partition(":")[::2] for word in node.text.split()]
    keys = [key for key, _ in pairs]
    known = all(key in grammar[_shape(path)] and value for key, value in pairs)
    if not known or len(set(keys)) < len(keys):
        return node
    problems.warn(
        f"{path or 'the file'} is {kind(node)}",
        node.place,
        "add a space after each `:`; it is read as if it were there",
    )
    entries = ((ScalarNode(node.place, k), ScalarNode(node.place, v)) for k, v in pairs)
    return MappingNode(node.place, tuple(entries))


def _remedy(word: str, known: Collection[str], grammar: Grammar, shape: str) -> str:
    if "\xa0" in word:
        return "it contains a no-break space; retype the line"
    homes = [path for path, keys in grammar.items() if word in keys and path != shape]
    if homes:
        return "it belongs " + " or ".join(map(_home, homes))
    if close := resembling(word, known):
        return f"did you mean `{close}`?"
    return "it is ignored; valid keys are " + ", ".join(f"`{name}`" for name in known)


def _home(path: str) -> str:
    if path.endswith("[]"):
        return f"in an item of `{path.removesuffix('[]')}`"
    return f"under `{path.replace('[]', '')}`" if path else "at the top of the file"


def _shape(path: str) -> str:
    """Return the grammar's path of a list's item."""
    return re.sub(r"\[\d+\]", "[]", path)
