"""Format one process's results: summary, traces, and what is missing in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from nvprof import layout, listing, names, stream, summary, traces
from nvprof.options import Options
from nvprof.store import Store
from nvprof.stream import Header, Kind, Section
from nvprof.summary import Total


@dataclass(frozen=True)
class Recorded:
    """The totals of a process that was recorded without activities."""

    totals: list[Total]
    devices: dict[int, str]


def recorded(file: BinaryIO, header: Header, demangled: bool) -> Recorded:
    """Read a process's totals from its recording."""
    spell = names.nvprof if demangled else str
    texts: dict[int, str] = {}
    totals: list[Total] = []
    devices: dict[int, str] = {}
    for kind, records in stream.batches(file, header.committed):
        if kind == Kind.NAME:
            texts.update((int(number), spell(str(text))) for number, text in records)
        elif kind == Kind.TOTAL:
            for record in records:
                name, section, device, *figures = map(int, record)
                if figures[0]:
                    shown = texts.get(name, f"name {name}")
                    totals.append(Total(Section(section > 0), shown, device, *figures))
        elif kind == Kind.DEVICE:
            for number, _, _, label in records:
                devices[int(number)] = texts.get(int(label), "")
    return Recorded(totals, devices)


def missing(dropped: int, lost: int) -> list[str]:
    """Return warnings of missing records."""
    warnings = []
    if dropped:
        warnings.append(
            f"{dropped} records were dropped, due to insufficient device buffer space"
            " or a fault of the GPU. Counts and times do not include them."
        )
    if lost:
        warnings.append(
            f"{lost} records were lost because the disk was full."
            " Counts and times do not include them."
        )
    return warnings


def tables(
    totals: list[Total], devices: dict[int, str], options: Options
) -> Iterator[str]:
    """Yield the lines of the summary."""
    write = layout.csv if options.csv else layout.text
    shown = _chosen(summary.at_level(totals, options.api_level), options.devices)
    calls = summary.rows(shown, Section.CALLS)
    if options.per_gpu and "gpu" in options.tables:
        for device in sorted({t.device for t in shown if t.section == Section.GPU}):
            own = [each for each in shown if each.device == device]
            yield f'Device "{traces.device_name(device, devices)}"'
            rows = summary.rows(own, Section.GPU)
            yield from write([("GPU activities", rows)], options.unit)
    parts: list[layout.Table] = []
    if "gpu" in options.tables:
        rows = summary.rows(shown, Section.GPU)
        if not rows:
            yield layout.NO_KERNELS
        if not options.per_gpu:
            parts.append(("GPU activities", rows))
    if "api" in options.tables:
        if not calls:
            yield layout.NO_CALLS
        parts.append(("API calls", calls))
    yield from write(parts, options.unit)


def _chosen(totals: list[Total], devices: frozenset[int] | None) -> list[Total]:
    return [
        each
        for each in totals
        if devices is None or each.section != Section.GPU or each.device in devices
    ]


def listed(store: Store, options: Options) -> Iterator[str]:
    """Yield the lines of the requested traces."""
    devices, only, level = store.devices(), options.devices, options.api_level
    gpu_tables = ("kernel", "memcpy", "memset")
    if options.gpu_trace:
        called = ("api",) if options.api_trace else ()
        extent = listing.extent(store, gpu_tables + called)
        lines = (
            listing.both(store, only, level)
            if options.api_trace
            else listing.gpu(store, only)
        )
        first = next(lines, None)
        if first is None:
            yield layout.NO_KERNELS
            return
        lines = _chain(first, lines)
        write = traces.gpu_csv if options.csv else traces.gpu_text
        yield from write(lines, extent, devices, options.unit)
    elif options.api_trace:
        extent = listing.extent(store, ("api",))
        lines = listing.api(store, level)
        first = next(lines, None)
        if first is None:
            yield layout.NO_CALLS
            return
        lines = _chain(first, lines)
        print_ = traces.api_csv if options.csv else traces.api_text
        yield from print_(lines, extent, options.unit)


def _chain(
    first: traces.Activity, rest: Iterator[traces.Activity]
) -> Iterator[traces.Activity]:
    yield first
    yield from rest


def stored(store: Store, options: Options) -> Iterator[str]:
    """Yield the lines of the requested traces, then of the summary."""
    yield from listed(store, options)
    if options.tables:
        if options.traces:
            yield ""
        yield from tables(store.totals(), store.devices(), options)
