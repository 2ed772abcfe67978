"""The supported MXNet operators, by their names in symbol files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from course.graph import Convolution, Dense, Flatten, Layer, Pooling, Softmax, Tanh

Value = bool | int | str | tuple[int, ...]

LONG = r"\d{1,9}L?"  # Python 2 writes an L after long integers
TUPLE = re.compile(rf"[(\[]\s*((?:{LONG}\s*(?:,\s*|(?=[)\]])))*)[)\]]")
# Users' attributes, which no operator reads; MXNet 0.x writes them without __.
USERS = re.compile(
    r"__\w+__|(\w+_)?(ctx_group|lr_mult|wd_mult|mirror_stage|force_mirroring)"
)


@dataclass(frozen=True, slots=True)
class Operator:
    """The attributes of an operator, and their supported values."""

    parameters: tuple[str, ...] = ()  # inputs besides the data
    sizes: tuple[str, ...] = ()  # required attributes that size the layer
    only: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)  # supported
    required: tuple[str, ...] = ()  # their default value is not supported
    free: tuple[str, ...] = ()  # any value: the result does not depend on them


YES, NO = (True, 1), (False, 0)
PLAIN: dict[str, tuple[Value, ...]] = {
    "stride": ((1, 1), ()),
    "dilate": ((1, 1), ()),
    "pad": ((0, 0), ()),
    "num_group": (1,),
    "layout": ("NCHW", "None"),
    "no_bias": YES,
}
TUNING = "workspace", "cudnn_tune", "cudnn_off"
LOSS = "grad_scale", "ignore_label", "use_ignore", "normalization", "out_grad"
OUTPUT = Operator(
    ("label",),
    only={"multi_output": NO, "preserve_shape": NO},
    free=(*LOSS, "smooth_alpha"),
)

OPERATORS: dict[str, Operator] = {
    "Convolution": Operator(
        ("weight",), ("kernel", "num_filter"), PLAIN, ("no_bias",), TUNING
    ),
    "New": Operator(("weight",), ("kernel", "num_filter"), PLAIN, free=TUNING),
    "Activation": Operator(only={"act_type": ("tanh",)}, required=("act_type",)),
    "tanh": Operator(),
    "Pooling": Operator(
        only={
            "kernel": ((2, 2),),
            "stride": ((2, 2),),
            "pool_type": ("max",),
            "pad": PLAIN["pad"],
            "global_pool": NO,
            "pooling_convention": ("valid",),
            "layout": PLAIN["layout"],
        },
        required=("kernel", "stride"),
        free=("cudnn_off", "p_value", "count_include_pad"),
    ),
    "Flatten": Operator(),
    "FullyConnected": Operator(
        ("weight", "bias"), ("num_hidden",), {"no_bias": NO, "flatten": YES}
    ),
    "SoftmaxOutput": OUTPUT,
    "Softmax": OUTPUT,
    "softmax": Operator(
        only={
            "axis": (-1, 1),
            "temperature": ("None", 1, "1.0"),
            "dtype": ("None",),
            "use_length": NO,
        }
    ),
}
LAST = "SoftmaxOutput", "Softmax", "softmax"


def problems(op: str, attributes: Mapping[str, str]) -> Iterator[str]:
    """Yield what is unsupported in an operator's attributes."""
    known = OPERATORS[op]
    for name in known.sizes:
        if name not in attributes:
            yield f"`{name}` is missing"
        elif not (
            _side(attributes[name]) if name == "kernel" else _count(attributes[name])
        ):
            wanted = "(K, K)" if name == "kernel" else "a positive whole number"
            yield f"`{name}` is {attributes[name]}, expected {wanted}"
    for name, served in known.only.items():
        if name in attributes and not _among(value(attributes[name]), served):
            yield f"`{name}` is {attributes[name]}, only {served[0]} is supported"
        elif name not in attributes and name in known.required:
            yield f"`{name}` is missing, only {served[0]} is supported"
    others = attributes.keys() - {*known.sizes, *known.only, *known.free}
    for name in sorted(others):
        if not USERS.fullmatch(name):
            yield f"unknown attribute `{name}`"


def _among(found: Value, served: tuple[Value, ...]) -> bool:
    return any(found == one and type(found) is type(one) for one in served)


def value(text: str) -> Value:
    """Parse an attribute's value as MXNet does."""
    text = text.strip()
    if found := TUPLE.fullmatch(text):
        return tuple(map(int, re.findall(r"\d+", found[1])))
    if re.fullmatch(r"[+-]?\d{1,9}", text):
        return int(text)
    return {"true": True, "false": False}.get(text.lower(), text)


def _count(text: str) -> int:
    """Parse a positive number; return 0 for anything else."""
    found = value(text)
    return max(found, 0) if type(found) is int else 0


def _side(text: str) -> int:
    """Parse a square's side; return 0 for anything else."""
    match value(text):
        case (int(height), int(width)) if height == width:
            return height
    return 0


def layer(op: str, name: str, attributes: Mapping[str, str], taken: list[str]) -> Layer:
    """Return the layer of a supported operator."""
    match op:
        case "Convolution" | "New":
            maps, kernel = _count(attributes["num_filter"]), _side(attributes["kernel"])
            return Convolution(name, taken[0], maps, kernel, own=op == "New")
        case "FullyConnected":
            weight, bias = taken
            return Dense(name, weight, bias, _count(attributes["num_hidden"]))
        case "Pooling":
            return Pooling(name)
        case "Flatten":
            return Flatten(name)
        case "Activation" | "tanh":
            return Tanh(name)
    return Softmax(name)


def described(layer: Layer) -> tuple[str, dict[str, str], tuple[str, ...]]:
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
