"""Read what programs print: the course's lines, GNU time's, and faults of GPUs."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from runner.core import Findings, GpuFault, GpuFaultKind, Inference, Source, TimeUsage
from runner.figures.sources import UNSIGNED, OutputSearch, SourceReader, keep, scaled

MOST_INFERENCES = 1000
"""The most that are kept; after that the newest replaces the last."""

MOST_TIMES = 1000
"""The most op times, and layer times, of one inference, kept in the same way."""

MOST_TIMES_IN_ALL = 50_000
"""The most of all inferences that are kept."""

MOST_COMPARED = 100
"""How many inferences above a report may repeat."""

_REAL = rf"{UNSIGNED}(?:[eE][+-]?[0-9]{{1,2}})?"
_TIME = re.compile(rf"(?P<of>Op|Layer) Time:\s*(?P<value>{_REAL})(?P<ms>\s*ms)?")
_LATE_TIME = re.compile(
    rf"Layer (?P<layer>[0-9]{{1,3}}) (?P<of>Layer|Op)Time:"
    rf"\s*(?P<value>{_REAL})(?P<ms>\s*ms)"
)
_MODEL = r"\s+Model:\s*(?P<model>[^\s*]{1,200})"
_CLASS = r"(?:\s+Class:\s*(?P<class>[a-z0-9]{1,20}))?"
_CLOSINGS = {
    "correctness": re.compile(
        rf"Correctness:\s*(?P<share>{_REAL})"
        rf"(?:(?:\s+Batch Size:\s*(?P<size>[0-9]{{1,9}}))?{_MODEL}{_CLASS})?"
    ),
    "agreement": re.compile(
        rf"Agreement:\s*(?P<share>{_REAL}){_MODEL}\s+\(synthetic\){_CLASS}"
    ),
    "accuracy": re.compile(
        r"(?:Test Accuracy:\s*|(?P<metric>EvalMetric:\s*\{'accuracy':\s*"
        rf"(?:(?:np|numpy)\.float(?:32|64)\()?))(?P<share>{_REAL})(?(metric)\)?\}})"
    ),
}
"""The line that ends an inference, by the figure that it has."""

_START = re.compile(
    r"New Inference|Loading .*\b(?P<data>data)\b|Loading model|Test batch size"
    r"|[✱*]{1,2}\s*Running\s|=*[0-9]*==\s*NVPROF is profiling"
)
_NEXT = re.compile(
    r"(?<!\s)\s++(?=(?:New Inference|Conv-[CG]PU==)(?:\s|$)"
    r"|(?:Op Time|Layer Time|Correctness|EvalMetric|Test Accuracy):)"
)
_GLUED = re.compile(
    r"(?<=[^\s\"'`*(\[|/:])"
    rf"(?=(?:Op|Layer) Time: {_REAL}(?:\s*ms)?(?:(?:Op|Layer) Time: |$))"
)
"""Where a time follows what a project printed without a newline."""

_SILENT = re.compile(r"New Inference|Conv-[CG]PU==")
_EMPHASIS = re.compile(r"\*\*([^*\s]+)\*\*")
_FIRST_LETTERS = frozenset("OCAETLN✱*=")

_Times = dict[str, list[float]]
"""Those of convolutions, "Op", and of whole layers, "Layer"."""


class InferenceReader:
    """A reader that groups the course's lines into inferences."""

    def __init__(self, sources: SourceReader, search: OutputSearch) -> None:
        self.found: list[Inference] = []
        self.left_out = 0
        self._sources, self._search = sources, search
        self._kept = 0
        self._times: _Times = {"Op": [], "Layer": []}
        self._quoted: list[float] = []
        self._synthetic = False
        self._late = False
        self._layer = 0
        self._started = False

    @property
    def busy(self) -> bool:
        """Whether the next line decides about a line already read."""
        return bool(self._quoted)

    def read(self, line: str) -> None:
        """Read one line, cleaned and stripped."""
        for part in _GLUED.split(line) if " Time: " in line else (line,):
            self._read(part)

    def _read(self, line: str) -> None:
        if line[:1] not in _FIRST_LETTERS:
            if line:
                self._quoted.clear()
        elif "**" in line and (plain := _EMPHASIS.sub(r"\1", line)) != line:
            self._quote(plain)
        else:
            self._quoted.clear()
            for part in _parts(line):
                self._plain(part)

    def close(self) -> None:
        """End the output; times without a closing line are an inference too."""
        one = self._timed(Inference(made_up=self._synthetic))
        times = one.op_times_s or one.layer_times_s
        if times and (self._started or not self._known(one)):
            self._add(one)

    def _plain(self, line: str) -> None:
        if (match := _TIME.fullmatch(line)) is not None:
            self._late = False
            self.left_out += keep(self._times[match["of"]], _seconds(match), MOST_TIMES)
        elif (match := _LATE_TIME.fullmatch(line)) is not None:
            self._add_late(int(match["layer"]), match["of"], _seconds(match))
        elif (end := _closing(line)) is not None:
            if self._synthetic:
                end = replace(end, correctness=None, accuracy=None)
            self._add(self._timed(end))
            self._late, self._layer = line.startswith("Test"), 0
            self._started = False
        elif (match := _START.match(line)) is not None:
            self._start(line, data=match["data"] is not None)
        else:
            self._search.unread(line)

    def _start(self, line: str, *, data: bool) -> None:
        self.close()
        self._late, self._layer, self._started = False, 0, True
        # A figure on synthetic images must not be taken for an accuracy.
        if data or line[0] in "✱*":
            self._synthetic = line.startswith("Loading synthetic")

    def _timed(self, end: Inference) -> Inference:
        """Return an inference with the times read so far, and forget these."""
        times, self._times = self._times, {"Op": [], "Layer": []}
        return _with_times(end, times)

    def _known(self, times: Inference) -> bool:
        """Whether a report repeats the times of an inference above."""
        op_times, layer_times = times.op_times_s, times.layer_times_s
        return any(
            op_times in ((), one.op_times_s) and layer_times in ((), one.layer_times_s)
            for one in self.found[-MOST_COMPARED:]
        )

    def _add(self, inference: Inference) -> None:
        self._search.add(inference)
        source, printed = self._sources.now(), inference.source.batch_size
        if printed is not None:
            source = replace(source, batch_size=printed)
        times = len(inference.op_times_s) + len(inference.layer_times_s)
        full = self._kept + times > MOST_TIMES_IN_ALL
        limit = max(len(self.found), 1) if full else MOST_INFERENCES
        left_out = keep(self.found, replace(inference, source=source), limit)
        self.left_out += left_out
        self._kept += 0 if left_out else times

    def _add_late(self, layer: int, of: str, value: float) -> None:
        """Add a row of Mini-DNN's table of timings, which follows its accuracy.

        A layer with no higher number than the last one begins the table of another
        run; the time of a whole layer is below its op time.
        """
        if of == "Op" and layer <= self._layer:
            self.close()
            if self._late:
                self._add(Inference())
        elif of == "Layer" and layer != self._layer:
            return
        self._layer = layer
        if not self._late:
            keep(self._times[of], value, MOST_TIMES)
            return
        last = self.found[-1]
        times = {"Op": [*last.op_times_s], "Layer": [*last.layer_times_s]}
        keep(times[of], value, MOST_TIMES)
        self.found[-1] = _with_times(last, times)

    def _quote(self, line: str) -> None:
        """Read an emphasised line of a report, if it quotes a whole inference.

        Programs print no asterisks; a part of an inference in bold repeats figures that
        are elsewhere in the report.
        """
        if (match := _TIME.fullmatch(line)) is not None and match["of"] == "Op":
            keep(self._quoted, _seconds(match), MOST_TIMES)
            return
        end = _closing(line)
        if end is not None and end.model and self._quoted:
            self._add(_with_times(end, {"Op": self._quoted, "Layer": []}))
        self._quoted.clear()


