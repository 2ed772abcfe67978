"""Profilers' tables as comma-separated values, and nvprof's traces, which are none."""

import pytest

from runner.core import Findings, ProfileRow, ProfileTable
from tests.kit.sourceless import find

TYPED = """\
==305== NVPROF is profiling process 305, command: python m1.2.py
==305== Profiling application: python m1.2.py
==305== Profiling result:
"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"
,%,ms,,us,us,ms,
"GPU activities",80.000000,16.000000,20,800.000000,1.120000,15.000000,"[CUDA memcpy HtoD]"
"GPU activities",20.000000,4.000000,1,4000.000000,4000.000000,4.000000,"void f<float, int=8>(float*, int)"
"API calls",100.000000,3000.000000,22,136363.636000,13.006000,1562.810000,"cudaFree"
"""  # noqa: E501 the tool prints lines as long as this
UNTYPED = """\
==305== Profiling result:
"Time(%)","Time","Calls","Avg","Min","Max","Name"
%,ms,,us,us,ms,
80.000000,16.000000,20,800.000000,1.120000,15.000000,"[CUDA memcpy HtoD]"
20.000000,4.000000,1,4000.000000,4000.000000,4.000000,"void f<float, int=8>(float*, int)"

==305== API calls:
"Time(%)","Time","Calls","Avg","Min","Max","Name"
%,ms,,us,us,ms,
100.000000,3000.000000,22,136363.636000,13.006000,1562.810000,"cudaFree"
"""  # noqa: E501 as above
NVPROF = (
    ProfileTable(
        "nvprof",
        "GPU activities",
        (
            ProfileRow("[CUDA memcpy HtoD]", 80.0, 0.016, 20, 0.0008, 1.12e-06, 0.015),
            ProfileRow(
                "void f<float, int=8>(float*, int)",
                *(20.0, 0.004, 1, 0.004, 0.004, 0.004),
            ),
        ),
    ),
    ProfileTable(
        "nvprof",
        "API calls",
        (ProfileRow("cudaFree", 100.0, 3.0, 22, 0.136363636, 1.3006e-05, 1.56281),),
    ),
)
GPU_TRACE = """\
==305== Profiling application: python m1.2.py
==305== Profiling result:
   Start  Duration            Grid Size      Block Size     Regs*    SSMem*    DSMem*      Size  Throughput  SrcMemType  DstMemType           Device   Context    Stream  Name
318.64ms  1.1200us                    -               -         -         -         -      112B  95.367MB/s    Pageable      Device  NVIDIA H200 (0)         1         7  [CUDA memcpy HtoD]
320.21ms  4.0000ms          (100 12 1)       (16 16 1)        32  2.0000KB        0B         -           -           -           -  NVIDIA H200 (0)         1         7  forward_kernel(float*, int) [114]

Regs: Number of registers used per CUDA thread.
"""  # noqa: E501 as above
API_TRACE = """\
==305== Profiling result:
   Start  Duration  Name
301.02ms  2.1000us  cuDeviceGetPCIBusId
318.60ms  45.100us  cudaMemcpy
"""
GPU_TRACE_CSV = """\
==305== Profiling result:
"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Registers Per Thread","Static SMem","Dynamic SMem","Size","Throughput","SrcMemType","DstMemType","Device","Context","Stream","Name","Correlation_ID"
ms,us,,,,,,,,KB,KB,KB,GB/s,,,,,,,
318.640000,1.120000,,,,,,,,,,0.109375,0.095367,"Pageable","Device","NVIDIA H200 (0)","1","7","[CUDA memcpy HtoD]",114
"""  # noqa: E501 as above
API_TRACE_CSV = """\
======== Profiling result:
"Start","Duration","Name","Correlation_ID"
ms,us,,
301.020000,2.100000,"cuDeviceGetPCIBusId",1
"""
TRACES = (GPU_TRACE, API_TRACE, GPU_TRACE_CSV, API_TRACE_CSV)


@pytest.mark.parametrize("text", [TYPED, UNTYPED], ids=["typed", "untyped"])
def test_nvprofs_summary_says_what_its_table_does(text):
    assert find(text).profiles == NVPROF
    assert find(text + text).profiles == NVPROF * 2


def test_a_whole_percentage_is_one():
    (found, *_) = find(TYPED.replace("80.000000,16", "80,16")).profiles
    assert found == NVPROF[0]


@pytest.mark.parametrize("trace", TRACES)
def test_a_trace_is_no_table(trace):
    assert find(trace) == Findings()


@pytest.mark.parametrize("trace", TRACES)
def test_a_table_before_or_behind_a_trace_is_itself(trace):
    table = """\
==305== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:  100.00%  4.0000ms         1  4.0000ms  4.0000ms  4.0000ms  f(int)
"""
    (whole,) = find(table).profiles

    assert find(f"{table}{trace}{table}").profiles == (whole, whole)


def test_lines_below_a_table_are_none_of_its_rows():
    below = '"GPU activities",1.0,16.0,20,800.0,1.1,15.0,"sgemm"\n'

    assert find(f"{TYPED}Done.\n{below}").profiles == NVPROF


@pytest.mark.parametrize(
    "text",
    [
        TYPED.replace(",%,ms", ",%,MB"),
        TYPED.replace("80.0", "800.0").replace("20.0", "x").replace("100.0", "101.0"),
        UNTYPED.replace('"Calls",', ""),
        '"Kernel Name","Grid"\n"f(int)","1"\n',
        '"\0,"Kernel Name"\n',
    ],
)
def test_what_is_no_such_table_is_none(text):
    assert [t for t in find(text).profiles if t.rows] == []
