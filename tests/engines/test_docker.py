"""The Docker engine: the contract, and what only this engine promises."""

from __future__ import annotations

import pytest

from runner.engines.docker import DockerEngine
from tests.engines.contract import *  # noqa: F403 - the tests are the contract's
from tests.engines.running import Subject

pytestmark = pytest.mark.docker

IMAGE = "debian:bookworm-slim"


@pytest.fixture(scope="module")
def engine() -> DockerEngine:
    return DockerEngine()


@pytest.fixture
def subject(engine: DockerEngine) -> Subject:
    return Subject(engine, IMAGE)
