"""A Dockerfile: its base images, what it would fetch, and the key of what is built."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from runner.core import (
    BuildImage,
    BuiltImage,
    ImageFacts,
    ImageParts,
    Origin,
    Place,
    Problem,
    Reason,
)
from runner.core.errors import ImageError
from runner.spec.image_names import KEY_REPOSITORY, normalise

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
    # Builders set these themselves.
    system, _, rest = platform.partition("/")
    architecture, _, variant = rest.partition("/")
    parts = {"PLATFORM": platform, "OS": system, "ARCH": architecture}
    parts["VARIANT"] = variant
    values = {
        side + part: args.get(side + part, value)
        for side in ("BUILD", "TARGET")
        for part, value in parts.items()
    }
    stages: list[Stage] = []
    for one in instructions(text):
        if one.word == "ARG" and not stages:
            before = dict(values)
            for word in words(one.rest):
                name, equals, default = word.partition("=")
                value = _expand(default, before) if equals else before.get(name, "")
                values[name] = args.get(name, value)
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
        yield found
        if found.word in ("RUN", "COPY", "ADD"):
            for dash, _, end in _HERE.findall(found.rest):
                for _, inner in lines:
                    if (inner.lstrip("\t") if dash else inner) == end:
                        break
    if joined.strip():  # the last line is continued by nothing
        yield _instruction(joined, first)


def _instruction(text: str, line: int) -> Instruction:
    word, *rest = text.split(maxsplit=1)
    return Instruction(word.upper(), "".join(rest).rstrip(), line)


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


def words(rest: str) -> list[str]:
    """Split an instruction's arguments as a shell does; at blanks if it cannot."""
    try:
        return shlex.split(rest)
    except ValueError:
        return rest.split()


