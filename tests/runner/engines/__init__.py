"""Tests of the engines, the shared contract first of all."""

import pytest

pytest.register_assert_rewrite(
    "tests.runner.engines.contract", "tests.runner.engines.running"
)
