"""What the project says of its kernels, and the file that it writes it to."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import pytest
from course import graph
from course.editions import EDITIONS
from course.network import Inference, OwnKernels
from course.shapes import ConvShape
from course.variants import H200
from lab import kernel_work, ledger, measurement
from lab.measurement import Rates
from milestones import kernel_shapes
from plans.kernels import VARIANTS

CONV1 = ConvShape(10_000, 12, 1, 70, 70, 5)
CONV2 = ConvShape(10_000, 24, 12, 33, 33, 5)


def network(name="2019fa"):
    """A network without its weights, which do not count here."""
    edition = EDITIONS[name]
    model = edition.with_convolutions(own=True)[0]
    return SimpleNamespace(edition=edition, model=model)


def said(part, shape):
    return {
        work.launch.kernel: work for work in kernel_work.of_convolution(part, shape)
    }


@pytest.mark.parametrize("name", VARIANTS)
def test_the_launches_of_a_convolution_do_what_its_definition_needs(name):
    for edition in EDITIONS.values():
        model = edition.with_convolutions(own=True)[0]
        for shape in graph.convolutions(model.layers, 3000, edition.size):
            if VARIANTS[name].refusal(shape):
                continue
            works = list(kernel_work.of_convolution(VARIANTS[name].of(shape), shape))
            stored = measurement.STORED[VARIANTS[name].storage]

            assert sum(work.flops for work in works) == measurement.flops(shape)
            least = measurement.moved_bytes(shape, stored)
            assert sum(work.bytes for work in works) >= least
            assert [work.launch for work in works] == [
                *VARIANTS[name].of(shape).launches(shape)
            ]


def test_unrolling_writes_the_matrix_and_the_product_reads_it():
    found = said(VARIANTS["unroll_gemm"], replace(CONV1, B=100))
    matrix = 4 * 25 * 66 * 66 * 100

    assert found["conv_unroll_gemm_unroll"].bytes == matrix + 4 * 100 * 70 * 70
    assert found["conv_unroll_gemm_unroll"].flops == 0
    assert found["conv_unroll_gemm"].bytes == (
        matrix + 4 * 12 * 25 + 4 * 12 * 66 * 66 * 100
    )


def test_atomic_additions_read_y_and_write_it():
    found = said(VARIANTS["atomics"], CONV2)
    y = 4 * 10_000 * 24 * 29 * 29

    assert found["conv_atomics_zero"].bytes == y
    assert found["conv_atomics"].bytes == measurement.moved_bytes(CONV2) + y


def test_three_products_are_thrice_the_work_of_the_tensor_cores():
    (best,) = said(VARIANTS["best"].of(CONV2), CONV2).values()
    (split,) = said(VARIANTS["tensor_split"], CONV2).values()
    (naive,) = said(VARIANTS["naive"], CONV2).values()

    assert (best.unit, best.unit_flops) == ("fp16", 3 * measurement.flops(CONV2))
    assert (split.unit, split.unit_flops) == ("tf32", 3 * measurement.flops(CONV2))
    assert (naive.unit, naive.unit_flops) == ("fp32", 0)


def test_strips_need_fewer_multiplications_than_the_definition():
    found = said(VARIANTS["per_layer"].of(CONV2), CONV2)["conv_per_layer_strips"]

    # Eight points give four pixels, of five products each; 29 pixels take 8 strips.
    assert found.unit_flops == measurement.flops(CONV2) * 8 * 8 / (5 * 29)


def test_the_model_of_the_measurements_follows_from_it():
    checked = set()
    for row in ledger.latest(ledger.read(), "NVIDIA H200"):
        if row["what"] != ledger.CONVOLUTION:
            continue
        edition = EDITIONS[row["edition"]]
        layers = edition.model(row["model"]).layers
        shapes = graph.convolutions(layers, row["images"], edition.size)
        shape = shapes[int(row["layer"].removeprefix("conv")) - 1]
        works = list(
            kernel_work.of_convolution(VARIANTS[row["variant"]].of(shape), shape)
        )
        rates = Rates(**row["rates"])
        tflops = rates.fma_tflops if row["arithmetic"] == "fma" else rates.half_tflops
        # Strips count fewer multiplications than the definition, as the model does not.
        strips = any(work.unit == "fp32" and work.unit_flops for work in works)
        does = sum((not strips and work.unit_flops) or work.flops for work in works)

        assert row["model_flops_ms"] == pytest.approx(1e-9 * does / tflops, rel=1e-3)
        if len(works) == 1:
            least_ms = 1e-6 * works[0].bytes / rates.copy_gbps
            assert row["model_bytes_ms"] == pytest.approx(least_ms, rel=1e-3)
        checked.add(row["variant"])
    assert checked == set(VARIANTS)


def test_pieces_of_a_batch_are_launches_of_two_kinds():
    own = OwnKernels(H200, 4000, VARIANTS["naive"])
    works = kernel_work.of_network(network(), 10_000, own)
    convolutions = [w for w in works if w.launch.kernel == "conv_naive"]

    assert [(w.layer, w.count, w.launch.grid[2]) for w in convolutions] == [
        ("new0", 2, 4000),
        ("new1", 2, 4000),
        ("new0", 1, 2000),
        ("new1", 1, 2000),
    ]
    assert sum(w.count * w.flops for w in convolutions) == (
        measurement.flops(CONV1) + measurement.flops(CONV2)
    )


def test_a_library_s_convolutions_have_no_entries():
    works = kernel_work.of_network(network(), 9, OwnKernels(H200, 9))

    assert {work.launch.kernel for work in works} == {
        *("bytes_to_floats", "pooling", "tanh_in_place", "dense", "softmax")
    }


def test_many_chunks_of_one_size_are_one_entry():
    own = OwnKernels(H200, 10_000, VARIANTS["unroll_gemm"])
    works = kernel_work.of_network(network(), 10_000, own)
    planned = VARIANTS["unroll_gemm"].launches(CONV1)
    mine = [work for work in works if work.layer == "new0"]

    assert sum(work.count for work in mine) == len(planned)
    assert len(mine) == 4


# The file.


def inference(variant=None):
    own = OwnKernels(H200, 10_000, VARIANTS[variant]) if variant else None
    return Inference(None, (), own_kernels=own)


def written(folder):
    return json.loads((folder / kernel_shapes.FILE).read_text())


def add(folder, variant=None, words=()):
    """What one command computed goes into the file."""
    command = ["/src/project/m.py", *words]
    kernel_shapes.add(folder, command, network(), 100, inference(variant))


def test_commands_and_variants_of_one_run_keep_each_other_s_entries(tmp_path):
    for words in (["100"], []):
        for variant in ("naive", "tiled"):
            add(tmp_path, variant, words)
    found = written(tmp_path)

    assert [one["arguments"] for one in found["networks"]] == [["100"], []]
    assert {(str(one["arguments"]), one["variant"]) for one in found["kernels"]} == {
        (words, variant)
        for words in ("['100']", "[]")
        for variant in ("", "naive", "tiled")
    }


def test_a_command_that_runs_again_renews_its_entries(tmp_path):
    add(tmp_path, "naive")
    once = written(tmp_path)
    add(tmp_path, "naive")

    assert written(tmp_path) == once


def test_scripts_that_end_at_once_lose_nothing(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: add(tmp_path, "naive", [str(n)]), range(24)))

    assert len(written(tmp_path)["networks"]) == 24


def test_only_the_file_is_left_in_the_folder(tmp_path):
    add(tmp_path, "naive")

    assert list(tmp_path.iterdir()) == [tmp_path / kernel_shapes.FILE]


def test_a_folder_that_is_not_there_is_no_failure(tmp_path):
    add(tmp_path / "none", "naive")

    assert list(tmp_path.iterdir()) == []


def test_more_than_rai_reads_is_not_written(tmp_path):
    add(tmp_path, "naive", ["a" * kernel_shapes.MOST_BYTES])

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        '{"format": 2}',
        "[]",
        "not JSON",
        '{"kernels": [5]}',
        '{"networks": {}}',
        "[" * 9999,
    ],
)
def test_a_file_that_is_not_ours_stays_as_it_is(tmp_path, text):
    (tmp_path / kernel_shapes.FILE).write_text(text)
    add(tmp_path)

    assert (tmp_path / kernel_shapes.FILE).read_text() == text


def test_entries_of_other_programs_stay(tmp_path):
    other = {"kernel": "matmul", "flops": 5}
    (tmp_path / kernel_shapes.FILE).write_text(json.dumps({"kernels": [other]}))
    add(tmp_path, "naive")

    assert written(tmp_path)["kernels"][0] == other


def test_outside_of_a_run_there_is_no_folder(monkeypatch, tmp_path):
    monkeypatch.delenv(kernel_shapes.BUILD, raising=False)
    assert kernel_shapes.folder() is None
    monkeypatch.setenv(kernel_shapes.BUILD, str(tmp_path))
    assert kernel_shapes.folder() == tmp_path
