"""What a process recorded is stored, chosen from, printed and exported."""

from __future__ import annotations

import json
import sqlite3
import tracemalloc
from contextlib import closing

import pytest
from nvprof import perfetto, report, store, stream
from nvprof.filter import parse as kernels
from nvprof.options import parse

from image.nvprof.tests import recording

FORWARD = "mxnet::op::forward_kernel(float*, float const *, int)"
SCALE = "void scale<int=8, float, bool=1>(float*)"


def stored(tmp_path, made, demangled=True, **more):
    raw, path = tmp_path / "1.prof", tmp_path / "1.nvprof"
    raw.write_bytes(made.bytes(("python", "m3.1.py"), 42, **more))
    with raw.open("rb") as file:
        store.written(path, file, stream.read_header(file), demangled)
    return path


@pytest.fixture
def path(tmp_path):
    return stored(tmp_path, recording.small(trace=True))


@pytest.fixture
def base(path):
    with closing(store.Store(path)) as opened:
        yield opened


def query(path, text):
    with closing(sqlite3.connect(path)) as base, base:
        return base.execute(text).fetchall()


def test_a_kernel_is_stored_with_its_launch_and_all_its_sizes(path):
    found = query(
        path,
        "SELECT kernel, start, end, stream, grid_x, grid_y, grid_z, block_x, block_y,"
        " block_z, registers, static_shared, dynamic_shared, correlation, call, called,"
        " thread FROM launch ORDER BY start",
    )
    sizes = (7, 8, 2, 1, 16, 16, 1, 32, 4096, 0)
    first = (FORWARD, 21_500_000, 32_288_000, *sizes)
    assert found[0] == (*first, 2, "cudaLaunchKernel", 21_000_000, 100)
    assert [row[0] for row in found] == [FORWARD, SCALE, FORWARD]


def test_copies_sets_and_the_gpu_are_stored(path):
    assert query(path, "SELECT bytes, source, destination FROM memcpy") == [
        (1 << 24, 1, 3)
    ]
    assert query(path, "SELECT bytes, value FROM memset") == [(1028, 0)]
    assert query(path, "SELECT * FROM device") == [(0, "NVIDIA H200", 90, 132)]


def test_names_stay_as_they_are_without_demangling(tmp_path):
    made = recording.Recording()
    made.kernel("_Z1fPf<8>", 1, 2)
    path = stored(tmp_path, made, demangled=False)
    assert query(path, "SELECT text FROM name") == [("_Z1fPf<8>",)]


def test_times_before_the_recordings_clock_are_its_start(tmp_path):
    made = recording.Recording(base=1_000)
    made.api("cudaFree", -1_000, 500)
    path = stored(tmp_path, made)
    assert query(path, "SELECT start, end FROM api") == [(0, 0)]


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        (["::forward:2"], [34_000_000]),
        (["::forward:1"], [21_500_000]),
        (["scale"], [33_000_000]),
        (["::forward:1", "scale"], [21_500_000, 33_000_000]),
        ([":8:forward:"], []),
        ([], [21_500_000, 33_000_000, 34_000_000]),
    ],
)
def test_filters_choose_launches_in_the_file_and_for_one_reading(path, filters, left):
    chosen = tuple(map(kernels, filters))
    with closing(store.Store(path)) as base:
        base.restrict(chosen)
        assert [row[0] for row in base.select("SELECT start FROM kernel")] == left
    assert len(query(path, "SELECT * FROM kernel")) == 3
    store.keep(path, chosen)
    assert [row[0] for row in query(path, "SELECT start FROM kernel")] == left
    assert len(query(path, "SELECT * FROM memcpy")) == 1


GPU_TRACE = """\
   Start  Duration            Grid Size      Block Size     Regs*    SSMem*    DSMem*\
      Size  Throughput  SrcMemType  DstMemType           Device   Context    Stream\
  Name
2.0000us  16.187ms                    -               -         -         -         -\
  16.000MB  988.45MB/s    Pageable      Device  NVIDIA H200 (0)         1         7\
  [CUDA memcpy HtoD]
21.500ms  10.788ms              (8 2 1)       (16 16 1)        32  4.0000KB        0B\
         -           -           -           -  NVIDIA H200 (0)         1         7\
  mxnet::op::forward_kernel(float*, float const *, int) [2]
"""