def _parts(line: str) -> list[str]:
    """Split a line that holds several of the printed forms and nothing else."""
    if not _NEXT.search(line):
        return [line]
    parts = _NEXT.split(line)
    printed = (
        _SILENT.fullmatch(part) or _TIME.fullmatch(part) or _closing(part)
        for part in parts
    )
    return parts if all(printed) else [line]


def _seconds(match: re.Match[str]) -> float:
    return scaled(match["value"], "ms" if match["ms"] else "s")


def _with_times(end: Inference, times: _Times) -> Inference:
    op_times, layer_times = map(tuple, (times["Op"], times["Layer"]))
    return replace(end, op_times_s=op_times, layer_times_s=layer_times)


def _closing(line: str) -> Inference | None:
    for figure, form in _CLOSINGS.items():
        match = form.fullmatch(line)
        if match is not None and (share := float(match["share"])) <= 1:
            known = match.groupdict()
            size = int(known["size"]) if known.get("size") else None
            shares: dict[str, Any] = {figure: share}
            return Inference(
                model=known.get("model"),
                accuracy_class=known.get("class") or "",
                source=Source(batch_size=size),
                **shares,
            )
    return None


MOST_USAGES = 1000
"""The most that are kept; after that the newest replaces the last."""

_CPU = r"[0-9]{1,9}\.[0-9]{2}"
_CLOCK = r"[0-9]{1,6}(?::[0-9]{2}){1,2}(?:\.[0-9]{1,3})?"
_TAIL = (
    r"\([0-9]+avgtext\+[0-9]+avgdata\s+(?P<rss>[0-9]{1,15})maxresident\)k"
    r"|\([0-9a-z+ ]*"
)
_GNU = re.compile(
    rf"(?P<user>{_CPU})user\s+(?P<system>{_CPU})system\s+"
    rf"(?P<elapsed>{_CLOCK}|{_CPU})elapsed"
    rf"(?:\s+(?P<percent>[0-9]{{1,6}}|\?)%CPU(?:\s+(?:{_TAIL}))?)?"
)
"""GNU time's line; its end may be missing or truncated."""

