"""Our .params and symbol files, and MXNet's own: each reads what the other wrote."""

import json

import numpy as np
import pytest
from backends import mxnet_cpu
from course import params, symbol
from course.editions import EDITIONS
from course.errors import ProjectError
from course.graph import array_shapes
from host import mxnet_package

pytestmark = pytest.mark.mxnet

MODELS = [
    pytest.param(edition, model, id=f"{edition.name}-{model.name}")
    for edition in EDITIONS.values()
    for model in edition.models
]


@pytest.fixture(scope="module")
def mx():
    return mxnet_package.loaded()


@pytest.fixture(scope="module")
def symbols(mx):
    """MXNet's reader of symbols, once it knows the operator `New`."""
    mxnet_cpu.operator()
    return mx.symbol


def any_bits(dtype):
    """Six numbers of random bits, so that some may be none (NaN)."""
    if dtype == "bool":
        return np.array([[True, False, True], [False, False, True]])
    rng = np.random.default_rng(7)
    dtype = np.dtype(dtype)
    return rng.integers(0, 256, 6 * dtype.itemsize, np.uint8).view(dtype).reshape(2, 3)


def same(mine, theirs):
    assert mine.shape == theirs.shape
    assert mine.dtype == theirs.dtype
    assert mine.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("dtype", params.NAMES)
def test_mxnet_reads_every_type_of_ours_bit_by_bit(mx, tmp_path, dtype):
    array = any_bits(dtype)
    path = tmp_path / "ours.params"
    path.write_bytes(params.dumps({"w": array, "é": array[:1], "v": array[:0]}))

    read = mx.nd.load(str(path))

    assert list(read) == ["arg:w", "arg:é", "arg:v"]
    same(array, read["arg:w"].asnumpy())
    same(array[:1], read["arg:é"].asnumpy())
    assert read["arg:v"].shape == (0, 3)


@pytest.mark.parametrize("dtype", params.NAMES)
@pytest.mark.parametrize("modern", [False, True], ids=["plain", "np_shape"])
def test_every_type_that_mxnet_writes_is_read(mx, tmp_path, modern, dtype):
    array = any_bits(dtype)
    path = tmp_path / "theirs.params"
    with mx.util.np_shape(modern):
        mx.nd.save(str(path), {"arg:w": mx.nd.array(array, dtype=dtype)})

    same(params.read(path)["w"], array)
    if not modern:
        assert params.dumps(params.read(path)) == path.read_bytes()


@pytest.mark.parametrize(
    ("saved", "why"),
    [
        (lambda ones: [ones, ones], "0 names for 2 arrays; save a dict"),
        (
            lambda ones: {"w": ones.tostype("csr")},
            "storage type 2, which is not supported",
        ),
        (
            lambda ones: {"w": ones.tostype("row_sparse")},
            "storage type 1, which is not",
        ),
    ],
)
def test_what_mxnet_saves_of_lists_and_sparse_arrays_is_refused_as_such(
    mx, tmp_path, saved, why
):
    path = tmp_path / "odd.params"
    mx.nd.save(str(path), saved(mx.nd.ones((2, 3))))

    with pytest.raises(ProjectError, match=why):
        params.read(path)


def test_names_without_a_prefix_are_read_as_they_are(mx, tmp_path):
    path = tmp_path / "plain.params"
    mx.nd.save(str(path), {"w": mx.nd.ones(2)})

    assert list(params.read(path)) == ["w"]


def built(mx, layers):
    """The network of layers by MXNet's own calls, with its own names."""
    net = mx.sym.Variable("data")
    with mx.name.NameManager():
        for layer in layers:
            net = made(mx.sym, net, layer)
    return net


def made(sym, net, layer):
    match type(layer).__name__:
        case "Convolution":
            sides, maps = (layer.kernel, layer.kernel), layer.maps
            return sym.Convolution(net, kernel=sides, num_filter=maps, no_bias=True)
        case "Tanh":
            return sym.Activation(net, act_type="tanh")
        case "Pooling":
            return sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max")
        case "Flatten":
            return sym.Flatten(net)
        case "Dense":
            return sym.FullyConnected(net, num_hidden=layer.outputs)
    return sym.SoftmaxOutput(net, name="softmax")


LIBRARY = [param for param in MODELS if not param.values[1].own]


@pytest.mark.parametrize(("edition", "model"), LIBRARY)
def test_what_mxnet_builds_and_writes_has_the_layers_and_nodes_of_ours(
    mx, edition, model
):
    text = built(mx, model.layers).tojson()

    assert symbol.loads(text) == model.layers
    ours, theirs = json.loads(symbol.dumps(model.layers)), json.loads(text)
    del theirs["node_row_ptr"]  # which MXNet reads without
    assert ours == theirs


@pytest.mark.parametrize(("edition", "model"), MODELS)
def test_mxnet_infers_the_shapes_of_our_weights_with_operator_new_too(
    symbols, edition, model
):
    net = symbols.load_json(symbol.dumps(model.layers))

    size = edition.size
    found, outputs, _ = net.infer_shape(data=(3, 1, size, size))

    shapes = dict(zip(net.list_arguments(), found, strict=True))
    expected = {"data": (3, 1, size, size), **array_shapes(model.layers, size)}
    assert shapes == {**expected, "softmax_label": (3,)}
    assert outputs == [(3, 10)]
    assert symbol.loads(net.tojson()) == model.layers


def test_mxnet_reads_the_layers_that_we_read_from_the_files_of_its_first_versions(
    mx, capfd
):
    layers = EDITIONS["2019fa"].model("baseline").layers
    document = json.loads(symbol.dumps(layers))
    for one in document["nodes"]:
        one["param"] = one.pop("attrs", {}) if one["op"] != "null" else {}
        one["inputs"] = [entry[:2] for entry in one["inputs"]]
        one["backward_source_id"] = -1
    document["heads"] = [entry[:2] for entry in document["heads"]]
    del document["attrs"]
    text = json.dumps(document)

    upgraded = mx.sym.load_json(text).tojson()

    assert "saved by previous version v0.8.0" in capfd.readouterr().err
    assert symbol.loads(text) == symbol.loads(upgraded) == layers


@pytest.mark.parametrize(
    "says",
    [
        {"stride": "[1,1]", "dilate": "(1L, 1L)", "pad": "()"},
        {"kernel": "( 5 , 5, )", "num_filter": " 12 ", "no_bias": "1"},
        {"layout": "None", "num_group": "1", "__lr_mult__": "2"},
    ],
)
def test_what_we_take_for_the_same_attributes_mxnet_takes_so_too(mx, says):
    layers = EDITIONS["2019fa"].model("baseline").layers
    document = json.loads(symbol.dumps(layers))
    document["nodes"][2]["attrs"].update(says)
    text = json.dumps(document)

    net, usual = mx.sym.load_json(text), built(mx, layers)

    assert symbol.loads(text) == layers
    assert net.infer_shape(data=(1, 1, 70, 70)) == usual.infer_shape(
        data=(1, 1, 70, 70)
    )
    assert net.list_arguments() == usual.list_arguments()


@pytest.mark.parametrize("name", ["é", "a b", 'quo"te', "back\\slash", "dots/and.more"])
def test_names_of_all_kinds_are_read_by_mxnet_as_we_wrote_them(mx, name):
    first, *rest = EDITIONS["2017fa"].model("baseline").layers
    renamed = (type(first)(name, f"{name}_weight", 50, 5, own=False), *rest)

    net = mx.sym.load_json(symbol.dumps(renamed))

    assert net.list_arguments()[:2] == ["data", f"{name}_weight"]
