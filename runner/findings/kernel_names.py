"""Join names of functions that a log has broken over several lines."""

from __future__ import annotations

import re

LONGEST_NAME = 1024
"""The number of characters of a kernel's name that are kept."""

_TYPE_AT_END = re.compile(
    r"(?:,|\b(?:const|unsigned|float|double|int|bool|char|long|short|void)"
    r"|\[CUDA(?: Unified(?: Memory)?)?(?: memcpy)?)$"
)


def joined(name: str, text: str) -> str:
    """Join two parts of a name, with a space if one was lost."""
    space = _TYPE_AT_END.search(name) and (text[:1].isalnum() or text[:1] in "_:")
    return (f"{name} {text}" if space else name + text)[:LONGEST_NAME]


def unfinished(name: str) -> bool:
    """Whether a kernel's name continues below: it has open brackets, or only begins."""
    if len(name) >= LONGEST_NAME:
        return False
    if name == "void" or (name.startswith("void ") and not name.endswith(")")):
        return True
    return any(name.count(a) > name.count(b) for a, b in ("()", "[]", "<>"))
