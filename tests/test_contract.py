"""Where runner/ and project/ meet: lines, a file of shapes, the folder of the data."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from course import dataset, editions
from course.network import Inference, OwnKernels
from course.variants import usual
from milestones import kernel_shapes
from plans.kernels import VARIANTS

from runner import pack
from runner.core.evidence import KernelLaunches, Trace
from runner.core.kernel_shapes import FILE, read
from runner.engines.docker.context import DockerIgnore
from runner.figures import analysis, scanner
from runner.spec import buildfile, milestones

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


def test_the_default_job_gives_all_that_the_milestones_reports_ask_for():
    job, _ = default_job()
    every = [milestones.find(name) for name in ("m1", "m2", "m3", "m4", "final")]

    wanted = {item.command for milestone in every for item in milestone.report}

    assert wanted <= {command.text for command in job.commands}


def test_the_default_job_runs_scripts_that_are_there():
    job, _ = default_job()

    for command in job.commands:
        (path,) = re.findall(r"\$RAI_SOURCE_DIR/(\S+)", command.text)
        assert (ROOT / path).is_file()


def test_a_run_is_sent_no_tests_and_no_figures_and_its_image_less():
    sent = [member.name for member in pack.survey(ROOT).members]
    not_needed = {"tests", "measurements", "tools", "docs"}
    assert [name for name in sent if not_needed & set(name.split("/"))] == []
    assert {"project/final.py", "image/nvprof/Makefile"} <= set(sent)

    rules = DockerIgnore((ROOT / ".dockerignore").read_text(), "Dockerfile")
    folders = {str(Path(name).parent) for name in rules.left(sent)}
    course = {name for name in folders if name.startswith("image/course")}
    assert folders - course - {".", "image", "image/nvprof"} == {
        "image/minidnn",
        "image/nvprof/injection",
        "image/nvprof/injection/without_nvcc",
        "image/nvprof/injection/without_nvcc/crt",
        "image/nvprof/nvprof",
        "image/requirements",
        "project/course",
        "project/cpp",  # only what links an operator to MXNet
        "project/cuda/network",
        "project/host",
        "project/models",
    }


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
def test_what_the_milestones_print_is_read_back(pictures):
    printed = output("m2.1.py", "100", data=pictures)
    (ours,) = scanner.find(printed).inferences
    (library,) = scanner.find(output("m1.1.py", "100", data=pictures)).inferences

    shown = [float(t) for t in re.findall(rb"Op Time: (\S+)", printed)]
    assert ours.op_times_s == tuple(shown)
    assert ours.model == "ece408"
    assert ours.correctness == library.accuracy
    assert library.op_times_s == ()


@pytest.mark.programs
@pytest.mark.usefixtures("compiled_once")
def test_a_milestone_describes_its_layers_and_says_no_accuracy_of_synthetic_images(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("RAI_BUILD_DIR", str(tmp_path))
    (one,) = scanner.find(output("m2.1.py", "20")).inferences
    shapes, problems = read((tmp_path / FILE).read_bytes())
    (network,) = shapes.networks

    assert problems == ()
    assert (network.script, network.arguments) == ("m2.1.py", ("20",))
    assert one.synthetic
    assert (one.agreement, one.model, len(one.op_times_s)) == (1.0, "ece408", 2)
    assert (one.correctness, one.accuracy) == (None, None)
    layers = analysis.layers(shapes, "python /src/project/m2.1.py 20", one)
    assert [layer.op_time_s for layer in layers] == list(one.op_times_s)
    assert [layer.flops for layer in layers] == [52_272_000, 242_208_000]


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", VARIANTS)
def test_each_launch_of_a_variant_is_found_by_what_the_project_writes(
    name, architecture, tmp_path
):
    edition = editions.DEFAULT
    model = edition.with_convolutions(own=True)[0]
    kernel_shapes.add(
        tmp_path,
        ["/src/project/m4.1.py", "100"],
        SimpleNamespace(edition=edition, model=model),
        100,
        Inference(None, (), None, OwnKernels(usual(architecture), 64, VARIANTS[name])),
    )
    shapes, problems = read((tmp_path / FILE).read_bytes())
    counts = Counter()
    for work in shapes.kernels:
        counts[work.kernel, work.grid, work.block] += work.launches
    launched = tuple(
        KernelLaunches(kernel, 0, grid, block, 32, 0, 0, count, count, 1, 1)
        for (kernel, grid, block), count in counts.items()
    )
    trace = Trace("a", "nvprof", "python m4.1.py 100", launches=launched)
    found = analysis.kernels(shapes, [trace])

    assert problems == ()
    assert len(found) == len(launched)
    assert all(kernel.bytes for kernel in found)
    # Sixty-four images, and the rest: a persistent kernel has one grid for both.
    computed = sum(kernel.launches * (kernel.flops or 0) for kernel in found)
    assert computed == pytest.approx(
        sum(layer.flops or 0 for layer in shapes.networks[0].layers)
        # The pooling goes first, so that a quarter of the first layer is left to tanh.
        - 100 * 12 * (66 * 66 - 33 * 33)
    )
