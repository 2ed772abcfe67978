"""The library's file is read as far as it is whole."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nvprof import stream
from nvprof.stream import HEADER_BYTES, Kind, NotARecording, Section

from image.nvprof.tests import recording


def read(data, block=1 << 20):
    file = io.BytesIO(data)
    header = stream.read_header(file)
    found = {kind: [] for kind in Kind}
    for kind, records in stream.batches(file, header.committed, block):
        found[kind] += records
    return header, found


WHOLE = recording.small(trace=True).bytes(
    ("python", "m3.1.py", "100"), pid=42, parent=7
)


def test_a_header_tells_of_its_process():
    header, _ = read(recording.Recording(5).bytes(("a", "b c"), 42, 7, 0, 1, 3, 4, 99))
    assert header[:4] == (42, 7, False, True)
    assert (header.dropped, header.lost, header.started_ns, header.base) == (
        3,
        4,
        99,
        5,
    )
    assert (header.driver, header.cupti) == (13000, 130000)
    assert header.command == ("a", "b c")


@pytest.mark.smoke
def test_every_kind_of_record_is_read():
    made = recording.small(trace=True)
    made.total("cudaFree", 2, 30, 10, 20, Section.CALLS)
    _, found = read(made.bytes())
    assert [len(found[kind]) for kind in Kind] == [8, 1, 3, 1, 1, 4, 1]
    texts = dict(found[Kind.NAME])
    start, end, *where = found[Kind.KERNEL][0]
    assert (end - start, where[:4]) == (10_788_000, [0, 1, 7, 2])
    assert where[4:13] == [8, 2, 1, 16, 16, 1, 32, 4096, 0]
    assert texts[where[13]].startswith("mxnet::op::forward_kernel")
    assert found[Kind.MEMCPY][0][2] == 1 << 24
    assert found[Kind.MEMCPY][0][8:] == (1, 3)
    assert found[Kind.MEMSET][0][2] == 1028
    assert found[Kind.TOTAL][0][1:] == (Section.CALLS, 0, 2, 30, 10, 20)
    assert found[Kind.DEVICE][0][:3] == (0, 90, 132)


@given(st.integers(0, len(WHOLE)))
def test_a_file_cut_anywhere_gives_the_records_before_the_cut(length):
    data = WHOLE[:length]
    if length < HEADER_BYTES:
        with pytest.raises(NotARecording):
            read(data)
        return
    _, found = read(data)
    _, full = read(WHOLE)
    for kind in Kind:
        assert found[kind] == full[kind][: len(found[kind])]
    ends = {0}
    at = HEADER_BYTES
    while at < len(WHOLE):
        at += struct.unpack_from("<I", WHOLE, at + 4)[0]
        ends.add(at - HEADER_BYTES)
    whole = len([end for end in ends if 0 < end <= length - HEADER_BYTES])
    assert sum(map(len, found.values())) == whole


@given(st.integers(1, 5_000))
def test_the_size_of_blocks_changes_nothing(block):
    assert read(WHOLE, block) == read(WHOLE)


@given(st.integers(0, len(WHOLE) - HEADER_BYTES))
def test_what_is_not_committed_is_not_read(committed):
    data = bytearray(WHOLE)
    struct.pack_into("<Q", data, 24, committed)
    _, found = read(bytes(data))
    assert read(WHOLE[: HEADER_BYTES + committed])[1] == found


@given(st.binary(max_size=400))
def test_any_bytes_after_the_header_are_read_without_an_error(body):
    made = recording.Recording()
    made.body += body
    _, found = read(made.bytes())
    assert sum(map(len, found.values())) <= len(body) // 8


@given(st.integers(HEADER_BYTES, len(WHOLE) - 1), st.integers(0, 255))
def test_a_damaged_byte_ends_the_reading_at_worst(at, value):
    data = bytearray(WHOLE)
    data[at] = value
    header, found = read(bytes(data))
    assert header.pid == 42
    assert sum(map(len, found.values())) <= (len(WHOLE) - HEADER_BYTES) // 8


def test_a_kind_that_is_not_known_is_passed_over():
    made = recording.Recording()
    made.body += recording.record(99, "QQ", 1, 2)
    made.api("cudaFree", 1, 2)
    assert len(read(made.bytes())[1][Kind.API]) == 1


def test_a_record_that_grew_is_read_as_far_as_it_is_known():
    made = recording.Recording()
    made.body += recording.record(Kind.DEVICE, "IIIIII", 0, 90, 132, 5, 77, 78)
    assert read(made.bytes())[1][Kind.DEVICE] == [(0, 90, 132, 5)]


@pytest.mark.parametrize("data", [b"", b"NVPROF01", b"\x7fELF" + b"\0" * 5000])
def test_another_file_is_refused(data):
    with pytest.raises(NotARecording):
        read(data)
