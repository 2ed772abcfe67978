"""``commands.build``: the commands, each a line or a mapping with ``run``."""

from __future__ import annotations

from runner import commandline as lines
from runner.buildfile import env, expect
from runner.core import Command
from runner.core.quantities import Kind
from runner.yamlfile import Fields, Mapping, Node, Scalar, Sequence

_EXAMPLE = "[make, ./a.out]"


def read(commands: Fields, has_gpu: bool) -> tuple[Command, ...]:
    """Parse the commands, in order; empty items are left out."""
    node = commands.node.get("build")
    if isinstance(node, Scalar) and not node.null:
        commands.problems.warn(
            f"{commands.name('build')} is not a list; it is read as one command",
            node.place,
            "write a list: each command on a line of its own, after a `- `",
        )
        found = [_line(commands, node, commands.name("build"))]
    else:
        items = commands.items("build", _EXAMPLE)
        found = [_command(commands, item, path) for path, item in items]
    kept = tuple(command for command in found if command)
    for command in kept:
        commands.problems.found += lines.problems(command.text, command.place)
        if command.needs_gpu and not has_gpu:
            commands.problems.warn(
                "the command needs a GPU, but resources.gpu does not ask for one",
                command.place,
                "it is skipped; add `gpu: {count: 1}`, or run with `--gpus 1`",
            )
    return kept


def _command(commands: Fields, node: Node, path: str) -> Command | None:
    if isinstance(node, Scalar):
        return _line(commands, node, path)
    if isinstance(node, Sequence):
        commands.problems.error(
            f"{path} is a list",
            node.place,
            "write the command on one line, in quotes if it begins with `[` or `-`",
        )
        return None
    return _mapping(commands, node, path)


def _line(commands: Fields, node: Scalar, path: str) -> Command | None:
    text = node.text.strip()
    if node.null or not text:
        commands.problems.warn(f"{path} is empty", node.place, "it is ignored")
        return None
    return Command(text, place=node.place)


def _mapping(commands: Fields, node: Mapping, path: str) -> Command | None:
    if node.get("run") is None:
        key = next(iter(node), "")
        commands.problems.error(
            f"{path} is a mapping without `run`",
            node.place,
            "add it, e.g. `{run: make, timeout: 10m}`"
            if key in commands.grammar["commands.build[]"]
            else f"the `:` after `{key}` makes it one: put the whole command in quotes",
        )
        return None
    fields = commands.item(node, path)
    text = fields.text("run", None, "make") if fields else None
    if fields is None or text is None:
        return None
    return Command(
        text,
        name=fields.text("name", None, "build"),
        needs_gpu=fields.read("needs", False, Kind("gpu", _gpu), "gpu"),
        continue_on_error=fields.boolean("continue_on_error", False),
        timeout_s=fields.duration_s("timeout", None),
        expect=expect.read(fields),
        place=fields.place("run"),
        env=env.read(fields),
    )


def _gpu(text: str) -> bool | None:
    return True if text.lower() == "gpu" else None
