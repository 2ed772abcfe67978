"""The local engine, with each sandbox that this machine has."""

from __future__ import annotations

import pytest

from runner.engines.local import LocalEngine
from runner.model import BuildSpec
from tests.engines.contract import *  # noqa: F403 - the tests are the contract's
from tests.engines.running import Subject

pytestmark = pytest.mark.local

KINDS = ("bubblewrap", "unshare")


@pytest.fixture(params=KINDS)
def subject(request: pytest.FixtureRequest) -> Subject:
    engine = LocalEngine(kind=request.param)
    if problems := engine.check(BuildSpec("rai_build.yml")):
        pytest.skip(str(problems[0]))
    return Subject(engine)