_SHELL = re.compile(
    rf"(?P<word>real|user|sys)\s+"
    rf"(?:(?P<plain>{_CPU})"
    rf"|(?P<minutes>[0-9]{{1,6}})m ?(?P<rest>[0-9]{{1,2}}\.[0-9]{{2,3}})s)"
)
"""One of the three lines of ``time -p``, and of bash's and BusyBox's ``time``."""

_ORDER = ("real", "user", "sys")


class TimingReader:
    """A reader that collects the timing tools' output, line after line."""

    def __init__(self, sources: SourceReader) -> None:
        self.found: list[TimeUsage] = []
        self.left_out = 0
        self._sources = sources
        self._words: list[tuple[bool, float]] = []

    @property
    def busy(self) -> bool:
        """Whether a group of three lines is incomplete."""
        return bool(self._words)

    def read(self, line: str) -> None:
        """Read one line, cleaned and stripped."""
        if line[:1] in "rus" and (match := _SHELL.fullmatch(line)) is not None:
            self._word(match)
            return
        self._words.clear()
        if "elapsed" in line and (match := _GNU.fullmatch(line)) is not None:
            percent, rss = match["percent"], match["rss"]
            self._add(
                TimeUsage(
                    user_s=float(match["user"]),
                    system_s=float(match["system"]),
                    elapsed_s=_clock_seconds(match["elapsed"]),
                    cpu_percent=int(percent) if percent and percent != "?" else None,
                    max_rss_kb=int(rss) if rss else None,
                )
            )

    def close(self) -> None:
        """Drop an incomplete group of lines."""
        self._words.clear()

    def _word(self, match: re.Match[str]) -> None:
        """Read one of the three lines; they are valid only in order and in one form."""
        place, bash = _ORDER.index(match["word"]), match["plain"] is None
        if place != len(self._words) or any(form != bash for form, _ in self._words):
            self._words.clear()
        if place != len(self._words):
            return
        text = f"{match['minutes']}:{match['rest']}" if bash else match["plain"]
        self._words.append((bash, _clock_seconds(text)))
        if len(self._words) == len(_ORDER):
            real, user, system = (value for _, value in self._words)
            self._words.clear()
            self._add(TimeUsage(user, system, real))

    def _add(self, usage: TimeUsage) -> None:
        usage = replace(usage, source=self._sources.whole())
        self.left_out += keep(self.found, usage, MOST_USAGES)


def _clock_seconds(text: str) -> float:
    """Parse seconds, with minutes and hours before them: ``4.57``, ``1:02:03``."""
    total = Decimal(0)
    for part in text.split(":"):
        total = total * 60 + Decimal(part)
    return float(total)


LONGEST_LINE = 240
"""The number of characters of a fault's line that are kept."""