def _expand(text: str, values: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        found = values.get(match["braced"] or match["bare"], "")
        if match["sign"] == "+":
            return match["word"] if found else ""
        return found or (match["word"] or "")

    return _VARIABLE.sub(value, text.strip("\"'"))


MOST_EXPANDED = 1 << 16
"""The most characters of a variable's value: one may be twice another, and so on."""

_HINT = "use COPY for a file of the project; fetch an address in a RUN step, by curl"
_ADD = re.compile(r"\s*(?:ONBUILD\s+)*ADD\s+(.*)", re.IGNORECASE | re.DOTALL)
_PLAIN = re.compile(r"(?:--[a-z]+(?:=[\w.:-]+)?\s+)*[^:$\\`]*", re.DOTALL)
"""The arguments of an ADD in which there can be neither an address nor a variable."""

_COMMENT = re.compile(r"^[^\S\n]*#[^\n]*", re.MULTILINE)
_ENDS = re.compile(r"[\\`][ \t\r]*$", re.MULTILINE)
_USED = re.compile(r"\$\{?(\w+)")
_DOCKERS = re.compile(r"(docker\.io/)?docker/dockerfile(-upstream)?([:@].*)?")
_SYNTAX = re.compile(r"\s*(?:#|//)\s*syntax\s*=\s*(\S+)", re.IGNORECASE)
_HEAD = 50
"""How many lines are looked at for the front end's name."""


def check(text: str, asked: BuildImage, *, buildkit: bool) -> None:
    """Raise ImageError if the build may not be started."""
    problems = []
    for line, name in _front_ends(text, asked) if buildkit else ():
        what = f"the front end {name[:200]} is none of Docker's, and not held by limits"
        place = Place(asked.dockerfile, line, 1)
        problems.append(Problem(what, place, "use docker/dockerfile, or none"))
    for line, said in sorted(set(_unclear_adds(text)))[:10]:
        what = (
            f"`ADD {said[:200]}` may have the engine itself fetch it, past the limits"
        )
        problems.append(Problem(what, Place(asked.dockerfile, line, 1), _HINT))
    if problems:
        raise ImageError(*problems, reason=Reason.NOT_ALLOWED)
    check_variables(text, asked)


def _front_ends(text: str, asked: BuildImage) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each front end that is none of Docker's."""
    for number, line in enumerate(text.splitlines()[:_HEAD], 1):
        if (match := _SYNTAX.match(line)) and not _DOCKERS.fullmatch(match[1]):
            yield number, match[1]
    for name, value in asked.args:
        if name == "BUILDKIT_SYNTAX" and not _DOCKERS.fullmatch(value):
            yield 1, value
    if text.lstrip("\ufeff \t\r\n").startswith("{"):
        yield 1, "JSON"


def check_variables(text: str, asked: BuildImage) -> None:
    """Raise ImageError if a variable becomes too long, e.g. by doubling itself."""
    given = dict(asked.args)
    lengths: dict[str, int] = {}
    for each in instructions(text):
        if each.word not in ("ARG", "ENV"):
            continue
        name, equals, _ = each.rest.partition("=")
        if each.word == "ENV" and (not equals or " " in name.strip()):
            name, _, value = each.rest.partition(" ")
            pairs = [(name, value)]
        else:
            pairs = [(n, v) for n, _, v in (w.partition("=") for w in words(each.rest))]
        for name, value in pairs:
            value = given.get(name, value) if each.word == "ARG" else value
            used = sum(lengths.get(other, 0) for other in _USED.findall(value))
            lengths[name] = len(value) + used
            if lengths[name] > MOST_EXPANDED:
                text = f"the variable `{name[:200]}` is longer than {MOST_EXPANDED:,}"
                place = Place(asked.dockerfile, each.line, 1)
                raise ImageError(Problem(f"{text} characters", place))


def _unclear_adds(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the arguments of each ADD that may fetch something.

    Builders differ in which lines they join, so the lines count as they stand and as
    either character that escapes joins them.
    """
    plain = _COMMENT.sub("", text.removeprefix("\ufeff"))

    def join(escape: str) -> str:
        # Past empty lines too; a NUL stands for each line that is joined.
        continued = rf"(?<!{escape}){escape}[ \t]*\r?\n(?:[ \t]*\r?\n)*"
        return re.sub(continued, lambda found: "\0" * found[0].count("\n"), plain)

    for joined in (plain, join(r"\\"), join("`")):
        number = 1
        for line in _ENDS.sub("", joined).split("\n"):
            found = _ADD.fullmatch(line.replace("\0", ""))
            if found and not _PLAIN.fullmatch(found[1]):
                yield number, found[1].strip()
            number += 1 + line.count("\0")


DIGITS = 20
"""The length of a checksum in the label and in the tag."""

REASONS = {
    "dockerfile": "Dockerfile changed",
    "args": "build arguments changed",
    "files": "files changed",
    "bases": "base image changed",
}
"""The reason for a build when a part differs; the first part that differs gives it.

The bases are last: they also differ after an earlier build has pulled them.
"""


def of(build: BuildImage, facts: ImageFacts, bases: Iterable[str]) -> ImageParts:
    """Return the parts of an image that starts from the given bases.

    A base that the engine does not have is unknown: the key changes once the build has
    pulled it.
    """
    return ImageParts(
        target=build.target or "",
        dockerfile=checksum(facts.dockerfile),
        # The platform also sets build arguments.
        args=checksum([facts.platform, *sorted(build.args)]),
        files=checksum(facts.context_sha256),
        bases=checksum_of_bases(bases, facts.present),
    )


def checksum_of_bases(names: Iterable[str], present: Mapping[str, str]) -> str:
    """Return a checksum of the ids that the engine has for images of these names."""
    listed = {normalise(tag): image_id for tag, image_id in present.items()}
    return checksum([(name, listed.get(normalise(name))) for name in names])


def key(parts: ImageParts) -> str:
    """Return one checksum of all parts."""
    values = (parts.target, parts.dockerfile, parts.args, parts.files, parts.bases)
    return _sha256(values)


def reference(parts: ImageParts) -> str:
    """Return the tag of an image of these parts."""
    return f"{KEY_REPOSITORY}:{key(parts)[:DIGITS]}"


def reason(
    parts: ImageParts, origin: Origin | None, built: Iterable[BuiltImage]
) -> str:
    """Return why an image must be built, given the images that rai built before."""
    earlier = [
        image
        for image in built
        if image.origin == origin and image.parts and image.parts.target == parts.target
    ]
    last = max(earlier, key=lambda image: image.created_at, default=None)
    changed = (
        why
        for part, why in REASONS.items()
        if last and getattr(last.parts, part) != getattr(parts, part)
    )
    return next(changed, "no earlier build")


def checksum(value: object) -> str:
    """Return the short checksum of a part, such as a Dockerfile's text."""
    return _sha256(value)[:DIGITS]


def _sha256(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
