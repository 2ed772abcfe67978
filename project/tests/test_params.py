"""MXNet's .params files, read and written."""

import struct

import numpy as np
import pytest
from course import params
from course.errors import ProjectError
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit import outside

COURSE_MODEL = outside.path("course-models", "2019sp-ece408-0002.params")
EVERY = params.NAMES
some = settings(max_examples=40)
shapes = st.lists(st.integers(0, 4), min_size=1, max_size=4)
kinds = st.dictionaries(
    st.text(max_size=9), st.tuples(shapes, st.sampled_from(EVERY)), max_size=3
)


def made(kinds):
    rng = np.random.default_rng(0)
    return {
        "w" + name: (100 * rng.random(shape)).astype(dtype)
        for name, (shape, dtype) in kinds.items()
    }


@pytest.mark.lengthy
@some
@given(kinds)
def test_what_is_written_is_read_back_with_its_names_types_and_shapes(kinds):
    arrays = made(kinds)

    again = params.loads(params.dumps(arrays))

    assert list(again) == list(arrays)
    for name, array in arrays.items():
        assert again[name].dtype == array.dtype
        assert again[name].shape == array.shape
        assert again[name].tobytes() == array.tobytes()


def packed(name, *dimensions, dtype=np.float32):
    """A file with one array of zeros, in the layout of that name, said in bytes."""
    head = {
        "V1": struct.pack("<I", 0xF993FAC8),
        "V2": struct.pack("<Ii", 0xF993FAC9, 0),
        "V3": struct.pack("<Ii", 0xF993FACA, 0),
    }[name]
    head += struct.pack(f"<I{len(dimensions)}q", len(dimensions), *dimensions)
    code = EVERY.index(np.dtype(dtype).name)
    content = struct.pack("<QQQ", 0x112, 0, 1) + head + struct.pack("<iii", 1, 0, code)
    return content + np.zeros(dimensions, dtype).tobytes() + struct.pack("<QQ", 1, 5)


@pytest.mark.parametrize("dtype", EVERY)
@pytest.mark.parametrize("layout", ["V1", "V2", "V3"])
def test_the_bytes_of_every_layout_are_read_and_v2_written(layout, dtype):
    array = np.zeros((2, 3), dtype)
    content = packed(layout, 2, 3, dtype=dtype) + b"arg:w"

    assert (params.dumps({"w": array}) == content) == (layout == "V2")
    assert params.loads(content)["w"].dtype == array.dtype


def test_numbers_are_written_little_endian_wherever_they_came_from():
    array = np.array([1.5, -2], ">f4")

    assert params.dumps({"w": array}) == params.dumps({"w": array.astype("<f4")})


def test_auxiliary_states_are_read_beside_arguments():
    content = params.dumps({"w": np.zeros(2), "v": np.ones(2)})
    content = content.replace(b"arg:v", b"aux:v")

    assert list(params.loads(content)) == ["w", "v"]
    with pytest.raises(ProjectError, match="weights: two arrays have the same name"):
        params.loads(content.replace(b"aux:v", b"aux:w"), "weights")


@settings(max_examples=15)
@given(kinds)
def test_any_beginning_of_a_file_is_refused(kinds):
    content = params.dumps(made(kinds))

    for end in range(len(content)):
        with pytest.raises(ProjectError, match=r"weights: byte \d+: "):
            params.loads(content[:end], "weights")


@pytest.mark.lengthy
@settings(max_examples=200)
@given(st.sampled_from(EVERY), st.data())
def test_a_file_with_a_changed_byte_is_refused_or_gives_arrays(dtype, data):
    array = {"w": np.ones((2, 1), dtype), "v": np.ones(3, dtype)}
    content = bytearray(params.dumps(array))
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))

    try:
        read = params.loads(bytes(content), "weights")
    except ProjectError as refused:
        assert str(refused).startswith("weights: ")
    else:
        assert sum(array.nbytes for array in read.values()) < len(content)


@given(st.binary(max_size=80))
def test_what_follows_a_good_header_is_refused_or_gives_arrays(rest):
    content = struct.pack("<QQQ", 0x112, 0, 1) + rest

    try:
        read = params.loads(content)
    except ProjectError as refused:
        assert str(refused).startswith("params: ")
    else:
        assert len(read) == 1


def one(array=b"", names=1, rest=b"\x01\0\0\0\0\0\0\0w"):
    array = array or params.dumps({"w": np.zeros(2, "float32")})[24:-21]
    return struct.pack("<QQQ", 0x112, 0, 1) + array + struct.pack("<Q", names) + rest


def header(*shape, storage=0, code=0, ndim=None):
    form = f"<Iii{len(shape)}qiii"
    ndim = len(shape) if ndim is None else ndim
    return struct.pack(form, 0xF993FAC9, storage, ndim, *shape, 1, 0, code)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"PK\x03\x04" + bytes(60), "not an MXNet .params file"),
        (one(header(2, storage=1)), "storage type 1, which is not supported; save a"),
        (one(header(2, storage=-1)), "storage type -1, which is not supported"),
        (one(header()), "an array of 0 dimensions; save it with values"),
        (one(header(ndim=-1)), "an array of -1 dimensions"),
        (one(struct.pack("<I", 0xF993FACB)), "no array of MXNet 0.9 or newer"),
        (one(header(*[1] * 33)), "an array of 33 dimensions"),
        (one(header(-2)), "corrupt: an array of shape"),
        (one(header(2**62, 2**62)), "truncated: an array of shape"),
        (one(header(2**62, 2**62, 0)), "corrupt: an array of shape"),
        (one(header(1, code=7) + b"\x02"), "corrupt: a boolean is neither 0 nor 1"),
        (one(header(2, code=77)), "type 77, which is not supported; save float32"),
        (one(names=0, rest=b""), "0 names for 1 arrays; save a dict"),
        (one(names=2), "2 names for 1 arrays"),
        (one(rest=struct.pack("<Q", 2**60)), "truncated: a name needs 115292150460684"),
        (one(rest=b"\x01\0\0\0\0\0\0\0\xff"), "corrupt: a name is not UTF-8"),
        (one() + b"x", "corrupt: data after the last name"),
        (struct.pack("<QQQ", 0x112, 0, 2**60), "byte 24: truncated"),
    ],
)
def test_a_damaged_file_is_refused_in_a_sentence(content, problem):
    with pytest.raises(ProjectError, match=problem):
        params.loads(content)


def test_two_arrays_of_one_name_are_refused():
    array = params.dumps({"w": np.zeros(2, "float32")})[24:-21]
    twice = struct.pack("<QQQ", 0x112, 0, 2) + 2 * array + struct.pack("<Q", 2)

    with pytest.raises(ProjectError, match="two arrays have the same name"):
        params.loads(twice + 2 * (struct.pack("<Q", 1) + b"w"))


@pytest.mark.data
def test_a_file_that_mxnet_wrote_is_written_again_byte_for_byte():
    weights = params.read(COURSE_MODEL)

    assert weights["new0_weight"].shape == (6, 1, 5, 5)
    assert weights["new0_weight"].dtype == np.float32
    assert params.dumps(weights) == COURSE_MODEL.read_bytes()


def test_a_file_that_is_not_there_is_told_in_a_sentence(tmp_path):
    with pytest.raises(OSError, match=r"No such file or directory: .*none.params"):
        params.read(tmp_path / "none.params")


def test_a_file_is_written_whole_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "w.params"

    params.write(path, {"w": np.ones(2)})

    assert params.read(path)["w"].tolist() == [1, 1]
    assert list(tmp_path.iterdir()) == [path]
