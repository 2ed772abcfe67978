"""Texts that XML 1.0 can hold."""

from __future__ import annotations

import re

from runner.core.screen import printable

_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What is outside the production Char of XML 1.0, section 2.2."""


def text(value: str) -> str:
    """Escape a text for an element; what XML cannot hold is shown as its number."""
    shown = _FORBIDDEN.sub(_numbered, printable(value))
    for sign, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        shown = shown.replace(sign, entity)
    return shown


def attribute(value: str) -> str:
    """Escape a text for an attribute in double quotes; its lines are kept."""
    shown = text(value).replace('"', "&quot;")
    return shown.replace("\t", "&#9;").replace("\n", "&#10;").replace("\r", "&#13;")


def _numbered(found: re.Match[str]) -> str:
    return ascii(found.group())[1:-1]
