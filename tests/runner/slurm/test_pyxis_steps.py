"""The pyxis engine with the steps of a real Slurm; containers are a stand-in's."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from pathlib import Path

import pytest

from runner.engines.pyxis import PyxisEngine
from tests.runner.engines import standin_srun
from tests.runner.engines.contract import (  # noqa: F401 - tests of the contract
    test_a_cancelled_run_ends_its_command_skips_the_rest_and_gives_back_the_build,
    test_a_child_left_behind_with_the_output_open_holds_nothing_up,
    test_a_command_has_no_terminal_and_an_empty_stdin,
    test_a_command_may_tidy_up_when_its_time_is_over,
    test_a_command_that_ignores_the_request_to_end_is_killed,
    test_a_daemon_left_behind_holds_nothing_up,
    test_a_file_that_is_no_program_ends_with_126,
    test_a_last_line_without_a_newline_arrives_without_one,
    test_a_line_of_a_hundred_megabytes_arrives_whole,
    test_a_program_that_does_not_exist_ends_with_127_and_is_named,
    test_a_signal_ends_with_128_and_its_number,
    test_an_exit_code_arrives_as_it_is,
    test_bytes_that_are_no_text_arrive_as_they_are,
    test_output_comes_while_the_command_runs,
    test_output_without_end_is_ended_at_the_limit,
    test_stdout_and_stderr_stay_apart,
    test_the_build_folder_lasts_from_command_to_command,
    test_variables_reach_the_command_whole_and_no_command_line,
    test_wall_and_processor_time_are_those_of_the_command,
)
from tests.runner.engines.running import Subject, run
from tests.runner.slurm.cluster import Cluster

pytestmark = pytest.mark.slurm


@pytest.fixture
def subject(slurm: Cluster, tmp_path: Path, monkeypatch) -> Subject:
    """The engine in a job of this Slurm, on the node that the job has."""
    if shutil.which("bwrap") is None:
        pytest.skip("the stand-in for pyxis needs bubblewrap")
    real = shutil.which("srun")
    assert real is not None
    job = slurm.submit("sleep 600")
    slurm.until(lambda: slurm.state(job) == "RUNNING")
    srun = tmp_path / "programs" / "srun"
    srun.parent.mkdir()
    srun.write_text(
        f'#!/bin/sh\nexec {sys.executable} -S {standin_srun.__file__} "$@"\n'
    )
    srun.chmod(0o755)
    (tmp_path / "containers").mkdir()
    monkeypatch.setenv("PATH", f"{srun.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("STANDIN_FOLDER", str(tmp_path / "containers"))
    monkeypatch.setenv("STANDIN_SRUN", real)
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
    monkeypatch.setenv("SLURM_JOB_ID", str(job))
    return Subject(PyxisEngine(), "debian:bookworm-slim")


@pytest.fixture
def job(subject: Subject) -> str:
    return os.environ["SLURM_JOB_ID"]


def test_a_command_is_a_step_of_the_job(subject: Subject, slurm: Cluster, job: str):
    seen: list[str] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.05):
            seen.append(
                slurm.ask("squeue", "--steps", "-h", "-o", "%i", f"--jobs={job}")
            )

    thread = threading.Thread(target=look)
    thread.start()
    result = run(subject, ["sleep 1", "echo last"])
    over.set()
    thread.join()
    assert result.stdout == b"last\n"
    steps = {step for text in seen for step in text.split()}
    assert steps & {f"{job}.1", f"{job}.2"}


def test_the_end_of_the_job_is_no_success(subject: Subject, slurm: Cluster, job: str):
    def end() -> None:
        time.sleep(1.5)
        slurm.ask("scancel", job)

    thread = threading.Thread(target=end)
    thread.start()
    result = run(subject, ["echo begun; sleep 60", "echo never"])
    thread.join()
    assert result.stdout == b"begun\n"
    assert result.codes[0] != 0
