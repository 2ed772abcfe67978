"""``commands``: how to build the image, and the commands, with `env` and `expect`."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from msgspec import Struct

from runner.core import BuildImage, Command, Place, Push, work
from runner.core.build_spec import FIGURES, Expectation, Expected
from runner.core.quantities import Kind
from runner.spec import command_problems, patterns
from runner.spec.fields import Fields, resembling
from runner.spec.yamlfile import MappingNode, Node, ScalarNode, SequenceNode, kind

_EXAMPLE = "[make, ./a.out]"

_REFERENCE = re.compile(r"\$(?:\w|\{)")

_IF_EMPTY = "no image is built; indent its keys below it, or write `build_image: {}`"

WHAT = (*FIGURES, "output")
ANY = "any_of"

_COMPARISON = re.compile(r"(>=|<=|==|=|>|<)?\s*([01](?:\.[0-9]{1,15})?|\.[0-9]{1,15})")
_LONGEST_TEXT = 1000


def read_commands(commands: Fields, has_gpu: bool) -> tuple[Command, ...]:
    """Parse the commands, in order; empty items are left out."""
    node = commands.node.get("build")
    if isinstance(node, ScalarNode) and not node.null:
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
        commands.problems.found += command_problems.problems(
            command.text, command.place
        )
        if command.needs_gpu and not has_gpu:
            commands.problems.warn(
                "the command needs a GPU, but resources.gpu does not ask for one",
                command.place,
                "it is skipped; add `gpu: {count: 1}`, or run with `--gpus 1`",
            )
    return kept


def _command(commands: Fields, node: Node, path: str) -> Command | None:
    if isinstance(node, ScalarNode):
        return _line(commands, node, path)
    if isinstance(node, SequenceNode):
        commands.problems.error(
            f"{path} is a list",
            node.place,
            "write the command on one line, in quotes if it begins with `[` or `-`",
        )
        return None
    return _mapping(commands, node, path)


def _line(commands: Fields, node: ScalarNode, path: str) -> Command | None:
    text = node.text.strip()
    if node.null or not text:
        commands.problems.warn(f"{path} is empty", node.place, "it is ignored")
        return None
    return Command(text, place=node.place)


def _mapping(commands: Fields, node: MappingNode, path: str) -> Command | None:
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
        expect=read_expect(fields),
        place=fields.place("run"),
        env=read_env(fields),
    )


def _gpu(text: str) -> bool | None:
    return True if text.lower() == "gpu" else None


def read_env(fields: Fields) -> tuple[tuple[str, str], ...]:
    """Parse ``env``, a mapping or a list of ``NAME=value``; values are literal."""
    found = read_pairs(fields, "env", "a variable")
    for pair in found:
        where = f"{fields.name('env')}.{pair.name}"
        if why := work.wrong_name(pair.name):
            fields.problems.error(f"{where} cannot be set: {why}", pair.place)
        elif pair.value is None:
            fields.problems.error(
                f"{where} has no value",
                pair.value_place,
                f'write `{pair.name}: ""` for an empty one;'
                f" `rai run -e {pair.name}` takes it from where you run that",
            )
        elif why := work.wrong_value(pair.value):
            fields.problems.error(f"{where} cannot be set: {why}", pair.value_place)
        elif _REFERENCE.search(pair.value):
            fields.problems.warn(
                f"{where}: nothing is expanded in a value; `$` stays as it is written",
                pair.value_place,
                "a command can expand it: `NAME=$OTHER ./program`",
            )
    return tuple((pair.name, pair.value or "") for pair in found)


class Pair(Struct, frozen=True):
    """A name and its value, with their places; the value is None where none stands."""

    name: str
    value: str | None
    place: Place
    value_place: Place


def read_pairs(fields: Fields, key: str, what: str) -> tuple[Pair, ...]:
    """Parse the pairs below a key, each of which is ``what``."""
    node = fields.node.get(key)
    if isinstance(node, MappingNode):
        found = (_pair_entry(fields, key, name, value) for name, value in node.entries)
    elif isinstance(node, SequenceNode):
        items = fields.items(key, "{NAME: value}")
        found = (_pair_item(fields, path, item, what) for path, item in items)
    else:
        if node is not None and node.null:
            fields.problems.warn(f"{fields.name(key)} is empty", node.place)
        elif node is not None:
            hint = f"expected a mapping, e.g. `{key}: {{NAME: value}}`"
            fields.problems.error(
                f"{fields.name(key)} is {kind(node)}", node.place, hint
            )
        return ()
    return tuple(pair for pair in found if pair)


def _pair_entry(fields: Fields, key: str, name: ScalarNode, value: Node) -> Pair | None:
    if isinstance(value, ScalarNode):
        text = None if value.null else value.text
        return Pair(name.text, text, name.place, value.place)
    path, hint = f"{fields.name(key)}.{name.text}", f"e.g. `{name.text}: value`"
    fields.problems.error(f"{path} is not text", value.place, hint)
    return None


def _pair_item(fields: Fields, path: str, item: Node, what: str) -> Pair | None:
    name, equals, value = (item.text if isinstance(item, ScalarNode) else "").partition(
        "="
    )
    if name and equals:
        return Pair(name, value, item.place, item.place)
    hint = "expected e.g. `- NAME=value`"
    fields.problems.error(f"{path} is not {what}", item.place, hint)
    return None


def read_build_image(commands: Fields, has_gpu: bool) -> BuildImage | None:
    """Parse how to build the image; None if none is built."""
    fields = commands.child("build_image", "`dockerfile: Dockerfile`", _IF_EMPTY)
    if fields is None:
        return None
    if fields.has("gpu_target") and not has_gpu:
        fields.problems.warn(
            f"{fields.name('gpu_target')}: resources.gpu does not ask for a GPU",
            fields.place("gpu_target"),
            "it is not built; add `gpu: {count: 1}`, or run with `--gpus 1`",
        )
    inside = Kind("a path inside the project", _inside_the_project)
    image_name = fields.text("image_name", None, "someone/project:1")
    return BuildImage(
        image_name=image_name,
        dockerfile=fields.read(
            "dockerfile", BuildImage().dockerfile, inside, "docker/Dockerfile"
        ),
        target=fields.text("target", None, "cpu"),
        gpu_target=fields.text("gpu_target", None, "gpu"),
        args=_arguments(fields),
        no_cache=fields.boolean("no_cache", False),
        push=_push(fields, image_name),
        place=(commands.node.key("build_image") or fields.node).place,
    )


def _inside_the_project(text: str) -> str | None:
    if text.startswith("/") or ".." in text.split("/") or not text.isprintable():
        return None
    return posixpath.normpath(text)


def _arguments(fields: Fields) -> tuple[tuple[str, str], ...]:
    found = read_pairs(fields, "args", "a build argument")
    return tuple((pair.name, pair.value or "") for pair in found)


def _push(fields: Fields, image_name: str | None) -> Push | None:
    push = fields.child("push", "`push: true`")
    if push is None:
        return None
    if push.has("credentials"):
        push.problems.warn(
            f"{push.name('credentials')} is ignored, to keep secrets out of records",
            push.place("credentials"),
            "remove it; `docker login` keeps credentials",
        )
    if push.has("registry"):
        push.problems.warn(
            f"{push.name('registry')} has no effect",
            push.place("registry"),
            "write the registry in image_name, e.g. `ghcr.io/someone/project:1`",
        )
    name = push.text("image_name", image_name, "someone/project:1")
    if not push.boolean("push", False):
        return None
    if name is None:
        push.problems.error(
            f"{push.path} has no image_name",
            push.place(),
            "add it, e.g. `image_name: someone/project:1`",
        )
        return None
    return Push(name)


def read_expect(command: Fields) -> tuple[Expectation, ...]:
    """Parse what a command is expected to print; all of it must hold."""
    node, path = command.node.get("expect"), command.name("expect")
    if node is None:
        return ()
    reader = _Reader(command)
    if not isinstance(node, MappingNode):
        reader.wrong(node, path, "a mapping", "expect: {correctness: 0.8898}")
        return ()
    if not node.entries:
        reader.wrong(node, path, "at least one key", "expect: {correctness: 0.8898}")
    return tuple(reader.every(node, path))


class _Reader:
    """Reads the values of one ``expect`` and reports their problems.

    Unlike elsewhere an unknown key is an error: the file would check less than it says.
    """

    def __init__(self, command: Fields) -> None:
        self._problems = command.problems

    def every(self, node: MappingNode, path: str) -> Iterator[Expectation]:
        for key, value in node.entries:
            if key.text == ANY:
                yield from self._any_of(value, f"{path}.{ANY}")
            elif self._known(key, path, (*WHAT, ANY)):
                for one in self._values(key.text, value, f"{path}.{key.text}"):
                    yield Expectation((one,), value.place)

    def wrong(self, node: Node, path: str, expected: str, example: str) -> None:
        """Report a value of the wrong kind."""
        self._problems.error(
            f"{path} is {kind(node)}",
            node.place,
            f"expected {expected}, e.g. `{example}`",
        )

    def _any_of(self, node: Node, path: str) -> Iterator[Expectation]:
        example = f"{ANY}: [{{correctness: 0.8898}}, {{agreement: 1}}]"
        if not isinstance(node, SequenceNode) or not node.items:
            self.wrong(node, path, "a list", example)
            return
        found: list[Expected] = []
        for number, item in enumerate(node.items, 1):
            where = f"{path}[{number}]"
            if not isinstance(item, MappingNode) or len(item.entries) != 1:
                self.wrong(item, where, "a mapping with one key", example)
                continue
            ((key, value),) = item.entries
            if self._known(key, where, WHAT):
                found += self._value(key.text, value, f"{where}.{key.text}")
        if len(found) == len(node.items):
            yield Expectation(tuple(found), node.place)

    def _known(self, key: ScalarNode, path: str, known: tuple[str, ...]) -> bool:
        if key.text in known:
            return True
        close = resembling(key.text, known)
        self._problems.error(
            f"unknown key `{key.text}` in {path}",
            key.place,
            f"did you mean `{close}`?"
            if close
            else "valid keys are " + ", ".join(f"`{name}`" for name in known),
        )
        return False

    def _values(self, what: str, node: Node, path: str) -> Iterator[Expected]:
        """Parse a value, or each of a list of them."""
        if isinstance(node, SequenceNode) and node.items:
            for number, item in enumerate(node.items, 1):
                yield from self._value(what, item, f"{path}[{number}]")
        else:
            yield from self._value(what, node, path)

    def _value(self, what: str, node: Node, path: str) -> list[Expected]:
        if what == "output":
            return self._output(node, path)
        text = node.text.strip() if isinstance(node, ScalarNode) else ""
        match = _COMPARISON.fullmatch(text)
        if match is None or float(match[2]) > 1:
            expected = "a number from 0 to 1, alone or after >=, <=, > or <, in quotes"
            self.wrong(node, path, expected, f'{what}: ">=0.85"')
            return []
        how = (match[1] or "=").replace("==", "=")
        return [Expected(what, how, match[2])]

    def _output(self, node: Node, path: str) -> list[Expected]:
        text = node.text if isinstance(node, ScalarNode) and not node.null else ""
        if not text.strip() or len(text) > _LONGEST_TEXT:
            expected = f"a text of 1 to {_LONGEST_TEXT} characters"
            self.wrong(node, path, expected, "output: Test PASSED")
            return []
        if "\n" in text.strip("\n"):
            hint = "the output is searched line by line: write a list of texts"
            self._problems.error(f"{path} has several lines", node.place, hint)
            return []
        text = text.strip("\n")
        if len(text) > 2 and text[0] == text[-1] == "/":
            return self._pattern(text[1:-1], node.place, path)
        return [Expected("output", "text", text)]

    def _pattern(self, text: str, place: Place, path: str) -> list[Expected]:
        why = "it matches any output"
        try:
            if patterns.Pattern(text).line(b"") is None:
                return [Expected("output", "regex", text)]
        except patterns.PatternError as error:
            why = str(error)
        hint = "see RE2's syntax: https://github.com/google/re2/wiki/Syntax"
        self._problems.error(f"{path} /{text}/ cannot be searched: {why}", place, hint)
        return []
