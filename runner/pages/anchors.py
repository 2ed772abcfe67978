"""The places within a page that links lead to, and the names of its regions."""

from __future__ import annotations

from collections.abc import Iterable

from runner.report.blocks import Section


class Anchors:
    """The anchors of a report's sections, and names that differ for what is in them."""

    def __init__(self, sections: Iterable[Section]) -> None:
        self._known = set(_every(sections))
        self._names: dict[str, int] = {}

    def __contains__(self, anchor: str) -> bool:
        return anchor in self._known

    def unlike(self, name: str) -> str:
        """Return a name for what the page has, with a number if another has it."""
        count = self._names[name] = self._names.get(name, 0) + 1
        return f"{name} ({count})" if count > 1 else name


def _every(sections: Iterable[Section]) -> Iterable[str]:
    for section in sections:
        yield section.anchor
        yield from _every(section.sections)
