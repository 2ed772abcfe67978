"""The registry of convolutions and the plans of all launches, without a GPU."""

import inspect
import re
from dataclasses import replace
from pathlib import Path

import pytest
from course import editions, graph, variants
from course.errors import UsageError
from course.shapes import ConvShape, between
from course.variants import (
    FP32,
    LADDER_TARGETS,
    MOST_CONSTANT,
    MOST_GRID,
    Gpu,
    Variant,
    usual,
)
from gpu import forward, planned
from gpu.compiler import FOLDER, Unit, below
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import best_one, best_small, best_split, kernels, ladder, layers
from plans.kernels import VARIANTS

from project.tests.covered import COVERAGE, by_threads, check_limits, check_plan, covers

REAL = [
    shape
    for edition in editions.EDITIONS.values()
    for model in edition.models
    for images in (1, 10_000)
    for shape in graph.convolutions(model.layers, images, edition.size)
]
ODD = st.builds(
    lambda b, m, c, k, h, w: ConvShape(b, m, c, k + h, k + w, k),
    *(st.integers(1, most) for most in (70_000, 40, 20, 11)),
    *2 * (st.integers(0, 90),),
)
EVERY_RUNG = pytest.mark.parametrize(
    "variant", [VARIANTS[name] for name in COVERAGE], ids=list(COVERAGE)
)


@EVERY_RUNG
def test_every_variant_covers_each_layer_of_each_edition_once(variant):
    for shape in dict.fromkeys(REAL):
        if shape.weights > MOST_CONSTANT and variant.constants:
            assert variant.refusal(shape), shape
        else:
            assert variant.refusal(shape) is None, shape
            check_plan(variant, shape)


@EVERY_RUNG
@settings(max_examples=40)
@given(shape=ODD)
def test_a_variant_covers_any_shape_once_or_refuses_it(variant, shape):
    if variant.refusal(shape) is None:
        check_plan(variant, shape)
    else:
        a_block_per_image = COVERAGE[variant.name] is by_threads
        assert (a_block_per_image and MOST_GRID[2] < shape.B) or (
            variant.constants and shape.weights > MOST_CONSTANT
        )


@pytest.mark.parametrize(
    ("part", "sizes", "why"),
    [
        (
            "naive",
            (65_536, 1, 1, 9, 9, 3),
            "a grid of (1, 1, 65536) blocks exceeds (21",
        ),
        ("naive", (1, 1, 1, 9, 4, 5), "5 x 5 weights are larger than the image"),
        ("tiled", (1, 1, 1, 400, 400, 230), "a block needs 240100 bytes of shared"),
        ("constant", (1, 41, 16, 9, 9, 5), "16400 weights exceed the 16384 of const"),
        ("constant", (1, 64, 16, 9, 9, 4), None),
        ("implicit_gemm", (1, 24, 1, 20, 20, 19), "8664 weights of a channel exceed a"),
        ("tensor_tf32", (1, 1, 1, 11, 4000, 11), "a row needs 308708 bytes of shared"),
        ("best_small", (10_000, 8, 4, 5, 5, 5), "a block's rows span 76 images, more"),
    ],
)
def test_a_refusal_says_what_is_too_large(part, sizes, why):
    found = {**VARIANTS, "best_small": best_small.SMALL}[part].refusal(
        ConvShape(*sizes)
    )

    assert (found or "").startswith(why or "")
    assert bool(found) == bool(why)


def test_a_refusal_says_which_gpu_is_too_old():
    assert VARIANTS["tensor_tf32"].refusal(
        ConvShape(1, 1, 1, 9, 9, 3), usual("sm_75")
    ) == ("it needs sm_80 or newer; this GPU is sm_75")


def test_a_large_convolution_goes_in_chunks_whose_matrix_fits():
    gemm = VARIANTS["unroll_gemm"]
    shape = ConvShape(10_000, 24, 12, 33, 33, 5)
    (matrix,) = gemm.scratch(shape).values()

    assert matrix <= ladder.MOST_MATRIX
    assert len(gemm.launches(shape)) == 2 * 19
    assert gemm.scratch(ConvShape(1, 1, 1, 5000, 5000, 5)) == {
        "matrix": 4 * 25 * 4996 * 4996  # an image at least
    }


def test_more_pixels_than_an_int_counts_go_in_several_launches():
    implicit = VARIANTS["implicit_gemm"]
    shape = ConvShape(500_000, 1, 1, 70, 70, 5)

    assert len(implicit.launches(shape)) == 2
    check_plan(implicit, shape)


