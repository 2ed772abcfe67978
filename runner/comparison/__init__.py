"""Compare the samples of two runs: what changed, and how sure that is.

metrics.py    a run's record to samples: one value a round, by metric
ranks.py      whether two sides differ (exact rank tests), and by how much (bootstrap)
families.py   how much of the risk each look and each metric has
changes.py    verdicts of all that
gate.py       conditions that a change has to meet
words.py      verdicts as sentences
"""

from __future__ import annotations

from runner.comparison.changes import (
    LEAST,
    Change,
    ComparedMetric,
    Comparison,
    compare,
    compare_runs,
    stands,
)
from runner.comparison.families import looks
from runner.comparison.metrics import (
    PEAK_MEMORY,
    MetricName,
    Samples,
    Unit,
    keys,
    known,
    parsed,
    samples,
)
from runner.comparison.words import amount, percent, sentence

__all__ = [
    "LEAST",
    "PEAK_MEMORY",
    "Change",
    "ComparedMetric",
    "Comparison",
    "MetricName",
    "Samples",
    "Unit",
    "amount",
    "compare",
    "compare_runs",
    "keys",
    "known",
    "looks",
    "parsed",
    "percent",
    "samples",
    "sentence",
    "stands",
]
