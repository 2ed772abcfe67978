"""The arithmetic of plan.json: numbers that follow from sizes and the GPU. Pure."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache

MULTIPROCESSORS = "MULTIPROCESSORS"
"""The name, in a grid, of how many the GPU has."""

MOST_LENGTH = 100
"""The most characters of a text, which bound how deep it is nested, too."""

MOST_VALUE = 2**63 - 1
"""The largest number on the way."""

EXAMPLE = "`ceil(W_out / TILE) * M`"

_TEXT = re.compile(r"(?:[A-Za-z_]\w*\b|\d+\b|[-+*/(), ])*", re.ASCII)
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
_CALLS: dict[str, Callable[..., int]] = {"min": min, "max": max}


def evaluate(text: str, names: Mapping[str, int]) -> int:
    """Return the value of a text such as `ceil(W_out / TILE) * M`.

    It has whole numbers, ``names``, `+ - * //`, parentheses, `min(a, b)`, `max(a, b)`
    and `ceil(a / b)`.

    Raises:
        ValueError: it has no value; says why.
    """
    return _value(_tree(text), names)


@lru_cache(maxsize=1024)
def _tree(text: str) -> ast.expr:
    try:
        if len(text) <= MOST_LENGTH and _TEXT.fullmatch(text):
            return ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        pass
    raise ValueError(f"expected arithmetic such as {EXAMPLE}")


def _value(node: ast.expr, names: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(found)) if type(found) is int:
            pass
        case ast.Name(id=name):
            if name not in names:
                raise ValueError(f"no name {name}: there are {', '.join(names)}")
            found = names[name]
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            found = -_value(inner, names)
        case ast.BinOp(op=op, left=left, right=right) if type(op) in _OPERATORS:
            found = _binary(_OPERATORS[type(op)], left, right, names)
        case ast.Call(
            func=ast.Name(id="ceil"),
            args=[ast.BinOp(op=ast.Div(), left=left, right=right)],
            keywords=[],
        ):
            found = -_binary(lambda a, b: -a // b, left, right, names)
        case ast.Call(
            func=ast.Name(id=name), args=[_, _, *_] as parts, keywords=[]
        ) if name in _CALLS:
            found = _CALLS[name](*(_value(part, names) for part in parts))
        case ast.BinOp(op=ast.Div()):
            raise ValueError("`/` is for `ceil(a / b)`; `a // b` rounds down")
        case _:
            raise ValueError(f"expected arithmetic such as {EXAMPLE}")
    if abs(found) > MOST_VALUE:
        raise ValueError("it becomes larger than 64 bits hold")
    return found


def _binary(
    meant: Callable[[int, int], int],
    left: ast.expr,
    right: ast.expr,
    names: Mapping[str, int],
) -> int:
    try:
        return meant(_value(left, names), _value(right, names))
    except ZeroDivisionError:
        raise ValueError("it divides by 0") from None
