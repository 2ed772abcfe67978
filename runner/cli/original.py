"""The original's options and commands: what stands in their place here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct, field

from runner.core import Problem
from runner.core.errors import UsageError

OWN = frozenset({"--help", "-h", "--version", "--install-completion"})
OWN_PREFIXES = ("--show-completion",)
WITH_PATH = frozenset({"run", "validate", "init", "submit", "bench"})
"""Commands that take a project's folder by `-p` too."""


class Option(Struct, frozen=True):
    """One option of a command: all its spellings, and whether a value follows."""

    name: str
    spellings: tuple[str, ...]
    takes_value: bool


def routed(words: Sequence[str]) -> list[str]:
    """Turn ``rai -p DIR ...``, the original's form, into ``rai run -p DIR ...``.

    So is ``rai .`` or another path that has a slash.
    """
    first = words[0] if words else ""
    is_option = first.startswith("-") and first not in OWN
    is_folder = first in (".", "..") or ("/" in first and first[0] != "-")
    if is_folder or (is_option and not first.startswith(OWN_PREFIXES)):
        return ["run", *words]
    if first == "shell" and "--" in words:
        # The parser drops the first `--`, which alone tells RUN from the command.
        at = list(words).index("--")
        return [*words[:at], "--", *words[at:]]
    return list(words)


def without_debug(words: Sequence[str]) -> tuple[list[str], bool]:
    """Remove ``--debug`` before a ``--``; also return whether it was there."""
    end = list(words).index("--") if "--" in words else len(words)
    kept = [word for word in words[:end] if word != "--debug"]
    return kept + list(words[end:]), len(kept) < end


def contradictions(words: Sequence[str], options: Iterable[Option]) -> list[str]:
    """Return an error for each option that is given twice with different values."""
    by_spelling = {s: option for option in options for s in option.spellings}
    given: dict[str, list[str]] = {}
    queue = list(words)
    while queue and (word := queue.pop(0)) != "--":
        spelling, joined, value = _split(word, by_spelling)
        option = by_spelling.get(spelling)
        if option is None:
            continue
        if option.takes_value and not joined:
            value = queue.pop(0) if queue else ""
        # --this and --no-this are different values of a flag; -v and --verbose are not.
        negated = "no" if spelling.startswith("--no-") else "yes"
        given.setdefault(option.name, []).append(
            value if option.takes_value else negated
        )
    return [
        f"--{name} is given twice, with different values: {', '.join(values)}"
        for name, values in given.items()
        if len(set(values)) > 1
    ]


def _split(word: str, known: dict[str, Option]) -> tuple[str, bool, str]:
    """Split ``--option=value`` and ``-pvalue``; return whether a value was joined."""
    if word.startswith("--") and "=" in word:
        spelling, value = word.split("=", 1)
        return spelling, True, value
    short = word[:2]
    if not word.startswith("--") and len(word) > 2 and short in known:
        return short, known[short].takes_value, word[2:].removeprefix("=")
    return word, False, ""


WITH_VALUE = {
    "-p": "--path",
    "-o": "--output",
    "--queue": "--queue",
    "-s": "--secret",
    "--arch": "--arch",
    "--build": "--build",
    "--submit": "--submit",
}
"""The original's options that take a value, by their short spelling if there is one."""

RUNS_WITH_VALUE = frozenset(
    {
        *("--engine", "--profile", "--gpus", "--wait", "--wait-for"),
        *("--only", "--image", "-e", "--fail-if", "--baseline"),
        *("--repeat", "--command", "--junit", "--on"),
    }
)
"""The options of `rai run` that take a value and that the original does not have."""

FLAGS = {"-d": "--debug", "-v": "--verbose", "-c": "--color"}
"""The original's options without a value, by their short spelling."""

IGNORED = {
    "--queue": "a server has one queue, which `rai runs --on URL` shows",
    "--verbose": "every line is shown anyway",
    "--ratelimit": "there is no rate limit",
    "--arch": "a run uses the architecture of its engine",
    "--secret": "nothing here needs a secret",
}
"""The options that have no effect, and why."""

SAME = {
    "buildinfo": ["--version"],
    "buildtime": ["--version"],
    "version": ["--version"],
    "whoami": ["login", "--status"],
    "queued": ["ps"],
}
"""The original's commands that have another name here."""

ANSWERS = {
    "doc": ("rai writes no documents", "`rai COMMAND --help` describes each command"),
    "encrypt": ("rai keeps no credentials to encrypt", ""),
    "env": ("`env` is a program of its own", "type it without `rai`"),
    "license": ("rai is under the MIT licence", ""),
    "selfupdate": ("rai does not update itself", "pip does: pip install --upgrade ."),
    "submitted": (
        "`rai submissions` lists what is submitted to a server",
        "`rai ranking` lists what was judged on this machine",
    ),
}
"""The original's commands that do not exist here: why, and what to do instead."""

