"""MXNet's operator New: our convolution in C++, and kernels on a pretended GPU."""

import ctypes
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from backends import operator_library
from backends.mxnet_cpu import MxnetCpu
from backends.numpy_cpu import NumpyCpu
from backends.operator_library import OpenGpu, Plan
from course import editions, network
from course.errors import GpuError, NoGpuError, ProjectError, UsageError
from course.shapes import ConvShape
from host import native, reference
from plans.kernels import VARIANTS

pytestmark = [pytest.mark.mxnet, pytest.mark.usefixtures("compiled_once")]

ODD = ConvShape(B=3, M=5, C=2, H=11, W=7, K=4)
OTHER = ConvShape(B=2, M=3, C=1, H=8, W=9, K=3)
GRAPH = """{"nodes": [
  {"op": "null", "name": "data", "inputs": []},
  {"op": "null", "name": "new0_weight", "inputs": []},
  {"op": "New", "name": "new0", "inputs": [[0, 0, 0], [1, 0, 0]],
   "attrs": {"kernel": "%s", "num_filter": "%s"}}],
  "arg_nodes": [0, 1], "heads": [[2, 0, 0]], "attrs": {"mxnet_version": ["int", 10901]}
}"""


@pytest.fixture
def mx():
    from host import mxnet_package

    return mxnet_package.loaded()


@pytest.fixture
def operator():
    from backends import mxnet_cpu

    library = mxnet_cpu.operator()
    library.use_cpu(2)
    library.take_times()
    library.problem()
    yield library
    library.use_cpu(1)


@pytest.fixture(scope="module")
def libcuda(tmp_path_factory):
    """Build a driver without a GPU."""
    source = Path(__file__).with_name("fake_libcuda.cpp")
    path = tmp_path_factory.mktemp("driver") / "libcuda.so.1"
    native.find().build(native.Library("libcuda", (), unoptimised=(source,)), path)
    driver = ctypes.CDLL(str(path))
    driver.path = str(path)
    driver.fake_asked.restype = ctypes.c_char_p
    return driver


@pytest.fixture
def gpu(operator, libcuda):
    """Open the pretended GPU; what it was asked so far is forgotten."""
    libcuda.fake_fail(b"", 0)
    found = operator.open_gpu(libcuda.path)
    asked(libcuda)
    return found


@pytest.fixture
def nvcc(tmp_path, monkeypatch):
    """Put a compiler first that knows nothing; name the list of what it was told."""
    program, told = tmp_path / "bin" / "nvcc", tmp_path / "told"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\n"
        '[ "$1" = --version ] && echo "release 13.0, V13.0.88" && exit\n'
        'for word; do case $word in -D*) sizes="$sizes$word " ;; esac\n'
        '[ "$last" = -o ] && made=$word; last=$word; done\n'
        f'echo "$sizes" | tee -a {told} >"$made"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    return told


def asked(libcuda):
    return libcuda.fake_asked().decode().splitlines()


def arrays(shape):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((shape.B, shape.C, shape.H, shape.W), np.float32)
    k = rng.standard_normal((shape.M, shape.C, shape.K, shape.K), np.float32)
    return x, k


def new(mx, shape, kernel=None, maps=None):
    """Make a graph of the operator alone."""
    text = GRAPH % (kernel or f"({shape.K}, {shape.K})", maps or shape.M)
    return mx.symbol.load_json(text)


def convolved(mx, shape):
    x, k = arrays(shape)
    given = {"data": mx.nd.array(x), "new0_weight": mx.nd.array(k)}
    bound = new(mx, shape).bind(mx.cpu(), given, grad_req="null")
    return bound.forward()[0].asnumpy()


def check(mx, shape):
    """Convolve; the result must be that of the reference."""
    right = reference.gold(*arrays(shape))
    np.testing.assert_allclose(convolved(mx, shape), right, rtol=1e-4, atol=1e-4)


def timed(libcuda):
    """Return what was asked for while the clock ran."""
    return "\n".join(asked(libcuda)).split("cuCtxSynchronize\n")[1].splitlines()


def planned(name, *shapes):
    variant = VARIANTS[name]
    return [Plan(s, b"code", variant) for s in shapes]


