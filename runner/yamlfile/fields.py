"""Typed reading of a mapping: every value by key, every problem collected.

A grammar says which keys a mapping has. It maps the dotted path of a mapping to its
keys; the items of a list are at ``path[]``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterator
from collections.abc import Mapping as Table
from typing import TypeVar

from msgspec import Struct

from runner.core import Place, quantities
from runner.yamlfile.nodes import (
    Mapping,
    Node,
    Scalar,
    Sequence,
    kind,
)
from runner.yamlfile.problems import Problems

Grammar = Table[str, Collection[str]]
_Default = TypeVar("_Default")
_Value = TypeVar("_Value")


class Fields(Struct, frozen=True):
    """One mapping, seen through its grammar."""

    node: Mapping
    grammar: Grammar
    problems: Problems
    path: str = ""

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
        """Read a node as a mapping; None, after a problem, where it is not one."""
        if node is None:
            return None
        if isinstance(node, Scalar) and node.null:
            problems.warn(f"{path or 'the file'} is empty", node.place, if_empty)
            return None
        node = _spaced(node, grammar, problems, path)
        if not isinstance(node, Mapping):
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
        """Whether the key is there, with or without a value."""
        return self.node.get(key) is not None

    def place(self, key: str | None = None) -> Place:
        """Return the place of a key's value, or of the mapping."""
        value = self.node.get(key) if key else None
        return value.place if value else self.node.place

    def name(self, key: str) -> str:
        """Return a key's dotted path."""
        return f"{self.path}.{key}" if self.path else key

    def child(self, key: str, example: str = "", if_empty: str = "") -> Fields | None:
        """Read a mapping; ``if_empty`` says what follows where it has no value."""
        node, path = self.node.get(key), self.name(key)
        return Fields.of(node, self.grammar, self.problems, path, example, if_empty)

    def section(self, key: str, example: str = "") -> Fields:
        """Read a mapping; an absent one is empty."""
        empty = Mapping(self.place(key), ())
        return self.child(key, example) or Fields(
            empty, self.grammar, self.problems, self.name(key)
        )

    def items(self, key: str, example: str) -> Iterator[tuple[str, Node]]:
        """Read a list: the path of each item, and the item."""
        node = self.node.get(key)
        if isinstance(node, Sequence):
            for number, item in enumerate(node.items, 1):
                yield f"{self.name(key)}[{number}]", item
        elif isinstance(node, Scalar) and node.null:
            self.problems.warn(f"{self.name(key)} is empty", node.place)
        elif node is not None:
            self._wrong(key, node, "a list", example)

    def item(self, node: Node, path: str) -> Fields | None:
        """Read an item of a list as a mapping."""
        return Fields.of(node, self.grammar, self.problems, path)

    def text(
        self, key: str, default: _Default, example: str = "some text"
    ) -> str | _Default:
        """Read text, without surrounding white space."""
        return self.read(key, default, _as_it_is, "text", example)

    def whole(
        self, key: str, default: _Default, example: str = "2", at_least: int = 1
    ) -> int | _Default:
        """Read a whole number."""

        def convert(text: str) -> int | None:
            number = quantities.whole(text)
            return number if number is not None and number >= at_least else None

        expected = "a whole number" + (f" from {at_least}" if at_least > 0 else "")
        return self.read(key, default, convert, expected, example)

    def boolean(self, key: str, default: _Default) -> bool | _Default:
        """Read true or false."""
        return self.read(key, default, quantities.boolean, "true or false", "true")

    def duration_s(
        self, key: str, default: _Default, example: str = "10m"
    ) -> float | _Default:
        """Read a time above zero, in seconds."""

        def convert(text: str) -> float | None:
            return quantities.duration_s(text) or None

        return self.read(key, default, convert, "a time", example)

    def size_bytes(
        self, key: str, default: _Default, example: str = "8GiB", at_least: int = 1
    ) -> int | _Default:
        """Read a size in bytes."""

        def convert(text: str) -> int | None:
            size = quantities.size_bytes(text)
            return size if size is not None and size >= at_least else None

        least = f" of at least {at_least} bytes" if at_least > 1 else ""
        return self.read(key, default, convert, f"a size{least}", example)

    def read(
        self,
        key: str,
        default: _Default,
        convert: Callable[[str], _Value | None],
        expected: str,
        example: str,
    ) -> _Value | _Default:
        """Read a value through ``convert``, which returns None for a wrong one."""
        node = self.node.get(key)
        if node is None:
            return default
        if not isinstance(node, Scalar):
            self._wrong(key, node, expected, example)
            return default
        if not node.text.strip() or node.null:
            self.problems.warn(f"{self.name(key)} is empty", node.place)
            return default
        value = convert(node.text.strip())
        if value is None:
            self._wrong(key, node, expected, example)
            return default
        return value

    def _wrong(self, key: str, node: Node, expected: str, example: str) -> None:
        self.problems.error(
            f"{self.name(key)} is {kind(node)}",
            node.place,
            f"expected {expected}, e.g. `{key}: {example}`",
        )

    def _note_unknown(self) -> None:
        known = self.grammar[_shape(self.path)]
        for key, _ in self.node.entries:
            if key.text not in known:
                self.problems.warn(
                    f"unknown key `{key.text}`"
                    + (f" in {self.path}" if self.path else ""),
                    key.place,
                    _remedy(key.text, known, self.grammar, _shape(self.path)),
                )


def resembling(word: str, known: Collection[str]) -> str | None:
    """Return the known word that was probably meant."""
    lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower().replace("-", "_"), lower, n=1)
    return lower[close[0]] if close else None


def _spaced(node: Node, grammar: Grammar, problems: Problems, path: str) -> Node:
    """Read `count:1` as if a space followed the colon, with a warning."""
    if not isinstance(node, Scalar) or not node.plain:
        return node
    pairs = [word.partition(":")[::2] for word in node.text.split()]
    keys = [key for key, _ in pairs]
    known = all(key in grammar[_shape(path)] and value for key, value in pairs)
    if not known or len(set(keys)) < len(keys):
        return node
    problems.warn(
        f"{path or 'the file'} is {kind(node)}",
        node.place,
        "it is read as if each `:` had a space after it: add it",
    )
    entries = ((Scalar(node.place, k), Scalar(node.place, v)) for k, v in pairs)
    return Mapping(node.place, tuple(entries))


def _remedy(word: str, known: Collection[str], grammar: Grammar, shape: str) -> str:
    if "\xa0" in word:
        return "it begins with or contains a no-break space: retype the line"
    homes = [path for path, keys in grammar.items() if word in keys and path != shape]
    if homes:
        return "it belongs " + " or ".join(map(_home, homes))
    if close := resembling(word, known):
        return f"did you mean `{close}`?"
    return "it is ignored; known are " + ", ".join(f"`{name}`" for name in known)


def _home(path: str) -> str:
    if path.endswith("[]"):
        return f"in an item of `{path.removesuffix('[]')}`"
    return f"under `{path.replace('[]', '')}`" if path else "at the top of the file"


def _shape(path: str) -> str:
    """Return the grammar's path of a list's item."""
    return re.sub(r"\[\d+\]", "[]", path)


def _as_it_is(text: str) -> str:
    return text
