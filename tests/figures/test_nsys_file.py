"""Exports of nsys, and files of NVIDIA's nvprof."""

from __future__ import annotations

import sqlite3

import pytest

from runner.core.errors import UsageError
from runner.core.evidence import Lane, LaneKind, TracedGpu
from runner.figures import traces
from tests.kit import traces as made


@pytest.fixture
def nsys(tmp_path):
    return made.nsys(tmp_path / "report.sqlite")


def told(totals):
    return {
        (each.section, each.name): (each.count, round(each.total_s * 1e9))
        for each in totals
    }


def test_an_exports_sums_have_the_names_of_nvprofs_table(nsys):
    assert told(traces.summary(nsys, "x").totals) == {
        ("GPU activities", "forward_kernel(float*, int)"): (3, 5_400),
        ("GPU activities", "[CUDA memcpy HtoD]"): (1, 500),
        ("GPU activities", "[CUDA memset]"): (1, 100),
        ("API calls", "cudaMemcpy"): (1, 1_600),
        ("API calls", "cudaLaunchKernel"): (3, 350),
        ("API calls", "cuMemAlloc_v2"): (1, 100),
    }


def test_launches_of_several_processes_stay_apart(nsys):
    trace = traces.summary(nsys, "x")
    found = [(each.gpu, each.count, each.max_s) for each in trace.launches]
    assert found == [(0, 2, 4e-06), (1, 1, 1e-06)]
    assert {(each.grid, each.block) for each in trace.launches} == {
        *(((834, 1, 1), (256, 2, 1)),),
    }
    assert (trace.tool, trace.spans, trace.problems) == ("nsys", 12, ())


def test_a_gpu_has_the_number_that_cuda_gave_it(nsys):
    assert traces.summary(nsys, "x").gpus == (
        TracedGpu(0, "NVIDIA H200", "9.0", 132),
        TracedGpu(1, "NVIDIA A100", "8.0", 108),
    )


def test_each_process_has_its_lanes_streams_first(nsys):
    assert traces.timeline(nsys).lanes == [
        Lane("python3 (14)", "GPU 0, stream 7", LaneKind.GPU),
        Lane("python3 (14)", "GPU 0, stream 8", LaneKind.GPU),
        Lane("python3 (14)", "thread 14", LaneKind.API),
        Lane("python3 (14)", "ranges of thread 14", LaneKind.RANGE),
        Lane("worker (15)", "GPU 1, stream 7", LaneKind.GPU),
        Lane("worker (15)", "thread 16", LaneKind.API),
    ]


def test_equal_correlations_of_two_processes_are_not_linked(nsys):
    found = traces.timeline(nsys)
    joined = {}
    for link, lane in zip(found.link, found.lane, strict=True):
        joined.setdefault(link, set()).add(found.lanes[lane].process)
    joined.pop(0)
    assert sorted(map(sorted, joined.values())) == [
        *(["python3 (14)"], ["python3 (14)"], ["python3 (14)"], ["worker (15)"]),
    ]


def test_ranges_have_their_texts_and_marks_are_left_out(nsys):
    found = traces.timeline(nsys)
    ranges = [
        found.names[name]
        for lane, name in zip(found.lane, found.name, strict=True)
        if found.lanes[lane].kind is LaneKind.RANGE
    ]
    assert ranges == ["epoch", "batch"]


def test_what_an_older_export_lacks_is_named(nsys):
    base = sqlite3.connect(nsys)
    base.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY DROP COLUMN copyKind")
    base.execute("DROP TABLE TARGET_INFO_CUDA_DEVICE")
    base.execute("DROP TABLE PROCESSES")
    base.commit()
    base.close()
    trace, timeline = traces.read(nsys, "x")
    assert trace.problems == (
        "table CUPTI_ACTIVITY_KIND_MEMCPY lacks columns: copyKind",
    )
    assert [gpu.name for gpu in trace.gpus] == ["NVIDIA A100", "NVIDIA H200"]
    assert timeline.lanes[0].process == "process 14"


def test_an_export_without_cuda_says_how_to_profile(tmp_path):
    path = made.database(tmp_path / "a", "CREATE TABLE StringIds (id, value)")
    assert "--trace=cuda" in traces.summary(path, "a").problems[0]


def test_a_file_of_nvidias_nvprof_is_read(tmp_path):
    trace, timeline = traces.read(made.nvidia(tmp_path / "old.nvvp"), "old.nvvp")
    assert told(trace.totals) == {
        ("GPU activities", "_Z7forwardPf"): (1, 400),
        ("GPU activities", "[CUDA memcpy HtoD]"): (1, 200),
        ("API calls", "cudaMemcpy"): (1, 310),
        ("API calls", "cudaLaunchKernel"): (1, 20),
        ("API calls", "runtime call 999"): (1, 10),
    }
    assert trace.gpus == (TracedGpu(0, "Tesla K80", "3.7", 13),)
    assert [each.first_s for each in trace.launches] == [5e-07]
    assert [lane.title for lane in timeline.lanes] == [
        *("GPU 0, stream 7", "thread 1142654784"),
    ]
    assert list(timeline.start) == [100, 500, 0, 320, 350]
    assert dict(timeline.notes[timeline.facts[0]])["from"] == "pageable"


@pytest.mark.parametrize("name", ["m3.nsys-rep", "m3.qdrep"])
def test_a_report_of_nsys_is_answered_with_the_command_that_exports_it(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"\x05\x00NVIDIA report")
    with pytest.raises(UsageError, match="nsys export --type sqlite") as refused:
        traces.summary(path, name)
    assert name in str(refused.value)