@pytest.mark.parametrize(
    "shape",
    [
        ODD,
        OTHER,
        ConvShape(B=1, M=1, C=1, H=1, W=1, K=1),
        ConvShape(B=4, M=2, C=3, H=6, W=6, K=6),
        ConvShape(B=1, M=17, C=3, H=20, W=37, K=5),
    ],
)
def test_the_operator_convolves_as_the_reference(shape, mx, operator):
    check(mx, shape)


@pytest.mark.parametrize("kernel", ["(4, 4)", "(4,4)", "[4, 4]", " ( 4 , 4 ) "])
def test_the_shape_of_its_weights_follows_from_its_data(kernel, mx, operator):
    x = (ODD.B, ODD.C, ODD.H, ODD.W)

    inputs, outputs, _ = new(mx, ODD, kernel).infer_shape(data=x)

    assert inputs == [x, (ODD.M, ODD.C, ODD.K, ODD.K)]
    assert outputs == [(ODD.B, ODD.M, ODD.H_out, ODD.W_out)]


def test_each_call_leaves_its_time_once_and_in_order(mx, operator):
    convolved(mx, ODD)
    convolved(mx, OTHER)

    first, second = operator.take_times()

    assert first > 0 and second > 0
    assert operator.take_times() == []


def wrong_type(mx):
    given = {
        "data": mx.nd.zeros((ODD.B, ODD.C, ODD.H, ODD.W), dtype="float64"),
        "new0_weight": mx.nd.zeros((ODD.M, ODD.C, ODD.K, ODD.K), dtype="float64"),
    }
    new(mx, ODD).bind(mx.cpu(), given, grad_req="null")


def with_data(*shape, **others):
    def bind(mx):
        new(mx, ODD).infer_shape(data=shape, **others)

    return bind


def with_attributes(**said):
    def bind(mx):
        new(mx, ODD, **said).infer_shape(data=(ODD.B, ODD.C, ODD.H, ODD.W))

    return bind


@pytest.mark.parametrize(
    ("bind", "why"),
    [
        (wrong_type, "data and weight must be float32"),
        (with_data(3, 2), "data must be images x channels x rows x columns"),
        (with_data(3, 2, 11, 3), "the weights are larger than the image"),
        (
            with_data(3, 2, 11, 7, new0_weight=(5, 1, 4, 4)),
            "weight must be maps x channels x kernel x kernel",
        ),
        (with_attributes(kernel="(4, 5)"), "`kernel` must be square, such as (5, 5)"),
        (with_attributes(kernel="four"), "`kernel` must be square, such as (5, 5)"),
        (with_attributes(maps="0"), "`num_filter` must be positive"),
    ],
)
def test_what_it_cannot_serve_it_says_in_a_sentence(bind, why, mx, operator, capfd):
    with pytest.raises(mx.base.MXNetError):
        bind(mx)

    error = operator.error()
    assert type(error) is ProjectError
    assert str(error) == f"operator New: {why}"
    assert operator.error() is None


def test_the_gpu_is_described_as_kernels_are_compiled_for_it(gpu):
    assert gpu == OpenGpu("sm_90", 114, (13, 2))


def test_on_the_gpu_the_clock_runs_from_zeros_to_the_last_sum(
    mx, operator, gpu, libcuda
):
    operator.use_gpu(planned("naive", ODD))
    loading = asked(libcuda)
    check(mx, ODD)

    assert loading == ["cuDevicePrimaryCtxRetain", "cuModuleLoadData code"]
    assert asked(libcuda) == [
        "cuMemAlloc 1920",
        "cuMemAlloc 1848",
        "cuMemAlloc 640",
        "cuMemcpyHtoD 1848",
        "cuMemcpyHtoD 640",
        "cuMemsetD8 0 1920",
        "cuCtxSynchronize",
        "cuLaunchKernel conv_naive 5 1 3 16 16 1 0",
        "cuCtxSynchronize",
        "cuMemcpyDtoH 1920",
    ]
    (seconds,) = operator.take_times()
    assert seconds > 0


