"""``commands.build[].expect``: what a command must print for its answer to be right."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runner import patterns
from runner.core import Place
from runner.core.expectations import FIGURES, Expectation, Expected
from runner.yamlfile import Fields, Mapping, Node, Scalar, Sequence
from runner.yamlfile.fields import resembling
from runner.yamlfile.nodes import kind

WHAT = (*FIGURES, "output")
ANY = "any_of"

_COMPARISON = re.compile(r"(>=|<=|==|=|>|<)?\s*([01](?:\.[0-9]{1,15})?|\.[0-9]{1,15})")
_LONGEST_TEXT = 1000


def read(command: Fields) -> tuple[Expectation, ...]:
    """Parse what a command is expected to print; all of it must hold."""
    node, path = command.node.get("expect"), command.name("expect")
    if node is None:
        return ()
    reader = _Reader(command)
    if not isinstance(node, Mapping):
        reader.wrong(node, path, "a mapping", "expect: {correctness: 0.8898}")
        return ()
    if not node.entries:
        reader.wrong(node, path, "at least one key", "expect: {correctness: 0.8898}")
    return tuple(reader.every(node, path))


class _Reader:
    """Reads the values of one ``expect`` and reports their problems.

    Unlike elsewhere an unknown key is an error: the file would check less than it says.
    """

    def __init__(self, command: Fields) -> None:
        self._problems = command.problems

    def every(self, node: Mapping, path: str) -> Iterator[Expectation]:
        for key, value in node.entries:
            if key.text == ANY:
                yield from self._any_of(value, f"{path}.{ANY}")
            elif self._known(key, path, (*WHAT, ANY)):
                for one in self._values(key.text, value, f"{path}.{key.text}"):
                    yield Expectation((one,), value.place)

    def wrong(self, node: Node, path: str, expected: str, example: str) -> None:
        """Report a value of the wrong kind."""
        self._problems.error(
            f"{path} is {kind(node)}",
            node.place,
            f"expected {expected}, e.g. `{example}`",
        )

    def _any_of(self, node: Node, path: str) -> Iterator[Expectation]:
        example = f"{ANY}: [{{correctness: 0.8898}}, {{agreement: 1}}]"
        if not isinstance(node, Sequence) or not node.items:
            self.wrong(node, path, "a list", example)
            return
        found: list[Expected] = []
        for number, item in enumerate(node.items, 1):
            where = f"{path}[{number}]"
            if not isinstance(item, Mapping) or len(item.entries) != 1:
                self.wrong(item, where, "a mapping with one key", example)
                continue
            ((key, value),) = item.entries
            if self._known(key, where, WHAT):
                found += self._value(key.text, value, f"{where}.{key.text}")
        if len(found) == len(node.items):
            yield Expectation(tuple(found), node.place)

    def _known(self, key: Scalar, path: str, known: tuple[str, ...]) -> bool:
        if key.text in known:
            return True
        close = resembling(key.text, known)
        self._problems.error(
            f"unknown key `{key.text}` in {path}",
            key.place,
            f"did you mean `{close}`?"
            if close
            else "valid keys are " + ", ".join(f"`{name}`" for name in known),
        )
        return False

    def _values(self, what: str, node: Node, path: str) -> Iterator[Expected]:
        """Parse a value, or each of a list of them."""
        if isinstance(node, Sequence) and node.items:
            for number, item in enumerate(node.items, 1):
                yield from self._value(what, item, f"{path}[{number}]")
        else:
            yield from self._value(what, node, path)

    def _value(self, what: str, node: Node, path: str) -> list[Expected]:
        if what == "output":
            return self._output(node, path)
        text = node.text.strip() if isinstance(node, Scalar) else ""
        match = _COMPARISON.fullmatch(text)
        if match is None or float(match[2]) > 1:
            expected = "a number from 0 to 1, alone or after >=, <=, > or <, in quotes"
            self.wrong(node, path, expected, f'{what}: ">=0.85"')
            return []
        how = (match[1] or "=").replace("==", "=")
        return [Expected(what, how, match[2])]

    def _output(self, node: Node, path: str) -> list[Expected]:
        text = node.text if isinstance(node, Scalar) and not node.null else ""
        if not text.strip() or len(text) > _LONGEST_TEXT:
            expected = f"a text of 1 to {_LONGEST_TEXT} characters"
            self.wrong(node, path, expected, "output: Test PASSED")
            return []
        if "\n" in text.strip("\n"):
            hint = "the output is searched line by line: write a list of texts"
            self._problems.error(f"{path} has several lines", node.place, hint)
            return []
        text = text.strip("\n")
        if len(text) > 2 and text[0] == text[-1] == "/":
            return self._pattern(text[1:-1], node.place, path)
        return [Expected("output", "text", text)]

    def _pattern(self, text: str, place: Place, path: str) -> list[Expected]:
        why = "it matches any output"
        try:
            if patterns.Pattern(text).line(b"") is None:
                return [Expected("output", "regex", text)]
        except patterns.PatternError as error:
            why = str(error)
        hint = "see RE2's syntax: https://github.com/google/re2/wiki/Syntax"
        self._problems.error(f"{path} /{text}/ cannot be searched: {why}", place, hint)
        return []
