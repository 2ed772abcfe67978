"""The convolution in C++ against the plain one, for several kinds of processor."""

import os
import platform
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from course.errors import CompilerError
from host import cpu_convolution, native, reference
from hypothesis import given, settings
from hypothesis import strategies as st

from project.tests.plain import gold
from tests.kit.program import run_program

pytestmark = [
    pytest.mark.programs,
    pytest.mark.cpp,
    pytest.mark.usefixtures("compiled_once"),
]

LAYERS = [  # of all editions: channels, maps, kernel, size
    *[(1, 50, 5, 28), (1, 6, 5, 64), (6, 16, 5, 30), (1, 12, 7, 72), (12, 24, 7, 33)],
    *[(1, 6, 5, 48), (6, 16, 5, 22), (1, 12, 7, 48), (12, 24, 7, 21)],
    *[(1, 12, 5, 70), (12, 24, 5, 33)],
]
NEEDS = {"native": b"", "haswell": b"__AVX2__ 1", "x86-64": b""}
SPECIAL = [np.nan, np.inf, -np.inf, 0.0]


@pytest.fixture(scope="module", params=NEEDS)
def convolve(request):
    """Return the function as it is built for a kind of processor."""
    here = native.find()
    if request.param == "native":
        cpu_convolution.load()
        return cpu_convolution.convolve
    if platform.machine() != "x86_64" or NEEDS[request.param] not in here.macros:
        pytest.skip(f"processor: this one is no {request.param}")
    compiler = native.find(processors=[(f"-march={request.param}",)])
    function = cpu_convolution.open_at(native.build(cpu_convolution.LIBRARY, compiler))
    return lambda y, x, k: cpu_convolution.call(function, 3, y, x, k)


def convolved(convolve, x, weights):
    """Convolve into a buffer whose ends must stay, and which must be filled."""
    side = weights.shape[2] - 1
    shape = (len(x), len(weights), x.shape[2] - side, x.shape[3] - side)
    size = int(np.prod(shape))
    buffer = np.full(size + 128, np.nan, np.float32)
    buffer[:64] = buffer[-64:] = 408.0
    convolve(buffer[64:-64].reshape(shape), x, weights)
    assert (buffer[:64] == 408.0).all()
    assert (buffer[-64:] == 408.0).all()
    return buffer[64:-64].reshape(shape).copy()


def exact(x, weights):
    side = weights.shape[2] - 1
    y = np.empty((len(x), len(weights), x.shape[2] - side, x.shape[3] - side))
    reference.convolve(y, x.astype(np.float64), weights.astype(np.float64))
    return y


def error(y, right):
    return np.linalg.norm(y - right) / np.linalg.norm(right)


def numbers(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


@st.composite
def layers(draw, most_images, most_maps, most_kernel, most_more):
    images, maps, channels, kernel = (
        draw(st.integers(1, most)) for most in (most_images, most_maps, 3, most_kernel)
    )
    height, width = (kernel + draw(st.integers(0, most_more)) for _ in "hw")
    seed = draw(st.integers(0, 2**32))
    x = numbers(seed, images, channels, height, width)
    return x, numbers(seed + 1, maps, channels, kernel, kernel)


@settings(max_examples=120, deadline=None)
@given(layer=layers(3, 30, 13, 40))
def test_a_convolution_of_any_shape_is_the_exact_one(convolve, layer):
    x, weights = layer

    y = convolved(convolve, x, weights)

    # The bound for sums of rounded products (Higham, Accuracy and Stability, 3.1): sums
    # that nearly cancel are not as exact as they are small.
    products = np.prod(weights.shape[1:])
    bound = products * np.finfo(np.float32).eps * exact(abs(x), abs(weights))
    assert (abs(y - exact(x, weights)) <= bound).all()


@settings(max_examples=40, deadline=None)
@given(layer=layers(2, 3, 3, 20), chosen=st.data())
def test_what_is_no_number_spreads_as_the_formula_says(convolve, layer, chosen):
    for array in layer:
        for _ in range(chosen.draw(st.integers(0, 3))):
            at = chosen.draw(st.integers(0, array.size - 1))
            array.reshape(-1)[at] = chosen.draw(st.sampled_from(SPECIAL))
    right = gold(*layer)

    y = convolved(convolve, *layer)

    np.testing.assert_allclose(y, right, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("channels", "maps", "kernel", "size"), LAYERS)
def test_a_layer_of_an_edition_is_the_exact_one(convolve, channels, maps, kernel, size):
    x = np.random.default_rng(size).integers(0, 256, (3, channels, size, size))
    x = x.astype(np.float32)
    weights = numbers(kernel, maps, channels, kernel, kernel)

    assert error(convolved(convolve, x, weights), exact(x, weights)) < 1e-6


@pytest.mark.parametrize("images", [0, 1, 2, 9])
def test_threads_change_no_bit(images):
    function = cpu_convolution.load()
    x, weights = numbers(1, images, 2, 20, 24), numbers(2, 14, 2, 5, 5)

    several = [
        convolved(lambda *a, n=n: cpu_convolution.call(function, n, *a), x, weights)
        for n in (1, 2, 3, 64)
    ]

    assert all(np.array_equal(several[0], y) for y in several)
    assert several[0].shape == (images, 14, 16, 20)


def test_several_may_convolve_at_once():
    cpu_convolution.load()
    many = [
        (numbers(n, 4, 2, 30 + n, 31), numbers(n, 5 + n, 2, 5, 5)) for n in range(8)
    ]

    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda one: convolved(cpu_convolution.convolve, *one), many)

    for y, one in zip(found, many, strict=True):
        assert error(y, exact(*one)) < 1e-6


