"""How a noun is made: a frozen dataclass with slots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from typing import Any, NoReturn, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def noun(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass with slots.

    The methods that a dataclass compiles for itself take 0.35 ms a class, and a hundred
    classes stand in the way of each command. So all nouns share theirs, but for
    ``__init__``, which each compiles when the first of its kind is made.
    """
    shared = (_init, _setattr, _delattr, _eq, _hash, _repr, _reduce)
    for method in shared:
        setattr(cls, f"_{method.__name__}__", method)
    return dataclass(init=False, eq=False, repr=False, slots=True)(cls)


def _init(self: object, *values: object, **named: object) -> None:
    kind: Any = type(self)
    kind.__init__ = _compiled(kind)
    kind.__init__(self, *values, **named)


def _compiled(kind: type[Any]) -> Callable[..., None]:
    """Write out an ``__init__`` that takes the fields and sets each."""
    known: dict[str, object] = {"_set": object.__setattr__, "_absent": MISSING}
    parameters, lines = ["self"], []
    for item in fields(kind):
        name, value = item.name, item.name
        if item.default is not MISSING:
            known[f"_default_{name}"] = item.default
            parameters.append(f"{name}=_default_{name}")
        elif item.default_factory is not MISSING:
            known[f"_new_{name}"] = item.default_factory
            parameters.append(f"{name}=_absent")
            value = f"_new_{name}() if {name} is _absent else {name}"
        else:
            parameters.append(name)
        lines.append(f" _set(self, {name!r}, {value})\n")
    head = f"def __init__({', '.join(parameters)}):\n"
    exec(head + ("".join(lines) or " pass"), known)
    made: Callable[..., None] = known["__init__"]  # type: ignore[assignment]
    made.__qualname__ = f"{kind.__qualname__}.__init__"
    return made


def _setattr(self: object, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _values(self: Any) -> tuple[object, ...]:  # noqa: ANN401 - any noun
    return tuple([getattr(self, name) for name in self.__match_args__])


def _eq(self: object, other: object) -> Any:  # noqa: ANN401 - or NotImplemented
    if other.__class__ is not self.__class__:
        return NotImplemented
    return _values(self) == _values(other)


def _hash(self: object) -> int:
    return hash(_values(self))


def _repr(self: Any) -> str:  # noqa: ANN401 - any noun
    values = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
    return f"{type(self).__qualname__}({', '.join(values)})"


def _reduce(self: object) -> tuple[type, tuple[object, ...]]:
    """Copy and pickle by making a new one: what is frozen takes no state later."""
    return type(self), _values(self)
