"""Compare two runs: what differs, as data and as blocks.

pairs.py (which command belongs to which) -> mismatches.py (what is not comparable),
measured.py (commands, inferences, profiles)
       -> between.py (all of it, nouns.py) -> blocks.py (as it is shown)
"""

from __future__ import annotations

from runner.report.diff.between import between, compared, differences, unlike
from runner.report.diff.blocks import blocks, measured
from runner.report.diff.figures import changes
from runner.report.diff.nouns import (
    NOT_COMPARABLE,
    DiffSide,
    RunDiff,
)
