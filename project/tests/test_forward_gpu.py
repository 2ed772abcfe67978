"""The fused forward pass on a GPU beside float64."""

import numpy as np
import pytest
from backends.numpy_cpu import NumpyCpu
from course import checkpoints, editions, network
from gpu.forward_gpu import ForwardPass
from milestones.milestone import load_images

pytestmark = pytest.mark.gpu

MOST_WRONG = 1e-5  # of a probability
SERVED = [
    (edition, model)
    for edition in editions.EDITIONS.values()
    for model in edition.models
    if model.own and edition.name != "2017fa"
]
FOLD = pytest.mark.parametrize("fold", [False, True], ids=["", "folded"])


def of_chance(rng, edition, model, scales=(1, 1, 1)):
    """Make a network whose layers give numbers near one; three may be scaled."""
    arrays = {}
    for name, shape in network.shapes(edition, model).items():
        inputs = int(np.prod(shape[1:])) if len(shape) > 1 else 100
        arrays[name] = rng.normal(size=shape).astype(np.float32) / np.sqrt(inputs)
    first, second, dense, *_ = arrays
    arrays[first] /= 100
    for name, scale in zip((first, second, dense), scales, strict=True):
        arrays[name] *= np.float32(scale)
    return network.assemble(edition, model, arrays)


def passed(device, net, images, *, fold):
    """Run a pass on memory that held nothing but NaN."""
    ahead = ForwardPass(device, net, len(images), fold=fold)
    ahead.prepare()
    ahead.put(images)
    for name in {"pooled", "flat", "parts", "y"} & ahead.arrays.keys():
        device.fill(ahead.arrays[name], 255)
    ahead.run()
    return ahead.probabilities()


def check(device, net, pixels, fold):
    """Compare with float64."""
    found = passed(device, net, pixels, fold=fold)
    right = NumpyCpu(dtype=np.float64).infer(net, pixels).probabilities
    np.testing.assert_allclose(found, right, rtol=0, atol=MOST_WRONG)


@FOLD
@pytest.mark.parametrize("images", [1, 7, 130])
@pytest.mark.parametrize(("edition", "model"), SERVED, ids=str)
def test_every_edition_served_gives_float64s_probabilities(
    edition, model, images, fold, device, rng
):
    net = of_chance(rng, edition, model)
    pixels = rng.integers(0, 256, (images, edition.size, edition.size), np.uint8)

    check(device, net, pixels, fold)


@FOLD
@pytest.mark.parametrize("scales", [(1, 1e6, 1e-6), (1, 1e-6, 1e6), (1e-6, 1e6, 1)])
def test_weights_of_any_size_are_split_as_well(scales, fold, device, rng):
    edition = editions.DEFAULT
    net = of_chance(rng, edition, edition.with_convolutions(own=True)[0], scales)
    pixels = rng.integers(0, 256, (5, edition.size, edition.size), np.uint8)

    check(device, net, pixels, fold)


@FOLD
def test_test_images_are_classified_as_by_the_processor(fold, device):
    edition = editions.DEFAULT
    net = checkpoints.load(edition, edition.with_convolutions(own=True)[0])
    images = load_images(edition, 10_000).pixels

    found = passed(device, net, images, fold=fold)

    right = NumpyCpu().infer(net, images).probabilities
    assert (found.argmax(axis=1) == right.argmax(axis=1)).all()
    np.testing.assert_allclose(found, right, rtol=0, atol=2 * MOST_WRONG)


def test_a_pass_gives_the_same_bits_again(device, rng):
    edition = editions.DEFAULT
    net = of_chance(rng, edition, edition.with_convolutions(own=True)[0])
    pixels = rng.integers(0, 256, (1000, edition.size, edition.size), np.uint8)

    once, again = (passed(device, net, pixels, fold=False) for _ in range(2))

    assert np.array_equal(once, again)


def test_black_images_are_alike(device, rng):
    edition = editions.DEFAULT
    net = of_chance(rng, edition, edition.with_convolutions(own=True)[0])

    found = passed(device, net, np.zeros((3, 70, 70), np.uint8), fold=False)

    right = NumpyCpu(dtype=np.float64).infer(net, np.zeros((1, 70, 70), np.uint8))
    np.testing.assert_allclose(
        found, np.repeat(right.probabilities, 3, axis=0), rtol=0, atol=MOST_WRONG
    )
