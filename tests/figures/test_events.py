"""Trace events in JSON: nvprof's, PyTorch's, and files that are not quite JSON."""

from __future__ import annotations

import gzip
import json

import pytest
from nvprof import perfetto, store

from image.nvprof.tests import recording
from runner.core.errors import UsageError
from runner.core.evidence import Lane, LaneKind, TracedGpu
from runner.figures import traces
from runner.figures.traces import events
from tests.figures.test_nvprof_file import stored

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
    made = [
        event(ph="B", name="outer", ts=1),
        event(ph="B", name="other thread", ts=2, tid=2),
        event(ph="B", name="inner", ts=3),
        event(ph="E", name=None, ts=5),
        event(ph="E", ts=9),
        event(ph="E", ts=8, tid=2),
        event(ph="E", ts=10),
        event(ph="B", name="open", ts=11),
    ]
    trace, timeline = traces.read(written(tmp_path, made), "x")
    assert sorted(spans(timeline)) == [
        ("thread 1", "inner", 2000, 2000),
        ("thread 1", "outer", 0, 8000),
        ("thread 2", "other thread", 1000, 6000),
    ]
    assert trace.problems == ("2 spans begin or end only, and are left out",)


@pytest.mark.parametrize("ts", ["NaN", "Infinity", "-1", '"x"', "1e300", "null", "[]"])
def test_a_time_that_cannot_be_leaves_only_its_span_out(tmp_path, ts):
    path = tmp_path / "t.json"
    made = [json.dumps(event(ts=place)) for place in (1.5, 3.5, 5.5)]
    made[1] = made[1].replace("3.5", ts)
    path.write_text(f'{{"traceEvents": [{", ".join(made)}], "a": {{}}}}')
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


@pytest.mark.parametrize("end", ["", ",", "]", "\n]\n"])
def test_the_bracket_at_the_end_may_be_missing(tmp_path, end):
    path = tmp_path / "t.json"
    path.write_text("[\n" + ",\n".join(json.dumps(event()) for _ in range(5)) + end)
    trace = traces.summary(path, "x")
    assert (trace.spans, trace.problems) == (5, ())


@pytest.mark.parametrize("packed", [False, True])
def test_a_trace_that_ends_early_is_refused(tmp_path, packed):
    data = json.dumps({"traceEvents": [event(ts=n) for n in range(1000)]}).encode()
    data = gzip.compress(data) if packed else data
    path = tmp_path / "t.json"
    path.write_bytes(data[: len(data) // 2])
    words = "it cannot be decompressed" if packed else "it is damaged"
    with pytest.raises(UsageError, match=f"t.json: {words}"):
        traces.summary(path, "t.json")


def test_deep_nesting_is_refused_and_costs_no_stack(tmp_path):
    path = tmp_path / "t.json"
    deep = "[" * 200_000 + "]" * 200_000
    path.write_text(f'[{json.dumps(event())},{{"ph": "X", "args": {deep}}}]')
    with pytest.raises(UsageError, match="it is damaged"):
        traces.summary(path, "x")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("limit", "words"),
    [("MOST_BYTES", "its JSON is larger than"), ("MOST_VALUES", "it has over")],
)
def test_a_file_beyond_a_limit_is_refused(tmp_path, monkeypatch, limit, words, packed):
    monkeypatch.setattr(events, limit, 1000)
    path = tmp_path / "t.json"
    data = json.dumps([event()] * 500).encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    with pytest.raises(UsageError, match=f"x: {words}"):
        traces.summary(path, "x")


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
