"""The SQLite file of rai's nvprof is summed up and drawn."""

from __future__ import annotations

import csv
import random

import pytest
from nvprof import report, store, stream
from nvprof.options import parse

from image.nvprof.tests import recording
from runner.core.errors import UsageError
from runner.core.evidence import Lane, LaneKind, TracedGpu
from runner.figures import traces

FORWARD = "mxnet::op::forward_kernel(float*, float const *, int)"
PROCESS = "python m3.1.py (42)"


def stored(folder, made, **more):
    raw, path = folder / "1.prof", folder / "1.nvprof"
    raw.write_bytes(made.bytes(("python", "m3.1.py"), 42, **more))
    with raw.open("rb") as file:
        store.written(path, file, stream.read_header(file), demangled=True)
    return path


def times(each):
    return each.total_s, each.min_s, each.max_s


def nanoseconds(time_s):
    return round(1e9 * time_s)


@pytest.fixture
def path(tmp_path):
    return stored(tmp_path, recording.small(trace=True))


def test_launches_are_summed_up_by_their_configuration(path):
    trace = traces.summary(path, "timeline.nvprof")
    (forward,) = [each for each in trace.launches if each.kernel == FORWARD]
    assert (forward.gpu, forward.grid, forward.block) == (0, (8, 2, 1), (16, 16, 1))
    assert (forward.registers, forward.static_shared, forward.dynamic_shared) == (
        *(32, 4096, 0),
    )
    assert (forward.count, forward.min_s, forward.max_s) == (2, 0.010788, 0.028204)
    assert forward.total_s == pytest.approx(0.038992)
    assert forward.first_s == pytest.approx(0.021499)
    assert len(trace.launches) == 2


def test_the_file_says_what_was_profiled_and_on_what(path):
    trace = traces.summary(path, "timeline.nvprof")
    assert (trace.path, trace.tool) == ("timeline.nvprof", "nvprof")
    assert (trace.command, trace.spans) == ("python m3.1.py", 9)
    assert trace.gpus == (TracedGpu(0, "NVIDIA H200", "9.0", 132),)
    assert trace.problems == ()


def test_sums_are_those_of_the_table_that_nvprof_prints(tmp_path):
    made, drawn = recording.Recording(), random.Random(1)
    for number in range(2):
        made.device(number=number)
    for place in range(300):
        name, length = f"kernel_{place % 7}(int)", drawn.randrange(1, 90_000)
        made.api(f"cudaCall{place % 5}", 10 * place, drawn.randrange(5_000), place)
        made.kernel(
            name, 20 * place, length, place, (place % 3 + 1, 1, 1), device=place % 2
        )
    path = stored(tmp_path, made)
    opened = store.Store(path)
    printed = list(report.stored(opened, parse(["--csv", "-u", "ns"])))
    opened.close()
    table = [
        (row[0], row[7], int(row[3]), *(float(row[place]) for place in (2, 5, 6)))
        for row in csv.reader(printed)
        if row and row[0] in ("GPU activities", "API calls")
    ]
    assert len(table) == 12
    assert table == [
        (each.section, each.name, each.count, *map(nanoseconds, times(each)))
        for each in traces.summary(path, "x").totals
    ]


def test_a_timeline_has_each_span_in_its_lane_with_its_facts(path):
    found = traces.timeline(path)
    assert found.lanes == [
        Lane(PROCESS, "GPU 0, stream 7", LaneKind.GPU),
        Lane(PROCESS, "thread 100", LaneKind.API),
    ]
    spans = [
        (found.names[name], start, length, dict(found.notes[facts]))
        for name, start, length, facts in zip(
            found.name, found.start, found.length, found.facts, strict=True
        )
    ]
    copy, forward, _, zeros, _ = spans[:5]
    assert copy == (
        *("[CUDA memcpy HtoD]", 1_000, 16_187_000),
        {"size": "16,777,216 bytes", "from": "pageable", "to": "device"},
    )
    assert forward[:3] == (FORWARD, 21_499_000, 10_788_000)
    assert forward[3]["grid"] == "8 x 2 x 1"
    assert zeros[3] == {"size": "1,028 bytes", "value": "0"}
    assert list(found.lane) == [0] * 5 + [1] * 4
    assert (set(found.merged), found.left_out) == ({1}, 0)


def test_a_call_is_linked_with_what_it_started(path):
    found = traces.timeline(path)
    joined = {}
    for link, name in zip(found.link, found.name, strict=True):
        joined.setdefault(link, []).append(found.names[name])
    unlinked = joined.pop(0)
    assert unlinked == ["[CUDA memset]"]
    assert sorted(joined.values()) == [
        ["[CUDA memcpy HtoD]", "cudaMemcpy"],
        [FORWARD, "cudaLaunchKernel"],
        [FORWARD, "cudaLaunchKernel"],
        ["void scale<int=8, float, bool=1>(float*)", "cudaLaunchKernel"],
    ]


def test_what_a_recording_lacks_is_told(tmp_path):
    path = stored(tmp_path, recording.small(trace=True), ended=0, dropped=3, lost=4)
    assert traces.summary(path, "x").problems == (
        "the process did not exit normally; its last activities may be missing",
        "7 records were lost while the program ran",
    )


def test_an_empty_recording_has_no_spans(tmp_path):
    path = stored(tmp_path, recording.Recording())
    trace, found = traces.read(path, "x")
    assert (trace.spans, trace.totals, trace.launches) == (0, (), ())
    assert (len(found.start), found.lanes) == (0, [])


def test_a_file_of_something_else_is_refused_by_its_name(tmp_path):
    path = tmp_path / "a.nvprof"
    path.write_bytes(b"hello")
    with pytest.raises(UsageError, match=r"build/a\.nvprof: it is no trace that rai"):
        traces.summary(path, "build/a.nvprof")
