"""The frame of every page, its policy, and Jinja's templates of its parts.

Whatever a template shows is escaped: first the characters that steer text without
being seen, then those that mean something in HTML. Only ``Markup`` is let alone.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from runner import pictures
from runner.core.screen import printable
from runner.report.words import size

ASSETS = Path(__file__).parent / "assets"
SCRIPTED = 'document.documentElement.classList.add("scripted");'
"""The first script of a page: what needs scripts is shown."""


def page(
    title: str,
    body: Markup,
    styles: Sequence[str],
    scripts: Sequence[str],
    contents: Markup | None = None,
) -> str:
    """Return a page with this body; ``contents`` stands above it.

    The texts of ``styles`` and ``scripts`` come after the frame's own.
    """
    used = [Markup(style) for style in (asset("base.css"), *styles)]
    run = [Markup(script) for script in (SCRIPTED, *scripts)]
    made = render(
        "shell.html",
        title=title,
        policy=policy(used, run),
        styles=used,
        first=run[0],
        scripts=run[1:],
        contents=contents or Markup(),
        body=body,
    )
    return str(made)  # text for a file, no longer markup for another template


def policy(styles: Iterable[str], scripts: Iterable[str]) -> str:
    """Return a content security policy that allows these styles and scripts only."""
    rules = {
        "default-src": "'none'",
        "script-src": " ".join(map(_hash, scripts)),
        "style-src": " ".join(map(_hash, styles)),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def asset(name: str) -> str:
    """Return a style or a script of this package."""
    return (ASSETS / name).read_text("utf-8")


def render(name: str, /, **values: object) -> Markup:
    """Return a template with these values."""
    return Markup(_environment().get_template(name).render(values))


@cache
def _environment() -> jinja2.Environment:
    made = pictures.environment(Path(__file__).parent / "templates", printable)
    made.filters["size"] = size
    return made
