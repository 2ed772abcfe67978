"""How a terminal paints what is good and what is bad."""

from __future__ import annotations

from runner.report.signs import Sign, sign
from runner.terminal.text import Tone

_TONES = {
    Sign.NONE: Tone.PLAIN,
    Sign.GOOD: Tone.GOOD,
    Sign.BAD: Tone.BAD,
    Sign.CARE: Tone.CARE,
    Sign.FAINT: Tone.FAINT,
}


def tone(head: str, value: str) -> Tone:
    """Return how a value below a head is painted."""
    return _TONES[sign(head, value)]
