"""A picture's SVG, as a reader sees it."""

from __future__ import annotations

import re
from itertools import combinations
from xml.etree import ElementTree

from runner import pictures
from runner.pictures.scales import width
from runner.report.charts import Chart

ODD = "\x1b]0;x\x07\x9b2J\u202e✱ <script>alert(1)</script>\"'&]]>\ud800\ufffe $x^2$"
UNSEEN = {*"\x07\x1b\x9b\u202e✱\ud800\ufffe"}
_SVG = "{http://www.w3.org/2000/svg}"
_TAGS = {"svg", "title", "desc", "style", "g", "path", "rect", "text"}


class Drawn:
    """The parts of a picture."""

    def __init__(self, chart: Chart) -> None:
        self.text = pictures.svg(chart)
        self.root = ElementTree.fromstring(self.text)
        self.words = list(map(shown, self.all("text")))
        self.titles = [each.text or "" for each in self.all("title")[1:]]

    def all(self, tag: str) -> list[ElementTree.Element]:
        return list(self.root.iter(_SVG + tag))

    def numbers(self, title: str, tag: str, *names: str) -> list[float]:
        """Return the numbers of the first of these tags in the part with a title."""
        part = next(g for g in self.all("g") if g.findtext(f"{_SVG}title") == title)
        found = next(part.iter(_SVG + tag)).attrib
        return [
            float(number)
            for name in names
            for number in re.findall(r"-?\d[\d.]*", found.get(name, ""))
        ]

    def bar(self, title: str) -> tuple[float, float]:
        """Return where a bar begins and ends."""
        x, wide = self.numbers(title, "rect", "x", "width")
        return x, x + wide

    def point(self, title: str) -> tuple[float, ...]:
        return tuple(self.numbers(title, "path", "transform"))

    def check(self) -> None:
        """Check what holds for each picture.

        All texts are inside, none lies on another, it starts and loads nothing, and
        needs no style attribute.
        """
        high = float(self.root.attrib["height"])
        boxes = [
            box(text) for text in self.all("text") if "transform" not in text.attrib
        ]
        for left, top, right, bottom in boxes:
            assert 0 <= left <= right <= 900 and 0 <= top <= bottom <= high
        for one, other in combinations(boxes, 2):
            across = one[0] < other[2] and other[0] < one[2]
            assert not (across and one[1] < other[3] and other[1] < one[3])
        assert {each.tag.removeprefix(_SVG) for each in self.root.iter()} <= _TAGS
        for element in self.root.iter():
            assert not {"style", "src", "id", "href"} & element.attrib.keys()
            assert not [name for name in element.attrib if name.startswith("on")]
        assert not re.search(r"@import|url\(", self.text)
        assert not set(self.text) & UNSEEN


def shown(text: ElementTree.Element) -> str:
    """Return what is seen of a text; what it is short for is its title."""
    return (text.text or "") + "".join(each.tail or "" for each in text)


def box(text: ElementTree.Element) -> tuple[float, float, float, float]:
    """Return the left, top, right and bottom of a text's letters, in a wide font."""
    x, y, size = (float(text.get(name, "13")) for name in ("x", "y", "font-size"))
    wide = width(shown(text), size)
    left = x - wide * {"end": 1, "middle": 0.5}.get(text.get("text-anchor", ""), 0)
    return left, y - size * 0.76, left + wide, y + size * 0.24
