"""The frame of every page: its head and its policy."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence

from markupsafe import Markup
from msgspec import Struct

from runner.pages import templates


class PageElement(Struct, frozen=True):
    """Markup, with the style and the script that it needs; a page has each once."""

    markup: Markup
    style: str = ""
    script: str = ""


SCRIPTED = 'document.documentElement.classList.add("scripted");'
"""The first script of a page: what needs scripts is shown."""


def page(
    title: str,
    body: Markup,
    elements: Sequence[PageElement] = (),
    *,
    contents: Markup | None = None,
) -> str:
    """Return a page with this body, and with what its elements need.

    The styles and scripts of ``elements`` come after the frame's own; their markup is
    part of the body already. ``contents`` stands above the body.
    """
    styles = _distinct([templates.asset("base.css"), *(e.style for e in elements)])
    scripts = _distinct(e.script for e in elements)
    first = Markup(SCRIPTED)
    made = templates.render(
        "shell.html",
        title=title,
        policy=policy(styles, [first, *scripts]),
        styles=styles,
        first=first,
        scripts=scripts,
        contents=contents or Markup(),
        body=body,
    )
    return str(made)  # text for a file, no longer markup for another template


def policy(styles: Iterable[str], scripts: Iterable[str]) -> str:
    """Return a content security policy that allows these styles and scripts only."""
    rules = {
        "default-src": "'none'",
        "script-src": " ".join(map(_hash, scripts)) or "'none'",
        "style-src": " ".join(map(_hash, styles)) or "'none'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _distinct(texts: Iterable[str]) -> list[Markup]:
    """Return each text once, as it goes between its tags."""
    return [Markup(text) for text in dict.fromkeys(texts) if text]


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
