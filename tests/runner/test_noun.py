"""A noun behaves as a frozen dataclass with slots does."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, asdict, field, fields, replace

import pytest

from runner.core.noun import noun


@noun
class Point:
    """Somewhere."""

    x: int
    y: int = 0
    names: Mapping[str, str] = field(default_factory=dict)


@noun
class Spot:
    """Elsewhere, with the same fields."""

    x: int
    y: int = 0
    names: Mapping[str, str] = field(default_factory=dict)


def test_a_noun_is_made_by_place_and_by_name_with_its_defaults():
    assert Point(1) == Point(x=1, y=0, names={}) == Point(1, 0)
    assert [f.name for f in fields(Point)] == ["x", "y", "names"]
    assert repr(Point(1)) == "Point(x=1, y=0, names={})"


def test_each_noun_gets_its_own_default_from_a_factory():
    assert Point(1).names is not Point(1).names


@pytest.mark.parametrize("arguments", [{}, {"x": 1, "z": 2}])
def test_a_noun_refuses_other_fields_than_its_own(arguments):
    with pytest.raises(TypeError, match=r"Point.__init__\(\)"):
        Point(**arguments)


def test_nouns_are_equal_by_kind_and_values_and_hash_alike():
    assert Point(1) != Point(2)
    assert Point(1) != Spot(1)
    assert hash(Point(1, 2, "ab")) == hash(Point(1, 2, "ab"))


def test_a_noun_takes_no_change():
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        Point(1).x = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del Point(1).x
    assert not hasattr(Point(1), "__dict__")


def test_a_noun_can_be_replaced_copied_pickled_and_matched():
    point = Point(1, 2, {"a": "b"})
    assert replace(point, x=3) == Point(3, 2, {"a": "b"})
    assert copy.deepcopy(point) == pickle.loads(pickle.dumps(point)) == point
    assert asdict(point) == {"x": 1, "y": 2, "names": {"a": "b"}}
    match point:
        case Point(x, y):
            assert (x, y) == (1, 2)
