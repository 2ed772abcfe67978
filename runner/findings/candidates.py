"""Find the lines that may hold a figure or a fault among all others, at little cost.

``worth_reading`` looks at a whole block as it was printed: its controls, at most
colours, may stand within a word. ``Candidates`` looks at clean lines.
"""

from __future__ import annotations

import re
from functools import cache

from runner.findings import gpu_faults
from runner.patterns import Finder

_WORDS = (
    *("Op Time:", "OpTime:", "Layer Time:", "LayerTime:", "Correctness:"),
    *("Agreement:", "EvalMetric:", "Test Accuracy:", "New Inference", "Loading "),
    *("Test batch", "✱ Run", "✱ Skipping", "Variant:", "atch size:", "atch Size:"),
    *("NVPROF", "==PROF==", "COMPUTE-SANITIZER", "CUDA-MEMCHECK", "Memcheck, a"),
    *("Profiling result", "API calls:", "GPU activities:"),
    *("Time(%)", "Time (%)", "stats report", "/reports/"),
    *(", Context ", '"Kernel Name"', "ERROR SUMMARY"),
)
_FORMS = (
    rb"[0-9]elapsed|[0-9]user\s|(?:^|[^a-z])(?:real|user|sys)[\s\x80-\xff]+[0-9]",
    rb"(?:Statistics|Summary)(?: \(|:|[^ -~]|$)",
    "(?:✱|[*])".encode() + rb"[\s\x80-\xff]*Running",
)
_COLOUR = rb"(?:\x1b\[[0-9;:]*[mK])*"

_SPACE = rb"[\s\x80-\xff]*"  # a space of Unicode is several bytes
_BEGIN = rb"(?:^|\] +)" + _SPACE  # after a time, too
_FIGURE = rb"|".join(
    (
        rb"Time:[\s*\x80-\xff]*[0-9]",
        rb"Correctness:|Agreement:|EvalMetric:|Test Accuracy:|New Inference",
        _BEGIN + rb"(?:Loading (?:model|[^\n]*data)|Test batch)",
        _BEGIN + rb"(?:real|user|sys)" + _SPACE + rb"[0-9]",
        rb"[0-9]user\s|[0-9]elapsed",
        "(?:✱|[*])".encode() + _SPACE + rb"(?:Running\s|Run |Skipping )",
        rb"Variant:|(?i:batch size:)",
        rb"= (?:NVPROF is|Memcheck, a|COMPUTE-SANITIZER|CUDA-MEMCHECK)|==PROF==",
        _BEGIN + rb"\[[0-9]{1,9}\] [^\n]*@",
        rb"Profiling result:|API calls:|GPU activities:|OpenACC \(|OpenMP \(",
        rb"Time ?\(%\)|(?:Statistics|Summary)[ (\w/)]*:?" + _SPACE + rb"$",
        rb"stats report|(?:Processing|Running) \[[^\n]*/reports/",
        rb", Context [0-9]|\"Kernel Name\"|ERROR SUMMARY: [0-9]",
    )
)


class Candidates:
    """The expressions, compiled when the first output comes."""

    def __init__(self) -> None:
        faults = b"|".join(re.escape(word.encode()) for word in gpu_faults.WORDS)
        every = (*_WORDS, *gpu_faults.WORDS)
        self.printed = Finder(b"|".join((*map(_coloured, every), *_FORMS)))
        self.lines = Finder(_FIGURE)
        self.faults = Finder(faults)


@cache
def candidates() -> Candidates:
    """Return the expressions."""
    return Candidates()


def _coloured(word: str) -> bytes:
    """Return an expression for a word within which colours may begin and end."""
    return _COLOUR.join(re.escape(bytes([byte])) for byte in word.encode())
