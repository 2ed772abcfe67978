"""Which results are good and which are bad, by their column and their first word."""

from __future__ import annotations

import re
from enum import StrEnum

from runner.core import Outcome, Reason, State


class Sign(StrEnum):
    """What a value means for the reader; each display shows it in its own way."""

    NONE = ""
    GOOD = "good"
    BAD = "bad"
    CARE = "care"
    FAINT = "faint"


_RESULTS = frozenset(
    {"outcome", "state", "status", "reason", "result", "answer", "answers"}
)
_GOOD = frozenset({"ok", "done", "passed", "right", "correct", "there", Outcome.OK})
_FAINT = frozenset({Outcome.SKIPPED.value, State.QUEUED.value, "older"})
_BAD = frozenset(
    {
        *(Outcome.FAILED, Outcome.UNFINISHED, State.LOST),
        *("wrong", "no", "not", "missing", "none", "error", "cannot"),
    }
)
_VERDICTS = {
    "faster": Sign.GOOD,
    "slower": Sign.BAD,
    "not comparable": Sign.CARE,
    "inconclusive": Sign.FAINT,
    "not enough samples": Sign.FAINT,
}
_CARE = ("warning", "missing data", "note", "not accepted", "never ranked")
_ENDS = tuple(reason.value for reason in Reason if reason is not Reason.DONE)
_WORD = re.compile(r"[a-z_]+")


def sign(head: str, value: str) -> Sign:
    """Return what a value below a head means."""
    if head == "exit":
        return Sign.NONE if not value else Sign.GOOD if value == "0" else Sign.BAD
    if head == "verdict":
        return _VERDICTS.get(value, Sign.NONE)
    if head in _CARE:
        return Sign.CARE
    if head not in _RESULTS:
        return Sign.NONE
    found = _WORD.match(value)
    word = found.group() if found else ""
    if head == "state" and word == State.DONE:
        return Sign.NONE  # it ended, well or badly
    if value.lower().replace(" ", "_").startswith(_ENDS):
        return Sign.BAD
    for words, meaning in ((_GOOD, Sign.GOOD), (_BAD, Sign.BAD), (_FAINT, Sign.FAINT)):
        if word in words:
            return meaning
    return Sign.NONE
