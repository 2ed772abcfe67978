"""Read plan.json strictly: bytes to a plan, or every problem. Pure."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from runner.core.errors import Place, Problem
from runner.core.plan import SubmissionPlan

FILE = "plan.json"
MOST_BYTES = 1 << 20
MOST_DEPTH = 20
MOST_PROBLEMS = 20
"""The most that are told of."""

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_SHOWN = 40


class _RefusedPlanError(ValueError):
    """JSON that no plan has."""


def read(data: bytes) -> tuple[SubmissionPlan | None, tuple[Problem, ...]]:
    """Return the plan, or None and every problem with its JSON path."""
    try:
        value = _json(data)
    except json.JSONDecodeError as error:
        place = Place(FILE, error.lineno, error.colno)
        return None, (Problem(f"this is not JSON: {error.msg}", place),)
    except (ValueError, RecursionError) as error:
        return None, (Problem(f"{FILE}: {error}"),)
    found = few(wrong(value, SubmissionPlan, "")) or few(_of_case(value))
    return (None if found else msgspec.convert(value, SubmissionPlan)), found


def few(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the first problems of a plan, each once, and whether there are more.

    No more are looked for: a plan can be made to have any number.
    """
    found: dict[Problem, None] = {}
    for one in problems:
        if len(found) == MOST_PROBLEMS and one not in found:
            return (*found, Problem(f"{FILE}: there are more"))
        found[one] = None
    return tuple(found)


def _of_case(value: Any) -> Iterator[Problem]:  # noqa: ANN401 - JSON
    """Yield which names of milestones differ only by case."""
    seen: dict[str, str] = {}
    for name in value["milestones"]:
        first = seen.setdefault(name.lower(), name)
        if first != name:
            text = f"{FILE}: milestones has {_shown(first)} and {_shown(name)}"
            yield Problem(f"{text}, which are one name", hint="remove one")


def _json(data: bytes) -> Any:  # noqa: ANN401 - JSON
    if len(data) > MOST_BYTES:
        raise _RefusedPlanError(f"it is larger than {MOST_BYTES >> 10} KiB")
    text = data.decode("utf-8")
    depth = 0
    for mark in re.findall(r"[][{}]", _STRING.sub("", text)):
        depth += 1 if mark in "[{" else -1
        if depth > MOST_DEPTH:
            why = f"values are nested more than {MOST_DEPTH} levels deep"
            raise _RefusedPlanError(why)

    def constant(name: str) -> None:
        raise _RefusedPlanError(f"{name} is not a number of JSON")

    value = json.loads(text, object_pairs_hook=_object, parse_constant=constant)
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _RefusedPlanError("it has half a character (a lone surrogate)") from None
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise _RefusedPlanError(f"the key {_shown(twice)} occurs twice")
    return found


def wrong(value: object, wanted: Any, path: str) -> Iterator[Problem]:  # noqa: ANN401
    """Yield what is wrong in a value: the innermost values that do not convert.

    ``wanted`` is the type, ``path`` the value's JSON path.
    """
    try:
        msgspec.convert(value, wanted)
        return
    except msgspec.ValidationError as error:
        said = str(error)
    parts = (wrong(*part) for part in _parts(value, wanted, path))
    inside = chain(_of_keys(value, wanted, path), chain.from_iterable(parts))
    if first := next(inside, None):
        yield from chain([first], inside)
        return
    yield _problem(value, wanted, path, said)


def _problem(value: object, wanted: Any, path: str, said: str) -> Problem:  # noqa: ANN401
    _, bounds = _plain(wanted)
    words = [b.description for b in bounds if isinstance(b, Meta) and b.description]
    hint = f"expected {' or '.join(words)}" if words else said[:1].lower() + said[1:]
    return Problem(f"{FILE}: {path or 'the file'} is {_shown(value)}", hint=hint)


def _plain(wanted: Any) -> tuple[Any, tuple[Any, ...]]:  # noqa: ANN401 - types
    """Return a type without its bounds, and these."""
    if get_origin(wanted) is Annotated:
        plain, *bounds = get_args(wanted)
        return plain, tuple(bounds)
    if get_origin(wanted) in (Union, UnionType):
        kinds = [kind for kind in get_args(wanted) if kind is not NoneType]
        if len(kinds) == 1:
            return _plain(kinds[0])
        return wanted, tuple(bound for kind in kinds for bound in _plain(kind)[1])
    return wanted, ()


def _parts(
    value: object,
    wanted: Any,  # noqa: ANN401
    path: str,
) -> Iterator[tuple[object, Any, str]]:
    """Yield what a value consists of, with the types and the paths."""
    plain, _ = _plain(wanted)
    if isinstance(plain, type) and issubclass(plain, Struct):
        for field in msgspec.structs.fields(plain):
            if isinstance(value, dict) and field.encode_name in value:
                where = f"{path}.{field.encode_name}".lstrip(".")
                yield value[field.encode_name], field.type, where
    elif get_origin(plain) is dict and isinstance(value, dict):
        for key, inner in value.items():
            yield key, get_args(plain)[0], f"{path}: the key {_shown(key)}"
            yield inner, get_args(plain)[1], f"{path}[{_shown(key)}]"
    elif get_origin(plain) is tuple and isinstance(value, list | tuple):
        kinds = get_args(plain)
        each = kinds[:1] * len(value) if kinds[-1] is ... else kinds
        for at, (inner, kind) in enumerate(zip(value, each, strict=False)):
            yield inner, kind, f"{path}[{at}]"


def _of_keys(value: object, wanted: Any, path: str) -> Iterator[Problem]:  # noqa: ANN401
    """Yield which fields an object lacks, and which it has that are unknown."""
    plain, _ = _plain(wanted)
    known = isinstance(plain, type) and issubclass(plain, Struct)
    if not known or not isinstance(value, dict):
        return
    fields = msgspec.structs.fields(plain)
    names = {field.encode_name for field in fields}
    where = f"{FILE}: {path}".removesuffix(": ")
    for field in fields:
        if field.required and field.encode_name not in value:
            yield Problem(f"{where} has no `{field.encode_name}`", hint="add it")
    for key in value:
        if key not in names:
            hint = f"known are {', '.join(sorted(names))}"
            yield Problem(f"{where} has the unknown key {_shown(key)}", hint=hint)


def _shown(value: object) -> str:
    """Return a value for a message: short."""
    if isinstance(value, dict):
        return f"an object of {len(value)} keys"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
