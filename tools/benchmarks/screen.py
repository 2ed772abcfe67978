"""Filter a program's output for a terminal."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

from runner.core.screen import TerminalFilter
from tools.benchmarks import rows

LEAST_MB_S = 40
PIECE_BYTES, LINES, TIMES = 1 << 16, 200_000, 5
TEXTS = {
    "ascii": b"line of a program, forty columns or so wide\n",
    "colours": b"\x1b[32mok\x1b[0m a line, forty columns or so wide\n",
    "bar": b"\r 50% ########################################",
    "accents": "Zeile über 4 µs → gut, vierzig Spalten breit\n".encode(),
    "mark": "✱ a line, forty columns or so wide, as rai's\n".encode(),
}


def measure() -> Iterator[dict[str, object]]:
    """Yield how many MB of each kind of text the filter passes in a second."""
    rates = {name: _rate(line * LINES) for name, line in TEXTS.items()}
    goal = f"at least {LEAST_MB_S} MB/s of text, colours and bars"
    ok = all(rates[name] >= LEAST_MB_S for name in rates if name != "mark")
    yield rows.row(
        "the terminal's filter", goal, ok, **{f"{n}_mb_s": r for n, r in rates.items()}
    )


def _rate(data: bytes) -> float:
    return round(statistics.median(_once(data) for _ in range(TIMES)), 1)


def _once(data: bytes) -> float:
    passing = TerminalFilter()
    began = time.perf_counter()
    for start in range(0, len(data), PIECE_BYTES):
        passing.feed(data[start : start + PIECE_BYTES])
    return len(data) / 1e6 / (time.perf_counter() - began)
