"""The pictures of reports, as SVG by Jinja's templates.

A picture is one `<svg>` element for light and dark, for screens and paper. It has no
script and no id and loads nothing, and may stand in a file of its own or within an HTML
page.
"""

from __future__ import annotations

from runner.pictures.drawings import STYLE, environment, svg

__all__ = ["STYLE", "environment", "svg"]
