"""Read and write networks in MXNet's symbol files, JSON of versions 0.x to 1.9."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from course import operators
from course.errors import ProjectError
from course.graph import Layer, Layers
from course.operators import OPERATORS

VARIABLE = "null"
DATA = "data"
ATTRIBUTES = "param", "attr", "attrs"  # until 0.8, until 1.0, and since
VERSION = 10901  # the MXNet version of the files that are written, 1.9.1
MOST_SHOWN, LONGEST = 5, 200  # problems shown of a file, and characters of each


@dataclass(frozen=True, slots=True)
class Node:
    """A variable or an operator; inputs are indices of nodes."""

    op: str
    name: str
    attributes: Mapping[str, str]
    inputs: tuple[int, ...]

    def __str__(self) -> str:
        return f"node `{self.name}` ({self.op})"


def loads(text: str, source: str = "symbol") -> Layers:
    """Parse a symbol file into a chain of layers; raise ProjectError."""
    document = _document(text, source)
    _refuse(_malformed(document), source)
    nodes = [_node(entry) for entry in document["nodes"]]
    head: int = document["heads"][0][0]
    _refuse(_problems(nodes, head), source)
    chain = []
    while nodes[head].op != VARIABLE:
        node = nodes[head]
        taken = [nodes[n].name for n in node.inputs[1:]]
        chain.append(operators.layer(node.op, node.name, node.attributes, taken))
        head = node.inputs[0]
    return tuple(reversed(chain))


def _refuse(problems: Iterator[str], source: str) -> None:
    found = list(problems)
    shown = [one if len(one) <= LONGEST else f"{one[:LONGEST]}..." for one in found]
    if len(found) > MOST_SHOWN:
        shown[MOST_SHOWN:] = [f"and {len(found) - MOST_SHOWN} more"]
    if shown:
        # JSON strings can contain lone surrogates, which cannot be printed.
        message = "; ".join(shown).encode(errors="backslashreplace").decode()
        raise ProjectError(f"{source}: {message}")


def _document(text: str, source: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProjectError(f"{source}: not a symbol file: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ProjectError(f"{source}: not a symbol file: not a JSON object")
    return document


def _malformed(document: Mapping[str, object]) -> Iterator[str]:
    """Yield where the JSON does not have the structure of a symbol file."""
    nodes, heads = document.get("nodes"), document.get("heads")
    if not isinstance(nodes, list) or not nodes:
        yield "not a symbol file: missing list `nodes`"
        return
    for place, entry in enumerate(nodes):
        yield from (f"node {place}: {what}" for what in _wrong(entry, place))
    if not isinstance(heads, list) or not heads:
        yield "not a symbol file: missing list `heads`"
    elif not all(_is_entry(head, len(nodes)) for head in heads):
        yield f"`heads` is {json.dumps(heads)}, which is not a list of nodes"
    elif len(heads) > 1:
        yield f"{len(heads)} heads, only one is supported"


def _wrong(entry: object, place: int) -> Iterator[str]:
    if not isinstance(entry, dict):
        yield "not a JSON object"
        return
    for key in ("op", "name"):
        if not isinstance(entry.get(key), str):
            yield f"missing string `{key}`"
    for key in ATTRIBUTES:
        attributes = entry.get(key, {})
        if not isinstance(attributes, dict) or not all(
            isinstance(text, str) for text in attributes.values()
        ):
            yield f"`{key}` is not an object of strings"
    inputs = entry.get("inputs")
    if not isinstance(inputs, list):
        yield "missing list `inputs`"
    elif not all(_is_entry(one, place) for one in inputs):
        yield (
            f"`inputs` is {json.dumps(inputs)}, only first outputs of earlier nodes "
            "are supported"
        )


def _is_entry(entry: object, end: int) -> bool:
    """Return whether an entry is the first output of a node before index ``end``.

    An entry is a node's index, its output and, since 0.9, a version.
    """
    return (
        isinstance(entry, list)
        and len(entry) in (2, 3)
        and all(type(number) is int for number in entry)
        and 0 <= entry[0] < end
        and entry[1] == 0
    )


def _node(entry: Mapping[str, Any]) -> Node:
    attributes = {
        key: text for part in ATTRIBUTES for key, text in entry.get(part, {}).items()
    }
    return Node(
        entry["op"], entry["name"], attributes, tuple(n for n, *_ in entry["inputs"])
    )


def _problems(nodes: list[Node], head: int) -> Iterator[str]:
    """Yield why the nodes are not a chain of supported layers."""
    uses = Counter([head, *(n for node in nodes for n in node.inputs)])
    names = Counter(node.name for node in nodes)
    for place, node in enumerate(nodes):
        if node.op == VARIABLE:
            found = ["a variable has no inputs"] if node.inputs else []
        elif node.op in OPERATORS:
            found = [
                *operators.problems(node.op, node.attributes),
                *_links(nodes, node),
            ]
            if node.op in operators.LAST and place != head:
                found.append("only supported as the last layer")
        else:
            found = [f"unsupported operator, expected one of {', '.join(OPERATORS)}"]
        if uses[place] != 1:
            found.append(f"used by {uses[place]} nodes, only a chain is supported")
        if names[node.name] > 1:
            found.append("another node has the same name")
        yield from (f"{node}: {problem}" for problem in found)
    if nodes[head].op not in operators.LAST:
        yield f"{nodes[head]} is last, expected {', '.join(operators.LAST)}"


def _links(nodes: list[Node], node: Node) -> Iterator[str]:
    """Yield what is wrong with an operator's inputs."""
    wanted = (DATA, *OPERATORS[node.op].parameters)
    if len(node.inputs) != len(wanted):
        yield f"{len(node.inputs)} inputs, expected {', '.join(wanted)}"
        return
    data, *parameters = (nodes[n] for n in node.inputs)
    if data.op == VARIABLE and data.name != DATA:
        yield f"its first input is the variable `{data.name}`, expected `{DATA}`"
    if node.op in operators.LAST and data.op != "FullyConnected":
        yield f"it follows {data}, only FullyConnected is supported before it"
    for what, parameter in zip(wanted[1:], parameters, strict=True):
        if parameter.op != VARIABLE:
            yield f"its {what} is {parameter}, only a variable is supported"


def dumps(layers: Iterable[Layer]) -> str:
    """Return the symbol file of a chain of layers, as MXNet 1.9.1 writes it."""
    nodes = [_entry(VARIABLE, DATA, {}, [])]
    for layer in layers:
        op, attributes, names = operators.described(layer)
        before = len(nodes) - 1
        # MXNet repeats a layer's attributes on its variables.
        nodes += [_entry(VARIABLE, name, attributes, []) for name in names]
        inputs = [before, *range(before + 1, len(nodes))]
        nodes.append(_entry(op, layer.name, attributes, inputs))
    variables = [n for n, node in enumerate(nodes) if node["op"] == VARIABLE]
    document = {
        "nodes": nodes,
        "arg_nodes": variables,
        "heads": [[len(nodes) - 1, 0, 0]],
        "attrs": {"mxnet_version": ["int", VERSION]},
    }
    # MXNet's JSON reader does not support \u escapes.
    return json.dumps(document, indent=2, ensure_ascii=False)


def _entry(
    op: str, name: str, attributes: Mapping[str, str], inputs: Iterable[int]
) -> dict[str, Any]:
    entry: dict[str, object] = {"op": op, "name": name}
    if attributes:
        entry["attrs"] = dict(attributes)
    return {**entry, "inputs": [[n, 0, 0] for n in inputs]}
