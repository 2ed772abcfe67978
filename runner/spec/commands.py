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

_REFERENCE = re.compile(r"\$(?:\w|\{)")

_IF_EMPTY = "no image is built; indent its keys below it, or write `build_image: {}`"

WHAT = (*FIGURES, "output")
ANY = "any_of"

_COMPARISON = re.compile(r"(>=|<=|==|=|>|<)?\s*([01](?:\.[0-9]{1,15})?|\.[0-9]{1,15})")
_LONGEST_TEXT = 1000


def read_commands(commands: Fields, has_gpu: bool) -> tuple[Command, ...]:
    """Parse the commands, in order; empty items are left out."""
    node, problems = commands.node.get("build"), commands.problems
    if isinstance(node, ScalarNode) and not node.null:
        hint = "write a list: each command on a line of its own, after a `- `"
        commands.warn("build", "is not a list; it is read as one command", hint)
        found = [_command(commands, node, commands.name("build"))]
    else:
        items = commands.items("build", "[make, ./a.out]")
        found = [_command(commands, item, path) for path, item in items]
    kept = tuple(command for command in found if command)
    for command in kept:
        problems.found += command_problems.problems(command.text, command.place)
        if command.needs_gpu and not has_gpu:
            text = "the command needs a GPU, but resources.gpu does not ask for one"
            hint = "it is skipped; add `gpu: {count: 1}`, or run with `--gpus 1`"
            problems.warn(text, command.place, hint)
    return kept


def _command(commands: Fields, node: Node, path: str) -> Command | None:
    problems = commands.problems
    if isinstance(node, ScalarNode):
        if not node.null and (text := node.text.strip()):
            return Command(text, place=node.place)
        problems.warn(f"{path} is empty", node.place, "it is ignored")
        return None
    if isinstance(node, SequenceNode):
        hint = "write the command on one line, in quotes if it begins with `[` or `-`"
        problems.error(f"{path} is a list", node.place, hint)
        return None
    if node.get("run") is None:
        key = next(iter(node), "")
        hint = f"the `:` after `{key}` makes it one: put the whole command in quotes"
        if key in commands.grammar["commands.build[]"]:
            hint = "add it, e.g. `{run: make, timeout: 10m}`"
        problems.error(f"{path} is a mapping without `run`", node.place, hint)
        return None
    fields = commands.item(node, path)
    line = fields.text("run", None, "make") if fields else None
    if fields is None or line is None:
        return None
    gpu = Kind("gpu", lambda text: text.lower() == "gpu" or None)
    return Command(
        line,
        name=fields.text("name", None, "build"),
        needs_gpu=fields.read("needs", False, gpu, "gpu"),
        continue_on_error=fields.boolean("continue_on_error", False),
        timeout_s=fields.duration_s("timeout", None),
        expect=read_expect(fields),
        place=fields.place("run"),
        env=read_env(fields),
    )


def read_env(fields: Fields) -> tuple[tuple[str, str], ...]:
    """Parse ``env``, a mapping or a list of ``NAME=value``; values are literal."""
    found = read_pairs(fields, "env", "a variable")
    for pair in found:
        where = f"{fields.name('env')}.{pair.name}"
        if why := work.wrong_name(pair.name):
            fields.problems.error(f"{where} cannot be set: {why}", pair.place)
        elif pair.value is None:
            hint = (
                f'write `{pair.name}: ""` for an empty one;'
                f" `rai run -e {pair.name}` takes it from where you run that"
            )
            fields.problems.error(f"{where} has no value", pair.value_place, hint)
        elif why := work.wrong_value(pair.value):
            fields.problems.error(f"{where} cannot be set: {why}", pair.value_place)
        elif _REFERENCE.search(pair.value):
            text = (
                f"{where}: nothing is expanded in a value; `$` stays as it is written"
            )
            hint = "a command can expand it: `NAME=$OTHER ./program`"
            fields.problems.warn(text, pair.value_place, hint)
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
    if isinstance(node, ScalarNode) and node.null:
        fields.warn(key, "is empty")
    elif isinstance(node, ScalarNode):
        hint = f"expected a mapping, e.g. `{key}: {{NAME: value}}`"
        fields.error(key, f"is {kind(node)}", hint)
    return tuple(_pairs(fields, key, what))


def _pairs(fields: Fields, key: str, what: str) -> Iterator[Pair]:
    node, problems = fields.node.get(key), fields.problems
    for name, value in node.entries if isinstance(node, MappingNode) else ():
        if isinstance(value, ScalarNode):
            text = None if value.null else value.text
            yield Pair(name.text, text, name.place, value.place)
        else:
            path, hint = f"{fields.name(key)}.{name.text}", f"e.g. `{name.text}: value`"
            problems.error(f"{path} is not text", value.place, hint)
    for at, item in enumerate(node.items if isinstance(node, SequenceNode) else (), 1):
        line = item.text if isinstance(item, ScalarNode) else ""
        word, equals, given = line.partition("=")
        if word and equals:
            yield Pair(word, given, item.place, item.place)
        else:
            text = f"{fields.name(key)}[{at}] is not {what}"
            problems.error(text, item.place, "expected e.g. `- NAME=value`")


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

    def inside(text: str) -> str | None:
        out = text.startswith("/") or ".." in text.split("/") or not text.isprintable()
        return None if out else posixpath.normpath(text)

    path = Kind("a path inside the project", inside)
    image_name = fields.text("image_name", None, "someone/project:1")
    args = read_pairs(fields, "args", "a build argument")
    return BuildImage(
        image_name=image_name,
        dockerfile=fields.read("dockerfile", "Dockerfile", path, "docker/Dockerfile"),
        target=fields.text("target", None, "cpu"),
        gpu_target=fields.text("gpu_target", None, "gpu"),
        args=tuple((pair.name, pair.value or "") for pair in args),
        no_cache=fields.boolean("no_cache", False),
        push=_push(fields, image_name),
        place=(commands.node.key("build_image") or fields.node).place,
    )


def _push(fields: Fields, image_name: str | None) -> Push | None:
    push = fields.child("push", "`push: true`")
    if push is None:
        return None
    if push.has("credentials"):
        hint = "remove it; `docker login` keeps credentials"
        push.warn("credentials", "is ignored, to keep secrets out of records", hint)
    if push.has("registry"):
        hint = "write the registry in image_name, e.g. `ghcr.io/someone/project:1`"
        push.warn("registry", "has no effect", hint)
    name = push.text("image_name", image_name, "someone/project:1")
    if not push.boolean("push", False):
        return None
    if name is None:
        hint = "add it, e.g. `image_name: someone/project:1`"
        push.error("", "has no image_name", hint)
        return None
    return Push(name)


def read_expect(command: Fields) -> tuple[Expectation, ...]:
    """Parse what a command is expected to print; all of it must hold."""
    node, path = command.node.get("expect"), command.name("expect")
    if node is None:
        return ()
    reader = _Reader(command)
    if not isinstance(node, MappingNode) or not node.entries:
        mapping = isinstance(node, MappingNode)
        expected = "at least one key" if mapping else "a mapping"
        reader.wrong(node, path, expected, "expect: {correctness: 0.8898}")
        return ()
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
        hint = f"expected {expected}, e.g. `{example}`"
        self._problems.error(f"{path} is {kind(node)}", node.place, hint)

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
        hint = "valid keys are " + ", ".join(f"`{name}`" for name in known)
        if close := resembling(key.text, known):
            hint = f"did you mean `{close}`?"
        text = f"unknown key `{key.text}` in {path}"
        self._problems.error(text, key.place, hint)
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
