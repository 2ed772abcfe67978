"""The pictures of reports, drawn by matplotlib as SVG; it is loaded when one is drawn.

A picture is one `<svg>` element for light and dark, for screens and paper. It has no
script and loads nothing, and may stand in a file of its own or within an HTML page.
"""

from __future__ import annotations

import shlex
import sys

from runner.core import Problem
from runner.core.errors import UsageError
from runner.pictures.colours import STYLE
from runner.report.charts import BarChart, Chart

__all__ = ["STYLE", "PicturesMissingError", "svg"]

_INSTALL = shlex.join(
    [sys.executable or "python", "-m", "pip", "install", "matplotlib"]
)


class PicturesMissingError(UsageError):
    """Matplotlib, which draws, is not installed or does not load."""


def svg(chart: Chart) -> str:
    """Return the picture of a chart as the text of an `<svg>` element.

    The same chart gives the same bytes. Its `<style>` is ``STYLE``.

    Raises:
        PicturesMissingError: the extra `report` is not installed.
    """
    check()
    if isinstance(chart, BarChart):
        from runner.pictures import bars

        return bars.svg(chart)
    from runner.pictures import roofline

    return roofline.svg(chart)


def check() -> None:
    """Load matplotlib.

    Raises:
        PicturesMissingError: the extra `report` is not installed.
    """
    try:
        import runner.pictures.canvas  # noqa: F401
    except ImportError as error:
        problem = Problem(
            f"pictures need matplotlib, which does not load: {error}",
            hint=f"install it beside rai: {_INSTALL}",
        )
        raise PicturesMissingError(problem) from None