_NAMES = {
    GpuFaultKind.OUT_OF_MEMORY: """
        OUT_OF_MEMORY MemoryAllocation STATUS_ALLOC_FAILED""",
    GpuFaultKind.ILLEGAL_ADDRESS: "ILLEGAL_ADDRESS IllegalAddress",
    GpuFaultKind.LAUNCH_FAILED: """
        LAUNCH_FAILED LaunchFailure ASSERT Assert LAUNCH_TIMEOUT LaunchTimeout
        MISALIGNED_ADDRESS MisalignedAddress ILLEGAL_INSTRUCTION IllegalInstruction
        INVALID_ADDRESS_SPACE InvalidAddressSpace INVALID_PC InvalidPc
        HARDWARE_STACK_ERROR HardwareStackError InvalidConfiguration
        LAUNCH_OUT_OF_RESOURCES LaunchOutOfResources
        COOPERATIVE_LAUNCH_TOO_LARGE CooperativeLaunchTooLarge
        STATUS_EXECUTION_FAILED STATUS_MAPPING_ERROR""",
    GpuFaultKind.NO_CODE: """
        NO_BINARY_FOR_GPU NoKernelImageForDevice InvalidDeviceFunction
        INVALID_PTX InvalidPtx INVALID_IMAGE InvalidKernelImage""",
    GpuFaultKind.DEVICE_LOST: """
        ECC_UNCORRECTABLE ECCUncorrectable NVLINK_UNCORRECTABLE NvlinkUncorrectable
        DEVICE_UNAVAILABLE DevicesUnavailable EXTERNAL_DEVICE ExternalDevice""",
    GpuFaultKind.DRIVER_ERROR: """
        UNKNOWN Unknown SYSTEM_NOT_READY SystemNotReady STUB_LIBRARY StubLibrary
        SYSTEM_DRIVER_MISMATCH SystemDriverMismatch""",
    GpuFaultKind.DRIVER_TOO_OLD: """
        InsufficientDriver UNSUPPORTED_PTX_VERSION UnsupportedPtxVersion
        COMPAT_NOT_SUPPORTED_ON_DEVICE CompatNotSupportedOnDevice""",
    GpuFaultKind.NO_DEVICE: "NO_DEVICE NoDevice",
}
_KINDS = {name: kind for kind, names in _NAMES.items() for name in names.split()}
_NAME = re.compile(
    r"(?<![=!]=)(?<![=!]= )\b(?:CUDA_ERROR_|cudaError|(?:CUBLAS|CUDNN)_(?=STATUS_))"
    rf"(?P<name>{'|'.join(_KINDS)})\b(?! ?(?:=|&&|\|\||\?))"
)

_SENTENCES = {
    "an illegal memory access was encountered": GpuFaultKind.ILLEGAL_ADDRESS,
    "unspecified launch failure": GpuFaultKind.LAUNCH_FAILED,
    "the launch timed out and was terminated": GpuFaultKind.LAUNCH_FAILED,
    "too many resources requested for launch": GpuFaultKind.LAUNCH_FAILED,
    "an illegal instruction was encountered": GpuFaultKind.LAUNCH_FAILED,
    "device-side assert triggered": GpuFaultKind.LAUNCH_FAILED,
    "no kernel image is available for execution": GpuFaultKind.NO_CODE,
    "device kernel image is invalid": GpuFaultKind.NO_CODE,
    "uncorrectable ECC error encountered": GpuFaultKind.DEVICE_LOST,
    "uncorrectable NVLink error detected": GpuFaultKind.DEVICE_LOST,
    "CUDA-capable device(s) is/are busy or unavailable": GpuFaultKind.DEVICE_LOST,
    "all CUDA-capable devices are busy or unavailable": GpuFaultKind.DEVICE_LOST,
    "GPU is lost": GpuFaultKind.DEVICE_LOST,
    "Unable to determine the device handle for GPU": GpuFaultKind.DEVICE_LOST,
    "CUDA unknown error": GpuFaultKind.DRIVER_ERROR,
    "Failed to initialize NVML": GpuFaultKind.DRIVER_ERROR,
    "NVIDIA-SMI has failed because": GpuFaultKind.DRIVER_ERROR,
    "has unsupported display driver / cuda driver": GpuFaultKind.DRIVER_ERROR,
    "CUDA driver is a stub library": GpuFaultKind.DRIVER_ERROR,
    "CUDA driver version is insufficient": GpuFaultKind.DRIVER_TOO_OLD,
    "NVIDIA driver on your system is too old": GpuFaultKind.DRIVER_TOO_OLD,
    "PTX was compiled with an unsupported toolchain": GpuFaultKind.DRIVER_TOO_OLD,
    "no CUDA-capable device is detected": GpuFaultKind.NO_DEVICE,
    "No CUDA GPUs are available": GpuFaultKind.NO_DEVICE,
    "Found no NVIDIA driver on your system": GpuFaultKind.NO_DEVICE,
    "libcuda.so.1: cannot open shared object file": GpuFaultKind.NO_DEVICE,
    "RESOURCE_EXHAUSTED: Out of memory while trying": GpuFaultKind.OUT_OF_MEMORY,
    "Resource exhausted: Out of memory while trying": GpuFaultKind.OUT_OF_MEMORY,
}
"""Sentences that only GPU software prints (the last two: XLA, of a device's memory)."""

