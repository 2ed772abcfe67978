"""A picture's SVG, as tests look at it."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from runner import pictures
from runner.report.charts import Chart

ODD = "\x1b]0;x\x07\x9b2J\u202e✱ <script>alert(1)</script>\"'&]]>\ud800\ufffe $x^2$"
UNSEEN = {*"\x07\x1b\x9b\u202e✱\ud800\ufffe"}
_SVG = "{http://www.w3.org/2000/svg}"


class Drawn:
    """The parts of a picture."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.root = ElementTree.fromstring(text)
        _, _, self.width, self.height = map(float, self.root.attrib["viewBox"].split())

    def all(self, tag: str) -> list[ElementTree.Element]:
        return list(self.root.iter(_SVG + tag))

    @property
    def words(self) -> list[str]:
        return [each.text or "" for each in self.all("text")]

    @property
    def titles(self) -> list[str]:
        """The titles of parts, without the picture's own."""
        return [each.text or "" for each in self.all("title")[1:]]

    def box(self, title: str) -> tuple[float, float, float, float]:
        """Return the left, top, right and bottom of the part with a title."""
        part = next(
            part
            for part in self.root.iter()
            if any(each.tag == f"{_SVG}title" and each.text == title for each in part)
        )
        places = [
            (float(x), float(y))
            for path in part.iter(f"{_SVG}path")
            for x, y in re.findall(r"(-?[\d.]+) (-?[\d.]+)", path.attrib["d"])
        ]
        xs, ys = zip(*places, strict=True)
        return min(xs), min(ys), max(xs), max(ys)


def drawn(chart: Chart) -> Drawn:
    return Drawn(pictures.svg(chart))


def check_harmless(picture: Drawn) -> None:
    """Check that a picture starts and loads nothing, and needs no style attribute."""
    tags = {element.tag.removeprefix(_SVG) for element in picture.root.iter()}
    assert tags <= {
        *("svg", "title", "desc", "style", "g", "defs", "path", "use", "text"),
        *("clipPath", "pattern", "rect"),
    }
    links = [*re.findall(r"url\((.)", picture.text)]
    for element in picture.root.iter():
        assert not {"style", "src"} & element.attrib.keys()
        assert not [name for name in element.attrib if name.startswith("on")]
        links += [v[0] for name, v in element.attrib.items() if "href" in name]
    assert set(links) <= {"#"}
    assert "@import" not in picture.text
    assert not set(picture.text) & UNSEEN
    assert [each.text for each in picture.all("style")] == [pictures.STYLE]
