"""What else the Dockerfile builds: with cuDNN, for older drivers, on a toolkit."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import docker
import pytest

from runner.core import Profile
from runner.spec import milestones
from runner.spec.milestones import folder
from runner.submit import staging
from tests.images import mini_project
from tests.images.conftest import ROOT
from tests.images.test_gpu_image import COMPILE_S, IMPORTS, MB, project

pytestmark = [pytest.mark.docker, pytest.mark.slow]


@pytest.fixture
def inspect(client: docker.DockerClient) -> Callable[[str], dict]:
    return client.api.inspect_image


def test_cudnn_is_one_layer_more_and_loads_without_pytorch(built, confined, inspect):
    gpu, full = inspect(built("gpu")), inspect(built("full"))
    below, above = gpu["RootFS"]["Layers"], full["RootFS"]["Layers"]
    assert above[: len(below)] == below
    assert full["Size"] <= 2000 * MB
    assert full["Config"]["Labels"]["rai.cudnn"] == "9"
    assert full["Config"]["Labels"]["org.opencontainers.image.title"] == "rai full"

    result = confined(
        built("full"),
        'python -c "import cudnn; print(cudnn.backend_version() // 10000)"',
        "python -c \"import ctypes; ctypes.CDLL('libcudnn.so.9')\"",
        "python -c \"import ctypes; ctypes.CDLL('libcublasLt.so.13')\"",
    )
    assert result.codes == [0, 0, 0], result.stderr
    assert result.stdout == b"9\n"


VOLTA = b"""\
import sys
sys.path.insert(0, "/src/project")
import compile as kernels
from course.variants import LADDER_TARGETS
toolkit = kernels.compiler.find()
every = kernels.wanted(only="2019fa")
units = [unit for unit, targets in every if targets == LADDER_TARGETS]
made = [toolkit.compile(unit, "sm_70").cubin for unit in units]
print("for Volta:", len(made) >= 10 and all(made))
"""


def test_cuda_12_compiles_without_nvcc_for_volta_and_newer(built, confined, inspect):
    image = built("gpu", CUDA="12")
    assert inspect(image)["Config"]["Labels"]["rai.cuda"] == "12"

    result = confined(
        image,
        f'python -c "{IMPORTS}"',
        "nvprof true",
        "python /src/project/compile.py --edition 2019fa",
        "python /src/volta.py",
        files=project() | {"volta.py": VOLTA},
        time_s=COMPILE_S,
    )
    assert result.codes == [0, 0, 0, 0], result.stderr
    assert b"sm_90" in result.stdout.split()
    assert b"for Volta: True" in result.stdout


def test_cudnn_for_cuda_12_loads_too(built, confined):
    said = confined(
        built("full", CUDA="12"),
        'python -c "import cudnn; print(cudnn.backend_version())"',
    )
    assert said.stdout == b"91002\n", said.stderr


def test_a_base_with_a_toolkit_keeps_its_own(built, confined, client, inspect):
    # A stand-in for NVIDIA's devel images: a base with a toolkit where theirs is. Its
    # name says what it is made of, as checkouts alike may share an engine.
    gpu = built("gpu")
    toolkit = "rai-test/toolkit:" + gpu.rpartition(":")[2]
    text = (
        f"FROM {gpu} AS gpu\n"
        "RUN cp -rL /usr/local/cuda /toolkit\n"
        "FROM debian:bookworm-slim\n"
        "COPY --from=gpu /toolkit /usr/local/cuda\n"
        "ENV CUDA_VERSION=13.0.2\n"
    )
    client.images.build(fileobj=io.BytesIO(text.encode()), tag=toolkit, rm=True)
    image = built("gpu", BASE=toolkit)
    assert inspect(image)["Config"]["Labels"]["rai.cuda"] == "13.0.2"

    result = confined(
        image,
        f'python -c "{IMPORTS}"',
        "test ! -e /opt/venv/site-packages/nvidia && test ! -L /usr/local/cuda",
        "nvprof --version",
        "nvcc -o square /src/square.cu",
        files={"square.cu": b"__global__ void f() {}\nint main() { f<<<1, 1>>>(); }\n"},
    )
    assert result.codes == [0, 0, 0, 0], result.stderr


@pytest.mark.parametrize(
    ("year", "beside", "on_cpu", "on_gpu"),
    [
        (2020, "m4.cc", "m2", "m4"),
        (2020, "m1.cc", "m1", "m2"),  # spring 2021
        (2021, "m1.cc", "m1", "m3"),
        (2023, "README", "m1", "final"),
    ],
)
def test_minidnn_runs_the_lines_of_each_shape_of_the_course_s_projects(
    built, confined, year, beside, on_cpu, on_gpu
):
    result = confined(
        built("minidnn"),
        *mini_project.LINES,
        f"./{on_cpu} 10",
        f"./{on_gpu} 10",
        files=mini_project.project(year) | {beside: b""},
        profile=Profile.COMPATIBLE,
        time_s=600,
    )
    assert result.codes == [0, 0, 0, 0, 1], result.stderr
    assert b"Agreement: 1 Model: minidnn (synthetic)" in result.said[3]
    assert f"./{on_gpu}: CUDA does not start: no CUDA-capable".encode() in result.stderr


def test_minidnn_compiles_an_assignment_as_a_judge_confines_it(built, confined):
    example = milestones.find("minidnn", [ROOT / "docs/examples"])
    handout = folder.read_folder(Path(example.folder) / "handout", folder.HANDOUT)
    staff = folder.staff(Path(example.folder)).spec

    result = confined(
        built("minidnn"),
        *(command.text for command in staff.commands),
        files={**handout, **staging.golden(example).files},
        time_s=600,
    )
    assert result.codes == [0, 1], result.stderr
    assert b"./m3: CUDA does not start" in result.stderr


def test_minidnn_is_a_little_more_than_gpu_and_has_its_tools(built, confined, inspect):
    gpu, minidnn = inspect(built("gpu")), inspect(built("minidnn"))
    assert minidnn["Size"] <= gpu["Size"] + 100 * MB
    assert (
        minidnn["Config"]["Labels"]["org.opencontainers.image.title"] == "rai minidnn"
    )

    result = confined(
        built("minidnn"),
        "compute-sanitizer --version",
        "cuda-memcheck --version",
        "echo 'int main() {}' | g++ -x c++ - -lcublas",
        "nsys profile --stats=true sh -c 'exit 7'",
    )
    assert result.codes == [0, 0, 0, 7], result.stderr
