"""Shorten names of C++ functions so that a table fits a terminal."""

from __future__ import annotations

from msgspec.structs import replace

from runner.report.blocks import Table

GAP = 2
"""The number of spaces between two columns."""

NARROWEST = 16
_LEAST_ARGUMENTS = 8
"""Fewer characters of template arguments are not worth showing."""


def fitted(table: Table, width: int) -> Table:
    """Shorten the table's names so that its lines are no wider than ``width``."""
    columns = range(len(table.heads))
    widest = [
        max(map(len, each)) for each in zip(table.heads, *table.rows, strict=True)
    ]
    others = sum(widest[i] + GAP for i in columns if i not in table.names)
    room = max(NARROWEST, width - others)
    rows = tuple(
        tuple(shortened(c, room) if i in table.names else c for i, c in enumerate(row))
        for row in table.rows
    )
    return replace(table, rows=rows)


def shortened(name: str, width: int) -> str:
    """Shorten a function's name to ``width``; drop the least important parts first.

    These are, in order: the parameters, ``void``, the end of the template arguments,
    the namespaces, and the end of the name itself.
    """
    if len(name) <= width:
        return name
    body, parameters = _split(name, "()")
    tail = "(...)" if parameters else ""
    if len(body) + len(tail) > width:
        body = body.removeprefix("void ")
    if len(body) + len(tail) <= width:
        return body + tail
    function, arguments = _split(body, "<>")
    own = function.rpartition("::")[2] if "<" not in function else function
    for head in (function, own):
        room = width - len(head) - len("<...>") - len(tail)
        if arguments and room >= 0:
            kept = arguments[:room].rstrip(", ") if room >= _LEAST_ARGUMENTS else ""
            return f"{head}<{kept}...>{tail}"
        if not arguments and len(head) + len(tail) <= width:
            return head + tail
    return f"{own[: width - 3]}..."


def _split(text: str, brackets: str) -> tuple[str, str]:
    """Split off the contents of the brackets at the end; "" if there are none."""
    depth = 0
    for place in range(len(text) - 1, -1, -1):
        depth += (text[place] == brackets[1]) - (text[place] == brackets[0])
        if depth == 0:
            inner = text[place + 1 : -1]
            return (text[:place], inner) if inner else (text, "")
    return text, ""
