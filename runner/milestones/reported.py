"""``report``: what a milestone's report must show of each program. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from runner.core.milestone import ReportedKind, ReportItem
from runner.core.quantities import COUNT, Kind
from runner.milestones import runs
from runner.yamlfile import Fields

IMAGES = "{images}"
"""Stands in a command for each number of images."""

_EXAMPLE = "[{script: m3.1.py, shows: [op times], command: python m3.1.py}]"
_KIND = Kind(
    f"one of {', '.join(ReportedKind)}", {str(one): one for one in ReportedKind}.get
)
_IMAGES = Kind("a whole number above 0", COUNT.at_least(1).parse)


def read(fields: Fields) -> tuple[ReportItem, ...]:
    """Parse the list; an item that shows several things is one item for each."""
    found: list[ReportItem] = []
    for path, node in fields.items("report", _EXAMPLE):
        if item := fields.item(node, path):
            found += _items(item)
    return tuple(found)


def _items(item: Fields) -> Iterator[ReportItem]:
    script = runs.needed(item, "script", runs.PATH, "m3.1.py")
    command = runs.needed(item, "command", runs.LINE, "python m3.1.py")
    shows = runs.listed(item, "shows", "[output, run time]", _KIND)
    images = runs.listed(item, "images", "[100, 1000]", _IMAGES)
    variants = item.whole("variants", 1, "3")
    if not shows:
        hint = "add `shows:` with a list"
        item.problems.error(f"{item.path} shows nothing", item.place(), hint)
    if images and command and IMAGES not in command:
        hint = f"put `{IMAGES}` where the number belongs"
        text = f"{item.name('command')} says nothing of the number of images"
        item.problems.error(text, item.place("command"), hint)
    for size in images or (None,):
        for kind in shows:
            line = (command or "").replace(IMAGES, str(size))
            yield ReportItem(kind, script or "", line, size, variants)
