"""Read and write networks in MXNet's symbol files, JSON of versions 0.x to 1.9."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from course.errors import ProjectError
from course.graph import Convolution, Dense, Flatten, Layer, Pooling, Softmax, Tanh

VARIABLE, DATA = "null", "data"
ATTRIBUTES = "param", "attr", "attrs"  # until 0.8, until 1.0, and since
VERSION = 10901  # the MXNet version of the files that are written, 1.9.1
LONGEST = 50  # characters shown of an attribute
COUNT = re.compile(r"0*[1-9]\d{0,8}")
SQUARE = re.compile(r"\(([1-9]\d{0,8}),\1\)")

Served = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator, and the only values of attributes that are supported."""

    parameters: tuple[str, ...] = ()  # inputs besides the data
    sizes: Mapping[str, re.Pattern[str]] = field(default_factory=dict)  # required
    needed: Served = field(default_factory=dict)  # their default is not supported
    only: Served = field(default_factory=dict)


YES, NO = ("true", "1"), ("false", "0")
PLAIN: Served = {
    "stride": ("(1,1)", "()"),
    "dilate": ("(1,1)", "()"),
    "pad": ("(0,0)", "()"),
    "num_group": ("1",),
    "layout": ("nchw", "none"),
}
WINDOW = {"kernel": SQUARE, "num_filter": COUNT}
HALVES: Served = {"kernel": ("(2,2)",), "stride": ("(2,2)",)}
OUTPUT = Operator(("label",), only={"multi_output": NO, "preserve_shape": NO})
OPERATORS = {
    "Convolution": Operator(("weight",), WINDOW, {"no_bias": YES}, PLAIN),
    "New": Operator(("weight",), WINDOW, only={**PLAIN, "no_bias": YES}),
    "Activation": Operator(needed={"act_type": ("tanh",)}),
    "tanh": Operator(),
    "Pooling": Operator(
        needed=HALVES,
        only={
            "pool_type": ("max",),
            "pad": PLAIN["pad"],
            "global_pool": NO,
            "pooling_convention": ("valid",),
            "layout": PLAIN["layout"],
        },
    ),
    "Flatten": Operator(),
    "FullyConnected": Operator(
        ("weight", "bias"), {"num_hidden": COUNT}, only={"no_bias": NO, "flatten": YES}
    ),
    "SoftmaxOutput": OUTPUT,
    "Softmax": OUTPUT,
    "softmax": Operator(
        only={"axis": ("-1", "1"), "temperature": ("none", "1", "1.0")}
    ),
}
LAST = "SoftmaxOutput", "Softmax", "softmax"


@dataclass(frozen=True, slots=True)
class Node:
    """A variable or an operator; inputs are indices of earlier nodes."""

    op: str
    name: str
    attributes: Mapping[str, str]  # their values as ``_plain`` makes them
    inputs: tuple[int, ...]


def loads(text: str | bytes, source: str = "symbol") -> tuple[Layer, ...]:
    """Parse a symbol file into a chain of layers; raise ProjectError."""
    try:
        document = json.loads(text)
        nodes = [_node(entry, n) for n, entry in enumerate(document["nodes"])]
        ((last, *_),) = document["heads"]
        node, chain = nodes[last], []
        while node.op != VARIABLE:
            chain.append(node)
            node = nodes[node.inputs[0]]
        if node.name != DATA:
            raise ValueError(f"it begins at `{node.name}`, not `{DATA}`")
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as wrong:
        raise ProjectError(
            f"{source}: not a symbol file of a chain of layers: {wrong!r:.100}"
        ) from None
    problems = [
        f"node `{node.name}` ({node.op}): {problem}"
        for place, node in enumerate(chain)
        for problem in _problems(nodes, node, is_last=place == 0)
    ]
    if problems or not chain:
        # JSON strings can contain lone surrogates, which cannot be printed.
        message = "; ".join(problems or ["it has no layers"])
        message = message.encode(errors="backslashreplace").decode()
        raise ProjectError(f"{source}: {message}")
    return tuple(
        _layer(node, [nodes[n].name for n in node.inputs[1:]])
        for node in reversed(chain)
    )


def _node(entry: Mapping[str, Any], place: int) -> Node:
    """Return a node; raise ValueError, LookupError, TypeError or AttributeError."""
    says = {k: v for part in ATTRIBUTES for k, v in entry.get(part, {}).items()}
    inputs = []
    for first, output, *_ in entry["inputs"]:
        if type(first) is not int or not 0 <= first < place or output != 0:
            raise ValueError(f"node {place} takes no first output of an earlier node")
        inputs.append(first)
    plain = {name: _plain(value) for name, value in says.items()}
    return Node(str(entry["op"]), str(entry["name"]), plain, tuple(inputs))


