"""What a page is put together from."""

from __future__ import annotations

from markupsafe import Markup
from msgspec import Struct


class PageElement(Struct, frozen=True):
    """Markup, with the style and the script that it needs; a page has each once."""

    markup: Markup
    style: str = ""
    script: str = ""
