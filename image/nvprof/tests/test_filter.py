"""`--kernels` takes what nvprof's own took."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nvprof.filter import KernelFilter, named, parse, takes


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("forward", ("", "", "forward", "")),
        ("::forward:1", ("", "", "forward", "1")),
        ("1:7:forward:2", ("1", "7", "forward", "2")),
        ("1::.*:", ("1", "", ".*", "")),
        ("::forward", ("", "", "forward", "")),
        ("::mxnet::op::forward:2", ("", "", "mxnet::op::forward", "2")),
        ("::mxnet::op::forward", ("", "", "mxnet::op::forward", "")),
        ("mxnet::op::forward_kernel", ("", "", "mxnet::op::forward_kernel", "")),
        (":::3", ("", "", "", "3")),
        ("::forward:[1-3]", ("", "", "forward", "[1-3]")),
        ("::a|b:1|4", ("", "", "a|b", "1|4")),
    ],
)
def test_a_filter_is_a_name_or_a_path(text, parts):
    assert parse(text) == KernelFilter(*parts)


@pytest.mark.parametrize("text", ["(", "::[:1", "::f:(1"])
def test_what_is_no_regular_expression_is_refused(text):
    with pytest.raises(re.error):
        parse(text)


NAME = "void mxnet::op::forward_kernel<int=8>(float*, tensor::forward)"


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("", True),
        ("forward", True),
        ("^forward_kernel$", True),
        ("tensor", False),
        ("mxnet", False),
        ("mxnet::op::", True),
        ("kernel<int=8>", True),
        (NAME, True),
        ("backward", False),
    ],
)
def test_a_pattern_looks_at_the_kernels_own_name(pattern, found):
    assert named(pattern, NAME) is found


def launches(*filters):
    """Return the launches taken: (context, stream, turn) of two kernels' six."""
    all_ = [("f(int)", 1, 7, 1), ("f(int)", 1, 8, 2), ("f(int)", 2, 7, 3)]
    all_ += [("g(int)", 1, 7, 1), ("g(int)", 1, 7, 2), ("g(int)", 1, 7, 11)]
    chosen = tuple(map(parse, filters))
    return [
        (name[0], turn)
        for name, *where, turn in all_
        if takes(chosen, name, *where, turn)
    ]


def test_no_filter_takes_all():
    assert len(launches()) == 6


@pytest.mark.parametrize(
    ("filters", "taken"),
    [
        (["f"], [("f", 1), ("f", 2), ("f", 3)]),
        (["::f:2"], [("f", 2)]),
        (["1::f:"], [("f", 1), ("f", 2)]),
        ([":7:f:"], [("f", 1), ("f", 3)]),
        (["::g:1"], [("g", 1)]),
        (["::g:1.*"], [("g", 1), ("g", 11)]),
        (["::f:1", "::g:2"], [("f", 1), ("g", 2)]),
        (["nothing"], []),
    ],
)
def test_filters_take_launches_by_each_of_their_parts(filters, taken):
    assert launches(*filters) == taken


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text):
    try:
        found = parse(text)
    except (re.error, OverflowError):
        return
    assert isinstance(takes((found,), NAME, 1, 7, 1), bool)
