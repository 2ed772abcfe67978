"""One GPU for both runs of a bench: locked once, until the last has let it go."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from runner.core import Gpu
from runner.core.errors import BusyError
from runner.engines.base import Engine
from runner.engines.gpu import nvidia
from runner.execution.bench_sides import shared
from tests.kit.fake_engine import FakeEngine

FIRST = Gpu("GPU-a", "Model", 0)
SECOND = Gpu("GPU-b", "Model", 1)


class LockingEngine(FakeEngine):
    """A fake engine that locks GPUs as engines on this machine do."""

    folder = Path()

    def hold(self, gpu: Gpu, run_id: str) -> AbstractContextManager[None]:
        """Lock a file of this test's folder."""
        return nvidia.hold(gpu, run_id, self.folder)


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LockingEngine:
    monkeypatch.setattr(LockingEngine, "folder", tmp_path / "locks")
    return LockingEngine()


def both(*, same: bool) -> tuple[Engine, Engine]:
    (one,), (other,) = shared([(LockingEngine(),), (LockingEngine(),)], same=same)
    return one, other


def free(gpu: Gpu, engine: Engine) -> bool:
    try:
        with engine.hold(gpu, "other"):
            return True
    except BusyError:
        return False


@pytest.mark.parametrize("first_out", [0, 1])
def test_a_gpu_is_locked_until_both_runs_have_let_it_go(outside, first_out):
    holds = [ExitStack(), ExitStack()]
    for hold, engine, run in zip(holds, both(same=True), ("a", "b"), strict=True):
        hold.enter_context(engine.hold(FIRST, run))
        assert not free(FIRST, outside)
    holds[first_out].close()
    assert not free(FIRST, outside)
    holds[1 - first_out].close()
    assert free(FIRST, outside)


def test_a_gpu_that_another_run_holds_is_refused_and_can_be_tried_again(outside):
    one, _ = both(same=True)
    with outside.hold(FIRST, "other"), pytest.raises(BusyError, match="run other"):
        one.hold(FIRST, "a").__enter__()
    with one.hold(FIRST, "a"):
        assert not free(FIRST, outside)


def test_the_second_run_gets_no_other_gpu_than_the_first(outside):
    one, other = both(same=True)
    with one.hold(FIRST, "a"):
        with pytest.raises(BusyError, match="uses GPU GPU-a"):
            other.hold(SECOND, "b").__enter__()
        with other.hold(FIRST, "b"):
            assert free(SECOND, outside)


def test_runs_that_ask_for_different_numbers_share_what_they_can(outside):
    one, other = both(same=False)
    with (
        one.hold(FIRST, "a"),
        other.hold(FIRST, "b"),
        other.hold(SECOND, "b"),
    ):
        assert not free(FIRST, outside)
        assert not free(SECOND, outside)
    assert free(FIRST, outside) and free(SECOND, outside)
