"""The places within a page that links lead to."""

from __future__ import annotations

from collections.abc import Iterable

from runner.report.blocks import Section


class Anchors:
    """The anchors of a report's sections, and new ids for what has to be named."""

    def __init__(self, sections: Iterable[Section]) -> None:
        self._known = set(_every(sections))
        self._made = 0

    def __contains__(self, anchor: str) -> bool:
        return anchor in self._known

    def new(self) -> str:
        """Return an id that nothing on the page has."""
        self._made += 1
        return f"part_{self._made}"  # an anchor has no underscore


def _every(sections: Iterable[Section]) -> Iterable[str]:
    for section in sections:
        yield section.anchor
        yield from _every(section.sections)
