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


class Instruction(Struct, frozen=True):
    """One instruction: its word in capitals, its arguments, and its last line."""

    word: str
    rest: str
    line: int


def stages(
    text: str, args: Mapping[str, str] | None = None, platform: str = ""
) -> tuple[Stage, ...]:
    """Parse the FROM lines, with the arguments declared before the first of them."""
    given = dict(args or {})
    values = {**_of_platform(platform)}
    found: list[Stage] = []
    for each in instructions(text):
        if each.word == "ARG" and not found:
            values |= _declared(each.rest, given, values)
        elif each.word == "FROM" and (match := _FROM.fullmatch(each.rest)):
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


def instructions(
    text: str, escape: str = "", *, here_documents: bool = True
) -> Iterator[Instruction]:
    """Yield each instruction, continued lines joined.

    ``escape`` is what continues a line, "" for what the text says.
    """
    # Not splitlines(), which also splits at characters that are none to Docker.
    lines = iter(enumerate(text.removeprefix("\ufeff").split("\n"), 1))
    escape = escape or _escape(text)
    joined: list[str] = []
    for number, line in lines:
        line = line.removesuffix("\r")
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if line.rstrip(" \t").endswith(escape):
            joined.append(line.rstrip(" \t")[:-1] + " ")
            continue
        word, *others = "".join((*joined, line)).strip().split(maxsplit=1) or [""]
        joined = []
        rest = "".join(others)
        yield Instruction(word.upper(), rest, number)
        if here_documents and word.upper() in ("RUN", "COPY", "ADD"):
            for _, end in _HERE.findall(rest):
                _skip_past(lines, end)


def _escape(text: str) -> str:
    """Return the character that continues a line; a directive may set it."""
    for line in text.splitlines():
        if found := _ESCAPE.match(line):
            return found[1]
        if not _DIRECTIVE.match(line):
            break
    return "\\"


def _skip_past(lines: Iterator[tuple[int, str]], end: str) -> None:
    for _, line in lines:
        if line.removesuffix("\r").lstrip("\t") == end:
            return


def words(rest: str) -> list[str]:
    """Split the arguments of an instruction as a shell does."""
    try:
        return shlex.split(rest)
    except ValueError:
        return rest.split()


def _declared(
    rest: str, given: Mapping[str, str], values: Mapping[str, str]
) -> dict[str, str]:
    pairs = (word.partition("=") for word in words(rest))
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
