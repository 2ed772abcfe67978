"""The first wrong number of an output. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wrong:
    """The first number that is not as expected.

    ``what`` is ``y`` for a wrong result, or what was changed that must not be: ``x``,
    ``k`` or ``outside`` (memory around y and the scratch buffers); ``norm`` for a y
    whose error as a whole, ``found``, is above ``expected``; ``late`` for a y that was
    written after the call was said to be over. ``call`` counts an
    entry's calls from 0, warm-up included; ``image``, ``map``, ``row`` and ``column``
    are y's, or x's, or of k: map, channel, row, column. ``inputs`` says which kind of
    inputs the call had, for example "denormals".
    """

    call: int
    layer: str
    image: int
    map: int
    row: int
    column: int
    found: float
    expected: float
    what: str = "y"
    inputs: str = ""

    @property
    def words(self) -> str:
        """The place and both numbers, in a sentence."""
        of = f" ({self.inputs})" if self.inputs else ""
        call = f"call {self.call} of {self.layer}{of}"
        if self.what == "outside":
            return f"{call} wrote outside its buffers"
        if self.what == "late":
            return f"{call} wrote its result after it was over"
        if self.what == "norm":
            return (
                f"{call} is off by {self.found:.1e} as a whole, "
                f"||y - expected|| / ||expected||; at most {self.expected:.0e} passes"
            )
        if self.what != "y":
            return f"{call} changed {self.what}, which it may only read"
        return (
            f"wrong result in {call}: image {self.image}, map {self.map}, "
            f"row {self.row}, column {self.column} is {self.found:.7g}; "
            f"expected {self.expected:.7g}"
        )

    def to_json(self) -> dict[str, object]:
        """Return the fields; a number that JSON has not becomes a word (nan, inf)."""
        return {name: _written(getattr(self, name)) for name in self.__slots__}


def late(call: int, layer: str) -> Wrong:
    """Return what is wrong with a call whose result came later than its end."""
    return Wrong(call, layer, 0, 0, 0, 0, 0.0, 0.0, "late")


def place(index: int, maps: int, rows: int, columns: int) -> tuple[int, int, int, int]:
    """Return image, map, row and column of an output by its index in y."""
    rest, column = divmod(index, columns)
    rest, row = divmod(rest, rows)
    image, map_ = divmod(rest, maps)
    return image, map_, row, column


def _written(value: object) -> object:
    finite = not isinstance(value, float) or math.isfinite(value)
    return value if finite else str(value)
