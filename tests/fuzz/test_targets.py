"""What fuzzing found, and some more of it at each time."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.fuzz.hypothesised import inputs
from tests.fuzz.targets import NAMES, target

TIMES = 25
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.smoke
def test_all_that_was_kept_of_a_target_holds(name):
    fuzzed = target(name)
    for data in fuzzed.kept():
        fuzzed.one(data)


@pytest.mark.parametrize("name", NAMES)
def test_a_target_holds_for_inputs_like_those_that_were_kept(name):
    fuzzed = target(name)

    @given(inputs(fuzzed))
    @settings(max_examples=TIMES, suppress_health_check=list(HealthCheck))
    def tried(data: bytes) -> None:
        fuzzed.one(data)

    tried()


@pytest.mark.smoke
def test_the_corpus_is_small():
    sizes = [path.stat().st_size for name in NAMES
             for path in target(name).corpus.glob("*")]  # fmt: skip
    assert sum(sizes) < 300_000
