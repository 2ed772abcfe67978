"""Format demangled names as nvprof did: `float const *`, `<int=8>`, `f(void)`."""

from __future__ import annotations

import re

SUFFIXES = {
    "": "int",
    "u": "unsigned int",
    "l": "long",
    "ul": "unsigned long",
    "ll": "long long",
    "ull": "unsigned long long",
}
"""The demangler's suffixes of integers, and their types."""

_WHOLE = re.compile(r"(-?\d+)(u?l{0,2})\Z")
_CAST = re.compile(r"\((.+)\)(-?\d+)\Z")
_OPERATORS = ("operator", "operator<", "operator>", "operator-")
"""Prefixes of angle brackets that are not template brackets."""
_SPACED = re.compile(r"\b(const|volatile)(?=[*&])")


def nvprof(name: str) -> str:
    """Return a name of `__cxa_demangle` in nvprof's format; leave other names."""
    if name.startswith("[") or not ("(" in name or "<" in name):
        return name
    text = _values(name.replace("> >", ">>").replace("> >", ">>"))
    text = _SPACED.sub(r"\1 ", text)
    if text.endswith("()") and not text.endswith("operator()"):
        text = text[:-1] + "void)"
    return text


def function(name: str) -> str:
    """Return a kernel's name without result, namespaces and arguments."""
    depth = 0
    kept: list[str] = []
    flat = name.replace("(anonymous namespace)", "")
    for sign in flat:
        if sign == "(" and depth == 0 and kept:
            break
        if sign == "<":
            depth += 1
        elif sign == ">" and depth:
            depth -= 1
        elif depth == 0:
            kept.append(sign)
    words = "".join(kept).split()
    return words[-1].rpartition("::")[2] if words else name


def _values(text: str) -> str:
    """Prefix template arguments that are values with their types."""
    parts: list[str] = []
    opened: list[str] = []
    start = 0
    for at, sign in enumerate(text):
        if sign in "<>" and text.endswith(_OPERATORS, 0, at):
            continue
        if sign in "<,>":
            inside = bool(opened) and opened[-1] == "<"
            piece = text[start:at]
            parts.append(_argument(piece) if inside else piece)
            parts.append(sign)
            start = at + 1
        if sign in "<(":
            opened.append(sign)
        elif opened and (opened[-1], sign) in {("<", ">"), ("(", ")")}:
            opened.pop()
    return "".join([*parts, text[start:]])


def _argument(piece: str) -> str:
    word = piece.strip()
    before = piece[: len(piece) - len(piece.lstrip())]
    if word in ("true", "false"):
        return f"{before}bool={int(word == 'true')}"
    whole = _WHOLE.match(word)
    if whole:
        return f"{before}{SUFFIXES[whole[2]]}={whole[1]}"
    cast = _CAST.match(word)
    if cast:
        return f"{before}{cast[1]}={cast[2]}"
    return piece
