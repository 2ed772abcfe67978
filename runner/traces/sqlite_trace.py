"""The sums and the spans of an SQLite file, by queries that its layout describes."""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any

from runner.core.trace import KernelLaunches, Lane, LaneKind, Trace
from runner.traces.building import Description
from runner.traces.database import Database, Failure, Value, said
from runner.traces.layouts import API, GPU, Records, TraceLayout
from runner.traces.spans import MOST_NS, MOST_SPANS, LaneKey, Spans
from runner.traces.totals import (
    MOST_LAUNCHES,
    MOST_TEXT,
    OTHERS,
    Sums,
    configurations,
)
from runner.traces.words import (
    LONGEST_TEXT,
    LONGEST_TITLE,
    bounded,
    dimensions,
    spelled,
    triple,
    whole,
)

TABLES = 16
"""A reference to a span is its row's number times this, and its table's number."""

Facts = tuple[tuple[str, str], ...]
"""Labels, and what is shown beside them."""

_VERSION = re.compile(r"(_ptsz|_ptds)?_v\d{4,5}\Z")
_LATEST = (1 << 62) - 1
_LAST_ROW = (1 << 58) - 1
_SECTIONS = {LaneKind.GPU: GPU, LaneKind.API: API}


class SqliteTrace:
    """A profiler's file, through its layout."""

    def __init__(self, base: Database, layout: TraceLayout) -> None:
        self._base = base
        self._layout = layout
        self._names: dict[int | str, str] = {}
        self._text = 0
        self._unread_names: list[str] = []
        self._said: dict[tuple[int, tuple[Value, ...]], Facts] = {}
        self._contexts: dict[LaneKey, set[object]] = defaultdict(set)
        self.problems = list(layout.problems)
        self._records = [each for each in layout.records if self._readable(each)]

    def _readable(self, records: Records) -> bool:
        if self._base.has(records.table, *records.columns):
            return True
        if lacking := self._base.lacking(records.table, records.columns):
            columns = ", ".join(sorted(lacking))
            self.problems.append(f"table {records.table} lacks columns: {columns}")
        elif self._base.is_odd(records.table):
            self.problems.append(
                f"table {records.table} cannot be used: it is no plain table"
            )
        elif not records.optional:
            self.problems.append(f"table {records.table} is missing")
        return False

    def summary(self, path: str) -> Trace:
        """Return the sums of all tables."""
        sums = Sums()
        longest: list[tuple[Records, tuple[Value, ...]]] = []
        for records in self._records:
            try:
                if records.shape is not None:
                    found = self._configurations(records, sums)
                    longest += [(records, row) for row in found]
                else:
                    self._totals(records, sums)
                self._left_out(records)
            except Failure as error:
                self.problems.append(_unreadable(records, error))
        begin = sums.begin or 0
        launches = [self._launch(*each, begin) for each in longest]
        if unread := self._unread_names:
            self.problems.append(f"{len(unread):,} names cannot be read: {unread[0]}")
        if sums.spans > MOST_SPANS:
            self.problems.append(
                f"a timeline shows the first {MOST_SPANS:,} of its {sums.spans:,} spans"
            )
        totals = sums.totals()
        commands = (each.command for each in self._layout.processes.values())
        return Trace(
            path,
            self._layout.tool,
            next(filter(None, commands), ""),
            self._layout.gpus,
            tuple(launches),
            totals,
            sums.spans,
            (*self.problems, *sums.problems()),
        )

    def _configurations(self, records: Records, sums: Sums) -> list[tuple[Value, ...]]:
        """Return the launches by configuration, those that took longest."""
        assert records.shape is not None
        keys = [_number_of(records.lane[0]), _name_of(records)]
        keys += map(_number_of, records.shape.columns)
        keys += [_number_of(records.process)] if records.process else []
        numbers = ", ".join(str(place + 1) for place in range(len(keys)))
        rows = self._base.rows(
            f"SELECT {', '.join(keys)}, {_figures(records)} {_from(records)}"
            f" GROUP BY {numbers}"
        )
        counted = [0]

        def summed() -> Iterator[tuple[Value, ...]]:
            for row in rows:
                counted[0] += 1
                sums.add(GPU, self._name(records, row[1]), *row[-5:])
                yield row

        longest = heapq.nlargest(MOST_LAUNCHES, summed(), key=_total)
        if counted[0] > len(longest):
            self.problems.append(configurations(counted[0]))
        return longest

    def _launch(
        self, records: Records, row: tuple[Value, ...], begin: int
    ) -> KernelLaunches:
        device, name, *shape = row[:11]
        count, total, least, most, first = row[-5:]
        registers, static_shared, dynamic_shared = map(whole, shape[6:9])
        return KernelLaunches(
            self._name(records, name),
            whole(device) or 0,
            triple(tuple(shape[:3])),
            triple(tuple(shape[3:6])),
            registers,
            static_shared,
            dynamic_shared,
            whole(count) or 0,
            seconds(total),
            seconds(least),
            seconds(most),
            seconds(first - begin if isinstance(first, int) else 0),
        )

    def _totals(self, records: Records, sums: Sums) -> None:
        for name, *figures in self._base.rows(
            f"SELECT {_name_of(records)}, {_figures(records)} {_from(records)}"
            " GROUP BY 1"
        ):
            section = _SECTIONS.get(records.kind, "")
            sums.add(section, self._name(records, name), *figures)

    def _left_out(self, records: Records) -> None:
        """Report the records with impossible times."""
        # Without a condition SQLite counts in one step, which no limit would end.
        query = (
            f"SELECT count(*) FROM {records.table} WHERE ({_times(records)}) IS NOT 1"
        )
        if records.only:
            query += f" AND {records.only}"
        (row,) = self._base.rows(query)
        count = whole(row[0]) or 0
        if count > 0:
            self.problems.append(
                f"{count:,} records of table {records.table} with impossible times"
                " are left out"
            )

    def _name(self, records: Records, number: Value) -> str:
        key = whole(number)
        if key is not None and records.other_names:
            return records.names.get(key, f"{records.other_names} {key}")
        known = bounded(number) if key is None else key
        if known not in self._names:
            if self._text > MOST_TEXT:
                return OTHERS
            name = bounded(number) if key is None else self._named(key)
            self._text += len(name)
            self._names[known] = name or "(no name)"
        name = self._names[known]
        return _VERSION.sub("", name) if records.versioned_names else name

    def _named(self, key: int) -> str:
        table, number, text = self._layout.names
        try:
            for (found,) in self._base.rows(
                f"SELECT substr({text}, 1, {LONGEST_TEXT + 1}) FROM {table}"
                f" WHERE {number} = ?",
                key,
            ):
                return bounded(found)
        except Failure as error:
            self._unread_names.append(said(error))
        return f"name {key}"

    def spans(self) -> Spans:
        """Return all spans."""
        found = Spans()
        for number, records in enumerate(self._records):
            try:
                self._collect(found, records, number)
            except Failure as error:
                self.problems.append(_unreadable(records, error))
        for key in found.lanes:
            if key[0] is LaneKind.GPU:
                self._contexts[key[1:3]].add(key[3])
        return found

    def _collect(self, found: Spans, records: Records, number: int) -> None:
        lane = ", ".join(
            _number_of(column) for column in (records.process or "NULL", *records.lane)
        )
        query = (
            f"SELECT CAST({records.start} AS INTEGER),"
            f" CAST({records.end} - {records.start} AS INTEGER),"
            f" rowid * {TABLES} + {number}, {lane} {_from(records)}"
            f" AND rowid BETWEEN 0 AND {_LAST_ROW}"
        )
        count = 0
        for rows in self._base.batches(query, found.room):
            starts, lengths, refs, *keys = zip(*rows, strict=True)
            kind = repeat(records.kind, len(rows))
            found.extend(zip(kind, *keys, strict=True), starts, lengths, refs)
            count += len(rows)
        if not found.room:
            (row,) = self._base.rows(f"SELECT count(*) {_from(records)}")
            found.left_out += (whole(row[0]) or 0) - count

    def lane(self, key: Any) -> Lane:  # noqa: ANN401 - the numbers of a lane
        """Return the lane of a key."""
        kind, process, *rest = key
        known = self._layout.processes.get(process)
        title = known.title if known is not None else f"process {process}"
        if kind is LaneKind.GPU:
            device, context, stream = rest
            several = len(self._contexts.get((process, device), ())) > 1
            which = f", context {context}" if several else ""
            words = f"GPU {device}{which}, stream {stream}"
        else:
            words = f"thread {rest[0]}"
        return Lane(bounded(title, LONGEST_TITLE), words, kind)

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def describe(self, ref: int, whole_one: bool) -> Description:
        """Return a span's name and, of one that is not merged, what else is known."""
        row, number = divmod(ref, TABLES)
        records = self._records[number]
        columns = [_name_of(records)]
        if whole_one:
            numbers = [records.process or "NULL", records.link or "NULL"]
            numbers += records.shape.columns if records.shape is not None else ()
            numbers += [column for _, column, _ in records.facts]
            columns += map(_number_of, numbers)
        query = f"SELECT {', '.join(columns)} FROM {records.table} WHERE rowid = ?"
        try:
            found = next(self._base.rows(query, row), None)
        except Failure:
            found = None
        if found is None:
            return Description("(cannot be read)")
        name = self._name(records, found[0])
        if not whole_one:
            return Description(name)
        link = None if whole(found[2]) is None else (found[1], found[2])
        return Description(name, self._facts(number, found[3:]), link)

    def _facts(self, number: int, values: tuple[Value, ...]) -> Facts:
        """Return what is shown of a span; many spans have equal values."""
        key = (number, values)
        found = self._said.get(key)
        if found is None:
            found = self._said[key] = tuple(_facts(self._records[number], values))
        return found


