"""The bare engine."""

from __future__ import annotations

import pytest

from runner.engines.bare import BareEngine
from tests.engines.contract import *  # noqa: F403 - the tests are the contract's
from tests.engines.running import Subject


@pytest.fixture
def subject() -> Subject:
    return Subject(BareEngine())
