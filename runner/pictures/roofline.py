"""Kernels below the bounds of their GPU."""

from __future__ import annotations

from runner.report.charts import Roofline


def svg(chart: Roofline) -> str:
    """Return the picture of kernels and bounds."""
    raise NotImplementedError