FILES = {part.stem: part for whole in VARIANTS.values() for part in whole.parts}
TEACHING = {rung.stem for rung in ladder.RUNGS}


@pytest.mark.parametrize("name", [*FILES, *layers.LAYERS])
def test_the_first_line_of_a_file_names_it_and_its_guards_all_that_it_is_told(name):
    text = Unit(below(name)).path.read_text()
    lines = text.splitlines()
    if name in FILES:
        served = (s for s in REAL if FILES[name].refusal(s) is None)
        told = FILES[name].defines(next(served))
        plans = getattr(FILES[name].plan, "func", FILES[name].plan)
        home = f"project/plans/{Path(inspect.getfile(plans)).name}"
        kernel = f"conv_{name}"
    else:
        told, home, kernel = layers.LAYERS[name], "project/plans/layers.py", ""

    header = [line for line in lines if line.startswith("// ")]
    assert lines[0].startswith(f"// {name}: ")
    assert len(header) + lines.count("//") >= 4 or name in layers.LAYERS
    assert all(re.search(rf"(ifndef |defined[ (]){word}\b", text) for word in told)
    assert re.search(rf'#error "[\w*, ]+ (is|are) set by {home}"', text)
    assert kernel in text
    assert len(lines) <= 120 or name in {*FILES} - TEACHING


def test_every_file_of_kernels_is_in_the_registry_or_a_layer():
    files = sorted(path.stem for path in FOLDER.rglob("*.cu"))

    assert files == sorted([*FILES, *layers.LAYERS, *forward.FILES])


@pytest.mark.parametrize("accuracy", kernels.BEST)
def test_the_best_serve_each_layer_of_each_edition_within_a_gpus_limits(accuracy):
    for shape in dict.fromkeys(REAL):
        part = kernels.best(accuracy).serve(shape)

        assert part.accuracy == accuracy, shape
        for launch in part.launches(shape):
            check_limits(launch)


@pytest.mark.lengthy
@settings(deadline=None)
@given(shape=ODD)
def test_the_best_serve_any_shape_by_what_keeps_to_the_limits(shape):
    for accuracy in kernels.BEST:
        whole = kernels.best(accuracy)
        if whole.refusal(shape) is None:
            for launch in whole.serve(shape).launches(shape):
                check_limits(launch)
        else:
            assert all(part.refusal(shape) for part in whole.parts)


@pytest.mark.parametrize("images", [1, 37, 100, 132, 133, 10_000, 60_000])
@pytest.mark.parametrize("shape", dict.fromkeys(replace(s, B=1) for s in REAL), ids=str)
@pytest.mark.parametrize("count", [1, 16, 82, 114, 132, 148])
def test_the_parts_of_a_best_kernel_cover_all_rows_and_maps_once(count, shape, images):
    shape, gpu = replace(shape, B=images), Gpu("sm_90", count)
    if not best_small.SMALL.refusal(shape, gpu):
        small = best_small.SMALL.of(shape, gpu)
        (launch,) = small.launches(shape)
        rows = small.parameters(shape)["ROWS"]
        assert covers(launch.grid[0], rows, shape.B * shape.H_out)
        assert launch.grid[0] <= count
    if not best_split.SPLIT.refusal(shape, gpu):
        split = best_split.SPLIT.of(shape, gpu)
        (launch,) = split.launches(shape)
        all_images, periods = launch.numbers
        rows = (periods + 1) * shape.K - 1
        parts = variants.tiles(shape.H_out, rows)
        assert all_images == shape.B
        assert covers(parts, rows, shape.H_out)
        assert launch.grid[0] == min(count, variants.tiles(shape.B, 2) * parts)
    if not best_one.ONE_FP32.refusal(shape, gpu):
        one = best_one.ONE_FP32.of(shape, gpu)
        (launch,) = one.launches(shape)
        all_images, parts = launch.numbers
        groups = variants.tiles(shape.M, best_one.MAPS)
        assert all_images == shape.B
        assert covers(parts, variants.tiles(groups, parts), groups)
        assert launch.grid[0] % parts == 0
        assert 1 <= launch.grid[0] // parts <= min(shape.B, max(1, count // parts))
    for name in ("best_tf32", "best_half"):
        part = VARIANTS[name].of(shape, gpu)
        if part.stem in {"best_single", "best_wide"}:
            (launch,) = part.launches(shape)
            assert launch.grid == (min(shape.B, count), 1, 1)


def test_few_images_have_a_kernel_of_their_own():
    shape = ConvShape(100, 24, 12, 33, 33, 5)

    assert kernels.best(FP32).serve(shape).stem == "best_small"


