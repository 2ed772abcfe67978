"""`rai run --dry-run`: which files would be sent, and which not."""

from __future__ import annotations

from pathlib import Path

from runner import archive
from runner.cli import common
from runner.core import Severity
from runner.core.errors import NotAllowedError
from runner.session.project import build_file


def show(path: Path, as_json: bool) -> None:
    """Print the files of the project's folder that would be sent or left out."""
    from runner import report
    from runner.core import record
    from runner.terminal.tables import blocks

    file = build_file(path)
    found = archive.survey(file.parent)
    if as_json:
        common.print_json(record.plain(found))
    else:
        sent = tuple((report.size(m.size_bytes), m.name) for m in found.members)
        left_out = tuple((item.name, item.why) for item in found.left_out)
        total = report.size(found.total_bytes)
        title = f"{len(sent)} entries, {total}, would be sent"
        blocks(
            [
                report.Table(title, ("size", "name"), sent, frozenset({0})),
                report.Table("Left out", ("name", "by"), left_out),
            ]
        )
    warnings = [p for p in found.problems if p.severity is Severity.WARNING]
    errors = [p for p in found.problems if p.severity is Severity.ERROR]
    common.warn(warnings)
    if errors := [*errors, *found.exceeded(archive.UPLOAD)]:
        raise NotAllowedError(*errors)