def test_constants_are_filled_while_the_clock_runs(mx, operator, gpu, libcuda):
    operator.use_gpu(planned("constant", ODD))
    asked(libcuda)
    check(mx, ODD)

    assert timed(libcuda) == [
        "cuMemcpyDtoD 640",
        "cuLaunchKernel conv_constant 5 1 3 32 8 1 1540",
    ]


def test_a_kernel_gets_the_memory_that_it_asks_for(mx, operator, gpu, libcuda):
    def plan(shape, told):
        (launch,) = VARIANTS["naive"].plan(shape, told)
        return (replace(launch, shared_bytes=100_000),)

    greedy = replace(VARIANTS["naive"], plan=plan, scratch=lambda _: {"matrix": 4321})
    operator.use_gpu([Plan(ODD, b"code", greedy)])
    loading = asked(libcuda)
    check(mx, ODD)

    assert loading[-1] == "cuFuncSetAttribute conv_naive 8 100000"
    assert timed(libcuda) == [
        "cuMemAlloc 4321",
        "cuLaunchKernel conv_naive 5 1 3 16 16 1 100000",
    ]


def test_a_kernel_of_halves_is_refused_for_mxnets_floats():
    half = VARIANTS["tensor_half"]

    with pytest.raises(UsageError, match="tensor_half reads float16, but MXNet's"):
        operator_library.plans(half, [ODD], OpenGpu("sm_90", 114, (13, 2)))


def test_shapes_share_machine_code_and_memory(mx, operator, gpu, libcuda):
    operator.use_gpu(planned("naive", ODD, OTHER))
    convolved(mx, ODD)
    asked(libcuda)
    check(mx, OTHER)

    assert not [line for line in asked(libcuda) if line.startswith("cuMemAlloc")]
    assert libcuda.fake_allocations() == 3


def test_leaving_the_gpu_frees_all_that_was_on_it(mx, operator, gpu, libcuda):
    operator.use_gpu(planned("naive", OTHER, ODD))
    convolved(mx, OTHER)
    convolved(mx, ODD)
    asked(libcuda)

    operator.use_cpu(2)

    assert libcuda.fake_allocations() == 0
    assert asked(libcuda) == [
        "cuMemFree 1920",
        "cuMemFree 1848",
        "cuMemFree 640",
        "cuModuleUnload",
        "cuDevicePrimaryCtxRelease",
    ]
    convolved(mx, ODD)
    assert asked(libcuda) == []


@pytest.mark.parametrize(
    ("function", "code", "said"),
    [
        ("cuMemAlloc", 2, "CUDA_ERROR_OUT_OF_MEMORY: cuMemAlloc failed: out of memory"),
        (
            "cuLaunchKernel",
            700,
            "CUDA_ERROR_ILLEGAL_ADDRESS: cuLaunchKernel failed: "
            "an illegal memory access was encountered",
        ),
        (
            "cuCtxSynchronize",
            12345,
            "CUDA_ERROR_UNKNOWN: cuCtxSynchronize failed: error 12345",
        ),
    ],
)
def test_what_fails_on_the_gpu_is_said_in_cudas_word(
    function, code, said, mx, operator, gpu, libcuda
):
    operator.use_gpu(planned("naive", ODD))
    libcuda.fake_fail(function.encode(), code)

    with pytest.raises(mx.base.MXNetError):
        convolved(mx, ODD)

    error = operator.error()
    assert type(error) is GpuError
    assert str(error) == said
    assert operator.take_times() == []
    libcuda.fake_fail(b"", 0)
    check(mx, ODD)


def test_kernels_are_not_run_on_a_gpu_that_was_not_opened(operator):
    with pytest.raises(ProjectError, match="no GPU was opened"):
        operator.use_gpu(planned("naive", ODD))


def test_a_kernel_that_is_not_in_its_machine_code_is_cudas_error(operator, gpu):
    with pytest.raises(
        GpuError, match="CUDA_ERROR_NOT_FOUND: cuModuleGetFunction failed: named"
    ):
        operator.use_gpu(planned("tiled", ODD))