def printed(base, line):
    return list(report.stored(base, parse(line.split())))


def shown(tmp_path, made, *lines):
    """Store a recording; return what is printed of it by each command line."""
    with closing(store.Store(stored(tmp_path, made))) as base:
        return [printed(base, line) for line in lines]


def test_the_gpu_trace_has_nvprofs_columns_and_legend(base):
    lines = printed(base, "--print-gpu-trace")
    assert "\n".join(lines[:3]) + "\n" == GPU_TRACE
    assert len([line for line in lines if "ms  " in line or "us  " in line]) == 5
    assert lines[-6] == ""
    assert [line.split(":")[0] for line in lines[-5:]] == [
        *("Regs", "SSMem", "DSMem", "SrcMemType", "DstMemType")
    ]


def test_without_copies_the_gpu_trace_is_narrower(tmp_path):
    made = recording.Recording()
    made.device("GeForce GTX 1080 Ti")
    name = "rand_init(curandStateXORWOW*)"
    made.kernel(name, 291_070_000, 34_848, 107, registers=92)
    (lines,) = shown(tmp_path, made, "--print-gpu-trace")
    assert lines[1] == (
        "291.07ms  34.848us              (1 1 1)         (1 1 1)        92        0B"
        "        0B  GeForce GTX 108         1         7"
        "  rand_init(curandStateXORWOW*) [107]"
    )
    assert not any("MemType" in line for line in lines)


def test_the_api_trace_names_what_each_call_launched(base):
    assert printed(base, "--print-api-trace")[:3] == [
        "   Start  Duration  Name",
        "1.0000us  20.000ms  cudaMemcpy",
        f"21.000ms  9.0410us  cudaLaunchKernel ({FORWARD} [2])",
    ]


def test_a_trace_has_one_unit_where_one_is_named(base):
    lines = printed(base, "--print-api-trace -u us")
    assert lines[1:3] == [
        "      us        us",
        "1.000000  20000.00  cudaMemcpy",
    ]


def test_traces_between_commas_have_real_parsers_columns(base):
    head, unit, first, second, *_ = printed(base, "--print-gpu-trace --csv -u us")
    assert head.split(",")[-2:] == ['"Name"', '"Correlation_ID"']
    assert unit == "us,us,,,,,,,,KB,B,MB,GB/s,,,,,,,"
    assert first == (
        '2.000000,16187.000000,,,,,,,,,,16.000000,0.965281,"Pageable","Device",'
        '"NVIDIA H200 (0)","1","7","[CUDA memcpy HtoD]",1'
    )
    assert second.startswith("21500.000000,10788.000000,8,2,1,16,16,1,32,4.000000,0.0")
    lines = printed(base, "--print-api-trace --csv -u us")
    assert lines[:3] == [
        '"Start","Duration","Name","Correlation_ID"',
        "us,us,,",
        '1.000000,20000.000000,"cudaMemcpy",1',
    ]


def test_other_gpus_are_left_out(base):
    assert printed(base, "--print-gpu-trace --devices 1") == [
        "No kernels were profiled."
    ]
    assert printed(base, "--devices 1")[0] == "No kernels were profiled."


def test_each_gpu_of_two_has_its_rows(tmp_path):
    made = recording.Recording()
    made.device("A", 0)
    made.device("B", 1)
    made.kernel("f", 0, 30, 1)
    made.kernel("f", 0, 10, 2, device=1)
    made.api("cudaLaunchKernel", 0, 5, 1)
    made.api("cuLaunchKernel", 0, 5, 2)
    each, both, calls, summary = shown(
        *(tmp_path, made, "--print-summary-per-gpu", ""),
        "--print-api-trace --profile-api-trace driver",
        "--profile-api-trace runtime",
    )
    assert [line for line in each if line.startswith("Device")] == [
        *('Device "A (0)"', 'Device "B (1)"')
    ]
    assert [line.split()[3:5] for line in each if "GPU activities" in line] == [
        *(["30ns", "1"], ["10ns", "1"])
    ]
    assert both[1].split()[3:5] == ["40ns", "2"]
    assert calls[1:] == ["     0ns       5ns  cuLaunchKernel (f [2])"]
    assert [line.split()[-1] for line in summary if "API" in line] == [
        *("cudaLaunchKernel",)
    ]


