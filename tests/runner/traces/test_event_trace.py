"""Trace events in JSON: nvprof's, PyTorch's, and files that are not quite JSON."""

from __future__ import annotations

import gzip
import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nvprof import perfetto, store

from runner import traces
from runner.core.errors import UsageError
from runner.core.trace import Lane, LaneKind, TracedGpu
from runner.traces import event_stream, event_trace
from runner.traces.event_stream import EventStream
from runner.traces.event_trace import EventTrace
from tests.nvprof import recording
from tests.runner.traces.test_nvprof_file import FORWARD, stored

KERNEL = "void at::native::vectorized_elementwise_kernel<4, float>(int)"
PYTORCH = {
    "schemaVersion": 1,
    "deviceProperties": [
        {
            "id": 0,
            "name": "NVIDIA H200",
            "totalGlobalMem": 150_000_000_000,
            "computeMajor": 9,
            "computeMinor": 0,
            "numSms": 132,
        }
    ],
    "displayTimeUnit": "ms",
    "baseTimeNanoseconds": 1_743_521_598_000_000_000,
    "traceEvents": [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": "aten::relu",
            "pid": 77,
            "tid": 77,
            "ts": 198_093_488_368.463,
            "dur": 425.453,
            "args": {"External id": 1, "Input Dims": [[1, 3], []], "Ev Idx": 0},
        },
        {
            "ph": "X",
            "cat": "cuda_runtime",
            "name": "cudaLaunchKernel",
            "pid": 77,
            "tid": 77,
            "ts": 198_093_488_400.25,
            "dur": 9,
            "args": {"cbid": 211, "correlation": 5},
        },
        {
            "ph": "X",
            "cat": "kernel",
            "name": KERNEL,
            "pid": 0,
            "tid": 7,
            "ts": 198_093_488_410.5,
            "dur": 100.0,
            "args": {
                "External id": 1,
                "device": 0,
                "context": 1,
                "stream": 7,
                "correlation": 5,
                "registers per thread": 32,
                "shared memory": 2048,
                "warps per SM": 0.5,
                "grid": [10, 2, 1],
                "block": [128, 1, 1],
            },
        },
        {"ph": "s", "id": 5, "pid": 77, "tid": 77, "ts": 1.0, "name": "ac2g"},
        {
            "ph": "M",
            "name": "process_name",
            "pid": 77,
            "tid": 0,
            "ts": 0,
            "args": {"name": "python"},
        },
        {"ph": "i", "name": "Record Window End", "ts": 1, "pid": "", "tid": ""},
    ],
    "traceName": "trace.json",
}


def written(folder, document, **more):
    path = folder / "trace.json"
    path.write_text(json.dumps(document, **more))
    return path


def spans(timeline):
    """Return each span's lane, name, start and length."""
    return [
        (timeline.lanes[lane].title, timeline.names[name], start, length)
        for lane, name, start, length in zip(
            timeline.lane, timeline.name, timeline.start, timeline.length, strict=True
        )
    ]


@pytest.fixture
def exported(tmp_path):
    """The same recording as nvprof's file and as its trace."""
    path = stored(tmp_path, recording.small(trace=True))
    opened = store.Store(path)
    with (tmp_path / "trace.json").open("w") as file:
        perfetto.write(opened, file)
    opened.close()
    return path, tmp_path / "trace.json"


def test_nvprofs_trace_has_the_sums_and_launches_of_its_file(exported):
    of_file, of_trace = (traces.summary(path, "x") for path in exported)
    assert of_trace.totals == of_file.totals
    assert set(of_trace.launches) == set(of_file.launches)
    assert of_trace.spans == of_file.spans
    assert [gpu.name for gpu in of_trace.gpus] == ["NVIDIA H200"]


def test_nvprofs_trace_has_the_timeline_of_its_file(exported):
    of_file, of_trace = map(traces.timeline, exported)
    assert [each[1:] for each in spans(of_trace)] == [
        each[1:] for each in spans(of_file)
    ]
    assert list(of_trace.link) == list(of_file.link)
    assert [lane.title for lane in of_trace.lanes] == [
        *("Thread 100", "Context 1, stream 7"),
    ][::-1]


def test_a_compressed_trace_is_the_same(exported, tmp_path):
    plain = exported[1]
    packed = tmp_path / "trace.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert traces.summary(packed, "x") == traces.summary(plain, "x")


