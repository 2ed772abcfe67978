"""The sums and the spans of an SQLite file, by queries that its layout describes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import repeat
from typing import Any, cast

from runner.core.evidence import Lane, LaneKind, Trace
from runner.figures.traces import spans as building
from runner.figures.traces.database import Database, Failure, Value, message_of
from runner.figures.traces.layouts import Records, TraceLayout
from runner.figures.traces.spans import Description, LaneKey, Spans
from runner.figures.traces.sums import (
    LONGEST_TEXT,
    LONGEST_TITLE,
    MOST_TEXT,
    OTHERS,
    Facts,
    Figures,
    LaunchShape,
    Sums,
    bounded,
    spelled,
    whole,
)

TABLES = 16
"""A reference to a span is its row's number times this, and its table's number."""

_VERSION = re.compile(r"(_ptsz|_ptds)?_v\d{4,5}\Z")
_LATEST = (1 << 62) - 1
_LAST_ROW = (1 << 58) - 1
_TIMES = (
    f"+start BETWEEN 0 AND {_LATEST}"
    f" AND +end BETWEEN start AND start + {building.MOST_NS}"
)
"""Whether a row's times can be. Without its column's affinity, which the sign takes, a
text is above all numbers."""


class SqliteTrace:
    """A profiler's file, through its layout."""

    def __init__(self, base: Database, layout: TraceLayout) -> None:
        self._base = base
        self._layout = layout
        self._names: dict[int | str, str] = {}
        self._text = 0
        self._unread_names: list[str] = []
        self._shown: dict[tuple[int, tuple[Value, ...]], Facts] = {}
        self._contexts: dict[LaneKey, set[object]] = defaultdict(set)
        self.problems = list(layout.problems)
        self._records: list[Records] = []
        for records in layout.records:
            if (lacks := base.lacks(records.table, records.columns)) is None:
                self._records.append(records)
            elif lacks:
                self.problems.append(f"table {records.table} {lacks}")

    def summary(self, path: str, files: int) -> Trace:
        """Return the sums of all tables."""
        sums = Sums()
        for records in self._records:
            try:
                self._sum(records, sums)
                self._left_out(records)
            except Failure as error:
                self.problems.append(_unreadable(records, error))
        if unread := self._unread_names:
            self.problems.append(f"{len(unread):,} names cannot be read: {unread[0]}")
        if sums.spans > building.MOST_SPANS:
            self.problems.append(
                f"a timeline shows the first {building.MOST_SPANS:,} of its"
                f" {sums.spans:,} spans"
            )
        known = self._layout
        about = (known.tool, known.command, known.gpus)
        return sums.trace(path, *about, self.problems, files)

    def _sum(self, records: Records, sums: Sums) -> None:
        """Sum up a table by name, and launches by configuration."""
        keys = [_name_of(records)]
        if records.shape:
            numbers = [records.lane[0], *records.shape]
            numbers += [records.process] if records.process else []
            keys += map(_number_of, numbers)
        length = "end - start"
        for name, *row in self._base.rows(
            f"SELECT {', '.join(keys)}, count(*), total({length}), min({length}),"
            f" max({length}), min(CAST(start AS INTEGER)) {_from(records)}"
            f" GROUP BY {', '.join(str(n + 1) for n in range(len(keys)))}"
        ):
            shape = _shape(row[0], row[1:]) if records.shape else None
            # The condition of the rows leaves numbers only.
            figures = cast(Figures, row[-5:])
            sums.add(records.kind, self._name(records, name), figures, shape)

    def _left_out(self, records: Records) -> None:
        """Report the records with impossible times."""
        # Without a condition SQLite counts in one step, which no limit would end.
        query = f"SELECT count(*) FROM {records.table} WHERE ({_TIMES}) IS NOT 1"
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
        return _VERSION.sub("", name) if records.kind is LaneKind.API else name

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
            self._unread_names.append(message_of(error))
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
            "SELECT CAST(start AS INTEGER), CAST(end - start AS INTEGER),"
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
        title = self._layout.processes.get(process, f"process {process}")
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
            numbers += [*records.shape, *(column for _, column, _ in records.facts)]
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
        found = self._shown.get(key)
        if found is None:
            records = self._records[number]
            found = _shape(None, values).facts() if records.shape else ()
            facts = zip(records.facts, values[len(records.shape) :], strict=True)
            words = ((label, spelled(value, how)) for (label, _, how), value in facts)
            found = (*found, *(pair for pair in words if pair[1]))
            self._shown[key] = found
        return found


def _shape(gpu: Value, values: Sequence[Value]) -> LaunchShape:
    """Return a shape of the columns that a layout names."""
    return LaunchShape(gpu, values[:3], values[3:6], *values[6:9])


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


def _from(records: Records) -> str:
    """Return the rows whose times can be."""
    only = f" AND {records.only}" if records.only else ""
    return f"FROM {records.table} WHERE {_TIMES}{only}"


def _unreadable(records: Records, error: Exception) -> str:
    return f"table {records.table} cannot be read: {message_of(error)}"