def test_nothing_is_said_in_nvprofs_words(tmp_path):
    said = shown(tmp_path, recording.Recording(), "", "--print-api-trace")
    assert said[0] == ["No kernels were profiled.", "No API activities were profiled."]
    assert said[1] == ["No API activities were profiled."]


def test_every_event_of_perfetto_has_its_track_and_arrows_meet(base, tmp_path):
    target = tmp_path / "t.json"
    with target.open("w") as file:
        count = perfetto.write(base, file)
    found = json.loads(target.read_text())["traceEvents"]
    assert len(found) == count
    tracks = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in found
        if event["name"] == "thread_name"
    }
    work = [event for event in found if event["ph"] == "X"]
    assert len(work) == 9
    assert {tracks[event["pid"], event["tid"]] for event in work} == {
        *("Thread 100", "Context 1, stream 7")
    }
    begun = {event["id"] for event in found if event["ph"] == "s"}
    ended = {event["id"] for event in found if event["ph"] == "f"}
    assert begun == {1, 2, 3, 5}
    assert begun == ended
    (kernel, *_) = [event for event in work if event["cat"] == "kernel"]
    assert (kernel["ts"], kernel["dur"]) == (21_500, 10_788)
    assert kernel["args"] == {
        "grid": [8, 2, 1],
        "block": [16, 16, 1],
        "registers per thread": 32,
        "static shared memory": 4096,
        "dynamic shared memory": 0,
        "correlation": 2,
    }
    places = {
        event["args"]["name"] for event in found if event["name"] == "process_name"
    }
    assert places == {"python m3.1.py", "NVIDIA H200 (0)"}


@pytest.mark.parametrize(
    ("tables", "whose"),
    [
        (["StringTable", "CUPTI_ACTIVITY_KIND_RUNTIME"], "NVIDIA's nvprof"),
        (["CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL"], "NVIDIA's nvprof"),
        (["StringIds", "CUPTI_ACTIVITY_KIND_KERNEL"], "Nsight Systems"),
        (["anything"], "nvprof did not write"),
    ],
)
def test_another_programs_tables_are_told_whose_they_are(tmp_path, tables, whose):
    path = tmp_path / "t"
    for name in tables:
        query(path, f"CREATE TABLE {name} (x)")
    with pytest.raises(store.WrongFile, match=whose):
        store.Store(path)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"NVR\0 report", "Nsight Compute"),
        (b"NVPROF01 and more", "raw recording"),
        (b"", "was not written by nvprof"),
        (b"SQLite format 3\0" + b"\1" * 4096, "damaged"),
    ],
)
def test_another_file_is_told_what_it_is(tmp_path, data, what):
    path = tmp_path / "t"
    path.write_bytes(data)
    with pytest.raises(store.WrongFile, match=what):
        store.Store(path)


def test_a_later_format_is_not_read(path):
    query(path, "UPDATE nvprof SET value = 2 WHERE key = 'format'")
    with pytest.raises(store.WrongFile, match="another version"):
        store.Store(path)


@pytest.mark.slow
def test_more_records_take_no_more_memory(tmp_path):
    def peak(count):
        made = recording.Recording()
        made.name("f")
        once = len(made.body)
        made.kernel("f", 1, 2)
        made.api("f", 1, 2)
        made.body[once:] *= count
        raw, path = tmp_path / f"{count}.prof", tmp_path / f"{count}.nvprof"
        raw.write_bytes(made.bytes())
        del made
        tracemalloc.start()
        with raw.open("rb") as file:
            store.written(path, file, stream.read_header(file), demangled=True)
        opened = store.Store(path)
        calls = sum(each.calls for each in opened.totals())
        opened.close()
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert calls == 2 * count
        return most

    peak(100)
    assert peak(60_000) < 1.1 * peak(30_000)