_COMMON = {
    "misaligned address": GpuFaultKind.LAUNCH_FAILED,
    "operation not supported on global/shared": GpuFaultKind.LAUNCH_FAILED,
    "invalid program counter": GpuFaultKind.LAUNCH_FAILED,
    "hardware stack error": GpuFaultKind.LAUNCH_FAILED,
    "invalid configuration argument": GpuFaultKind.LAUNCH_FAILED,
    "invalid device function": GpuFaultKind.NO_CODE,
    "unknown error": GpuFaultKind.DRIVER_ERROR,
    "fallen off the bus": GpuFaultKind.DEVICE_LOST,
    "OOM when allocating": GpuFaultKind.OUT_OF_MEMORY,
}
"""Sentences that other software prints too: they need one of the brands beside them."""

_BRANDS = ("CUDA", "GPU", "NVIDIA", "pycuda", "cudaSuccess")
_TEXT = re.compile("|".join(map(re.escape, (*_SENTENCES, *_COMMON))))
_MEMORY = re.compile(
    r"(?=.*?(?:(?<![\w./-])(?:py)?(?:CUDA|Cuda|cuda|GPU|cupy\b)|\bcu[A-Z]))"
    r".*?[Oo]ut of memory"
)
_NO_FAULT = re.compile(
    r"={9}(?: |$)|[+*#] |//|>>> |[0-9]+ ?\||.*[;{\\]$"
    r"|(?:case|if|elif|else|while|for|switch|return|raise|throw|except|assert|print\w*)\b"
    r"|(?:[0-9-]{10} [0-9:.]+: )?[IW](?:[0-9]{4})? "
    r"|.*(?:Warning: |\bWARNING\b|failed call to cuInit|Killed process)"
    r"|.*(?:\([0-9]+\)|:[0-9]+:[0-9]+): (?:error|warning|note)\b"
)
_TEMPLATES = (
    "replace with your implementation",
    "replace it with your implementation",
    "Missing an ECE408 ",
)
WRONG = "forward() is wrong"  # what the images for a course's projects say, and where
_MISTAKE = re.compile(
    r"(?:[^\s:()]*/)?(?P<file>[\w.+-]{1,200})"
    r"(?:\((?P<nvcc>[0-9]{1,9})\)|:(?P<gcc>[0-9]{1,9})(?::[0-9]{1,9})?)"
    r": (?:fatal )?error: (?P<text>.+)"
)
_TOOL = re.compile(
    r".*(?P<text>undefined reference to .+|cannot find -l.+|No rule to make target .+)"
    r"|(?:ptxas|nvlink) (?:fatal|error) +: (?P<of_nvcc>.+)"
)
LONGEST_MISTAKE = 200
WORDS = (
    *(*_SENTENCES, *_COMMON, "CUDA_ERROR_", "cudaError", "_STATUS_", "ut of memory"),
    *("error: ", "ptxas ", "nvlink ", "undefined reference to ", "cannot find -l"),
    *("No rule to make target ", *_TEMPLATES, WRONG),
)
"""A line that reports a fault or a mistake contains one of these."""


def mistake(line: str) -> str:
    """Parse a stripped line as an error, `FILE:LINE: TEXT`; "" if it is none.

    A linker's or make's is TEXT. A template which was not replaced is known by what it
    prints, a wrong forward() by what the image prints.
    """
    if match := _MISTAKE.match(line):
        found = f"{match['file']}:{match['nvcc'] or match['gcc']}: {match['text']}"
        return found[:LONGEST_MISTAKE]
    if match := _TOOL.match(line):
        return (match["text"] or match["of_nvcc"])[:LONGEST_MISTAKE]
    if line.startswith(WRONG):
        return line[:LONGEST_MISTAKE]
    template = any(text in line for text in _TEMPLATES)
    return "forward() is the template" if template else ""


def is_wrong(found: Findings) -> bool:
    """Whether a course's image found an output wrong, however the program ended."""
    return found.mistake.startswith(WRONG)


def fault(line: str) -> GpuFault | None:
    """Parse a stripped line as a fault; None if it reports none."""
    reported = _reported(line)
    if reported is None or _NO_FAULT.match(line):
        return None
    kind, end = reported
    start = max(0, end - LONGEST_LINE) if len(line) > LONGEST_LINE else 0
    return GpuFault(kind, line[start : start + LONGEST_LINE])


def _reported(line: str) -> tuple[GpuFaultKind, int] | None:
    """Return the kind of fault that a line reports, and the end of the match."""
    if (match := _NAME.search(line)) is not None:
        return _KINDS[match["name"]], match.end()
    branded = any(brand in line for brand in _BRANDS)
    for match in _TEXT.finditer(line):
        kind = _SENTENCES.get(match[0]) or (_COMMON[match[0]] if branded else None)
        if kind is not None:
            return kind, match.end()
    if (match := _MEMORY.match(line)) is not None:
        return GpuFaultKind.OUT_OF_MEMORY, match.end()
    return None
