"""Every image that the build of a Dockerfile may pull. Pure.

Builders differ in what they make of here-documents, escapes and arguments, and who
writes a Dockerfile may use that to hide a FROM from one reader. So a file is read in
each of these ways: what any of them finds counts as pulled, and a name is a stage only
where all of them say so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from runner.images import dockerfile, names
from runner.images.dockerfile import Instruction

SYNTAX = "BUILDKIT_SYNTAX"
"""The build argument that names a frontend, which BuildKit pulls and runs."""

_SYNTAX = re.compile(r"\s*(?:#|//)\s*syntax\s*=\s*(\S+)", re.IGNORECASE)
_ESCAPE = re.compile(r"\s*#\s*escape\s*=", re.IGNORECASE)
_ESCAPES = "\\`"
_TWO_ESCAPES = re.compile(r"(?:\\\\|``)[ \t]*$")
_HERE = re.compile(r"(?<!\S)\d*<<-?([\"']?)\w+\1(?!\S)|(?<!<)<<<(?!<)")
_NUMBER = re.compile(r"[0-9]+")
_WITH_FLAGS = ("FROM", "RUN", "COPY", "ADD")


class Pull(Struct, frozen=True):
    """An image that a build may pull, as the line says it; 0 is no line of the file.

    ``image`` may be no name of an image: then nobody can tell what is pulled.
    """

    text: str
    image: str = ""
    line: int = 0

    @property
    def clear(self) -> bool:
        """Whether the image is known."""
        return names.valid(self.image)


def pulls(text: str, args: Mapping[str, str], platform: str) -> tuple[Pull, ...]:
    """Return what a build of a Dockerfile may pull, in the order of its lines."""
    usual = dockerfile.of_platform(platform)
    found = [*_frontends(text), *_unclear(text), *_undefined(text, args, usual)]
    if SYNTAX in args:
        found.append(Pull(f"{SYNTAX}={args[SYNTAX]}", args[SYNTAX]))
    joined, by_line = list(_joined(text)), list(_by_line(text))
    # The engine's own builder does not know the arguments of the platform.
    for values in (usual, dict.fromkeys(usual, "")):
        of_each = [
            dockerfile.stages_of(one, args, values) for one in (*joined, by_line)
        ]
        known = set.intersection(
            *({(s.name, s.line) for s in stages if s.name} for stages in of_each)
        )
        for stages, reading in zip(of_each, (*joined, by_line), strict=True):
            named = [Pull(f"FROM {s.image}", s.image, s.line) for s in stages]
            named += [pull for one in reading for pull in _of_flags(one)]
            sure = values is usual and reading is not by_line
            found += [
                pull
                for pull in named
                if (sure or pull.clear) and not _is_stage(pull, known)
            ]
    return tuple(sorted(dict.fromkeys(found), key=lambda pull: pull.line))


def readings(text: str) -> list[list[Instruction]]:
    """Return the instructions of a file, in each of the ways that it can be read.

    What ONBUILD defers stands for itself.
    """
    return [*_joined(text), _by_line(text), _joined_by_two(text)]


def _joined(text: str) -> Iterator[list[Instruction]]:
    """Read the file with and without here-documents, by each character that escapes."""
    escapes = {dockerfile.escape(text)}
    if any(_ESCAPE.match(line) for line in dockerfile.text_lines(text)):
        escapes |= set(_ESCAPES)
    for escape in sorted(escapes):
        for here in (True, False):
            found = dockerfile.instructions(text, escape, here_documents=here)
            yield _without_triggers(found)


def _by_line(text: str) -> list[Instruction]:
    """Read each line as if it were an instruction."""
    return [
        Instruction(one.word, one.rest.rstrip(f"{_ESCAPES} \t\r"), one.line)
        for one in _without_triggers(dockerfile.instructions(text, ""))
    ]


def _joined_by_two(text: str) -> list[Instruction]:
    """Read two escapes at a line's end as one, as old builders do."""
    single = "\n".join(
        _TWO_ESCAPES.sub(r"\\", line) for line in dockerfile.text_lines(text)
    )
    return _without_triggers(
        dockerfile.instructions(single, "\\", here_documents=False)
    )


def _without_triggers(found: Iterable[Instruction]) -> list[Instruction]:
    """Read what ONBUILD defers as if it stood alone."""
    plain = []
    for one in found:
        word, rest = one.word, one.rest
        while word == "ONBUILD" and rest:
            word, *more = rest.split(maxsplit=1)
            word, rest = word.upper(), "".join(more)
        plain.append(Instruction(word, rest, one.line))
    return plain


def _of_flags(one: Instruction) -> Iterator[Pull]:
    """Yield the images that an instruction's options name."""
    if one.word not in _WITH_FLAGS:
        return
    for flag in one.rest.split():
        if not flag.startswith("--"):
            return
        name, _, value = flag.partition("=")
        if set(flag) & set("\"'\\`"):
            yield Pull(f"{one.word} {flag}", "", one.line)
        elif name == "--from":
            yield Pull(f"{one.word} {flag}", value, one.line)
        elif name == "--mount":
            for option in value.split(","):
                key, _, image = option.partition("=")
                if key.lower() == "from":
                    yield Pull(f"{one.word} --mount={option}", image, one.line)


def _is_stage(pull: Pull, known: Iterable[tuple[str, int]]) -> bool:
    name = pull.image.lower()
    # A mount's number is the name of an image.
    numbered = pull.text.startswith(("COPY --from", "ADD --from"))
    by_number = numbered and _NUMBER.fullmatch(name)
    return (
        name == "scratch"
        or bool(by_number)
        or any(stage == name and line < pull.line for stage, line in known)
    )


def _frontends(text: str) -> Iterator[Pull]:
    """Yield the images that the file names as what shall read it."""
    lines = list(enumerate(dockerfile.text_lines(text), 1))
    for number, line in lines:
        if found := _SYNTAX.match(line):
            yield Pull(f"# syntax={found[1]}", found[1], number)
    said = [one for one in lines if one[1].strip() and not one[1].startswith("#!")]
    for number, line in said[:1]:
        if line.lstrip().startswith("{"):
            yield Pull(line.strip(), "", number)


def _unclear(text: str) -> Iterator[Pull]:
    """Yield the lines that builders may read in more ways than are tried."""
    for number, line in enumerate(dockerfile.text_lines(text), 1):
        if _TWO_ESCAPES.search(line):
            yield Pull(line.strip(), "", number)
    escape = dockerfile.escape(text)
    for one in dockerfile.instructions(text, escape, here_documents=False):
        if "<<" not in one.rest or one.word not in (*_WITH_FLAGS, "ONBUILD"):
            continue
        odd = "<<" in _HERE.sub(" ", one.rest) or "\r" in text
        if odd or one.word == "ONBUILD":
            yield Pull(f"{one.word} {one.rest}", "", one.line)


def _undefined(
    text: str, args: Mapping[str, str], usual: Mapping[str, str]
) -> Iterator[Pull]:
    """Yield the lines whose variables a builder may know by another value."""
    known, begun = set(usual), False
    escape = dockerfile.escape(text)
    for one in dockerfile.instructions(text, escape):
        begun = begun or one.word == "FROM"
        counts = one.word == "FROM" or (one.word == "ARG" and not begun)
        if counts and not dockerfile.variables(one.rest) <= known:
            yield Pull(f"{one.word} {one.rest}", "", one.line)
        if one.word == "ARG" and not begun:
            for word in one.rest.split():
                name, given, _ = word.partition("=")
                if given and name in known:
                    yield Pull(f"ARG {one.rest}", "", one.line)
                if given or name in args:
                    known.add(name)
