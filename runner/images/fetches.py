"""What of a Dockerfile the engine would do itself, past the limits of the build. Pure.

The engine fetches what `ADD` names from its own machine, whose addresses and network
are not the build's, without a limit of bytes; Docker's own builder goes on with that
after the build was stopped. Of other front ends than Docker's BuildKit does as told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from runner.core import BuildImage, Place, Problem, Reason
from runner.core.errors import ImageError
from runner.images.dockerfile import instructions, words

MOST_EXPANDED = 1 << 16
"""The most characters of a variable's value: one may be twice another, and so on."""

MOST_TOLD = 10
"""How many problems are told at once."""

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
    problems = _front_end(text, asked) if buildkit else []
    for line, said in sorted(set(_unclear_adds(text)))[:MOST_TOLD]:
        what = (
            f"`ADD {said[:200]}` may have the engine itself fetch it, past the limits"
        )
        problems.append(Problem(what, Place(asked.dockerfile, line, 1), _HINT))
    if problems:
        raise ImageError(*problems, reason=Reason.NOT_ALLOWED)
    check_variables(text, asked)


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
    for joined in (plain, *(_join(plain, sign) for sign in "\\`")):
        number = 1
        for line in _ENDS.sub("", joined).split("\n"):
            found = _ADD.fullmatch(line.replace("\0", ""))
            if found and not _PLAIN.fullmatch(found[1]):
                yield number, found[1].strip()
            number += 1 + line.count("\0")


def _join(text: str, sign: str) -> str:
    """Join continued lines, past empty ones; a NUL stands for each."""
    escape = re.escape(sign)
    continued = rf"(?<!{escape}){escape}[ \t]*\r?\n(?:[ \t]*\r?\n)*"
    return re.sub(continued, lambda found: "\0" * found[0].count("\n"), text)


def _front_end(text: str, asked: BuildImage) -> list[Problem]:
    found = [
        (match[1], number)
        for number, line in enumerate(text.splitlines()[:_HEAD], 1)
        if (match := _SYNTAX.match(line))
    ]
    found += [(value, 1) for name, value in asked.args if name == "BUILDKIT_SYNTAX"]
    found += [("JSON", 1)] if text.lstrip("\ufeff \t\r\n").startswith("{") else []
    hint = "use docker/dockerfile, or none"
    return [
        Problem(
            f"the front end {name[:200]} is none of Docker's, and not held by limits",
            Place(asked.dockerfile, number, 1),
            hint,
        )
        for name, number in found
        if not _DOCKERS.fullmatch(name)
    ]
