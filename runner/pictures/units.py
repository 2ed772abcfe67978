"""Values with their units, as texts. Pure."""

from __future__ import annotations

from math import isfinite

from runner.report.words import brief, size

PREFIXED = ("FLOP/s", "B/s", "FLOP", "Hz")
"""Units that take the prefixes of thousands."""

LARGEST = 1e18
"""From here on digits and units tell nothing."""

_PREFIXES = ("", "k", "M", "G", "T", "P", "E")


def written(value: float, unit: str) -> str:
    """Format a value with four digits: 16.60 ms, 12.5 %, 1.234 TFLOP/s."""
    if not isfinite(value):
        return "unknown"
    sign, amount = "-" if value < 0 else "", abs(value)
    if amount >= LARGEST:
        return f"{value:.4g} {unit}".rstrip()
    if unit == "s":
        return sign + (brief(amount) if amount else "0 s")
    if unit == "%" and (amount >= 0.05 or not amount):
        return f"{value:.1f} %"
    if unit == "B":
        return sign + size(amount)
    if unit in PREFIXED:
        amount, prefix = _prefixed(amount)
        return f"{sign}{amount:.4g} {prefix}{unit}"
    return f"{value:.4g} {unit}".rstrip()


def round_value(value: float, unit: str) -> str:
    """Format a round value, as a mark of an axis: 10 ms, 0.5 s, 20 %."""
    number, _, rest = written(value, unit).partition(" ")
    try:
        return f"{float(number):g} {rest}".rstrip()
    except ValueError:
        return f"{number} {rest}".rstrip()


def _prefixed(amount: float) -> tuple[float, str]:
    prefixes = list(_PREFIXES)
    while amount >= 999.95 and len(prefixes) > 1:
        amount, _ = amount / 1000, prefixes.pop(0)
    return amount, prefixes[0]
