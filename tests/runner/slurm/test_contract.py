"""The contract of engines, kept to by each of them on a node of Slurm."""

from __future__ import annotations

import pytest

from runner.engines.bare import BareEngine
from runner.engines.docker import DockerEngine
from runner.engines.local import LocalEngine
from tests.runner.engines.contract import *  # noqa: F403 - the tests are the contract's
from tests.runner.engines.running import Subject
from tests.runner.engines.sandboxed import *  # noqa: F403 - the same
from tests.runner.slurm.carried import CarriedEngine
from tests.runner.slurm.cluster import Cluster

pytestmark = [pytest.mark.slurm, pytest.mark.programs]

del (
    # A place carries whole runs: nothing on a node waits for who reads its events.
    test_a_run_that_is_cancelled_between_rounds_starts_no_other,  # noqa: F821
    # The end of a round is told to the job on the node, and not recorded.
    test_nothing_runs_between_a_rounds_end_and_the_next_event,  # noqa: F821
)


@pytest.fixture(
    params=[
        pytest.param((LocalEngine, None), id="local", marks=pytest.mark.local),
        pytest.param(
            (DockerEngine, "debian:bookworm-slim"),
            id="docker",
            marks=[pytest.mark.docker, pytest.mark.slow],
        ),
        pytest.param((BareEngine, None), id="bare", marks=pytest.mark.slow),
    ]
)
def subject(slurm: Cluster, request: pytest.FixtureRequest) -> Subject:
    kind, image = request.param
    return Subject(CarriedEngine(kind), image)