@pytest.mark.parametrize("indent", [None, 2])
def test_pytorchs_trace_has_launches_gpus_and_links(tmp_path, indent):
    trace, timeline = traces.read(written(tmp_path, PYTORCH, indent=indent), "t.json")
    (launch,) = trace.launches
    assert (launch.kernel, launch.grid, launch.block) == (
        *(KERNEL, (10, 2, 1), (128, 1, 1)),
    )
    assert (launch.registers, launch.static_shared, launch.dynamic_shared) == (
        *(32, None, 2048),
    )
    assert trace.gpus == (TracedGpu(0, "NVIDIA H200", "9.0", 132),)
    assert trace.tool == "PyTorch's profiler"
    assert trace.problems == ()
    assert [(each.section, each.name) for each in trace.totals] == [
        *(("GPU activities", KERNEL), ("API calls", "cudaLaunchKernel")),
    ]
    assert timeline.lanes == [
        Lane("process 0", "GPU 0, stream 7", LaneKind.GPU),
        Lane("python (77)", "thread 77", LaneKind.API),
        Lane("python (77)", "ranges of thread 77", LaneKind.RANGE),
    ]
    assert spans(timeline) == [
        ("GPU 0, stream 7", KERNEL, 42_037, 100_000),
        ("thread 77", "cudaLaunchKernel", 31_787, 9_000),
        ("ranges of thread 77", "aten::relu", 0, 425_453),
    ]
    assert list(timeline.link) == [1, 1, 0]


def event(**more):
    return {"ph": "X", "name": "f", "pid": 1, "tid": 1, "ts": 1.0, "dur": 2.0, **more}


def test_begins_and_ends_are_nested_by_thread(tmp_path):
    events = [
        event(ph="B", name="outer", ts=1),
        event(ph="B", name="other thread", ts=2, tid=2),
        event(ph="B", name="inner", ts=3),
        event(ph="E", name=None, ts=5),
        event(ph="E", ts=9),
        event(ph="E", ts=8, tid=2),
        event(ph="E", ts=10),
        event(ph="B", name="open", ts=11),
    ]
    trace, timeline = traces.read(written(tmp_path, events), "x")
    assert sorted(spans(timeline)) == [
        ("thread 1", "inner", 2000, 2000),
        ("thread 1", "outer", 0, 8000),
        ("thread 2", "other thread", 1000, 6000),
    ]
    assert trace.problems == ("2 spans begin or end only, and are left out",)


@pytest.mark.parametrize("ts", ["NaN", "Infinity", "-1", '"x"', "1e300", "null", "[]"])
def test_a_time_that_cannot_be_leaves_only_its_span_out(tmp_path, ts):
    path = tmp_path / "t.json"
    events = [json.dumps(event(ts=place)) for place in (1.5, 3.5, 5.5)]
    events[1] = events[1].replace("3.5", ts)
    path.write_text(f'{{"traceEvents": [{", ".join(events)}], "a": {{}}}}')
    trace = traces.summary(path, "x")
    assert trace.spans == 2
    assert len(trace.problems) == 1


def test_times_may_be_texts(tmp_path):
    path = written(tmp_path, [event(ts="10", dur="2.5"), event(ts=20, dur=None)])
    assert [each[2:] for each in spans(traces.timeline(path))] == [
        *((0, 2500), (10_000, 0)),
    ]


def test_arguments_of_other_types_do_not_cost_the_span(tmp_path):
    odd = [
        event(cat="kernel", args={"grid": [1, 2], "block": "x", "correlation": {}}),
        event(args=[1, 2]),
        event(args="text", id={"local": "0x1"}),
        {"ph": 5},
        "no event",
        event(),
    ]
    trace = traces.summary(written(tmp_path, odd), "x")
    assert trace.spans == 4
    assert trace.problems == ("2 of its events are no trace events",)


@pytest.mark.parametrize("kept", [0.3, 0.6, 0.9])
def test_a_trace_that_ends_early_is_read_as_far_as_it_goes(tmp_path, kept):
    text = json.dumps({"traceEvents": [event(ts=n) for n in range(1000)]})
    path = tmp_path / "t.json"
    path.write_text(text[: int(len(text) * kept)])
    trace = traces.summary(path, "x")
    assert trace.spans == pytest.approx(1000 * kept, abs=2)
    assert trace.problems == ("it ends within an event",)


@pytest.mark.parametrize("end", ["", ",", "]", "\n]\n"])
def test_the_bracket_at_the_end_may_be_missing(tmp_path, end):
    path = tmp_path / "t.json"
    path.write_text("[\n" + ",\n".join(json.dumps(event()) for _ in range(5)) + end)
    trace = traces.summary(path, "x")
    assert (trace.spans, trace.problems) == (5, ())


