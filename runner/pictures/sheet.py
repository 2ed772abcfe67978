"""A sheet to draw on, measured in pixels from its upper left corner."""

from __future__ import annotations

import io
from collections.abc import Sequence
from hashlib import sha256

from runner.pictures import cleaning
from runner.pictures.canvas import Artist, Axes, Figure, FigureCanvasSVG, Line2D
from runner.pictures.colours import DASHES, FAINT, GRID, MARKERS, PAPER, TEXT, Ink, ink
from runner.pictures.labels import fitted, safe

WIDTH = 460
"""So narrow that its texts can be read on a phone, where it is drawn smaller."""

EDGE = 12
HEAD, BODY, SMALL = 15.0, 13.0, 12.0
"""Sizes of text."""

LINE = 20
"""The height of a line of text."""

MARKER = 8


class Sheet:
    """A figure of matplotlib's, and the titles of its parts."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.figure = Figure(figsize=(width / 72, height / 72), dpi=72)
        self.figure.set_facecolor(PAPER.light)
        FigureCanvasSVG(self.figure)
        self._titles: dict[str, tuple[str, ...]] = {}

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """Return axes without a frame at a place."""
        made = self.figure.add_axes(
            (
                left / self.width,
                1 - (top + height) / self.height,
                width / self.width,
                height / self.height,
            )
        )
        made.set_facecolor("none")
        for spine in made.spines.values():
            spine.set_visible(False)
        made.tick_params(
            length=0, labelsize=SMALL, labelcolor=FAINT.light, color=GRID.light, pad=6
        )
        made.minorticks_off()
        made.set_axisbelow(True)
        return made

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        room: float | None = None,
        size: float = BODY,
        colour: Ink = TEXT,
        anchor: str = "left",
        bold: bool = False,
        angle: float = 0,
    ) -> None:
        """Write a text on a line; what has no room is in its title."""
        weight = "bold" if bold else "normal"
        if room is None:
            room = x - EDGE if anchor == "right" else self.width - EDGE - x
        shown, whole = fitted(text, room, size, weight), safe(text)
        self.figure.text(
            x / self.width,
            1 - y / self.height,
            shown,
            size=size,
            color=colour.light,
            ha=anchor,
            va="baseline",
            weight=weight,
            rotation=angle,
            rotation_mode="anchor",
            gid=self.titled(whole) if shown != whole else None,
        )

    def head(self, lines: Sequence[str]) -> None:
        """Write the lines of the title, which are as wide as they may be."""
        for n, line in enumerate(lines):
            y = EDGE + LINE * (n + 0.7)
            self.text(EDGE, y, line, size=HEAD, bold=True, room=self.width)

    def foot(self, top: float, notes: Sequence[str]) -> None:
        """Write notes, one a line, from a height on."""
        for n, note in enumerate(notes):
            self.text(EDGE, top + LINE * n + 12, note, size=SMALL, colour=FAINT)

    def line(self, x: float, y: float, look: int, *, dashed: bool = False) -> None:
        """Draw a series' marker, on its line if it has one, in a legend."""
        places = [self.at(at, y) for at in ((x, x + 12, x + 24) if dashed else (x,))]
        self.draw(
            Line2D(
                [at for at, _ in places],
                [at for _, at in places],
                linestyle=DASHES[look % len(DASHES)] if dashed else "none",
                marker=MARKERS[look % len(MARKERS)],
                markersize=MARKER,
                markevery=[len(places) // 2],
                color=ink(look).light,
                linewidth=2,
            )
        )

    def place(self, axes: Axes, x: float, y: float) -> tuple[float, float]:
        """Return where a point of axes is on the sheet."""
        across, up = axes.transData.transform((x, y))
        return float(across), self.height - float(up)

    def draw(self, artist: Artist) -> None:
        """Add a shape whose places are pixels."""
        artist.set_transform(self.figure.transFigure)
        self.figure.add_artist(artist)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return a place in parts of the sheet."""
        return x / self.width, 1 - y / self.height

    def titled(self, *titles: str) -> str:
        """Return the id of a part, which has a title for who points at it.

        Of several titles each is that of one marker.
        """
        gid = f"{cleaning.GID}{len(self._titles)}"
        self._titles[gid] = tuple(map(safe, titles))
        return gid

    def svg(self, title: str, text: str, name: str) -> str:
        """Return all that is drawn."""
        drawn = io.StringIO()
        self.figure.savefig(
            drawn,
            format="svg",
            facecolor=PAPER.light,
            metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")),
        )
        return cleaning.cleaned(
            drawn.getvalue(), safe(title), safe(text), self._titles, name
        )


def listed(parts: Sequence[str], most: int = 10) -> str:
    """Return parts as one text, which says how many more there are."""
    more = len(parts) - most
    words = [*parts[:most], f"and {more} more"] if more > 0 else list(parts)
    return "; ".join(words)


def named(chart: object) -> str:
    """Return a name of letters and digits that no other chart has."""
    return f"picture-{sha256(repr(chart).encode('utf-8', 'replace')).hexdigest()[:10]}"
