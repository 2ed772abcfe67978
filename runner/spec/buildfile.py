"""Parse rai_build.yml to a BuildSpec, mask its credentials, and select its commands."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from msgspec import Struct

from runner.core import (
    LIMITS,
    BuildImage,
    BuildSpec,
    Command,
    Place,
    Problem,
    quantities,
)
from runner.core.errors import NotAllowedError, SpecError, UsageError
from runner.core.policy import Policy
from runner.core.record import MOST_ROUNDS
from runner.spec import resources
from runner.spec.commands import ANY, WHAT, read_build_image, read_commands, read_env
from runner.spec.fields import Fields, Grammar, resembling
from runner.spec.image_names import valid
from runner.spec.images import name_problems as image_problems
from runner.spec.yamlfile import (
    MappingNode,
    Node,
    Problems,
    ScalarNode,
    SequenceNode,
    compose,
)
from runner.spec.yamlfile import decode as decode_yaml

MASK = "***"
_IGNORED = ("commands", "build_image", "push", "credentials")
"""Where credentials have no effect: a masked one need not be given again."""


class _Secret(Struct, frozen=True):
    """A value below a ``credentials`` key, and the keys that lead to it."""

    path: tuple[str, ...]
    value: ScalarNode


def redacted(text: str) -> str:
    """Return the text with everything under a ``credentials`` key masked."""
    text = text.removeprefix("\ufeff")
    # In quotes, as YAML takes a bare asterisk for an alias.
    return _replaced(text, {found.value.span: f'"{MASK}"' for found in _secrets(text)})


def masked(text: str) -> tuple[str, ...]:
    """Return the names of the masked values that a run of this text needs."""
    return tuple(dict.fromkeys(found.path[-1] for found in _needed(text)))


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return the text with its masked values replaced, each by its name."""
    spans = {
        found.value.span: json.dumps(values[found.path[-1]], ensure_ascii=False)
        for found in _needed(text)
        if found.path[-1] in values
    }
    return _replaced(text, spans)


def _needed(text: str) -> Iterator[_Secret]:
    for found in _secrets(text):
        if found.value.text == MASK and found.path[: len(_IGNORED)] != _IGNORED:
            yield found


def _replaced(text: str, by_span: Mapping[tuple[int, int], str]) -> str:
    for (start, end), value in sorted(by_span.items(), reverse=True):
        old = text[start:end]
        # The span of a block of lines includes the end of its last line.
        text = text[:start] + value + old[len(old.rstrip()) :] + text[end:]
    return text


def _secrets(text: str) -> Iterator[_Secret]:
    def below(node: Node | None, path: tuple[str, ...]) -> Iterator[_Secret]:
        if isinstance(node, MappingNode):
            for key, value in node.entries:
                yield from below(value, (*path, key.text))
        elif isinstance(node, SequenceNode):
            for item in node.items:
                yield from below(item, path)
        elif node is not None and "credentials" in path and not node.null:
            yield _Secret(path, node)

    return below(compose(text, "", Problems()), ())


def decode(raw: bytes, file: str) -> str:
    """Decode the file's bytes; raise SpecError with the place of the first bad byte."""
    problems = Problems()
    text = decode_yaml(raw, file, problems)
    if text is None:
        raise SpecError(problems.found)
    return text


def parse(text: str, file: str) -> tuple[BuildSpec, list[Problem]]:
    """Parse a build file; return it with its warnings, or raise SpecError."""
    problems = Problems()
    root = Fields.of(compose(text, file, problems), KEYS, problems)
    if root is None and problems.fatal:
        raise SpecError(problems.found)
    start = MappingNode(Place(file, 1, 1), ())
    spec = _spec(root or Fields(start, KEYS, problems), file)
    problems.found += image_problems(spec)
    if problems.fatal:
        raise SpecError(problems.in_file_order())
    return spec, problems.in_file_order()


