"""Whether a plan computes each output once, within the limits of every GPU."""

from math import prod

from course.variants import H200, MOST_GRID, MOST_THREADS, tiles, usual


def covers(launches, tile, length):
    """Whether tiles reach the end of a length, and none lies wholly beyond it."""
    return length <= launches * tile < length + tile


def check_limits(launch):
    assert prod(launch.block) <= MOST_THREADS
    assert launch.shared_bytes <= H200.shared_bytes
    assert all(1 <= n <= most for n, most in zip(launch.grid, MOST_GRID, strict=True))


def check_plan(variant, shape):
    """Check the launches that compute a convolution; others prepare it."""
    launches = variant.launches(shape)
    for launch in launches:
        check_limits(launch)
    prepare = [launch for launch in launches if launch.kernel != f"conv_{variant.name}"]
    compute = [launch for launch in launches if launch.kernel == f"conv_{variant.name}"]
    COVERAGE[variant.name](variant, shape, prepare, compute)


def by_threads(variant, shape, prepare, compute):
    """Check tiles of pixels with a thread each, for every map of every image."""
    (launch,) = compute
    maps, per_map, images = launch.grid
    width, height, depth = launch.block
    across = tiles(shape.W_out, width)
    assert not prepare
    assert (maps, images, depth) == (shape.M, shape.B, 1)
    assert per_map % across == 0
    assert covers(across, width, shape.W_out)
    assert covers(per_map // across, height, shape.H_out)


def by_columns(variant, shape, prepare, compute):
    """Check chunks of images, whose pixels are the columns of a matrix."""
    told = variant.parameters(shape)
    pixels = shape.H_out * shape.W_out
    if variant.name == "unroll_gemm":
        maps = columns_of_a_block = told["TILE"]
    else:
        maps, columns_of_a_block = told["MAPS"], told["THREADS"] * told["PIXELS"]
    image = 0
    for launch in compute:
        first, columns = launch.numbers[:2]
        assert first == image
        assert columns % pixels == 0
        assert launch.grid[0] * columns_of_a_block < 2**31  # ints count them
        assert covers(launch.grid[0], columns_of_a_block, columns)
        assert covers(launch.grid[1], maps, shape.M)
        image += columns // pixels
    assert image == shape.B


def by_unrolled_columns(variant, shape, prepare, compute):
    """Check that each chunk is unrolled as it is multiplied, and fits its matrix."""
    by_columns(variant, shape, prepare, compute)
    depth = shape.C * shape.K * shape.K
    for unroll, multiply in zip(prepare, compute, strict=True):
        first, columns = multiply.numbers[:2]
        assert unroll.numbers[:2] == (first, columns)
        assert covers(unroll.grid[0], unroll.block[0], columns)
        assert unroll.grid[1] == shape.C * shape.K
        assert 4 * depth * columns <= variant.scratch(shape)["matrix"]


def by_lanes(variant, shape, prepare, compute):
    """Check runs of pixels of a map, each pixel with lanes that all have channels."""
    (launch,) = compute
    pixels, lanes, _ = launch.block
    runs, maps, images = launch.grid
    assert not prepare
    assert covers(runs, pixels, shape.H_out * shape.W_out)
    assert maps == shape.M
    assert images <= shape.B
    assert lanes <= shape.C
    assert lanes.bit_count() == 1  # the tree halves them
    assert launch.shared_bytes == 4 * pixels * lanes


def by_parts(variant, shape, prepare, compute):
    """Check runs of pixels of a map, for each part of the channels; zeros before."""
    (zero,), (launch,) = prepare, compute
    assert variant.launches(shape)[0] == zero
    assert zero.numbers == (shape.B, shape.floats_out)
    runs, maps, parts = launch.grid
    assert covers(runs, launch.block[0], shape.H_out * shape.W_out)
    assert maps == shape.M
    assert parts <= shape.B * tiles(shape.C, variant.parameters(shape)["CHANNELS"])


def by_strips(variant, shape, prepare, compute):
    """Check strips of rows, for every group of maps, in the least shared memory."""
    (launch,) = compute
    told = variant.parameters(shape)
    strips, groups, images = launch.grid
    assert not prepare
    assert covers(strips, told["ROWS"], shape.H_out)
    assert covers(groups, 8 * told["COLUMNS"], shape.M)
    assert images <= shape.B
    for target in variant.targets:
        assert launch.shared_bytes <= usual(target).shared_bytes
    pixels = (told["ROWS"] + shape.K - 1) * shape.W * told["UNITS"]
    sums = 8 * told["COLUMNS"] * told["ROWS"] * shape.W_out
    weights = 8 * told["COLUMNS"] * told["UNITS"] * shape.K * shape.K
    assert 4 * (pixels + sums + weights) <= launch.shared_bytes


COVERAGE = {
    **dict.fromkeys(("naive", "restrict_unroll", "tiled", "constant"), by_threads),
    **dict.fromkeys(("unroll_gemm", "register_gemm"), by_unrolled_columns),
    "implicit_gemm": by_columns,
    "tree": by_lanes,
    "atomics": by_parts,
    **dict.fromkeys(("tensor_tf32", "tensor_half", "tensor_split"), by_strips),
}