def test_a_shape_without_a_plan_is_named(mx, operator, gpu):
    operator.use_gpu(planned("naive", OTHER))

    with pytest.raises(mx.base.MXNetError):
        convolved(mx, ODD)

    assert str(operator.error()) == (
        "operator New: no plan for 3 x 2 x 11 x 7 by 5 x 2 x 4 x 4"
    )


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/nowhere/libcuda.so.1", "NVIDIA's driver is not installed.*/nowhere/libcuda"),
        ("libc.so.6", "too old: it has no cuInit"),
        ("", "cannot use a GPU: CUDA_ERROR_NO_DEVICE: cuInit failed: no"),
    ],
)
def test_why_no_gpu_can_be_used_is_said(path, why, operator, libcuda):
    libcuda.fake_fail(b"cuInit", 100)

    with pytest.raises(NoGpuError, match=why):
        operator.open_gpu(path or libcuda.path)


def test_a_driver_without_devices_shows_none(operator, libcuda):
    libcuda.fake_fail(b"", 0)
    libcuda.fake_devices(0)
    try:
        with pytest.raises(NoGpuError, match="CUDA's driver finds none"):
            operator.open_gpu(libcuda.path)
    finally:
        libcuda.fake_devices(1)


def test_kernels_are_compiled_once_for_shapes_alike(nvcc):
    small, large = (ConvShape(n, 12, 1, 70, 70, 5) for n in (4, 100))
    deep = ConvShape(100, 24, 12, 33, 33, 7)

    made = operator_library.plans(
        VARIANTS["restrict_unroll"],
        [small, large, deep],
        OpenGpu("sm_90", 114, (13, 2)),
    )

    assert [plan.shape for plan in made] == [small, large, deep]
    assert made[0].cubin == made[1].cubin != made[2].cubin
    grids = [plan.part.launches(plan.shape)[0].grid for plan in made]
    assert [images for _, _, images in grids] == [4, 100, 100]
    assert sorted(nvcc.read_text().split()) == [
        "-DSHAPE_K=5",
        "-DSHAPE_K=7",
        "-DTILE=16",
        "-DTILE=16",
    ]


def test_networks_with_mxnets_convolutions_are_not_run_with_kernels(libcuda):
    edition = editions.edition("2019fa")
    model = edition.model("baseline")
    weights = {n: np.zeros(s) for n, s in network.shapes(edition, model).items()}
    backend = MxnetCpu(VARIANTS["naive"], libcuda=libcuda.path)

    with pytest.raises(UsageError, match="baseline has MXNet's own convolutions"):
        backend.infer(
            network.assemble(edition, model, weights), np.zeros((1, 70, 70), np.uint8)
        )


def test_a_shape_that_the_variant_refuses_is_a_usage_error():
    large = ConvShape(B=1, M=64, C=64, H=9, W=9, K=5)

    with pytest.raises(UsageError, match=r"constant does not support .*102400 weights"):
        operator_library.plans(
            VARIANTS["constant"], [large], OpenGpu("sm_90", 114, (13, 2))
        )


@pytest.mark.parametrize("variant", ["naive", "constant"])
def test_a_whole_network_convolves_on_the_gpu_in_pieces(
    variant, libcuda, nvcc, operator
):
    edition = editions.edition("2019sp")
    model = edition.model("ece408")
    rng = np.random.default_rng(3)
    weights = {
        name: (rng.standard_normal(shape) / 500).astype(np.float32)
        for name, shape in network.shapes(edition, model).items()
    }
    one = network.assemble(edition, model, weights)
    images = rng.integers(0, 256, (5, edition.size, edition.size), np.uint8)
    libcuda.fake_fail(b"", 0)
    asked(libcuda)
    two = 2 * 4 * 6 * 44 * 44

    found = MxnetCpu(VARIANTS[variant], piece_bytes=two, libcuda=libcuda.path).infer(
        one, images
    )

    expected = NumpyCpu(dtype=np.float64).infer(one, images)
    np.testing.assert_allclose(
        found.probabilities, expected.probabilities, rtol=1e-3, atol=1e-6
    )
    assert len(found.op_times_s) == 2
    assert libcuda.fake_entered() == 0
    said = asked(libcuda)
    launches = [line.split()[4] for line in said if "cuLaunchKernel" in line]
    assert launches == ["2", "2", "2", "2", "1", "1"]
    assert said[-1] == "cuDevicePrimaryCtxRelease"
    assert libcuda.fake_allocations() == 0
