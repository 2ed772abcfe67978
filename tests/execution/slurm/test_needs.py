"""What a prepared run needs of a node."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.core import GIB
from runner.core.errors import UsageError
from runner.execution import prepare
from runner.execution.handover import STAGING_S, WORKER_BYTES, needs_of
from runner.execution.prepare import Options
from runner.execution.slurm_programs import JobNeeds

FILE = """\
resources:
  cpu: {cores: 3}
  gpu: {count: 2, optional: true}
  limits: {time: 10m, memory: 4GiB, build_time: 5m}
commands: {build: ["true"]}
"""
GRACE_S = 10.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rai_build.yml").write_text(FILE)
    return tmp_path


def needs(folder: Path, **options: object) -> JobNeeds:
    given = {"engine": "docker", **options}
    return needs_of(prepare.prepare(folder, Options(**given)))  # type: ignore[arg-type]


def test_limits_and_what_rai_itself_takes_are_asked_for(folder):
    assert needs(folder) == JobNeeds(
        memory_bytes=4 * GIB + WORKER_BYTES,
        time_s=600.0 + 300.0 + STAGING_S + GRACE_S,
        gpus=2,
        gpu_optional=True,
        cores=3,
    )


@pytest.mark.parametrize("engine", ["local", "bare"])
def test_an_engine_without_images_needs_no_time_for_one(folder, engine):
    assert needs(folder, engine=engine).time_s == 600.0 + STAGING_S + GRACE_S


def test_a_run_that_is_repeated_has_its_node_for_itself_for_all_its_rounds(folder):
    asked = needs(folder, repeat=5, budget="1h", engine="local")
    assert asked.alone
    assert asked.time_s == 600.0 + 3600.0 + 600.0 + STAGING_S + GRACE_S


def test_a_number_of_gpus_of_the_command_line_is_not_optional(folder):
    asked = needs(folder, gpus="1")
    assert (asked.gpus, asked.gpu_optional) == (1, False)
    assert needs(folder, gpus="0").gpus == 0


def test_gpus_of_one_machine_cannot_be_asked_of_a_cluster(folder):
    with pytest.raises(UsageError, match="--gpus 1"):
        needs(folder, gpus="GPU-11111111")


def test_a_file_without_a_gpu_or_cores_leaves_both_to_slurm(tmp_path):
    (tmp_path / "rai_build.yml").write_text('commands: {build: ["true"]}\n')
    asked = needs(tmp_path)
    assert (asked.gpus, asked.cores, asked.alone) == (0, None, False)
