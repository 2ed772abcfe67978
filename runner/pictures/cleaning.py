"""Matplotlib's SVG as ours: no style attributes, colours by class, titles, few bytes.

A page's policy may forbid style attributes, so that they become attributes of SVG's own
or classes. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from xml.etree import ElementTree

from runner.pictures.colours import NAMED, STYLE

FONTS = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
GID = "rai-"
"""How the id of a part begins that has a title or is to be found."""

_NAMESPACE = re.compile(r"\{.*\}")
_NUMBER = re.compile(r"-?\d+\.\d{2,}")
_PAINTS = {"fill": "f", "stroke": "s"}
_ATTRIBUTES = {
    *("fill", "fill-opacity", "font-size", "font-weight", "opacity", "stroke"),
    *("stroke-dasharray", "stroke-dashoffset", "stroke-linecap", "stroke-linejoin"),
    *("stroke-opacity", "stroke-width", "text-anchor"),
}
Titles = Mapping[str, tuple[str, ...]]

_KEPT_IDS = {"path", "clipPath", "pattern"}
_MEASURES = {"d", "x", "y", "width", "height", "transform", "points"}


def cleaned(drawn: str, title: str, text: str, titles: Titles, name: str) -> str:
    """Return a drawn picture as one `<svg>` element.

    ``titles`` are those of parts by id: one, or one for each marker of a part. ``name``
    begins ids that no other picture has.
    """
    source = ElementTree.fromstring(drawn)
    _, _, width, height = source.attrib["viewBox"].split()
    root = ElementTree.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "class": "rai-picture",
            "viewBox": f"0 0 {width} {height}",
            "width": width,
            "height": height,
            "role": "img",
            "aria-labelledby": f"{name}-title {name}-text",
            "font-family": FONTS,
        },
    )
    ElementTree.SubElement(root, "title", id=f"{name}-title").text = title
    ElementTree.SubElement(root, "desc", id=f"{name}-text").text = text
    ElementTree.SubElement(root, "style").text = STYLE
    for child in source:
        if (kept := _part(child, titles)) is not None:
            root.append(kept)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _part(source: ElementTree.Element, titles: Titles) -> ElementTree.Element | None:
    tag = _NAMESPACE.sub("", source.tag)
    if tag in ("metadata", "style"):
        return None
    made = ElementTree.Element(tag, dict(_attributes(tag, source.attrib)))
    made.text = source.text if tag in ("text", "tspan") else None
    found = titles.get(source.get("id", ""), ())
    if len(found) == 1:
        ElementTree.SubElement(made, "title").text = found[0]
    parts = [kept for child in source if (kept := _part(child, titles)) is not None]
    if tag in ("g", "defs") and not made.attrib and not len(made):
        if not parts:
            return None
        if len(parts) == 1 and tag == "g":
            return parts[0]
    made.extend(parts)
    if len(found) > 1:
        for marker, title in zip(made.iter("use"), found, strict=True):
            ElementTree.SubElement(marker, "title").text = title
    return made


def _attributes(tag: str, found: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    classes = []
    marker = tag == "path" and "id" in found  # painted as where it is used says
    for key, value in found.items():
        name = _NAMESPACE.sub("", key)
        if name == "style":
            for style, worth in _styles(value):
                if marker and style in _PAINTS:
                    continue
                yield style, worth
                if style in _PAINTS and worth in NAMED:
                    classes.append(f"{_PAINTS[style]}-{NAMED[worth]}")
        elif name == "id":
            if tag in _KEPT_IDS:
                yield "id", value
        elif name in _PAINTS and value in NAMED:
            yield name, value
            classes.append(f"{_PAINTS[name]}-{NAMED[value]}")
        elif name != "transform" or not value.startswith("rotate(-0 "):
            yield name, _brief(value) if name in _MEASURES else value
    if classes:
        yield "class", " ".join(classes)


def _styles(text: str) -> Iterator[tuple[str, str]]:
    for style in text.split(";"):
        name, _, value = (word.strip() for word in style.partition(":"))
        if name == "font":
            name, value = "font-size", _size(value)
        if name in _ATTRIBUTES and value:
            yield name, _brief(value)


def _size(font: str) -> str:
    found = re.search(r"[\d.]+px", font)
    return found.group() if found else "13px"


def _brief(value: str) -> str:
    """Return a path or a place with two digits after the point."""
    return _NUMBER.sub(_two_digits, " ".join(value.split()))


def _two_digits(match: re.Match[str]) -> str:
    return f"{float(match.group()):.2f}".rstrip("0").rstrip(".")
