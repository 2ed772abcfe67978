"""The fused forward pass: its plans and the layout of its weights, without a GPU."""

import numpy as np
import pytest
from course import editions, graph
from course.errors import UsageError
from course.variants import H200, MOST_THREADS
from gpu import forward
from hypothesis import given
from hypothesis import strategies as st

TWO = [
    (edition, model)
    for edition in editions.EDITIONS.values()
    for model in edition.models
    if len(graph.convolutions(model.layers, 1, edition.size)) == 2
]
SMS = 132
DEPTH, WIDE = forward.DENSE["DEPTH"], forward.DENSE["OUTPUTS"]


def chained(edition, model, images=10_000):
    return forward.chain(model.layers, images, edition.size)


@pytest.mark.parametrize(("edition", "model"), TWO, ids=str)
@pytest.mark.parametrize("images", [1, 100, 10_000])
def test_every_edition_of_two_convolutions_is_planned_within_the_limits(
    edition, model, images
):
    c = chained(edition, model, images)
    launches = [
        forward.plan_first(c, SMS),
        forward.plan_dense(images, c.flat, SMS, "flat", (3, 4)),
        forward.plan_last(c, c.flat, SMS),
    ]

    for launch in launches:
        assert launch.over() is None
        assert launch.block[0] <= MOST_THREADS
        assert launch.block[0] % 32 == 0
    assert launches[0].shared_bytes <= H200.shared_bytes


def test_a_network_that_is_not_served_is_refused_in_a_sentence():
    old = editions.EDITIONS["2017fa"]

    with pytest.raises(UsageError, match=r"two convolutions.*such as 2019fa"):
        chained(old, old.models[0])


@given(
    images=st.integers(1, 70_000),
    inputs=st.integers(1, 30_000),
    sms=st.integers(1, 200),
)
def test_the_pieces_of_a_dense_layer_cover_its_work_once(images, inputs, sms):
    p = forward.pieces(images, inputs, sms)
    total = p.tiles * p.chunks

    assert p.tiles * forward.ROWS >= images > (p.tiles - 1) * forward.ROWS
    assert sms * p.each >= total
    assert p.chunks * DEPTH >= inputs > (p.chunks - 1) * DEPTH
    for tile in {0, p.tiles // 2, p.tiles - 1}:
        first = tile * p.chunks // p.each
        last = ((tile + 1) * p.chunks - 1) // p.each
        assert last < sms
        assert last - first + 1 <= p.parts


@given(st.floats(2.0**-40, 2.0**40))
def test_a_power_of_two_brings_a_bound_just_under_what_halves_hold(largest):
    scaled = largest * 2.0 ** forward.exponent(largest)

    assert 2 ** (forward.ROOM - 1) <= scaled <= 2**forward.ROOM


def test_no_weights_at_all_need_no_power_of_two():
    assert forward.exponent(0.0) == 0


@pytest.mark.parametrize("inputs", [20, 32, 100])
def test_packed_weights_are_found_where_the_kernel_looks_for_them(inputs):
    weights = np.random.default_rng(1).normal(size=(140, inputs)).astype(np.float32)
    power = forward.exponent(float(np.abs(weights).max()))
    chunks = -(-inputs // DEPTH)
    halves = forward.packed(weights, power).astype(np.float64)
    bricks = halves.reshape(chunks, 2, DEPTH // 8, WIDE // 8, 8, 8)

    found = np.zeros((WIDE, chunks * DEPTH))
    for k in range(chunks * DEPTH):
        chunk, within = divmod(k, DEPTH)
        step, sixteenth = divmod(within, 16)
        # Thread t has inputs 4 t to 4 t + 3, at 2 t, 2 t + 1, and 8 further on.
        thread, mine = divmod(sixteenth, 4)
        brick, place = 2 * step + mine // 2, 2 * thread + mine % 2
        found[:, k] = bricks[chunk, :, brick, :, :, place].sum(axis=0).reshape(-1)

    scaled = weights.astype(np.float64) * 2.0**power
    assert np.abs(found[:140, :inputs] - scaled).max() <= 2**forward.ROOM * 2.0**-22
    assert not found[140:].any()
    assert not found[:, inputs:].any()


def test_a_convolution_and_a_dense_layer_are_one_dense_layer():
    edition = editions.EDITIONS["2019sp"]
    c = chained(edition, edition.models[1], 3)
    s = c.second
    chance = np.random.default_rng(2)
    x = chance.normal(size=(3, s.C, s.H, s.W))
    k = chance.normal(size=(s.M, s.C, s.K, s.K))
    dense = chance.normal(size=(5, c.flat))
    flat = np.zeros((3, s.M, s.H_out, s.W_out))
    for u in range(s.K):
        for v in range(s.K):
            seen = x[:, :, u : u + s.H_out, v : v + s.W_out]
            flat += np.einsum("bcyx,mc->bmyx", seen, k[:, :, u, v])

    folded = forward.folded(dense, k, c)

    right = flat.reshape(3, -1) @ dense.T
    np.testing.assert_allclose(x.reshape(3, -1) @ folded.T, right, rtol=1e-5, atol=1e-3)


def test_a_bound_of_a_convolution_holds_for_the_worst_image():
    k = np.random.default_rng(3).normal(size=(4, 2, 3, 3))
    worst = max(float((np.sign(m) * m).sum()) for m in k)

    assert forward.bound(k) == pytest.approx(worst)


@pytest.mark.parametrize("name", forward.FILES)
def test_a_file_is_named_in_its_first_line_and_guards_all_that_it_is_told(name):
    units = [unit for unit in forward.units_of_editions() if unit.path.stem == name]
    text = units[0].path.read_text()

    assert text.startswith(f"// {name}: ")
    assert "set by project/gpu/forward.py" in text
    for word, _ in units[0].defines:
        assert f"!defined({word})" in text
