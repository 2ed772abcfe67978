"""Places that texts of a picture take, so that no two lie on each other. Pure."""

from __future__ import annotations

from collections.abc import Sequence

HEIGHT = 12
"""How high a text is above and below its line."""


NOBODY = -1


class Boxes:
    """Rectangles within a frame, each by its left and top, width and height."""

    def __init__(self, left: float, top: float, right: float, bottom: float) -> None:
        self._frame = left, top, right, bottom
        self._taken: list[tuple[float, float, float, float, int]] = []

    def add(
        self, left: float, top: float, width: float, height: float, owner: int = NOBODY
    ) -> None:
        """Take a place."""
        self._taken.append((left, top, left + width, top + height, owner))

    def crossed(
        self, left: float, top: float, width: float, height: float, owner: int = NOBODY
    ) -> int:
        """Return how many places of others are there; a place outside counts more."""
        right, bottom = left + width, top + height
        first, highest, last, lowest = self._frame
        outside = left < first or top < highest or right > last or bottom > lowest
        return 100 * outside + sum(
            left < one[2] and one[0] < right and top < one[3] and one[1] < bottom
            for one in self._taken
            if owner == NOBODY or one[4] != owner
        )

    def best(
        self, ways: Sequence[tuple[float, float]], x: float, y: float, width: float
    ) -> tuple[float, float]:
        """Return the way from a point to the text there that crosses least."""
        return min(
            ways,
            key=lambda way: self.crossed(
                x + way[0], y + way[1] - HEIGHT + 2, width, HEIGHT
            ),
        )