def _spec(root: Fields, file: str) -> BuildSpec:
    rai = root.section("rai", "`image: gcc`")
    image = rai.text("image", None, "gcc:12")
    if image is not None and not valid(image):
        hint = "expected e.g. `someone/project:1`, in lower case"
        rai.warn("image", f'"{image}" is not a valid image name', hint)
    wants = root.section("resources")
    gpu = resources.gpu(wants)
    architecture, cores = resources.cpu(wants)
    build_image, commands = _commands(root, gpu is not None)
    return BuildSpec(
        file=file,
        version=rai.text("version", "", "0.2"),
        image=image,
        image_place=rai.place("image") if rai.has("image") else None,
        cpu_architecture=architecture,
        cpu_cores=cores,
        gpu=gpu,
        limits=resources.limits(wants),
        data=resources.data(wants),
        build_image=build_image,
        commands=commands,
        env=read_env(root),
    )


def _commands(
    root: Fields, has_gpu: bool
) -> tuple[BuildImage | None, tuple[Command, ...]]:
    before = root.problems.errors
    fields = root.section("commands", "`build:` and a list")
    image = read_build_image(fields, has_gpu)
    commands = read_commands(fields, has_gpu)
    if image is None and not commands and root.problems.errors == before:
        here = root.place("commands")
        hint = "list them under `commands:` and `build:`, each after a `- `"
        root.problems.error("no commands", here, hint)
    return image, commands


KEYS: Grammar = {
    "": ("rai", "resources", "env", "commands"),
    "rai": ("version", "image"),
    "resources": (
        "cpu",
        "gpu",
        "gpus",
        "network",
        "cache",
        "limits",
        "dataresources",
    ),
    "resources.cpu": ("architecture", "cores"),
    "resources.gpu": ("count", "optional", "architecture", "memory"),
    "resources.limits": (*(limit.key for limit in LIMITS), "datasize"),
    "resources.dataresources[]": ("mount", "source", "cache"),
    "resources.dataresources[].source": ("url", "md5", "extract"),
    "commands": ("build_image", "build"),
    "commands.build_image": (
        "image_name",
        "dockerfile",
        "target",
        "gpu_target",
        "args",
        "no_cache",
        "push",
    ),
    "commands.build_image.push": ("push", "image_name", "registry", "credentials"),
    "commands.build_image.push.credentials": ("username", "password"),
    "commands.build[]": (
        "run",
        "name",
        "needs",
        "continue_on_error",
        "timeout",
        "env",
        "expect",
    ),
    "commands.build[].expect": (*WHAT, ANY),
}
"""The keys of each mapping, by its dotted path; ``[]`` are the items of a list.

A key that is not here only warns. One that is refused stays, and its reader (here, in
``resources`` or in ``commands``) says so by ``Fields.error``.
"""


LONGEST_WORD = 100
MOST_RESEMBLING = 1000
"""How many words are compared with those that are not known."""

_NUMBER = re.compile("[0-9]{1,9}")
_WORD = re.compile(r"(?<![\w.-])\w[\w.-]*")
_ENDING = re.compile(r"\.(?!\d)")


def left_out(commands: Sequence[Command], only: Sequence[str]) -> frozenset[int]:
    """Return the indexes of the commands that are not named; none if nothing is.

    A word is a command's name, its number from 1, or a word that stands in one command
    alone, such as a milestone's (``m2.1``).

    Raises:
        UsageError: a word names no command, or several; carries each such word.
    """
    if not only:
        return frozenset()
    return frozenset(range(len(commands))) - chosen(commands, only, "--only")


