"""What a command prints, as the readers of figures and lines get it.

Any bytes, however they are cut, say the same as the whole, and none raises.
"""

from __future__ import annotations

import math

import msgspec

from runner.core import Findings
from runner.core.build_spec import Expected
from runner.figures.scanner import Scanner, find
from runner.figures.sources import OutputSearch
from tests.fuzz.parts import Parts

SEEDS = (
    b"\x03\0\x05\0\x20\0\x30\xe2\x9c\xb1 Running x\nLoading fashion-mnist data... done"
    b"\nNew Inference\nOp Time: 0.02\nOp Time: 1384.19 ms\n"
    b"Correctness: 0.7653 Batch Size: 100 Model: ece408 Class: fp32\n",
    b"\0Layer 1 LayerTime: 3 ms\nLayer 1 OpTime: 2 ms\nTest Accuracy: 0.8714\n"
    b"EvalMetric: {'accuracy': np.float64(0.85)}\n**Op** Time: **1**\n",
    b"\x01\0\x105.47user 3.58system 0:05.21elapsed 173%CPU (0avgtext+0avgdata"
    b" 29maxresident)k\n0inputs+26outputs (0major+2minor)pagefaults 0swaps\n"
    b"real 4.95\nuser 10.01\nsys 4.43\nreal\t0m1.2s\nuser\t0m1s\nsys\t1m0.1s\n",
    b"\x01\0\x40==305== NVPROF is profiling process 305, command: x\n"
    b"==305== Profiling result:\n            Type  Time(%)      Time     Calls       "
    b"Avg       Min       Max  Name\n GPU activities:   80.00%  16.000ms        20  "
    b"800.00us  1.1200us  15.000ms  sgemm\n                   20.00%  4.0000ms      "
    b"   1  4.0000ms  4.0000ms  4.0000ms  void f(i\nnt)\n      API calls:  100.00%  "
    b"3.00000s        22  136.36ms  13.006us  1.56281s  cudaFree\n",
    b'\0"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n,%,ms,,ms,ms,ms,\n'
    b'"GPU activities",80.1,16.0,20,0.8,0.01,15,"void f(int)"\n',
    b'\0"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'
    b'"0","f(int)","gpu__time_duration.sum","nsecond","1,234.5"\n',
    b"\0 ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):\n\n Time (%)  Total Time (ns)"
    b"  Instances  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)  Name\n"
    b" --------  ---------------  ---------  --------  --------  --------  --------  "
    b"-----------  ----\n    100.0            1,000          1   1000.0    1000.0     "
    b"1000      1000          0.0  f(int)\n",
    b"\0CUDA error: an illegal memory access was encountered\n"
    b"cuCtxSynchronize failed: unspecified launch failure\n"
    b"========= ERROR SUMMARY: 3 errors\nNVRM: Xid (PCI:0000): 79, GPU has fallen\n",
    b"\x02\0\x03\0\x08\x1b[2K\rab\x1b[1K\x1b[5Gx\x1b[3D\x1b]0;t\x07\b\x1b[C y\r\nz",
    b"\0[ 2019-10-11 13:03:32.123456789 -0500 CDT ] Op Time: 1\n\xff\xfe\xe2\x9c",
)
SEARCHED = (
    Expected("output", "text", "Op Time"),
    Expected("output", "regex", "a.*b$"),
    Expected("output", "regex", "^[0-9]+ ms"),
)
LARGEST = 1 << 19
"""What the readers may keep of one input, as JSON."""


def one(data: bytes) -> None:
    """Read the bytes in pieces, and whole."""
    pieces = Parts(data).stream()
    whole = b"".join(pieces)
    found, texts = _scanned(pieces)
    assert found == find(whole)
    assert texts == _scanned([whole])[1]
    _sound(found)


def _scanned(pieces: list[bytes]) -> tuple[Findings, object]:
    search = OutputSearch(SEARCHED)
    scanner = Scanner(search)
    for piece in pieces:
        scanner.feed(piece)
    found = scanner.findings()
    for share in search.shares.values():
        unseen = (share.least, share.most) == (math.inf, -math.inf)
        assert unseen or 0 <= share.least <= share.most <= 1
    return found, search.found


def _sound(found: Findings) -> None:
    """Whether what was found can be kept, and holds numbers that can be shown."""
    written = msgspec.json.encode(found)
    assert len(written) < LARGEST
    assert msgspec.json.decode(written, type=Findings) == found
    for inference in found.inferences:
        assert all(map(math.isfinite, inference.op_times_s))
    for table in found.profiles:
        assert table.rows
        assert all(math.isfinite(row.total_s) for row in table.rows)
