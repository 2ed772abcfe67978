"""The expressions of workflows, `${{ ... }}`: the few that ours use.

Literals, properties of contexts, `!`, `==`, `!=`, `&&`, `||`, parentheses, and the four
functions of a job's state. Anything else raises RefusedError. Values are compared as
GitHub documents it: strings regardless of case, different types as numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from tests.workflows.refused import RefusedError

TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?)"
    r"|'(?P<string>(?:[^']|'')*)'"
    r"|(?P<name>[A-Za-z_][\w-]*)"
    r"|(?P<sign>==|!=|&&|\|\||[!().]))"
)
PLACE = re.compile(r"\$\{\{(.*?)\}\}", re.S)
CONSTANTS = {"true": True, "false": False, "null": None}
STATES = ("always", "success", "failure", "cancelled")
FREE = ("github.event", "env", "vars")
"""Contexts whose missing properties are null; in others a missing one is a slip."""


def text_of(value: Any) -> str:
    """Return how a value is written into a text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:g}"
    if isinstance(value, str):
        return value
    raise RefusedError(f"a value that has no text: {value!r}")


def filled(value: Any, contexts: Mapping[str, Any], state: str = "success") -> Any:
    """Return a text of the file with its expressions evaluated; others as they are.

    A text that is one expression becomes its value.
    """
    if not isinstance(value, str):
        return value
    whole = PLACE.fullmatch(value.strip())
    if whole and "${{" not in whole[1]:
        return evaluate(whole[1], contexts, state)
    return PLACE.sub(lambda m: text_of(evaluate(m[1], contexts, state)), value)


def condition(value: Any, contexts: Mapping[str, Any], state: str) -> bool:
    """Return whether a step or a job with this `if:` is run; state is the job's.

    Without a function of the state, `success()` has to hold too.
    """
    if value is None:
        return state == "success"
    if isinstance(value, bool):
        return value and state == "success"
    whole = PLACE.fullmatch(value.strip())
    text = whole[1] if whole else value
    if "${{" in text:
        raise RefusedError(f"if: {value}: text around an expression is always true")
    named = any(re.search(rf"\b{name}\(\)", text) for name in STATES)
    right = truth(evaluate(text, contexts, state))
    return right and (named or state == "success")


def evaluate(text: str, contexts: Mapping[str, Any], state: str = "success") -> Any:
    """Return the value of one expression."""
    return _Expression(text, contexts, state).value()


def truth(value: Any) -> bool:
    """Return whether a value counts as true."""
    return not (value is None or value is False or value == "" or value == 0)


class _Expression:
    """One expression, read from left to right while it is evaluated."""

    def __init__(self, text: str, contexts: Mapping[str, Any], state: str) -> None:
        self.text, self.contexts, self.state = text, contexts, state
        self.tokens = list(self._tokens())

    def _tokens(self) -> Any:
        at, text = 0, self.text.rstrip()
        while at < len(text):
            found = TOKEN.match(text, at)
            if found is None:
                raise RefusedError(f"unknown expression: {self.text.strip()}")
            at = found.end()
            yield found.lastgroup, found[found.lastgroup or 0]
        yield "end", ""

    def value(self) -> Any:
        value = self._either()
        if self.tokens[0][0] != "end":
            raise RefusedError(f"unknown expression: {self.text.strip()}")
        return value

    def _takes(self, *signs: str) -> str | None:
        kind, text = self.tokens[0]
        if kind == "sign" and text in signs:
            self.tokens.pop(0)
            return text
        return None

    def _either(self) -> Any:
        value = self._both()
        while self._takes("||"):
            other = self._both()
            value = value if truth(value) else other
        return value

    def _both(self) -> Any:
        value = self._equal()
        while self._takes("&&"):
            other = self._equal()
            value = other if truth(value) else value
        return value

    def _equal(self) -> Any:
        value = self._one()
        while sign := self._takes("==", "!="):
            value = _same(value, self._one()) == (sign == "==")
        return value

    def _one(self) -> Any:
        if self._takes("!"):
            return not truth(self._one())
        if self._takes("("):
            value = self._either()
            if not self._takes(")"):
                raise RefusedError(f"unknown expression: {self.text.strip()}")
            return value
        kind, text = self.tokens.pop(0)
        match kind:
            case "number":
                return float(text)
            case "string":
                return text.replace("''", "'")
            case "name" if text in CONSTANTS:
                return CONSTANTS[text]
            case "name" if self._takes("("):
                if text not in STATES or not self._takes(")"):
                    raise RefusedError(f"unknown function: {text}")
                return text in ("always", self.state)
            case "name":
                return self._property(text)
        raise RefusedError(f"unknown expression: {self.text.strip()}")

    def _property(self, name: str) -> Any:
        if name not in self.contexts:
            raise RefusedError(f"unknown context: {name}")
        value: Any = self.contexts[name]
        while self._takes("."):
            kind, key = self.tokens.pop(0)
            if kind != "name":
                raise RefusedError(f"unknown expression: {self.text.strip()}")
            if not isinstance(value, Mapping):
                value = None  # as GitHub has it, a property of nothing is nothing
            elif key in value:
                value = value[key]
            elif name.startswith(FREE) or name.endswith(".outputs"):
                value = None
            else:
                raise RefusedError(f"{name} has no {key}")
            name = f"{name}.{key}"
        return value


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return one.lower() == other.lower()
    if type(one) is type(other):
        return bool(one == other)
    return _number(one) == _number(other)


def _number(value: Any) -> float:
    if value is None or value == "":
        return 0.0
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan
