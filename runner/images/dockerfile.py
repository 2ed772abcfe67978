"""The base images of a Dockerfile, read from its FROM lines."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping

from msgspec import Struct

_ESCAPE = re.compile(r"\s*#\s*escape\s*=\s*(\S)", re.IGNORECASE)
_DIRECTIVE = re.compile(r"\s*#\s*\w+\s*=")
_HERE = re.compile(r"<<-?\s*([\"']?)(\w+)\1")
_VARIABLE = re.compile(
    r"\$\{(?P<braced>\w+)(?::?(?P<sign>[-+])(?P<word>[^}]*))?\}|\$(?P<bare>\w+)"
)
_FROM = re.compile(
    r"(?:--\S+\s+)*(?P<image>\S+)(?:\s+as\s+(?P<name>\S+))?\s*", re.IGNORECASE
)


class Stage(Struct, frozen=True):
    """One FROM: the image, and the name of the stage ("" if it has none)."""

    image: str
    name: str


def stages(
    text: str, args: Mapping[str, str] | None = None, platform: str = ""
) -> tuple[Stage, ...]:
    """Parse the FROM lines, with the arguments declared before the first of them."""
    given = dict(args or {})
    values = {**_of_platform(platform)}
    found: list[Stage] = []
    for word, rest in _instructions(text):
        if word == "ARG" and not found:
            values |= _declared(rest, given, values)
        elif word == "FROM" and (match := _FROM.fullmatch(rest)):
            image = _expand(match["image"], values)
            found.append(Stage(image, (match["name"] or "").lower()))
    return tuple(found)


def bases(found: tuple[Stage, ...]) -> tuple[str, ...]:
    """Return the images that are not stages of the file, without repeats, in order."""
    earlier: set[str] = {"scratch", ""}
    names: dict[str, None] = {}
    for stage in found:
        if stage.image.lower() not in earlier:
            names[stage.image] = None
        earlier.add(stage.name)
    return tuple(names)


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yield each instruction's keyword and its arguments, continued lines joined."""
    lines = iter(text.removeprefix("\ufeff").splitlines())
    escape = _escape(text)
    joined = ""
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if line.rstrip().endswith(escape):
            joined += line.rstrip()[:-1] + " "
            continue
        word, *rest = (joined + line).strip().split(maxsplit=1)
        joined = ""
        yield word.upper(), "".join(rest)
        if word.upper() in ("RUN", "COPY", "ADD"):
            for _, end in _HERE.findall("".join(rest)):
                _skip_past(lines, end)


def _escape(text: str) -> str:
    """Return the character that continues a line; a directive may set it."""
    for line in text.splitlines():
        if found := _ESCAPE.match(line):
            return found[1]
        if not _DIRECTIVE.match(line):
            break
    return "\\"


def _skip_past(lines: Iterator[str], end: str) -> None:
    for line in lines:
        if line.lstrip("\t") == end:
            return


def _declared(
    rest: str, given: Mapping[str, str], values: Mapping[str, str]
) -> dict[str, str]:
    try:
        words = shlex.split(rest)
    except ValueError:
        words = rest.split()
    pairs = (word.partition("=") for word in words)
    return {
        name: given.get(
            name, _expand(default, values) if equals else values.get(name, "")
        )
        for name, equals, default in pairs
    }


def _expand(text: str, values: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        found = values.get(match["braced"] or match["bare"], "")
        if match["sign"] == "+":
            return match["word"] if found else ""
        return found or (match["word"] or "")

    return _VARIABLE.sub(value, text.strip("\"'"))


def _of_platform(platform: str) -> dict[str, str]:
    system, _, rest = platform.partition("/")
    architecture, _, variant = rest.partition("/")
    parts = {"PLATFORM": platform, "OS": system, "ARCH": architecture}
    parts["VARIANT"] = variant
    return {
        f"{side}{name}": value
        for side in ("BUILD", "TARGET")
        for name, value in parts.items()
    }