def _plain(value: object) -> str:
    """Return an attribute in one form of those that MXNet takes, such as (1,1)."""
    text = re.sub(r"\s", "", str(value)).lower().translate({91: "(", 93: ")"})
    # Python 2 writes an L after long integers.
    return re.sub(r"(?<=\d)l(?!\w)", "", text).replace(",)", ")")


def _problems(nodes: list[Node], node: Node, *, is_last: bool) -> Iterator[str]:
    """Yield what is not supported of an operator and of its place."""
    known = OPERATORS.get(node.op)
    if known is None:
        yield f"unsupported operator, expected one of {', '.join(OPERATORS)}"
        return
    wanted = (DATA, *known.parameters)
    others = [nodes[n] for n in node.inputs[1:]]
    if len(node.inputs) != len(wanted) or any(one.op != VARIABLE for one in others):
        yield f"its inputs are not {', '.join(wanted)}"
    says = node.attributes
    for name, pattern in known.sizes.items():
        if not pattern.fullmatch(says.get(name, "")):
            wants = "(K, K)" if pattern is SQUARE else "a positive whole number"
            shown = says.get(name, "missing")[:LONGEST]
            yield f"`{name}` is {shown}, expected {wants}"
    for name, served in {**known.needed, **known.only}.items():
        if name in known.needed or name in says:
            found = says.get(name, "missing")
            if found not in served:
                yield f"`{name}` is {found[:LONGEST]}, only {served[0]} is supported"
    if is_last != (node.op in LAST):
        yield f"only {', '.join(LAST)} can be last, and nowhere else"


def _layer(node: Node, taken: list[str]) -> Layer:
    """Return the layer of a supported operator."""
    name, says = node.name, node.attributes
    match node.op:
        case "Convolution" | "New":
            kernel, maps = says["kernel"].strip("()").split(",")[0], says["num_filter"]
            return Convolution(name, taken[0], int(maps), int(kernel), node.op == "New")
        case "FullyConnected":
            return Dense(name, taken[0], taken[1], int(says["num_hidden"]))
        case "Pooling":
            return Pooling(name)
        case "Flatten":
            return Flatten(name)
        case "Activation" | "tanh":
            return Tanh(name)
    return Softmax(name)


def _described(layer: Layer) -> tuple[str, dict[str, str], tuple[str, ...]]:
    """Return a layer's operator, its attributes, and the names of its weights."""
    match layer:
        case Convolution(_, weight, maps, kernel, own):
            sizes = {"kernel": f"({kernel}, {kernel})", "num_filter": f"{maps}"}
            if own:
                return "New", sizes, (weight,)
            return "Convolution", {**sizes, "no_bias": "True"}, (weight,)
        case Tanh():
            return "Activation", {"act_type": "tanh"}, ()
        case Pooling():
            halves = {"kernel": "(2, 2)", "pool_type": "max", "stride": "(2, 2)"}
            return "Pooling", halves, ()
        case Flatten():
            return "Flatten", {}, ()
        case Dense(_, weight, bias, outputs):
            return "FullyConnected", {"num_hidden": f"{outputs}"}, (weight, bias)
        case Softmax(name):
            return "SoftmaxOutput", {}, (f"{name}_label",)


def dumps(layers: Iterable[Layer]) -> str:
    """Return the symbol file of a chain of layers, as MXNet 1.9.1 writes it."""
    nodes = [_entry(VARIABLE, DATA, {}, [])]
    for layer in layers:
        op, attributes, names = _described(layer)
        before = len(nodes) - 1
        # MXNet repeats a layer's attributes on its variables.
        nodes += [_entry(VARIABLE, name, attributes, []) for name in names]
        inputs = [before, *range(before + 1, len(nodes))]
        nodes.append(_entry(op, layer.name, attributes, inputs))
    document = {
        "nodes": nodes,
        "arg_nodes": [n for n, node in enumerate(nodes) if node["op"] == VARIABLE],
        "heads": [[len(nodes) - 1, 0, 0]],
        "attrs": {"mxnet_version": ["int", VERSION]},
    }
    # MXNet's JSON reader does not support \u escapes.
    return json.dumps(document, indent=2, ensure_ascii=False)


def _entry(
    op: str, name: str, attributes: Mapping[str, str], inputs: Iterable[int]
) -> dict[str, Any]:
    says = {"attrs": attributes} if attributes else {}
    return {"op": op, "name": name, **says, "inputs": [[n, 0, 0] for n in inputs]}
