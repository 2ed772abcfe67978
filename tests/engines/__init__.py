"""Tests of the engines, the shared contract first of all."""

import pytest

pytest.register_assert_rewrite("tests.engines.contract", "tests.engines.running")
