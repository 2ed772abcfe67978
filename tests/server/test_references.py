"""A GPU on which the judge's reference takes another time than at this site."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from runner.core import Reason
from runner.server.references import EVERY_S, TEAM, References
from runner.server.workers import GpusOut
from tests.kit import judge_cases as made
from tests.kit.queued import Queue
from tests.kit.submitted import built, unpacked

H200_MS = 1.652
"""As in final.yml."""


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    found = Queue(tmp_path, gpus=2)
    first, second = found.runs.gpus
    found.runs.gpus = (replace(first, name="NVIDIA H200", compute="9.0"), second)
    yield found
    found.close()


@pytest.fixture
def out(queue: Queue) -> GpusOut:
    found = GpusOut(queue.runs.home.root, lambda: queue.now)
    given = queue.store, queue.runs, queue.folder, (), found
    queue.feeder._references = References(*given)
    return found


def checks(queue: Queue) -> list[str]:
    return [run for run, asked in queue.runs.asked if asked.title.startswith("refer")]


def end(queue: Queue, run: str, ms: float) -> None:
    """End a check with what it measured."""
    text = json.dumps({**made.measurement(), "reference_ms": ms})
    queue.runs.write(run, "build.tar.zst", built({"measurement.json": text.encode()}))
    queue.runs.end(run, Reason.DONE)
    queue.step(4)


def test_each_known_gpu_is_checked_at_the_start_and_each_hour(queue, out, tmp_path):
    queue.step(3)
    [run] = checks(queue)
    asked = dict(queue.runs.asked)[run]
    assert (asked.gpus, queue.row(run).team) == (queue.runs.gpus[0].uuid, TEAM)
    given = unpacked(queue.runs.paths(run).source, tmp_path / "given")
    job = json.loads((given / "job.json").read_text())
    assert job["entries"] == [] and job["layers"] and job["milestone"] == "final"
    assert not (given / "compiled").exists()

    end(queue, run, 1.04 * H200_MS)
    assert out.words() == {} and checks(queue) == [run]
    queue.now += EVERY_S
    queue.step(3)
    assert len(checks(queue)) == 2


def test_a_gpu_with_odd_times_is_out_until_staff_let_it_back(queue, out):
    queue.step(3)
    [run] = checks(queue)
    end(queue, run, 1.06 * H200_MS)
    uuid = queue.runs.gpus[0].uuid
    assert f"the reference took 1.751 ms in run {run}; this site" in out.words()[uuid]
    assert "expects 1.652 ms, within 5%" in out.words()[uuid]

    queue.now += EVERY_S
    out.looked({uuid: ""}, queue.now)
    assert uuid in out.words(), "it is well, and its times are odd still"
    out.clear(uuid)
    assert out.words() == {}


def test_a_check_that_fails_puts_no_gpu_out(queue, out):
    queue.step(3)
    [run] = checks(queue)
    queue.runs.end(run, Reason.COMMAND_FAILED)
    queue.step(4)
    assert out.words() == {}
    assert any("reference_unmeasured" in line for line in queue.steps)
