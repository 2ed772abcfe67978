"""MXNet's .params files, read and written."""

import struct

import numpy as np
import params
import pytest
from errors import ProjectError
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import shared_data

COURSE_MODEL = shared_data() / "course-models" / "2019sp-ece408-0002.params"

needs_course_model = pytest.mark.skipif(
    not COURSE_MODEL.is_file(), reason=f"data: no {COURSE_MODEL.name}"
)

shapes = st.lists(st.integers(0, 4), min_size=1, max_size=4)
dtypes = st.sampled_from(["float32", "float64", "float16", "uint8", "int32"])


@given(st.dictionaries(st.text(max_size=9), st.tuples(shapes, dtypes), max_size=4))
def test_what_is_written_is_read_back_with_its_names_types_and_shapes(kinds):
    rng = np.random.default_rng(0)
    arrays = {
        "w" + name: (100 * rng.random(shape)).astype(dtype)
        for name, (shape, dtype) in kinds.items()
    }

    again = params.loads(params.dumps(arrays))

    assert list(again) == list(arrays)
    for name, array in arrays.items():
        assert again[name].dtype == array.dtype
        assert again[name].shape == array.shape
        assert (again[name] == array).all()


def older(array, magic):
    """An array as MXNet wrote it before version 2, in a file with one name."""
    size = "q" if magic else "I"
    shape = struct.pack(f"<I{array.ndim}{size}", array.ndim, *array.shape)
    head = struct.pack("<I", magic) if magic else b""
    content = struct.pack("<QQQ", 0x112, 0, 1) + head + shape
    content += struct.pack("<iii", 1, 0, 0) + array.tobytes()
    return content + struct.pack("<QQ", 1, 5) + b"aux:w"


@pytest.mark.parametrize("magic", [0xF993FAC8, None])
def test_both_older_layouts_are_read(magic):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)

    assert (params.loads(older(array, magic))["w"] == array).all()


def test_a_file_that_ends_anywhere_too_early_is_refused_in_a_sentence():
    content = params.dumps({"a": np.zeros((2, 3), "float32"), "b": np.ones(2, "int32")})

    for end in range(len(content)):
        with pytest.raises(ProjectError, match=r"weights: byte \d+: truncated"):
            params.loads(content[:end], "weights")


def one(array=b"", names=1, rest=b"\x01\0\0\0\0\0\0\0w"):
    array = array or params.dumps({"w": np.zeros(2, "float32")})[24:-21]
    return struct.pack("<QQQ", 0x112, 0, 1) + array + struct.pack("<Q", names) + rest


def header(*shape, storage=0, code=0):
    form = f"<IiI{len(shape)}qiii"
    return struct.pack(form, 0xF993FAC9, storage, len(shape), *shape, 1, 0, code)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"PK\x03\x04" + bytes(60), "not an MXNet .params file"),
        (one(header(2, storage=1)), "sparse arrays are not read"),
        (one(header()), "corrupt: an array of 0 dimensions"),
        (one(header(*[1] * 33)), "corrupt: an array of 33 dimensions"),
        (one(header(-2)), "corrupt: an array of shape"),
        (one(header(2**62, 2**62)), "truncated: an array of shape"),
        (one(header(2, code=77)), "corrupt: unknown type 77"),
        (one(names=2), "2 names for 1 arrays"),
        (one(rest=b"\x01\0\0\0\0\0\0\0\xff"), "corrupt: a name is not text"),
        (one() + b"x", "bytes are left after the last name"),
        (struct.pack("<QQQ", 0x112, 0, 2**63), "truncated"),
    ],
)
def test_a_damaged_file_is_refused_in_a_sentence(content, problem):
    with pytest.raises(ProjectError, match=problem):
        params.loads(content)


def test_two_arrays_of_one_name_are_refused():
    array = params.dumps({"w": np.zeros(2, "float32")})[24:-21]
    twice = struct.pack("<QQQ", 0x112, 0, 2) + 2 * array + struct.pack("<Q", 2)

    with pytest.raises(ProjectError, match="two arrays have one name"):
        params.loads(twice + 2 * (struct.pack("<Q", 1) + b"w"))


@needs_course_model
def test_a_file_that_mxnet_wrote_is_written_again_byte_for_byte():
    weights = params.read(COURSE_MODEL)

    assert weights["new0_weight"].shape == (6, 1, 5, 5)
    assert weights["new0_weight"].dtype == np.float32
    assert params.dumps(weights) == COURSE_MODEL.read_bytes()
