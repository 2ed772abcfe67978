"""MXNet's symbol files, read into layers and written from them."""

import copy
import json
from itertools import count

import pytest
from course import symbol
from course.editions import EDITIONS
from course.errors import ProjectError
from course.graph import Convolution, Dense, Flatten, Pooling, Softmax, Tanh, lenet
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit import outside

COURSE = outside.path("course-models")
LENET = lenet((12, 5), (24, 5), hidden=160, classes=10, own=False)


def document(layers=LENET):
    return json.loads(symbol.dumps(layers))


def node(document, name):
    return next(node for node in document["nodes"] if node["name"] == name)


def place(document, name):
    return document["nodes"].index(node(document, name))


def refusal(document):
    with pytest.raises(ProjectError) as refused:
        symbol.loads(json.dumps(document), "net.json")
    return str(refused.value)


@pytest.mark.data
def test_the_courses_files_hold_the_layers_of_its_editions_with_their_names():
    files = sorted(COURSE.glob("*-symbol.json"))
    assert files
    for path in files:
        edition, model = path.name.removesuffix("-symbol.json").split("-", 1)
        layers = symbol.loads(path.read_text(), str(path))

        assert layers == EDITIONS[edition].model(model).layers, path
        assert nodes_of(document(layers)) == nodes_of(json.loads(path.read_text()))


def nodes_of(document):
    """Nodes with their attributes under one name, whatever MXNet wrote them."""
    for one in document["nodes"]:
        if says := one.pop("attr", None):
            one["attrs"] = says
    return document["nodes"], document["heads"], document["arg_nodes"]


@st.composite
def chains(draw):
    """Layers in any order that ends as a network does, with any sizes and names."""
    numbers = count()
    sizes = st.integers(1, 10**9 - 1)

    def name(kind):
        letters = draw(st.text("aé_.0/\\\"'", max_size=3))
        return f"{kind}{letters}{next(numbers)}"

    def layer(kind):
        if kind is Convolution:
            names = name("c"), name("w")
            return Convolution(*names, draw(sizes), draw(sizes), draw(st.booleans()))
        if kind is Dense:
            return Dense(name("f"), name("w"), name("b"), draw(sizes))
        return kind(name("l"))

    kinds = st.sampled_from([Convolution, Tanh, Pooling, Flatten, Dense])
    front = [layer(kind) for kind in draw(st.lists(kinds, max_size=6))]
    return (*front, layer(Dense), Softmax(name("s")))


@settings(max_examples=50)
@given(chains())
def test_any_chain_that_ends_as_a_network_does_is_written_and_read_back(layers):
    assert symbol.loads(symbol.dumps(layers)) == layers


def older(document):
    """As MXNet 0.8 wrote it: parameters apart, inputs in pairs, no version."""
    for one in document["nodes"]:
        one["param"] = one.pop("attrs", {})
        one["attr"] = {"ctx_group": "stage1", "weight_lr_mult": "0.5"}
        one["backward_source_id"] = -1
        one["inputs"] = [entry[:2] for entry in one["inputs"]]
    document["heads"] = [entry[:2] for entry in document["heads"]]
    del document["attrs"]
    return document


def between(document):
    """As MXNet 0.9 to 0.12 wrote it."""
    for one in document["nodes"]:
        if "attrs" in one:
            one["attr"] = one.pop("attrs")
    return document


@pytest.mark.parametrize("written", [older, between])
def test_the_files_of_earlier_versions_are_read(written):
    assert symbol.loads(json.dumps(written(document()))) == LENET


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("convolution0", {"stride": "(1, 1)", "dilate": "[1,1]", "pad": "(0L, 0L)"}),
        ("convolution0", {"stride": "(1, 1,)", "pad": "()", "num_group": "1"}),
        ("convolution0", {"no_bias": "1", "layout": "None", "workspace": "512"}),
        ("convolution0", {"kernel": "[5,5]", "num_filter": " 12 ", "__lr_mult__": "0"}),
        ("convolution0", {"cudnn_tune": "fastest", "cudnn_off": "False"}),
        ("pooling0", {"global_pool": "false", "pooling_convention": "valid"}),
        ("fullyconnected0", {"no_bias": "False", "flatten": "True"}),
        ("softmax", {"grad_scale": "0.1", "normalization": "batch"}),
        ("softmax", {"colour": "red"}),
    ],
)
def test_attributes_that_say_what_is_so_anyway_are_read(name, says):
    changed = document()
    node(changed, name)["attrs"] = {**node(changed, name).get("attrs", {}), **says}

    assert symbol.loads(json.dumps(changed)) == LENET


