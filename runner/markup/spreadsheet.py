"""Tables as CSV, for spreadsheets and programs."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

from runner.core.screen import printable

Cell = str | int | float | None

_FORMULA = re.compile(r"[\t\r\n]|\s*[=+\-@\uff1d\uff0b\uff0d\uff20]")
"""Where a formula begins; the last four are the wide forms of the signs."""


def table(heads: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    r"""Return a table as RFC 4180 has it: CRLF between rows, quotes doubled.

    A text that a spreadsheet would take for a formula gets an apostrophe in front, as
    OWASP advises ("CSV Injection"). Numbers are written as they are, None is empty.
    """
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\r\n")
    writer.writerow(heads)
    for row in rows:
        writer.writerow([_cell(value) for value in row])
    return made.getvalue()


def _cell(value: Cell) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        return repr(value) if isinstance(value, float) else str(value)
    shown = printable(value)
    return f"'{shown}" if _FORMULA.match(shown) else shown