def test_images_and_weights_may_lie_as_they_like():
    cpu_convolution.load()
    x, weights = numbers(1, 24, 20, 2, 3).T, numbers(2, 5, 5, 2, 4).astype("f8").T

    y = convolved(cpu_convolution.convolve, x, weights)

    assert error(y, exact(x, weights)) < 1e-6


def test_images_and_weights_may_begin_at_any_byte():
    x, weights = numbers(1, 2, 1, 6, 7), numbers(2, 3, 1, 3, 3)
    seen = []

    def function(y, *pointers_and_sizes):
        seen.extend(pointers_and_sizes[:2])

    unaligned = [
        np.frombuffer(b"x" + array.tobytes(), np.float32, offset=1).reshape(array.shape)
        for array in (x, weights)
    ]
    y = np.empty((2, 3, 4, 5), np.float32)
    cpu_convolution.call(function, 1, y, *unaligned)

    assert not any(array.flags.aligned for array in unaligned)
    assert [pointer % 4 for pointer in seen] == [0, 0]


@pytest.mark.parametrize(
    "y",
    [
        np.frombuffer(bytearray(385), np.float32, offset=1).reshape(2, 3, 4, 4),
        np.empty((2, 3, 4, 4)),
        np.empty((2, 3, 4, 8), np.float32)[..., ::2],
        np.broadcast_to(np.float32(0), (2, 3, 4, 4)),
    ],
)
def test_an_output_that_cannot_be_written_in_place_is_refused(y):
    with pytest.raises(ValueError, match="must be float32, contiguous and writeable"):
        cpu_convolution.convolve(y, numbers(1, 2, 1, 6, 6), numbers(2, 3, 1, 3, 3))


def test_sizes_that_do_not_fit_are_refused():
    y = np.empty((2, 3, 4, 5), np.float32)

    with pytest.raises(ValueError, match=r"a convolution of .* is not"):
        cpu_convolution.convolve(y, numbers(1, 2, 1, 6, 6), numbers(2, 3, 1, 3, 3))


def test_without_a_compiler_it_is_said_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    cpu_convolution.load.cache_clear()

    with pytest.raises(CompilerError, match="no C\\+\\+ compiler found"):
        cpu_convolution.convolve(
            np.empty((2, 3, 4, 4), np.float32),
            numbers(1, 2, 1, 6, 6),
            numbers(2, 3, 1, 3, 3),
        )


SHAPES = r"""
#include "convolution.h"
#include <cstdlib>
#include <random>
int main() {
    std::mt19937 next(408);
    auto upto = [&](int n) { return int(next() % n) + 1; };
    auto floats = [](std::size_t n) {
        return static_cast<float *>(std::calloc(n, sizeof(float)));
    };
    for (int n = 0; n < 400; n++) {
        const int B = upto(3), M = upto(26), C = upto(3), K = upto(8);
        const int H = K - 1 + upto(20), W = K - 1 + upto(40);
        float *y = floats(std::size_t(B) * M * (H - K + 1) * (W - K + 1));
        float *x = floats(std::size_t(B) * C * H * W);
        float *k = floats(std::size_t(M) * C * K * K);
        rai_convolve(y, x, k, B, M, C, H, W, K, upto(3));
        for (float *each : {y, x, k}) std::free(each);
    }
}
"""


@pytest.mark.slow
def test_nothing_outside_the_arrays_is_touched(tmp_path):
    """Run under the sanitizers, on arrays that end where their memory does."""
    compiler = native.find()
    (tmp_path / "shapes.cpp").write_text(SHAPES)
    (source,) = cpu_convolution.LIBRARY.sources
    built = run_program(
        [
            *compiler.command,
            *native.OPTIONS,
            *compiler.processor,
            *("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
            *(f"-I{source.parent}", source, tmp_path / "shapes.cpp"),
            *("-o", tmp_path / "shapes"),
        ]
    )
    if built.returncode != 0 and "san" in built.stderr:
        pytest.skip("compiler: it has no sanitizers")
    assert built.returncode == 0, built.stderr

    ran = run_program(
        [tmp_path / "shapes"], env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    )

    assert ran.returncode == 0, ran.stderr
