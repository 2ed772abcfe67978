"""Our kernels on a GPU, each against the processor."""

import threading

import numpy as np
import pytest
from backends import cuda_gpu
from backends.cuda_gpu import CudaGpu
from backends.numpy_cpu import NumpyCpu
from course import checkpoints, editions, graph
from course.errors import GpuError, UsageError
from course.shapes import ConvShape
from course.variants import FP32, HALF, TF32
from milestones.milestone import load_images
from plans.kernels import VARIANTS

pytestmark = pytest.mark.gpu

OTHERS = {FP32: 0, TF32: 1e-3, HALF: 1e-3}  # of predictions
PROBABILITY = {FP32: 1e-3, TF32: 2e-2, HALF: 2e-2}  # by how much one may be off
MOST_WRONG = 1e-5  # of probabilities and of layers beside the convolutions


@pytest.fixture
def gpu(device):
    """Return a backend whose layers are loaded."""
    backend = CudaGpu(device, VARIANTS["naive"])
    backend.prepare([ConvShape(1, 1, 1, 5, 5, 5)])
    return backend


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=list(VARIANTS))
def test_a_variant_says_of_every_image_what_numpy_says(variant, device):
    images = load_images(editions.DEFAULT, 10_000).pixels
    ece408 = checkpoints.load(editions.DEFAULT, editions.DEFAULT.model("ece408"))

    found = CudaGpu(device, variant).infer(ece408, images)

    expected = NumpyCpu().infer(ece408, images)
    # A class less exact than fp32 may decide otherwise where two scores are close.
    assert (found.labels != expected.labels).mean() <= OTHERS[variant.accuracy]
    atol = PROBABILITY[variant.accuracy]
    np.testing.assert_allclose(found.probabilities, expected.probabilities, atol=atol)
    assert found.note is None


def test_where_memory_is_short_the_images_go_in_pieces(device, monkeypatch):
    images = load_images(editions.DEFAULT, 300).pixels
    ece408 = checkpoints.load(editions.DEFAULT, editions.DEFAULT.model("ece408"))
    whole = CudaGpu(device, VARIANTS["tiled"]).infer(ece408, images)
    convolutions = graph.convolutions(ece408.model.layers, 300, 70)
    room = 100.5 * cuda_gpu.most_bytes(convolutions)
    monkeypatch.setattr(cuda_gpu, "SHARE_OF_MEMORY", room / device.free_bytes())

    found = CudaGpu(device, VARIANTS["tiled"]).infer(ece408, images)

    assert "images at a time" in found.note
    assert np.array_equal(found.probabilities, whole.probabilities)
    assert len(found.op_times_s) == 2


def test_a_shape_that_a_variant_refuses_is_a_sentence(device):
    backend = CudaGpu(device, VARIANTS["constant"])

    with pytest.raises(UsageError, match=r"does not support .*: 16400 weights"):
        backend.prepare([ConvShape(1, 41, 16, 9, 9, 5)])


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (3, 1, 70, 70), (7, 5, 3, 11)])
def test_bytes_become_the_floats_of_their_value(shape, gpu, rng):
    pixels = rng.integers(0, 256, shape, dtype=np.uint8)

    assert np.array_equal(gpu.get(gpu.put(pixels)), pixels.astype(np.float32))


@pytest.mark.parametrize("sides", [(2, 2), (66, 66), (3, 3), (5, 70), (70, 5)])
def test_pooling_is_numpys_and_a_nan_stays_one(sides, gpu, rng):
    x = rng.standard_normal((9, 7, *sides), np.float32)
    x[rng.random(x.shape) < 0.1] = np.nan

    pooled = gpu.get(gpu.pooling(gpu.put(x)))

    np.testing.assert_array_equal(pooled, NumpyCpu().pooling(x))


def test_tanh_is_numpys(gpu, rng):
    x = 3 * rng.standard_normal((11, 3, 17), np.float32)
    x[0, 0, :4] = 0, np.inf, -np.inf, np.nan

    found = gpu.get(gpu.tanh(gpu.put(x)))

    np.testing.assert_allclose(found, np.tanh(x), rtol=1e-6)


@pytest.mark.parametrize(
    ("images", "inputs", "outputs"),
    [(1, 1, 1), (65, 17, 81), (64, 16, 80), (100, 20_184, 160), (513, 160, 10)],
)
def test_a_dense_layer_is_numpys(images, inputs, outputs, gpu, rng):
    x = rng.standard_normal((images, inputs), np.float32)
    weights = rng.standard_normal((outputs, inputs), np.float32)
    bias = rng.standard_normal(outputs, np.float32)

    found = gpu.get(gpu.dense(*map(gpu.put, (x, weights, bias))))

    expected = x.astype(float) @ weights.T.astype(float) + bias
    wrong = np.linalg.norm(found - expected)
    assert wrong < MOST_WRONG * np.linalg.norm(expected)


def test_softmax_is_numpys_and_does_not_overflow(gpu, rng):
    x = rng.standard_normal((130, 10), np.float32)
    x[0] *= 1000

    found = gpu.get(gpu.softmax(gpu.put(x)))

    np.testing.assert_allclose(found, NumpyCpu().softmax(x), atol=1e-6)


def test_memory_is_free_again_with_the_last_reference(device):
    # Others may use the GPU meanwhile, but they hold little beside this array.
    half = 128 << 20
    device.wait()
    before = device.free_bytes()
    array = device.empty((64 << 20,))
    assert device.free_bytes() < before - half

    del array

    assert device.free_bytes() > before - half


def test_memory_that_another_thread_lets_go_is_freed_by_that_which_opened(device):
    half = 128 << 20
    device.wait()
    before = device.free_bytes()
    arrays = [device.empty((64 << 20,))]
    other = threading.Thread(target=arrays.clear)
    other.start()
    other.join()
    assert device.free_bytes() < before - half

    device.empty((1,))

    assert device.free_bytes() > before - half


def test_more_memory_than_there_is_is_cudas_word_and_the_next_still_fits(device):
    with pytest.raises(GpuError, match=r"^CUDA_ERROR_OUT_OF_MEMORY: "):
        device.empty((1 << 50,))

    assert device.download(device.upload(np.arange(3.0))).tolist() == [0, 1, 2]