@pytest.mark.parametrize("op", ["Softmax", "softmax"])
def test_other_operators_that_do_the_same_are_read(op):
    changed = document()
    node(changed, "softmax")["op"] = op
    node(changed, "activation0").update(op="tanh", attrs={})
    if op == "softmax":
        del changed["nodes"][place(changed, "softmax_label")]
        changed["nodes"][-1]["inputs"].pop()
        changed["heads"][0][0] -= 1

    assert symbol.loads(json.dumps(changed)) == LENET


@pytest.mark.parametrize(
    ("name", "says", "problem"),
    [
        ("convolution0", {"stride": "(2, 2)"}, "`stride` is (2,2), only (1,1) is"),
        ("convolution0", {"pad": "(2, 2)"}, "`pad` is (2,2), only (0,0) is"),
        ("convolution0", {"pad": "None"}, "`pad` is none, only (0,0) is"),
        ("convolution0", {"dilate": "(2,2)"}, "`dilate` is (2,2), only (1,1) is"),
        ("convolution0", {"num_group": "2"}, "`num_group` is 2, only 1 is supported"),
        ("convolution0", {"num_group": "True"}, "`num_group` is true, only 1 is"),
        ("convolution0", {"layout": "NHWC"}, "`layout` is nhwc, only nchw is"),
        ("convolution0", {"no_bias": "False"}, "`no_bias` is false, only true is"),
        ("convolution0", {"no_bias": None}, "`no_bias` is missing, only true is"),
        ("convolution0", {"kernel": "(5, 3)"}, "`kernel` is (5,3), expected (K, K)"),
        ("convolution0", {"kernel": "(5,)"}, "`kernel` is (5), expected (K, K)"),
        ("convolution0", {"kernel": "(0, 0)"}, "`kernel` is (0,0), expected (K, K)"),
        ("convolution0", {"kernel": None}, "`kernel` is missing, expected (K, K)"),
        ("convolution0", {"num_filter": "0"}, "`num_filter` is 0, expected a positive"),
        ("convolution0", {"num_filter": "1e3"}, "`num_filter` is 1e3, expected"),
        ("convolution0", {"num_filter": "9" * 5000}, "`num_filter` is 9999"),
        ("activation0", {"act_type": "relu"}, "`act_type` is relu, only tanh is"),
        ("activation0", {"act_type": None}, "`act_type` is missing, only tanh is"),
        ("pooling0", {"pool_type": "avg"}, "`pool_type` is avg, only max is supported"),
        ("pooling0", {"kernel": "(3, 3)"}, "`kernel` is (3,3), only (2,2) is"),
        ("pooling0", {"stride": None}, "`stride` is missing, only (2,2) is supported"),
        ("pooling0", {"global_pool": "True"}, "`global_pool` is true, only false is"),
        ("pooling0", {"pooling_convention": "full"}, "is full, only valid is"),
        ("fullyconnected0", {"num_hidden": None}, "`num_hidden` is missing"),
        ("fullyconnected0", {"no_bias": "True"}, "`no_bias` is true, only false is"),
        ("fullyconnected0", {"flatten": "0"}, "`flatten` is 0, only true is supported"),
        ("softmax", {"multi_output": "True"}, "`multi_output` is true, only false is"),
    ],
)
def test_what_is_not_served_is_refused_by_node_operator_and_attribute(
    name, says, problem
):
    changed = document()
    told = node(changed, name)
    wanted = {**told.get("attrs", {}), **says}
    told["attrs"] = {key: text for key, text in wanted.items() if text is not None}

    refused = refusal(changed)

    assert refused.startswith(f"net.json: node `{name}` ({told['op']}): ")
    assert problem in refused
    assert "; " not in refused


