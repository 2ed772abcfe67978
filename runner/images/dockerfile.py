"""The base images of a Dockerfile, read from its FROM lines."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping

from msgspec import Struct

_DIRECTIVE = re.compile(r"#\s*([A-Za-z][A-Za-z0-9]*)\s*=\s*(.+?)\s*")
_HERE = re.compile(r"(?<!\S)\d*<<(-?)([\"']?)(\w+)\2(?!\S)")
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
    """One instruction: its keyword, its arguments, and the line where it begins."""

    word: str
    rest: str
    line: int


def stages(
    text: str, args: Mapping[str, str] | None = None, platform: str = ""
) -> tuple[Stage, ...]:
    """Parse the FROM lines, with the arguments declared before the first of them."""
    args = args or {}
    undeclared = _of_platform(platform)
    values = {name: args.get(name, value) for name, value in undeclared.items()}
    stages: list[Stage] = []
    for one in instructions(text):
        if one.word == "ARG" and not stages:
            values |= _declared(one.rest, args, values)
        elif one.word == "FROM" and (match := _FROM.fullmatch(one.rest)):
            image = _expand(match["image"], values)
            stages.append(Stage(image, (match["name"] or "").lower()))
    return tuple(stages)


def bases(found: tuple[Stage, ...]) -> tuple[str, ...]:
    """Return the images that are not stages of the file, without repeats, in order."""
    earlier: set[str] = {"scratch", ""}
    names: dict[str, None] = {}
    for stage in found:
        if stage.image.lower() not in earlier:
            names[stage.image] = None
        earlier.add(stage.name)
    return tuple(names)


def instructions(text: str) -> Iterator[Instruction]:
    """Yield each instruction, its continued lines joined as they are, within words too.

    The lines of here-documents are none.
    """
    lines = iter(enumerate(text_lines(text), 1))
    sign = re.escape(_escape(text))
    continued = re.compile(rf"(?:^|[^{sign}]){sign}[ \t]*$")
    joined, first = "", 0
    for number, line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        first = first or number
        if continued.search(line):
            joined += line.rstrip()[:-1]
            continue
        found = _instruction(joined + line, first)
        joined, first = "", 0
        if found is None:
            continue
        yield found
        if found.word in ("RUN", "COPY", "ADD"):
            for dash, _, end in _HERE.findall(found.rest):
                _skip_past(lines, end, tabs=bool(dash))
    if found := _instruction(joined, first):  # the last line is continued by nothing
        yield found


def _instruction(text: str, line: int) -> Instruction | None:
    word, *rest = text.strip().split(maxsplit=1) or [""]
    return Instruction(word.upper(), "".join(rest), line) if word else None


def text_lines(text: str) -> list[str]:
    """Split a text as builders do: only at line feeds."""
    return [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]


def _escape(text: str) -> str:
    """Return the character that continues a line; a directive may set it."""
    for line in text_lines(text):
        found = _DIRECTIVE.fullmatch(line.strip())
        if not found:
            break
        if found[1].lower() == "escape":
            return found[2][0]
    return "\\"


def _skip_past(lines: Iterator[tuple[int, str]], end: str, *, tabs: bool) -> None:
    for _, line in lines:
        if (line.lstrip("\t") if tabs else line) == end:
            return


def words(rest: str) -> list[str]:
    """Split an instruction's arguments as a shell does; at blanks if it cannot."""
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
    # the arguments that a builder sets by itself
    system, _, rest = platform.partition("/")
    architecture, _, variant = rest.partition("/")
    parts = {"PLATFORM": platform, "OS": system, "ARCH": architecture}
    parts["VARIANT"] = variant
    return {
        f"{side}{name}": value
        for side in ("BUILD", "TARGET")
        for name, value in parts.items()
    }
