"""How a noun is made: a frozen dataclass with slots."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def noun(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass with slots.

    Its ``__repr__`` is one function for all: the one that a dataclass compiles for
    itself takes 0.3 ms a class, and a hundred classes stand in the way of each command.
    """
    cls.__repr__ = _repr  # type: ignore[method-assign]
    return dataclass(frozen=True, slots=True, repr=False)(cls)


def _repr(self: Any) -> str:  # noqa: ANN401 - any noun
    values = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
    return f"{type(self).__qualname__}({', '.join(values)})"
