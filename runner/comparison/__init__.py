"""Compare the samples of two runs: what changed, and how sure that is.

metrics.py    a run's record to samples: one value a round, by metric
paired.py     the test of pairs, the interval of their ratio, and how much they may err
changes.py    each metric's verdict, as a value and as a sentence
gate.py       conditions that a change has to meet
"""

from __future__ import annotations

from runner.comparison.changes import (
    LEAST,
    Change,
    Comparison,
    FigureChange,
    compare,
    compare_runs,
    counted,
    sentence,
    stands,
)
from runner.comparison.metrics import (
    PEAK_MEMORY,
    MetricName,
    Samples,
    Unit,
    amount,
    keys,
    known,
    parsed,
    percent,
    samples,
)
from runner.comparison.paired import looks
