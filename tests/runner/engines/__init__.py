"""Tests of the engines, the shared contract first of all."""

import pytest

HERE = "tests.runner.engines"
pytest.register_assert_rewrite(
    f"{HERE}.contract", f"{HERE}.sandboxed", f"{HERE}.running"
)
