"""rai-kernels.json: what is read of a file that any project may write."""

from __future__ import annotations

import msgspec
import pytest

from runner.core.kernel_shapes import (
    MOST_BYTES,
    MOST_PROBLEMS,
    KernelShapes,
    KernelWork,
    LayeredNetwork,
    NetworkLayer,
    read,
)


def told(data: bytes) -> list[str]:
    return [problem.message for problem in read(data)[1]]


def entry(text: str) -> bytes:
    return f'{{"kernels": [{{"kernel": "matmul", {text}}}]}}'.encode()


def test_a_kernel_needs_no_more_than_its_name():
    shapes, problems = read(b'{"kernels": [{"kernel": "matmul"}]}')

    assert shapes == KernelShapes(kernels=(KernelWork("matmul"),))
    assert problems == ()


def test_what_is_written_is_read_back():
    layer = NetworkLayer("conv1", "convolution", (8, 1, 28, 28), (8, 6, 24, 24))
    network = LayeredNetwork("lenet", "m3.1.py", ("8",), 8, (layer,))
    work = KernelWork("matmul", "m3.1.py", ("8",), 8, grid=(1, 2, 3), flops=2e9)
    shapes = KernelShapes(networks=(network,), kernels=(work,))

    assert read(msgspec.json.encode(shapes)) == (shapes, ())


def test_unknown_keys_are_ignored():
    shapes, problems = read(b'{"more": {"a": [1]}, "kernels": []}')

    assert shapes == KernelShapes()
    assert problems == ()


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('"flops": 0', "flops: expected `float` > 0.0"),
        ('"flops": -5', "flops: expected `float` > 0.0"),
        ('"flops": 1e999', "flops: number out of range"),
        ('"bytes": "1"', "bytes: expected `float | null`, got `str`"),
        ('"grid": [1, 2]', "grid: expected `array` of length 3"),
        ('"grid": [1, 2, 0]', "grid[2]: expected `int` >= 1"),
        ('"launches": 0', "launches: expected `int` >= 1"),
    ],
)
def test_a_problem_has_the_path_within_the_file(text, where):
    assert told(entry(text)) == [f"rai-kernels.json: kernels[0].{where}"]


def test_a_wrong_entry_costs_no_other():
    shapes, problems = read(b'{"kernels": [{"grid": []}, {"kernel": "b"}, 5]}')

    assert [work.kernel for work in shapes.kernels] == ["b"]
    assert len(problems) == 2


def test_a_later_format_is_refused_in_words():
    shapes, (problem,) = read(b'{"format": 2, "kernels": "elsewhere"}')

    assert shapes is None
    assert "of format 2; this version of rai reads format 1" in problem.message
    assert "update rai" in problem.hint


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"kernels": [NaN]}',
        b'{"more": ' + b"[" * 100_000,
        b'{"kernels": {}}',
        b" " * (MOST_BYTES + 1),
    ],
)
def test_a_file_that_is_none_is_one_problem(data):
    shapes, problems = read(data)

    assert shapes is None
    assert len(problems) == 1


def test_of_many_problems_a_few_are_told():
    data = b'{"kernels": [' + b",".join([b"{}"] * 500) + b"]}"

    assert len(told(data)) == MOST_PROBLEMS + 1
    assert told(data)[-1] == "rai-kernels.json: 480 more problems"


def test_of_too_many_entries_the_first_count():
    data = b'{"kernels": [' + b",".join([b'{"kernel": "k"}'] * 5001) + b"]}"
    shapes, (problem,) = read(data)

    assert len(shapes.kernels) == 5000
    assert "the first 5000 count" in problem.message
