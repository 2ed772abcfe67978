"""What of a Dockerfile the engine would do itself, past the limits of the build. Pure.

The engine fetches what `ADD` names from its own machine, whose addresses and network
are not the build's, without a limit of bytes; Docker's own builder goes on with that
after the build was stopped. Of other front ends than Docker's BuildKit does as told.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from itertools import chain

from runner.core import BuildImage, Place, Problem, Reason
from runner.core.errors import ImageError
from runner.images.dockerfile import escape, instructions
from runner.images.pulls import readings

MOST_EXPANDED = 1 << 16
"""The most characters of a variable's value: one may be twice another, and so on."""

MOST_TOLD = 10
"""How many problems are told at once."""

_HINT = (
    "fetch it in a RUN step, e.g. by curl, or put it into the project; begin a path"
    " that has a variable with `./`"
)
_USED = re.compile(r"\$\{?(\w+)")
_DOCKERS = re.compile(r"(docker\.io/)?docker/dockerfile(-upstream)?([:@].*)?")
_SYNTAX = re.compile(r"\s*(?:#|//)\s*syntax\s*=\s*(\S+)", re.IGNORECASE)
_HEAD = 50
"""How many lines are looked at for the front end's name."""


def check(text: str, asked: BuildImage, *, buildkit: bool) -> None:
    """Raise ImageError if the build may not be started."""
    problems = _front_end(text, asked) if buildkit else []
    for line, source in sorted(set(_remote(text)))[:MOST_TOLD]:
        what = f"`ADD {source[:200]}` has the engine itself fetch it, past the limits"
        problems.append(Problem(what, Place(asked.dockerfile, line, 1), _HINT))
    if problems:
        raise ImageError(*problems, reason=Reason.NOT_ALLOWED)
    check_variables(text, asked)


def check_variables(text: str, asked: BuildImage) -> None:
    """Raise ImageError if a variable becomes too long, e.g. by doubling itself."""
    given = dict(asked.args)
    lengths: dict[str, int] = {}
    for each in instructions(text, escape(text)):
        if each.word not in ("ARG", "ENV"):
            continue
        name, equals, _ = each.rest.partition("=")
        if each.word == "ENV" and (not equals or " " in name.strip()):
            name, _, value = each.rest.partition(" ")
            pairs = [(name, value)]
        else:
            pairs = [
                (n, v) for n, _, v in (w.partition("=") for w in _words(each.rest))
            ]
        for name, value in pairs:
            value = given.get(name, value) if each.word == "ARG" else value
            used = sum(lengths.get(other, 0) for other in _USED.findall(value))
            lengths[name] = len(value) + used
            if lengths[name] > MOST_EXPANDED:
                text = f"the variable `{name[:200]}` is longer than {MOST_EXPANDED:,}"
                place = Place(asked.dockerfile, each.line, 1)
                raise ImageError(Problem(f"{text} characters", place))


def _remote(text: str) -> Iterator[tuple[int, str]]:
    """Yield what an ADD may fetch, with its line, however a builder reads the text."""
    for one in chain.from_iterable(readings(text)):
        if one.word == "ADD":
            yield from ((one.line, s) for s in _sources(one.rest) if _may_be_remote(s))


def _words(rest: str) -> list[str]:
    try:
        return shlex.split(rest)
    except ValueError:
        return rest.split()


def _sources(rest: str) -> list[str]:
    """Return the sources of an ADD, without quotes; flags do not count."""
    plain = re.sub(r"^\s*(--\S+\s+)*", "", rest)
    try:
        listed = json.loads(plain)
    except (ValueError, RecursionError):
        listed = re.split(r"\s+", re.sub(r"[\"'\\`]", "", plain).strip())
    if not isinstance(listed, list) or not all(isinstance(w, str) for w in listed):
        return []
    return listed[:-1]


def _may_be_remote(source: str) -> bool:
    """Whether it is an address, or variables may make it one."""
    plain, variable, _ = source.partition("$")
    if "://" in source or re.match(r"[\w.-]+@[\w.-]+:", source):
        return True
    return bool(variable) and ("/" not in plain or ":" in plain)


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