@pytest.mark.smoke
def test_the_document_says_which_kernels_are_the_best_on_each_gpu():
    page = (FOLDER.parents[1] / "docs" / "kernels.md").read_text()
    shapes = planned.shapes(editions.DEFAULT, 10_000).values()
    told = []
    for gpus, *cells in re.findall(r"^\| (.*sm_.*?)" + r" \| (.*?)" * 4, page, re.M):
        for target in re.findall(r"sm_\d+", gpus):
            told.append(target)
            for name, cell in zip(kernels.BEST.values(), cells, strict=False):
                best, gpu = VARIANTS[name], usual(target)
                serving = [s for s in shapes if not best.refusal(s, gpu)]
                stems = [f"`{best.of(s, gpu).stem}`" for s in serving]
                assert cell == (", ".join(stems) or "none"), (target, name)

    assert sorted(told) == sorted(LADDER_TARGETS)


def test_a_ladder_knows_each_step_before_what_builds_on_it():
    first = Variant("first", "an idea", ladder.plan_naive)
    second = Variant("second", "another", ladder.plan_naive, after="first")

    assert list(variants.ladder(first, second)) == ["first", "second"]
    with pytest.raises(ValueError, match="second: duplicate, or before"):
        variants.ladder(second, first)
    with pytest.raises(ValueError, match="first: duplicate, or before"):
        variants.ladder(first, first)


def test_variants_are_chosen_by_name_and_without_names_the_rungs_after_the_first():
    chosen = [variant.name for variant in kernels.select(["tiled", "naive"])]

    assert chosen == ["tiled", "naive"]
    taught = [rung.name for rung in ladder.RUNGS]
    assert [variant.name for variant in kernels.select([])] == taught[1:]
    with pytest.raises(UsageError, match="unknown variant `fast`; choose from naive, "):
        kernels.select(["tiled", "fast"])


@given(
    images=st.integers(1, 65_535),
    length=st.integers(1, 300_000),
    maps=st.integers(1, 50),
    sides=st.tuples(st.integers(2, 99), st.integers(2, 99)),
)
def test_the_layers_cover_any_size_once(images, length, maps, sides):
    rows, columns = sides
    left = maps * (rows // 2) * (columns // 2)
    for launch, numbers in (
        (layers.plan_bytes(images, length), length),
        (layers.plan_tanh(images, length), length),
        (layers.plan_pooling(images, maps, rows, columns), left),
    ):
        check_limits(launch)
        assert covers(launch.grid[0], launch.block[0], numbers)
        assert launch.grid[1] == images


@given(*(st.integers(1, most) for most in (65_535, 30_000, 1000)))
def test_the_dense_layers_and_the_softmax_cover_any_size_once(images, inputs, outputs):
    dense = layers.plan_dense(images, inputs, outputs)
    softmax = layers.plan_softmax(images, outputs)

    check_limits(dense)
    check_limits(softmax)
    assert covers(dense.grid[0], layers.DENSE["ROWS"], images)
    assert covers(dense.grid[1], layers.DENSE["COLUMNS"], outputs)
    assert covers(softmax.grid[0], softmax.block[0], images)


def test_sizes_are_read_off_arrays_that_fit_together_only():
    shape = between((2, 4, 5, 6), (2, 3, 7, 8), (4, 3, 3, 3))

    assert shape == ConvShape(2, 4, 3, 7, 8, 3)
    for y, x, k in [
        ((2, 4, 5, 5), (2, 3, 7, 8), (4, 3, 3, 3)),
        ((2, 4, 5, 6), (2, 3, 7, 8), (4, 2, 3, 3)),
        ((2, 4, 5, 6), (2, 3, 7, 8), (4, 3, 3, 2)),
    ]:
        with pytest.raises(ValueError, match=r"a convolution of .* is not"):
            between(y, x, k)


@pytest.mark.smoke
def test_every_variant_is_in_the_documents_table_with_what_it_builds_on():
    page = (FOLDER.parents[1] / "docs" / "kernels.md").read_text()

    for step, variant in enumerate(VARIANTS.values(), 1):
        assert f"| {step} | `{variant.name}` | {variant.after or ''}".rstrip() in page


@pytest.mark.parametrize("name", COVERAGE)
def test_a_rung_has_a_page_of_three_paragraphs_the_last_of_which_cites_its_row(name):
    page = FOLDER.parents[1] / "docs" / "kernels" / f"{name}.md"

    title, _, limit, gain = page.read_text().split("\n\n")

    assert title == f"# {name}"
    assert "ncu" in limit
    assert gain.startswith(f"Row `{name}` of [RESULTS.md](../../project/RESULTS.md): ")
