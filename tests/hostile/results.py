"""Keep how each case ended in each column, as a line of JSON."""

from __future__ import annotations

from runner.core import Reason
from tests.hostile.case import Case, Ended
from tests.hostile.columns import Column
from tests.kit import topics

VARIABLE = "RAI_HOSTILE_RESULTS"
HELD, SAID = "held", "not enforced, reported"


def keep(case: Case, column: Column, ended: Ended, *, said: bool) -> None:
    """Append a result to the file that the variable names, if it names one."""
    reason = Reason(ended.reason or case.reason(column.name))
    ends = SAID if said else HELD if reason.exit_code == 0 else reason.value
    row = {
        "case": case.name,
        "column": column.name,
        "ends": ends,
        "seconds": round(ended.seconds, 1),
        "rai_mb": round(ended.peak_mb),
    }
    topics.keep(VARIABLE, row)
