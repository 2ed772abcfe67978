"""Networks in MXNet's symbol files, those of 0.x to 1.9: JSON, read and written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import operators
from errors import ProjectError
from graph import Layer, Layers
from operators import OPERATORS

VARIABLE = "null"
DATA = "data"
ATTRIBUTES = "param", "attr", "attrs"  # until 0.8; until 1.0; from then on
VERSION = 10901  # of the MXNet whose files ours are
MOST_TOLD, LONGEST = 5, 200  # problems of a file, and the characters of one


@dataclass(frozen=True, slots=True)
class Node:
    """A variable, or an operator with what it takes, by the nodes' places."""

    op: str
    name: str
    says: Mapping[str, str]
    inputs: tuple[int, ...]

    def __str__(self) -> str:
        return f"node `{self.name}` ({self.op})"


def loads(text: str, source: str = "symbol") -> Layers:
    """Read the layers of a chain from the images to the probabilities."""
    document = _document(text, source)
    _refuse(_misshapen(document), source)
    nodes = [_node(entry) for entry in document["nodes"]]
    head: int = document["heads"][0][0]
    _refuse(_problems(nodes, head), source)
    chain = []
    while nodes[head].op != VARIABLE:
        node = nodes[head]
        taken = [nodes[n].name for n in node.inputs[1:]]
        chain.append(operators.layer(node.op, node.name, node.says, taken))
        head = node.inputs[0]
    return tuple(reversed(chain))


def _refuse(problems: Iterator[str], source: str) -> None:
    found = list(problems)
    told = [one if len(one) <= LONGEST else f"{one[:LONGEST]}..." for one in found]
    if len(found) > MOST_TOLD:
        told[MOST_TOLD:] = [f"and {len(found) - MOST_TOLD} more"]
    if told:
        # JSON can hold halves of characters, which cannot be printed.
        sentence = "; ".join(told).encode(errors="backslashreplace").decode()
        raise ProjectError(f"{source}: {sentence}")


def _document(text: str, source: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProjectError(f"{source}: not a symbol file: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ProjectError(f"{source}: not a symbol file: not an object of JSON")
    return document


def _misshapen(document: Mapping[str, object]) -> Iterator[str]:
    """Tell where the JSON is not of a symbol's shape."""
    nodes, heads = document.get("nodes"), document.get("heads")
    if not isinstance(nodes, list) or not nodes:
        yield "not a symbol file: it has no list `nodes`"
        return
    for place, entry in enumerate(nodes):
        yield from (f"node {place}: {what}" for what in _wrong(entry, place))
    if not isinstance(heads, list) or not heads:
        yield "not a symbol file: it has no list `heads`"
    elif not all(_is_entry(head, len(nodes)) for head in heads):
        yield f"`heads` is {json.dumps(heads)}, which names no node"
    elif len(heads) > 1:
        yield f"{len(heads)} heads, only one is served"


def _wrong(entry: object, place: int) -> Iterator[str]:
    if not isinstance(entry, dict):
        yield "not an object of JSON"
        return
    for key in ("op", "name"):
        if not isinstance(entry.get(key), str):
            yield f"it has no text `{key}`"
    for key in ATTRIBUTES:
        says = entry.get(key, {})
        if not isinstance(says, dict) or not all(
            isinstance(text, str) for text in says.values()
        ):
            yield f"`{key}` is not an object of texts"
    inputs = entry.get("inputs")
    if not isinstance(inputs, list):
        yield "it has no list `inputs`"
    elif not all(_is_entry(one, place) for one in inputs):
        yield (
            f"`inputs` is {json.dumps(inputs)}, only first outputs of nodes before it "
            "are served"
        )


def _is_entry(entry: object, end: int) -> bool:
    """Say whether it is the first output of a node before the end.

    It is a node's place, its output and, from 0.9 on, a version.
    """
    return (
        isinstance(entry, list)
        and len(entry) in (2, 3)
        and all(type(number) is int for number in entry)
        and 0 <= entry[0] < end
        and entry[1] == 0
    )


def _node(entry: Mapping[str, Any]) -> Node:
    says = {
        key: text for part in ATTRIBUTES for key, text in entry.get(part, {}).items()
    }
    return Node(entry["op"], entry["name"], says, tuple(n for n, *_ in entry["inputs"]))


def _problems(nodes: list[Node], head: int) -> Iterator[str]:
    """Tell what keeps the nodes from being a chain of layers that are served."""
    uses = Counter([head, *(n for node in nodes for n in node.inputs)])
    names = Counter(node.name for node in nodes)
    for place, node in enumerate(nodes):
        if node.op == VARIABLE:
            found = ["a variable takes nothing"] if node.inputs else []
        elif node.op in OPERATORS:
            found = [*operators.problems(node.op, node.says), *_links(nodes, node)]
            if node.op in operators.LAST and place != head:
                found.append("only the last layer can be one")
        else:
            found = [f"only {', '.join(OPERATORS)} are served"]
        if uses[place] != 1:
            found.append(f"it goes to {uses[place]} nodes, only a chain is served")
        if names[node.name] > 1:
            found.append("another node has its name")
        yield from (f"{node}: {problem}" for problem in found)
    if nodes[head].op not in operators.LAST:
        yield f"{nodes[head]} is last, only {', '.join(operators.LAST)} can be"


def _links(nodes: list[Node], node: Node) -> Iterator[str]:
    """Tell what an operator takes that it should not."""
    wanted = (DATA, *OPERATORS[node.op].parameters)
    if len(node.inputs) != len(wanted):
        yield f"it takes {len(node.inputs)} inputs, only {', '.join(wanted)} are served"
        return
    data, *parameters = (nodes[n] for n in node.inputs)
    if data.op == VARIABLE and data.name != DATA:
        yield f"it takes the variable `{data.name}`, only `{DATA}` can come first"
    if node.op in operators.LAST and data.op != "FullyConnected":
        yield f"it follows {data}, only FullyConnected is served there"
    for what, parameter in zip(wanted[1:], parameters, strict=True):
        if parameter.op != VARIABLE:
            yield f"its {what} is {parameter}, only a variable is served"


def dumps(layers: Iterable[Layer]) -> str:
    """Write layers as MXNet 1.9.1 does, for it to load."""
    nodes = [_entry(VARIABLE, DATA, {}, [])]
    for layer in layers:
        op, says, names = operators.said(layer)
        before = len(nodes) - 1
        # MXNet gives a layer's attributes to its variables too.
        nodes += [_entry(VARIABLE, name, says, []) for name in names]
        inputs = [before, *range(before + 1, len(nodes))]
        nodes.append(_entry(op, layer.name, says, inputs))
    variables = [n for n, node in enumerate(nodes) if node["op"] == VARIABLE]
    document = {
        "nodes": nodes,
        "arg_nodes": variables,
        "heads": [[len(nodes) - 1, 0, 0]],
        "attrs": {"mxnet_version": ["int", VERSION]},
    }
    # MXNet's reader knows no \u escapes.
    return json.dumps(document, indent=2, ensure_ascii=False)


def _entry(
    op: str, name: str, says: Mapping[str, str], inputs: Iterable[int]
) -> dict[str, Any]:
    entry: dict[str, object] = {"op": op, "name": name}
    if says:
        entry["attrs"] = dict(says)
    return {**entry, "inputs": [[n, 0, 0] for n in inputs]}
