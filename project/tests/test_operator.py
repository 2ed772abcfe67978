"""MXNet's operator New: our convolution in C++."""

import numpy as np
import pytest
from course.shapes import ConvShape

from project.tests.plain import gold

pytestmark = [pytest.mark.mxnet, pytest.mark.usefixtures("compiled_once")]

ODD = ConvShape(B=3, M=5, C=2, H=11, W=7, K=4)
OTHER = ConvShape(B=2, M=3, C=1, H=8, W=9, K=3)
GRAPH = """{"nodes": [
  {"op": "null", "name": "data", "inputs": []},
  {"op": "null", "name": "new0_weight", "inputs": []},
  {"op": "New", "name": "new0", "inputs": [[0, 0, 0], [1, 0, 0]],
   "attrs": {"kernel": "%s", "num_filter": "%s"}}],
  "arg_nodes": [0, 1], "heads": [[2, 0, 0]], "attrs": {"mxnet_version": ["int", 10901]}
}"""


@pytest.fixture
def mx():
    from host import mxnet_package

    return mxnet_package.loaded()


@pytest.fixture
def operator():
    from backends import mxnet_cpu

    library = mxnet_cpu.operator()
    library.take_times()
    library.problem()
    return library


def arrays(shape):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((shape.B, shape.C, shape.H, shape.W), np.float32)
    k = rng.standard_normal((shape.M, shape.C, shape.K, shape.K), np.float32)
    return x, k


def new(mx, shape, kernel=None, maps=None):
    """Make a graph of the operator alone."""
    text = GRAPH % (kernel or f"({shape.K}, {shape.K})", maps or shape.M)
    return mx.symbol.load_json(text)


def convolved(mx, shape):
    x, k = arrays(shape)
    given = {"data": mx.nd.array(x), "new0_weight": mx.nd.array(k)}
    bound = new(mx, shape).bind(mx.cpu(), given, grad_req="null")
    return bound.forward()[0].asnumpy()


def check(mx, shape):
    """Convolve; the result must be that of the reference."""
    right = gold(*arrays(shape))
    np.testing.assert_allclose(convolved(mx, shape), right, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "shape",
    [
        ODD,
        OTHER,
        ConvShape(B=1, M=1, C=1, H=1, W=1, K=1),
        ConvShape(B=4, M=2, C=3, H=6, W=6, K=6),
        ConvShape(B=1, M=17, C=3, H=20, W=37, K=5),
    ],
)
def test_the_operator_convolves_as_the_reference(shape, mx, operator):
    check(mx, shape)


@pytest.mark.parametrize("kernel", ["(4, 4)", "(4,4)", "[4, 4]", " ( 4 , 4 ) "])
def test_the_shape_of_its_weights_follows_from_its_data(kernel, mx, operator):
    x = (ODD.B, ODD.C, ODD.H, ODD.W)

    inputs, outputs, _ = new(mx, ODD, kernel).infer_shape(data=x)

    assert inputs == [x, (ODD.M, ODD.C, ODD.K, ODD.K)]
    assert outputs == [(ODD.B, ODD.M, ODD.H_out, ODD.W_out)]


def test_each_call_leaves_its_time_once_and_in_order(mx, operator):
    convolved(mx, ODD)
    convolved(mx, OTHER)

    first, second = operator.take_times()

    assert first > 0 and second > 0
    assert operator.take_times() == []


def wrong_type(mx):
    given = {
        "data": mx.nd.zeros((ODD.B, ODD.C, ODD.H, ODD.W), dtype="float64"),
        "new0_weight": mx.nd.zeros((ODD.M, ODD.C, ODD.K, ODD.K), dtype="float64"),
    }
    new(mx, ODD).bind(mx.cpu(), given, grad_req="null")


def with_data(*shape, **others):
    def bind(mx):
        new(mx, ODD).infer_shape(data=shape, **others)

    return bind


def with_attributes(**said):
    def bind(mx):
        new(mx, ODD, **said).infer_shape(data=(ODD.B, ODD.C, ODD.H, ODD.W))

    return bind


@pytest.mark.parametrize(
    ("bind", "why"),
    [
        (wrong_type, "data and weight must be float32"),
        (with_data(3, 2), "data must be images x channels x rows x columns"),
        (with_data(3, 2, 11, 3), "the weights are larger than the image"),
        (
            with_data(3, 2, 11, 7, new0_weight=(5, 1, 4, 4)),
            "weight must be maps x channels x kernel x kernel",
        ),
        (with_attributes(kernel="(4, 5)"), "`kernel` must be square, such as (5, 5)"),
        (with_attributes(kernel="four"), "`kernel` must be square, such as (5, 5)"),
        (with_attributes(maps="0"), "`num_filter` must be positive"),
    ],
)
def test_what_it_cannot_serve_it_says_in_a_sentence(bind, why, mx, operator, capfd):
    with pytest.raises(mx.base.MXNetError):
        bind(mx)

    assert operator.problem() == f"operator New: {why}"
    assert operator.problem() == ""
