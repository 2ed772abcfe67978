"""Which results are good and which are bad, by their column and their first word."""

from __future__ import annotations

import re

from runner.core import Outcome, Reason, State
from runner.terminal.text import Tone

_RESULTS = frozenset({"outcome", "state", "reason", "result", "answer", "answers"})
_GOOD = frozenset({"ok", "done", "passed", "right", "correct", Outcome.OK})
_FAINT = frozenset({Outcome.SKIPPED.value, State.QUEUED.value, "older"})
_BAD = frozenset(
    {
        *(Outcome.FAILED, Outcome.UNFINISHED, State.LOST),
        *("wrong", "no", "not", "missing", "none", "error", "cannot"),
    }
)
_VERDICTS = {
    "faster": Tone.GOOD,
    "slower": Tone.BAD,
    "not comparable": Tone.CARE,
    "not enough samples": Tone.FAINT,
}
_ENDS = tuple(reason.value for reason in Reason if reason is not Reason.DONE)
_WORD = re.compile(r"[a-z_]+")


def tone(head: str, value: str) -> Tone:
    """Return how a value below a head is painted."""
    if head == "exit":
        return Tone.PLAIN if not value else Tone.GOOD if value == "0" else Tone.BAD
    if head == "verdict":
        return _VERDICTS.get(value, Tone.PLAIN)
    if head in ("warning", "missing data", "note", "not accepted", "never ranked"):
        return Tone.CARE
    if head not in _RESULTS:
        return Tone.PLAIN
    found = _WORD.match(value)
    word = found.group() if found else ""
    if head == "state" and word == State.DONE:
        return Tone.PLAIN  # it ended, well or badly
    if value.lower().replace(" ", "_").startswith(_ENDS):
        return Tone.BAD
    for words, painting in ((_GOOD, Tone.GOOD), (_BAD, Tone.BAD), (_FAINT, Tone.FAINT)):
        if word in words:
            return painting
    return Tone.PLAIN