def test_a_compressed_trace_that_ends_early_says_so(tmp_path):
    packed = gzip.compress(json.dumps([event(ts=n) for n in range(5000)]).encode())
    path = tmp_path / "t.json.gz"
    path.write_bytes(packed[: len(packed) // 2])
    trace = traces.summary(path, "x")
    assert 0 < trace.spans < 5000
    assert any("decompressed" in each for each in trace.problems)


TEXT = st.sampled_from(
    ["f", "}, {", '"traceEvents": [', "]", "}]}", '\\"', "\x00\x1f", "é✱\U0001f600"]
)
NESTED = st.recursive(
    TEXT | st.integers() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.lists(st.tuples(TEXT, NESTED), max_size=30),
    st.dictionaries(TEXT, NESTED, max_size=2),
    st.sampled_from([64, 300]),
)
def test_pieces_end_between_events_whatever_is_in_them(
    tmp_path_factory, found, others, size
):
    events = [event(name=name, ts=n, x=more) for n, (name, more) in enumerate(found)]
    document = {"a": others, "traceEvents": events, "b": [others, {}, {}], "c": "]"}
    path = tmp_path_factory.mktemp("t") / "t.json"
    path.write_text(json.dumps(document))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_stream, "PIECE_BYTES", size)
        with path.open("rb") as file:
            stream = EventStream(file)
            read = [each for piece in stream.pieces() for each in piece]
    assert [each.name for each in read] == [name for name, _ in found]
    assert stream.problems == []


def test_deep_nesting_is_told_and_costs_no_stack(tmp_path):
    path = tmp_path / "t.json"
    deep = "[" * 200_000 + "]" * 200_000
    first, last = json.dumps(event()), f'{{"ph": "X", "args": {deep}}}'
    path.write_text(f"[{first},{last},{first}]")
    trace = traces.summary(path, "x")
    assert trace.spans <= 2
    assert trace.problems


def test_a_text_without_an_end_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(event_stream, "LONGEST_PIECE_BYTES", 1 << 18)
    monkeypatch.setattr(event_stream, "PIECE_BYTES", 1 << 16)
    path = tmp_path / "t.json"
    path.write_text(
        f"[{json.dumps(event())},{json.dumps(event())}," + '{"a": "' + "x" * 2**20
    )
    trace = traces.summary(path, "x")
    assert trace.spans == 2
    assert trace.problems == ("an event is too long, or is no JSON",)


def test_a_compressed_file_is_read_up_to_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(event_stream, "MOST_BYTES", 1 << 20)
    path = tmp_path / "t.json.gz"
    head = json.dumps([event(), event()])[:-1].encode()
    path.write_bytes(gzip.compress(head + b"," + b" " * (64 << 20) + b"]"))
    trace = traces.summary(path, "x")
    assert trace.spans == 2
    assert "were read" in trace.problems[0]


def test_many_names_share_a_sum(tmp_path, monkeypatch):
    monkeypatch.setattr("runner.traces.event_trace._MOST_KNOWN", 10)
    events = [event(name=f"f{n}", cat="api", ts=n) for n in range(50)]
    trace = traces.summary(written(tmp_path, events), "x")
    assert trace.spans == 50
    assert ("(all other names)", 40) in {
        (each.name, each.count) for each in trace.totals
    }


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"a": 1}', "JSON without trace events"),
        (b'{"b": "\\"traceEvents\\": ["}', "JSON without trace events"),
        (b"\x28\xb5\x2f\xfd....", "zstd -d"),
        (b"\x0a\x05\x08\x01", "traceconv json"),
        (b"NVR\0", "ncu --import"),
        (b"", "it is empty"),
        (b"hello", "trace events in JSON"),
    ],
)
def test_another_file_is_answered_with_what_to_do(tmp_path, content, words):
    path = tmp_path / "a"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=words):
        traces.summary(path, "a")


def test_kernels_of_nvprofs_trace_name_the_gpu(exported):
    trace = traces.summary(exported[1], "x")
    assert {each.gpu for each in trace.launches} == {0}
    assert FORWARD in {each.kernel for each in trace.launches}


@pytest.mark.parametrize("part", ["pid", "tid", "cat", "name"])
@pytest.mark.parametrize("phase", ["X", "B"])
def test_long_values_are_not_kept(tmp_path, monkeypatch, part, phase):
    monkeypatch.setattr(event_trace, "_MOST_KEYS", 10_000)
    monkeypatch.setattr(event_trace, "MOST_TEXT", 10_000)
    event = {"ph": phase, "cat": "api", "name": "f", "ts": 1, "dur": 1, "pid": 1}
    path = tmp_path / "a.json"
    with path.open("w") as file:
        file.write("[")
        for n in range(500):
            file.write(json.dumps({**event, part: f"{n}" + "x" * 20_000}) + ",")
    tracemalloc.start()
    try:
        with path.open("rb") as file:
            kept = EventTrace(EventStream(file))
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < 7_000_000
    assert kept.summary("x").spans == (500 if phase == "X" else 0)
