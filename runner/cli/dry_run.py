"""`rai run --dry-run`: which files would be sent, and which not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner import archive
from runner.archive import Survey
from runner.cli import common
from runner.core import Severity
from runner.core.errors import NotAllowedError
from runner.session.project import build_file, folder_project

if TYPE_CHECKING:
    from runner.report import Table

SHOWN = 1000
"""The most lines of a list; JSON has more."""


def show(path: Path, *, as_json: bool) -> None:
    """Print the files of the project's folder that would be sent or left out."""
    project = folder_project(build_file(path).parent, common.settings())
    found, most = project.survey(), project.caps.members
    if as_json:
        common.print_json(_plain(found, most))
    else:
        _print(found)
    common.warn(found.warnings)
    errors = [p for p in found.problems if p.severity is Severity.ERROR]
    if errors := [*errors, *archive.exceeded(found, project.caps)]:
        raise NotAllowedError(*errors)


def _plain(found: Survey, most: int) -> dict[str, Any]:
    from msgspec.structs import replace

    from runner.core import record

    shown: dict[str, Any] = record.plain(replace(found, members=found.members[:most]))
    counts = {"member_count": len(found.members), "total_bytes": found.total_bytes}
    return {**shown, **counts}


def _print(found: Survey) -> None:
    from runner import report
    from runner.terminal.tables import blocks

    count, total = len(found.members), report.size(found.total_bytes)
    entries = "1 entry" if count == 1 else f"{count:,} entries"
    sent = [(report.size(m.size_bytes), m.name) for m in found.members]
    left_out = [(item.name, item.why) for item in found.left_out]
    shown = [
        _table(f"Would be sent: {entries}, {total}", ("size", "name"), sent, count)
    ]
    if left_out:
        heads = ("name", "by")
        shown.append(_table("Left out", heads, left_out, found.left_out_count))
    blocks(shown)


def _table(
    title: str, heads: tuple[str, str], rows: Sequence[tuple[str, str]], count: int
) -> Table:
    from runner import report

    more = count - SHOWN
    cut = [*rows[:SHOWN], ("", f"... and {more:,} more")] if more > 0 else rows
    right = frozenset({0}) if heads[0] == "size" else frozenset[int]()
    return report.Table(title, heads, tuple(cut), right)