_BY_A_VALUE = RUNS_WITH_VALUE | {*WITH_VALUE, *WITH_VALUE.values()}
"""The options that the next word belongs to."""

_OFF = frozenset({"false", "f", "0"})
_ON = frozenset({"true", "t", "1"})


class CommandLine(Struct):
    """The words for the commands here, and what was read from the others.

    ``notes`` are warnings; ``colour`` is False for ``--color=false``.
    """

    words: list[str]
    debug: bool = False
    colour: bool = True
    notes: list[str] = field(default_factory=list)


def read(typed: Sequence[str], commands: Collection[str]) -> CommandLine:
    """Turn a command line in the original's words into one in the words used here.

    Raises:
        UsageError: it asks for what does not exist here; the hint says what does.
    """
    kept, debug = without_debug(typed)
    if kept[:1] == ["help"]:
        kept = [*kept[1:], "--help"]
    given = routed(kept)
    short_form = given[:1] == ["run"] and kept[:1] != ["run"]
    if short_form and (at := _command(kept, commands)) is not None:
        # `rai -p . history`: the original takes its options before a command too.
        ours = any(word.partition("=")[0] in RUNS_WITH_VALUE for word in kept[:at])
        before = kept[:at] if ours or kept[at] in WITH_PATH else []
        given = [kept[at], *before, *kept[at + 1 :]]
        short_form = False
    name = given[0] if given else ""
    if name in ANSWERS and name not in commands:
        finding, hint = ANSWERS[name]
        raise UsageError(Problem(f"rai {name}: {finding}", hint=hint))
    given[:1] = SAME.get(name, [name]) if given else []
    line = CommandLine(given, debug)
    return _options(line, short_form=short_form) if name == "run" else line


def _command(typed: Sequence[str], commands: Collection[str]) -> int | None:
    """Return the place of a command that stands after options of the original."""
    at = 0
    while at < len(typed) and typed[at].startswith("-") and typed[at] != "--":
        at += 2 if typed[at] in _BY_A_VALUE else 1
    known = at < len(typed) and typed[at] in {*commands, *ANSWERS, *SAME}
    return at if known else None


def _options(line: CommandLine, *, short_form: bool) -> CommandLine:
    """Remove the original's options from those of `rai run`.

    With ``--submit`` they are those of `rai submit`. ``-d`` is ``--debug`` in the
    original's form, without the word ``run``.
    """
    end = line.words.index("--") if "--" in line.words else len(line.words)
    rest, kept = line.words[end:], list[str]()
    queue = [w for word in line.words[1:end] for w in _apart(word, short_form)]
    problems: list[Problem] = []
    milestone = ""
    while queue:
        word = queue.pop(0)
        name, value = _option(word, queue)
        if name == "--submit":
            milestone = value or "final"
        elif name == "--build":
            hint = f"`-p {value or 'FILE'}` names a build file"
            problems.append(Problem("--build is not an option", hint=hint))
        elif name == "--color":
            line.colour = value not in _OFF
        elif name == "--debug" and short_form:
            line.debug = True
        elif name in IGNORED:
            shown = f"{name} {value}" if value and name != "--secret" else name
            line.notes.append(f"ignoring {shown}: {IGNORED[name]}")
        else:
            kept.append(word)
    if problems:
        raise UsageError(*problems)
    command = ["submit", milestone] if milestone else ["run"]
    line.words = [*command, *kept, *rest]
    return line


def _apart(word: str, short_form: bool) -> list[str]:
    """Return the flags of ``-dv`` one by one."""
    together = (
        short_form
        and word[:1] == "-"
        and len(word) > 2
        and set(word[1:]) <= {"d", "v", "c"}
    )
    return [f"-{letter}" for letter in word[1:]] if together else [word]


def _option(word: str, queue: list[str]) -> tuple[str, str]:
    """Return the long name and value of an option of the original, else "".

    A value that is a word of its own is taken off the queue.
    """
    spelling, equals, value = word.partition("=")
    name = WITH_VALUE.get(spelling, spelling)
    if name in ("--path", "--output"):
        return "", ""
    if name in WITH_VALUE.values():
        if not equals and queue and (name != "--submit" or queue[0][:1] != "-"):
            value = queue.pop(0)
        return name, value
    if word[:2] == "-s" and not word.startswith("--"):
        return "--secret", word[2:]
    name = FLAGS.get(spelling, spelling)
    if name == "--color" and not equals and queue and queue[0] in _OFF | _ON:
        value = queue.pop(0)
    return name, value