@pytest.mark.parametrize(
    ("name", "says", "problem"),
    [
        ("activation0", {"op": "LeakyReLU"}, "(LeakyReLU): unsupported operator"),
        ("flatten0", {"inputs": [[6, 1, 0]]}, "node 7 takes no first output of"),
        ("activation0", {"inputs": [[4, 0, 0]]}, "node 3 takes no first output of"),
        ("activation0", {"inputs": [[99, 0, 0]]}, "node 3 takes no first output of"),
        ("activation0", {"inputs": [[-1, 0, 0]]}, "node 3 takes no first output of"),
        ("activation0", {"inputs": [[True, False, 0]]}, "node 3 takes no first output"),
        ("activation0", {"inputs": []}, "not a symbol file of a chain"),
        ("fullyconnected0", {"inputs": [[7, 0, 0], [8, 0, 0]]}, "its inputs are not"),
        ("convolution0", {"inputs": [[1, 0, 0], [0, 0, 0]]}, "it begins at `convol"),
        ("data", {"name": "image"}, "it begins at `image`, not `data`"),
        ("flatten0", {"op": "softmax"}, "can be last, and nowhere else"),
        ("convolution0", {"attrs": {"num_filter": 0}}, "`num_filter` is 0, expected"),
        ("convolution0", {"attrs": 1}, "not a symbol file of a chain"),
        ("flatten0", {"name": None}, "not a symbol file of a chain"),
        ("flatten0", {"inputs": None}, "not a symbol file of a chain"),
        ("", {"heads": [[16, 0, 0], [4, 0, 0]]}, "not a symbol file of a chain"),
        ("", {"heads": [[14, 0, 0]]}, "`fullyconnected1` (FullyConnected): only Soft"),
        ("", {"heads": [[0, 0, 0]]}, "it has no layers"),
        ("", {"heads": [[99, 0, 0]]}, "not a symbol file of a chain"),
        ("", {"heads": []}, "not a symbol file of a chain"),
        ("", {"nodes": {}}, "not a symbol file of a chain"),
        ("", {"nodes": ["tanh"]}, "not a symbol file of a chain"),
    ],
)
def test_what_is_no_chain_of_served_layers_is_refused(name, says, problem):
    changed = document()
    told = node(changed, name) if name else changed
    for key, value in says.items():
        told[key] = value
        if value is None:
            del told[key]

    refused = refusal(changed)

    assert refused.startswith("net.json: ")
    assert problem in refused


@pytest.mark.parametrize("text", ["", "[" * 100_000, "1" * 5000, "[]", "{}"])
def test_what_is_no_symbol_file_is_refused_as_such(text):
    with pytest.raises(ProjectError, match=r"net.json: not a symbol file of a chain"):
        symbol.loads(text, "net.json")


def test_all_problems_are_told_at_once():
    changed = document()
    node(changed, "convolution0")["attrs"]["stride"] = "(2, 2)"
    node(changed, "activation0")["attrs"]["act_type"] = "relu"

    assert refusal(changed).count("; ") == 1

    for one in changed["nodes"]:
        one["op"] = "Dropout\ud800"

    assert refusal(changed).isascii()


def test_a_file_that_ends_too_early_is_refused_wherever_that_is():
    text = symbol.dumps(LENET)

    for end in range(len(text)):
        with pytest.raises(
            ProjectError, match=r"symbol: not a symbol file of a chain of layers: "
        ):
            symbol.loads(text[:end])


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 20) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner),
    max_leaves=4,
)


@pytest.mark.lengthy
@settings(max_examples=150)
@given(anything, st.data())
def test_a_file_with_anything_in_place_of_a_part_is_read_or_refused(other, data):
    changed = copy.deepcopy(document())
    at = changed
    while True:
        keys = list(at) if isinstance(at, dict) else range(len(at))
        key = data.draw(st.sampled_from(keys))
        if (
            not at[key]
            or not isinstance(at[key], dict | list)
            or data.draw(st.booleans())
        ):
            break
        at = at[key]
    at[key] = other

    try:
        layers = symbol.loads(json.dumps(changed), "net.json")
    except ProjectError as refused:
        assert str(refused).startswith("net.json: ")
    else:
        assert symbol.loads(symbol.dumps(layers)) == layers
