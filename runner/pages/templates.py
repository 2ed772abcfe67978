"""Jinja2's templates, and the other files of this package.

Whatever a template shows is escaped: first the characters that steer text without
being seen, then those that mean something in HTML. Only ``Markup`` is let alone.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from runner.core.screen import printable
from runner.report.words import size

_HERE = Path(__file__).parent


def render(name: str, /, **values: object) -> Markup:
    """Return a template with these values."""
    return Markup(_environment().get_template(name).render(values))


@cache
def asset(name: str) -> str:
    """Return a style or a script of this package."""
    return (_HERE / "assets" / name).read_text("utf-8")


@cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters["size"] = size
    return made


def _shown(value: object) -> object:
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return printable(value)
