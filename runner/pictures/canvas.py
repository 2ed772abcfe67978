"""Matplotlib, loaded so that it reads and writes nothing of the user's.

What is drawn with needs no display, no network and no system font. Its figures look
alike on every machine: no settings file counts.
"""

from __future__ import annotations

import contextlib
import logging
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import platformdirs

_FOLDER = "MPLCONFIGDIR"


@contextlib.contextmanager
def _apart() -> Iterator[None]:
    """Let matplotlib find a folder of rai's as its own, and as the current one.

    It keeps its list of fonts there. In the current folder, which may be that of a
    project of others, it would look for settings.
    """
    before = os.environ.get(_FOLDER)
    if not before:
        folder = platformdirs.user_cache_dir("rai", appauthor=False)
        os.environ[_FOLDER] = str(Path(folder, "matplotlib"))
    try:
        with contextlib.chdir("/"):
            yield
    finally:
        if not before:
            del os.environ[_FOLDER]


logging.getLogger("matplotlib").addHandler(logging.NullHandler())
with _apart():
    import matplotlib
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle
    from matplotlib.textpath import TextToPath
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator

__all__ = [
    "Artist",
    "Axes",
    "Figure",
    "FigureCanvasSVG",
    "FixedLocator",
    "FuncFormatter",
    "Line2D",
    "LogLocator",
    "MaxNLocator",
    "Rectangle",
    "drawing",
    "text_width",
]

FONT = "DejaVu Sans"
"""The font that matplotlib brings. It is wide: what fits in it fits in most."""

_TEXT = TextToPath()


@contextlib.contextmanager
def drawing(salt: str) -> Iterator[None]:
    """Draw with matplotlib's own defaults, text as it is, and ids made of a salt."""
    settings = {
        **matplotlib.rcParamsDefault,
        "font.family": [FONT],
        "svg.fonttype": "none",
        "svg.hashsalt": salt,
        "text.parse_math": False,
    }
    settings.pop("backend", None)
    with warnings.catch_warnings(), matplotlib.rc_context():
        warnings.simplefilter("ignore")  # of glyphs that the font lacks
        matplotlib.rcParams.update(settings)
        yield


def text_width(text: str, size: float, weight: str = "normal") -> float:
    """Return how wide a text is in pixels; call it while ``drawing``."""
    font = FontProperties(family=[FONT], size=size, weight=weight)
    return float(_TEXT.get_text_width_height_descent(text, font, ismath=False)[0])
