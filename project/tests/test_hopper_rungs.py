"""The plans of the rungs between ``tensor_split`` and the fastest, without a GPU."""

import pytest
from course.shapes import ConvShape
from plans import hopper_rungs as rungs
from plans.kernels import VARIANTS

from project.tests.covered import check_limits

CONV1 = ConvShape(10_000, 12, 1, 70, 70, 5)
CONV2 = ConvShape(10_000, 24, 12, 33, 33, 5)


@pytest.mark.parametrize("name", ["toeplitz", "staged_store", "roles", "wgmma_split"])
def test_a_rung_serves_its_layer_and_leaves_the_other_to_what_it_builds_on(name):
    own, other = (CONV2, CONV1) if name == "wgmma_split" else (CONV1, CONV2)

    assert VARIANTS[name].serve(own).name == name
    assert VARIANTS[name].serve(other).name == "tensor_split"


@pytest.mark.parametrize(
    ("rung", "sizes", "why"),
    [
        ("TOEPLITZ", (1, 4, 2, 9, 9, 3), "only one input channel, not 2"),
        ("TOEPLITZ", (1, 4, 1, 20, 20, 8), "weights of up to 7 x 7, not 8"),
        ("TOEPLITZ", (1, 4, 1, 129, 128, 5), "129 x 128 exceeds the loading warps'"),
        ("ROLES", (1, 4, 1, 96, 66, 3), "96 x 66 exceeds the loading warps'"),
        ("STAGED_STORE", (1, 6, 1, 9, 9, 3), "planes are not whole pieces of 16 bytes"),
        ("STAGED_STORE", (1, 4, 1, 99, 99, 3), "a block needs 343360 bytes of shared"),
        ("WGMMA_SPLIT", (1, 4, 2, 9, 9, 3), "8 channels at a time, so 2 would leave"),
        ("WGMMA_SPLIT", (1, 65, 3, 9, 9, 3), "up to 64 maps, not 65"),
        ("WGMMA_SPLIT", (1, 8, 12, 30, 30, 10), "sums of 1200 products are not"),
    ],
)
def test_a_rung_says_why_it_refuses_a_shape(rung, sizes, why):
    assert why in getattr(rungs, rung).refusal(ConvShape(*sizes))


@pytest.mark.parametrize("images", [1, 265, 10_000, 100_000])
@pytest.mark.parametrize("rung", ["TOEPLITZ", "STAGED_STORE", "ROLES", "WGMMA_SPLIT"])
def test_no_block_of_a_rung_is_without_an_image(rung, images):
    sizes = (24, 12, 33, 33, 5) if rung == "WGMMA_SPLIT" else (12, 1, 70, 70, 5)

    computing, repairing = getattr(rungs, rung).launches(ConvShape(images, *sizes))

    for launch in (computing, repairing):
        check_limits(launch)
    assert computing.numbers == (images,)
    assert 1 <= computing.grid[0] <= images
