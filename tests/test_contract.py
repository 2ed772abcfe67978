"""Where runner/ and project/ meet: printed lines, and the folder of the data."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import dataset
import pytest

from runner import buildfile, findings

ROOT = Path(__file__).resolve().parent.parent


def default_job():
    file = ROOT / "rai_build.yml"
    return buildfile.parse(file.read_text(), file.name)


def output(script: str, *words: str, data: str = "/nowhere") -> bytes:
    """What a milestone prints on stdout."""
    environ = {**os.environ, "RAI_DATA_DIR": data}
    command = [sys.executable, str(ROOT / "project" / script), *words]
    return subprocess.run(command, capture_output=True, check=True, env=environ).stdout


def test_the_default_job_is_valid_without_a_warning():
    _, warnings = default_job()

    assert warnings == []


def test_the_default_job_runs_scripts_that_are_there():
    job, _ = default_job()

    for command in job.commands:
        (path,) = re.findall(r"\$RAI_SOURCE_DIR/(\S+)", command.text)
        assert (ROOT / path).is_file()


def test_the_default_job_expects_a_result_of_each_command():
    job, _ = default_job()

    for command in job.commands:
        (expected,) = command.expect
        figure, synthetic = expected.alternatives
        library = re.search(r"/m1\.\d\.py", command.text)
        assert figure.what == ("accuracy" if library else "correctness")
        assert synthetic.words == "agreement 1"


def test_the_default_job_brings_the_files_where_the_scripts_look(monkeypatch):
    monkeypatch.setenv("RAI_DATA_DIR", "/data")
    job, _ = default_job()

    looked_in = set(dataset.folders())
    assert {Path(resource.directory) for resource in job.data} <= looked_in
    assert {resource.file_name for resource in job.data} == {
        f"{dataset.TEST}-images-idx3-ubyte.gz",
        f"{dataset.TEST}-labels-idx1-ubyte.gz",
    }
    assert all(resource.md5 for resource in job.data)


@pytest.mark.programs
@pytest.mark.usefixtures("compiled_once")
def test_what_a_milestone_says_of_synthetic_images_is_never_an_accuracy():
    (inference,) = findings.find(output("m2.1.py", "20")).inferences

    assert inference.synthetic
    assert inference.agreement == 1.0
    assert inference.model == "ece408"
    assert len(inference.op_times_s) == 2
    assert (inference.correctness, inference.accuracy) == (None, None)


@pytest.mark.programs
@pytest.mark.usefixtures("compiled_once")
def test_what_the_milestones_print_is_read_back(pictures):
    printed = output("m2.1.py", "100", data=pictures)
    (ours,) = findings.find(printed).inferences
    (library,) = findings.find(output("m1.1.py", "100", data=pictures)).inferences

    shown = [float(t) for t in re.findall(rb"Op Time: (\S+)", printed)]
    assert ours.op_times_s == tuple(shown)
    assert ours.model == "ece408"
    assert ours.correctness == library.accuracy
    assert library.op_times_s == ()
