"""The image `gpu`, built for real: what is in it, and what a job can do with it."""

from __future__ import annotations

import json
from collections.abc import Callable

import docker
import pytest
from course.errors import NoGpuError
from gpu import compiler

from tests.images.conftest import ROOT
from tests.images.test_pins import pins

pytestmark = [pytest.mark.docker, pytest.mark.slow]

COMPILE_S = 3600
"""More than compiling every kernel takes on a machine with much else to do."""

MB = 1_000_000
KERNEL = """\
#include <cstdio>
#include <mma.h>
extern "C" __global__ void square(float *y) { y[threadIdx.x] *= y[threadIdx.x]; }
int main() { float *y; std::puts(cudaGetErrorName(cudaMalloc(&y, 128))); }
"""
CUPTI = """\
#include <cstdint>
#include <cstdio>
#include <cupti.h>
int main() {
  std::uint32_t version;
  return cuptiGetVersion(&version) != CUPTI_SUCCESS || version < 130000;
}
"""
IMPORTS = "import sys, mxnet, numpy, pycuda; print(sys.prefix, sys.version_info[:2])"
OPEN_TO_ALL = "find / -xdev ! -type l ( -perm -o+w -o -perm /6000 ) -print"


@pytest.fixture(scope="module")
def gpu(built: Callable[..., str]) -> str:
    return built("gpu")


@pytest.fixture
def inspected(client: docker.DockerClient, gpu: str) -> dict:
    return client.api.inspect_image(gpu)


def project() -> dict[str, bytes]:
    """The project's own programs, as a job brings them."""
    files = (ROOT / "project").rglob("*")
    return {
        str(path.relative_to(ROOT)): path.read_bytes()
        for path in files
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_its_size_is_at_most_a_gigabyte(inspected):
    assert inspected["Size"] <= 1000 * MB


def test_its_labels_say_what_is_in_it(inspected, confined, gpu):
    labels = inspected["Config"]["Labels"]
    ask = (
        "import json; from importlib.metadata import version;"
        "print(json.dumps({n: version(n) for n in ('mxnet', 'numpy', 'pycuda')}))"
    )
    found = json.loads(confined(gpu, f'python -c "{ask}"').stdout)

    assert found == {name: labels[f"rai.{name}"] for name in found}
    assert labels["rai.cuda"] == "13"
    assert labels["org.opencontainers.image.title"] == "rai gpu"


def test_its_packages_load_in_a_confined_job(confined, gpu):
    result = confined(gpu, f'python -c "{IMPORTS}"', f'python3 -c "{IMPORTS}"')

    assert result.codes == [0, 0], result.stderr
    assert result.stdout == b"/opt/venv (3, 11)\n" * 2


def test_pycuda_asks_for_the_driver_by_its_name_and_for_nothing_else(confined, gpu):
    result = confined(gpu, "python -c 'import pycuda.driver'")

    assert result.codes == [1]
    last = result.stderr.splitlines()[-1]
    assert last.startswith(b"ImportError: libcuda.so.1: cannot open")


def test_its_compiler_makes_machine_code_and_programs_in_a_confined_job(confined, gpu):
    result = confined(
        gpu,
        "nvcc -cubin -arch=sm_90 -o square.cubin /src/square.cu",
        "nvcc -o square /src/square.cu",
        "./square",
        files={"square.cu": KERNEL.encode()},
    )

    assert result.codes == [0, 0, 0], result.stderr
    assert result.content("build/square.cubin").startswith(b"\x7fELF")
    # It was linked with the runtime, which finds no driver.
    assert result.stdout == b"cudaErrorInsufficientDriver\n"


def test_a_program_can_be_linked_with_cupti_and_the_shared_runtime(confined, gpu):
    result = confined(
        gpu,
        "g++ -I/usr/local/cuda/include -o version /src/version.cpp"
        " -L/usr/local/cuda/lib64 -lcupti -lcudart",
        "./version",
        files={"version.cpp": CUPTI.encode()},
    )
    assert result.codes == [0, 0], result.stderr


def test_nvprof_runs_a_program_that_has_no_gpu_and_says_so(confined, gpu):
    result = confined(gpu, "nvprof --version", "nvprof python -c 'raise SystemExit(7)'")

    assert result.codes == [0, 7]
    assert b"No kernels were profiled." in result.stderr
    assert b"nvprof" in result.stdout


def test_pycuda_finds_the_compiler_and_its_headers(confined, gpu):
    # pycuda.compiler loads the driver, so nvcc is called as it calls it.
    script = (
        "from pytools.prefork import call_capture_output as call;"
        "said = call(['nvcc', '--version']);"
        "assert said[0] == 0 and b'release 13' in said[1], said"
    )
    result = confined(gpu, f'python -c "{script}"')
    assert result.codes == [0], result.stderr


def test_it_has_the_tools_that_a_job_may_call(confined, gpu):
    result = confined(
        gpu, "make --version", "g++ --version", "/usr/bin/time true", "ptxas --version"
    )
    assert result.codes == [0, 0, 0, 0], result.stderr


def test_it_opens_nothing_to_everybody_beyond_what_its_base_does(client, gpu):
    base, image = (
        set(client.containers.run(name, OPEN_TO_ALL.split(), remove=True).split())
        for name in ("debian:bookworm-slim", gpu)
    )
    assert image - base == set()
    assert b"/usr/bin/su" in base


def test_nothing_is_left_of_its_making(confined, gpu):
    left = (
        "ls -d /requirements /root/.cache /root/.aksetup* /opt/build"
        " /var/lib/apt/lists/*_* /var/cache/apt/*.bin /tmp/driver; pip --version"
    )
    result = confined(gpu, f"({left}) 2>/dev/null")

    assert result.stdout == b""
    assert result.codes == [127]


@pytest.mark.parametrize("target", ["cpu", "gpu"])
def test_the_cpus_milestones_run_in_it_and_in_the_smaller_one(built, confined, target):
    result = confined(
        built(target),
        "python /src/project/m1.1.py 100",
        "python /src/project/m2.1.py 100",
        files=project(),
        time_s=600,
    )
    assert result.codes == [0, 0], result.stderr
    assert result.stdout.count(b"Agreement: 1.0 Model: ece408 (synthetic)") == 1


def kernels() -> str:
    """Name some kernels where this machine's own compiler is given all, else none."""
    try:
        own = compiler.find().version
    except NoGpuError:
        return ""
    return "naive implicit_gemm tensor_split" if own.startswith("13.0") else ""


def test_every_kernel_compiles_in_it_for_every_target(confined, gpu):
    result = confined(
        gpu,
        f"python /src/project/compile.py {kernels()} --edition 2019fa",
        files=project(),
        time_s=COMPILE_S,
    )
    assert result.codes == [0], result.stderr
    assert b"sm_90" in result.stdout


def test_the_versions_of_cuda_belong_together():
    releases = {version.rsplit(".", 1)[0] for _, version in pins("cuda13")}
    assert releases == {"13.0"}