def _facts(records: Records, values: tuple[Value, ...]) -> Iterable[tuple[str, str]]:
    if records.shape is not None:
        yield "grid", dimensions(triple(values[:3]))
        yield "block", dimensions(triple(values[3:6]))
        yield "registers", spelled(values[6], "number")
        yield "static shared memory", spelled(values[7], "bytes")
        yield "dynamic shared memory", spelled(values[8], "bytes")
        values = values[9:]
    for (label, _, how), value in zip(records.facts, values, strict=True):
        if said := spelled(value, how):
            yield label, said


def _number_of(column: str) -> str:
    """Return a column's number, whatever is in it, which may be long."""
    return f"CAST({column} AS INTEGER)"


def _name_of(records: Records) -> str:
    """Return what names a span: a number, or a text that is cut to what is shown."""
    name, most = records.name, LONGEST_TEXT + 1
    return (
        f"CASE typeof({name}) WHEN 'text' THEN substr({name}, 1, {most})"
        f" ELSE {_number_of(name)} END"
    )


def _figures(records: Records) -> str:
    """Return the sums of a group: number, time, least, most, and first start."""
    length = f"{records.end} - {records.start}"
    return (
        f"count(*), total({length}), min({length}), max({length}), min({records.start})"
    )


def _from(records: Records) -> str:
    """Return the rows whose times can be."""
    only = f" AND {records.only}" if records.only else ""
    return f"FROM {records.table} WHERE {_times(records)}{only}"


def _times(records: Records) -> str:
    """Return whether a row's times can be; in SQLite texts are above all numbers."""
    return (
        f"{records.start} BETWEEN 0 AND {_LATEST}"
        f" AND {records.end} BETWEEN {records.start} AND {records.start} + {MOST_NS}"
    )


def _unreadable(records: Records, error: Exception) -> str:
    return f"table {records.table} cannot be read: {said(error)}"


def _total(row: tuple[Value, ...]) -> float:
    value = row[-4]
    return value if isinstance(value, float) else 0.0


def seconds(value: Value) -> float:
    """Return nanoseconds in seconds."""
    return value / 1e9 if isinstance(value, int | float) else 0.0