def chosen(
    commands: Sequence[Command], words: Sequence[str], option: str
) -> frozenset[int]:
    """Return the indexes of the commands that the words of an option name.

    Raises:
        UsageError: as ``left_out`` does.
    """
    found = {word: _named(commands, word) for word in words}
    names = [command.name for command in commands if command.name]
    if wrong := [w for w, one in found.items() if len(one) != 1 and w not in names]:
        known = list(islice(selecting(commands), MOST_RESEMBLING // len(wrong)))
        raise UsageError(*_misnamed(commands, option, known, found, wrong))
    return frozenset().union(*found.values())


def _misnamed(
    commands: Sequence[Command],
    option: str,
    known: Sequence[str],
    found: Mapping[str, Sequence[int]],
    wrong: Sequence[str],
) -> Iterator[Problem]:
    """Yield a problem for each wrong word, then the list of the commands."""
    for word in wrong:
        if found[word]:
            numbers = ", ".join(str(n + 1) for n in found[word])
            text = f"{option} {word}: several commands hold it: {numbers}"
            yield Problem(text, hint="use their numbers")
        else:
            close = resembling(word, known)
            hint = f"did you mean `{close}`?" if close else ""
            yield Problem(f"{option} {word}: no such command", hint=hint)
    rows = []
    for number, command in enumerate(commands, 1):
        first, more, _ = command.text.partition("\n")
        rows.append(f"{number} {command.name or first + ' ...' * bool(more)}")
    yield Problem("the commands are: " + "; ".join(rows))


def _named(commands: Sequence[Command], word: str) -> list[int]:
    if by_name := [n for n, command in enumerate(commands) if command.name == word]:
        return by_name
    if _NUMBER.fullmatch(word):
        return [n for n in range(len(commands)) if n + 1 == int(word)]
    # Of `m2` and `m2.1` neither stands in a command that holds the other.
    alone = re.compile(rf"(?<![\w.-]){re.escape(word)}(?![\w-]|\.\d)")
    return [n for n, command in enumerate(commands) if alone.search(command.text)]


def selecting(commands: Sequence[Command]) -> Iterator[str]:
    """Yield the names of commands, and the words that stand in one command alone."""
    names = {command.name for command in commands}
    count = Counter(word for one in commands for word in set(_words(one.text)))
    for command in commands:
        if command.name:
            yield command.name
        for word in _words(command.text):
            known = word in names or _NUMBER.fullmatch(word)
            if count[word] == 1 and not known:
                yield word


def _words(text: str) -> Iterator[str]:
    """Yield the words that stand alone in a command, also without a file's ending."""
    for word in _WORD.findall(text):
        if len(word) <= LONGEST_WORD:
            yield word
            yield from (word[: end.start()] for end in _ENDING.finditer(word))


def repeating(
    spec: BuildSpec,
    left_out: frozenset[int],
    rules: Policy,
    *,
    repeat: int = 1,
    measured: Sequence[str] = (),
    budget: str | None = None,
) -> tuple[frozenset[int], float]:
    """Return the indexes of the commands to repeat, and the time for that in seconds.

    The options `--repeat`, `--command` and `--budget` ask for it. Where none is named,
    the run decides which are repeated.

    Raises:
        UsageError: an option has a wrong value; carries all problems.
        NotAllowedError: the budget is more than a run may take by the site's policy.
    """
    problems = []
    if not 1 <= repeat <= MOST_ROUNDS:
        text = f"--repeat {repeat} is not a number from 1 to {MOST_ROUNDS:,}"
        problems.append(Problem(text))
    repeated = frozenset[int]()
    if measured:
        try:
            repeated = chosen(spec.commands, measured, "--command")
        except UsageError as error:
            problems += error.problems
    for index in sorted(repeated & left_out):
        text = f"--command: --only leaves out command {index + 1}"
        problems.append(Problem(text, hint="name it by --only too"))
    budget_s = spec.limits.time_s
    if budget is not None:
        given = quantities.duration_s(budget)
        if given is None or given <= 0:
            text = f"--budget {budget!r} is not a time span"
            problems.append(Problem(text, hint="write it as `90s`, `10m` or `1h30m`"))
        else:
            budget_s = given
    if problems:
        raise UsageError(*problems)
    ceiling = rules.ceilings.get("time_s")
    if ceiling and budget_s > ceiling.most:
        most = quantities.duration_text(ceiling.most)
        text = f"--budget is {budget}, and at most {most} is allowed"
        raise NotAllowedError(Problem(f"{text} by {ceiling.place}"))
    return repeated, budget_s
