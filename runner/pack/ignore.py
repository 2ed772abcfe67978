"""Which names of a project are ignored, by which line, and which are secrets."""

from __future__ import annotations

import os
import re
import warnings
from enum import StrEnum
from fnmatch import translate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from runner.core import Place, Problem, Severity
from runner.system import files

if TYPE_CHECKING:
    from pathspec import PathSpec
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern


SECRET_FILES = (
    *(".env", ".env.*", ".envrc"),
    *("id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.ppk", "*.jks", "*.keystore", "*.kdbx"),
    *("kaggle.json", ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".my.cnf"),
    *(".htpasswd", ".git-credentials", ".dockercfg", ".vault-token"),
    *(".rai_profile", ".rai_profile.yml", ".rai_secret", ".rai_env"),
    *(".rai.profile", ".rai.env"),
)
"""Names of files that hold secrets, in lower case."""

NESTED = (
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".docker/config.json",
    ".kube/config",
)
"""Names of files that hold secrets in these folders."""

HARMLESS = (
    ".env.example",
    ".env.sample",
    ".env.template",
    ".env.dist",
    ".env.defaults",
)
"""Names among those that by custom hold none."""

SECRET_FOLDERS = (".aws", ".azure", ".gnupg", ".ssh")
"""Names of folders that hold secrets, in lower case."""

_GROUPS = (f"(?P<p{n}>{translate(rule)})" for n, rule in enumerate(SECRET_FILES))
_FILE = re.compile("|".join(_GROUPS))


def secret(name: str, *, folder: bool) -> str:
    """Return the pattern of secrets that an entry's name fits, "" for none.

    ``name`` is relative to the project; upper and lower case are alike.
    """
    *above, last = name.lower().split("/")
    if folder:
        return f"{last}/" if last in SECRET_FOLDERS else ""
    if last in HARMLESS:
        return ""
    if above and (nested := f"{above[-1]}/{last}") in NESTED:
        return nested
    found = _FILE.match(last)
    if not found or not found.lastgroup:
        return ""
    return SECRET_FILES[int(found.lastgroup[1:])]


OWN, GIT = ".raiignore", ".gitignore"

MOST_BYTES = 1 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

MOST_RULES = 5000
"""Of a file that is too large for RE2, since each is then tried by itself."""

MOST_STARS = 1
"""With more, Python's own expressions may take for ever on a name; RE2's do not."""

REST = "ps_d"
"""The group in which pathspec's patterns match the slash after a folder."""

_EXPRESSION = re.compile(r"\\.|\[(\^?)(\]?(?:\\.|[^]\\])*)\]", re.DOTALL)
_RANGE = re.compile(r"(\\.|[^\\])-(\\.|[^\\])|\\.", re.DOTALL)
_FOLDERS_IN = re.compile(r"/\*\*/(?= *\Z)")
_BLANKS_AT_END = re.compile(r"(?<!\\)((?:\\\\)+) +\Z")
"""Blanks that no backslash keeps, as each is the second of a pair."""

_ESCAPING = re.compile(r"(?<!\\)(?:\\\\)*\[[^]]*\\")


class LeftBy(StrEnum):
    """What leaves an entry out."""

    RULE = "rule"
    SECRET = "secret"
    OUTPUT = "output"
    BUILT_IN = "built in"


class Match(Struct, frozen=True):
    """What is decided for a name; ``final`` if nothing below it can differ.

    ``asked`` if a ``!`` line of .raiignore names it: more than wildcards alone.
    """

    ignored: bool
    why: str
    final: bool
    by: LeftBy = LeftBy.RULE
    asked: bool = False


class RuleFile(Struct, frozen=True):
    """The rules of one file, for names below its folder.

    ``regexes`` has the expression of each rule, to be searched for alone.
    """

    label: str
    base: str
    spec: PathSpec[Any]
    rules: tuple[tuple[int, str], ...]
    regexes: tuple[Any, ...]

    def match(self, name: str) -> Match | None:
        """Return what the last rule about a name decides; a folder ends with a slash.

        A later exception can bring back what lies in an ignored folder.
        """
        result = self.spec.check_file(self._below(name))
        if result.include is None or result.index is None:
            return None
        line, text = self.rules[result.index]
        asked = not result.include and bool(text.strip("!*?/. "))
        final = not any(
            not _has_path(text[1:]) or _meets(text[1:], name)
            for _, text in self.rules[result.index + 1 :]
            if text.startswith("!")
        )
        why = f"{self.label}:{line}: {text}"
        return Match(result.include, why, final, asked=asked)

    def ignores(self, name: str) -> Match | None:
        """Return what git's last rule about this very name decides, if any.

        A rule about a folder above it is none: git does not look into a folder that it
        ignores, and one that it does not ignore says nothing of what is in there.
        """
        below = self._below(name)
        if self.spec.check_file(below).include is None:
            return None
        path = below.rstrip("/")
        for index in reversed(range(len(self.regexes))):
            if _is_about(self.regexes[index], path, folder=below != path):
                line, text = self.rules[index]
                include = bool(self.spec.patterns[index].include)
                return Match(include, f"{self.label}:{line}: {text}", True)
        return None

    def _below(self, name: str) -> str:
        below = name[len(self.base) :]
        plain = below.isascii() and below.isprintable()
        return below if plain else by_bytes(os.fsencode(below))

    def reaches(self, folder: str) -> bool:
        """Whether an exception with a path could name something in the folder.

        One without a path, such as ``!*.o``, says nothing of folders left out by other
        rules: what is in there would be a surprise.
        """
        return any(
            _has_path(text[1:]) and _meets(text[1:], folder)
            for _, text in self.rules
            if text.startswith("!")
        )


class IgnoreRules(Struct, frozen=True):
    """The rules that apply in a folder; they add up.

    .raiignore decides before the folder's .gitignore, and that before those above it.
    """

    own: RuleFile | None = None
    git: tuple[RuleFile, ...] = ()
    problems: list[Problem] = field(default_factory=list)

    def closed(self, folder: str) -> bool:
        """Whether nothing in a folder that is left out can be brought back."""
        return self.own is None or not self.own.reaches(folder)

    def left_out(self, name: str, above: Match | None = None) -> Match | None:
        """Return what leaves a name out, if anything; a folder ends with a slash.

        ``above`` left out the folder that it is in: as for git, only .raiignore brings
        back what is in there.
        """
        own = self.own.match(name) if self.own else None
        if own and own.ignored:
            return own
        if above and (own is None or (above.by is not LeftBy.RULE and not own.asked)):
            return above
        if own is None:
            found = next(filter(None, (file.ignores(name) for file in self.git)), None)
            if found and found.ignored:
                return replace(found, final=self.closed(name))
        if own and own.asked:
            return None
        if pattern := secret(name.rstrip("/"), folder=name.endswith("/")):
            why = f"a secret by its name: {pattern}"
            return Match(True, why, self.closed(name), LeftBy.SECRET)
        return None

    def within(self, folder: Path, name: str) -> IgnoreRules:
        """Add the folder's own .gitignore, if it has one."""
        if not (folder / GIT).is_file():
            return self
        project = folder.parents[name.count("/")]
        inner = _read(project, f"{name}/{GIT}", f"{name}/", self.problems)
        return IgnoreRules(self.own, (inner, *self.git), self.problems)


def rules_of(project: Path) -> IgnoreRules:
    """Read the rules that the project's root has; no file means no rules."""
    problems: list[Problem] = []
    own, git = (
        _read(project, label, "", problems) if (project / label).is_file() else None
        for label in (OWN, GIT)
    )
    return IgnoreRules(own, (git,) if git else (), problems)


def _read(project: Path, label: str, base: str, problems: list[Problem]) -> RuleFile:
    # Loaded here: a folder without rules need not wait for it.
    from pathspec import GitIgnoreSpec

    from runner.spec.patterns import made

    try:
        raw = files.read_below(project, label, MOST_BYTES)
    except OSError as error:
        problems.append(Problem(f"{label} cannot be read: {error.strerror}"))
        raw = b""
    rules: list[tuple[int, str]] = []
    lines: list[str] = []
    regexes = []
    for number, line in enumerate(raw.removeprefix(BYTE_ORDER_MARK).split(b"\n"), 1):
        line = line.removesuffix(b"\r")
        if not line.strip() or line.startswith(b"#"):
            continue
        text = line.strip().decode("utf-8", "surrogateescape")
        if (regex := _regex(by_bytes(line))) is not None:
            regexes.append(regex)
            lines.append(by_bytes(line))
            rules.append((number, text))
        else:
            why, place = "is not a pattern and is ignored", Place(label, number, 1)
            problem = Problem(f"{text!r} {why}", place, severity=Severity.WARNING)
            problems.append(problem)
    spec = made(lambda: GitIgnoreSpec.from_lines(lines, _pattern, backend="re2"))
    if spec is None:
        most_stars = max((line.count("*") for line in lines), default=0)
        if len(lines) > MOST_RULES or most_stars > MOST_STARS:
            hint = "write fewer, or fewer with several `*`"
            problems.append(Problem(f"{label} has too many rules", hint=hint))
            lines, rules, regexes = [], [], []
        spec = GitIgnoreSpec.from_lines(lines, _pattern, backend="simple")
    return RuleFile(label, base, spec, tuple(rules), tuple(regexes))


def by_bytes(text: bytes) -> str:
    """Return a pattern, or a name, with a character for each byte.

    Git compares bytes, names need not be UTF-8, and RE2 takes no lone surrogates. A
    byte that is not ASCII, or a control, becomes one that means nothing: of the blanks
    at the end of a rule git takes only spaces off.
    """
    return text.decode("latin-1").translate(_MEANINGLESS)


_MEANINGLESS = {byte: 0xE000 + byte for byte in (*range(0x20), *range(0x80, 0x100))}


def _is_about(
    regex: Any,  # noqa: ANN401 - Python's, or RE2's, which has no types
    path: str,
    *,
    folder: bool,
) -> bool:
    """Whether a pattern matches a path itself, and not only what is in a folder.

    pathspec marks the slash after which a pattern leaves everything open.
    """
    rest = regex.groupindex.get(REST)
    if (found := regex.search(path)) and not (rest and found.group(rest)):
        return True
    if not folder or rest is None:
        return False
    return any(m.start(rest) == len(path) for m in regex.finditer(f"{path}/"))


def _has_path(pattern: str) -> bool:
    """Whether a pattern matches from the project's folder on, and not anywhere."""
    return "/" in pattern.rstrip("/")


def _meets(pattern: str, folder: str) -> bool:
    """Whether a pattern with a path could match below a folder."""
    for part, name in zip(
        pattern.strip("/").split("/"), folder.strip("/").split("/"), strict=False
    ):
        if any(mark in part for mark in "*?[\\"):
            return True
        if part != name:
            return False
    return True


def _regex(line: str) -> Any | None:  # noqa: ANN401 - as for _is_about
    """Return the expression of a rule; None if it is none."""
    from runner.spec.patterns import linear

    # What pathspec reads otherwise than git: a class such as [:alpha:], a backslash
    # within brackets, an exception of nothing.
    if "[:" in line or _ESCAPING.search(line) or not line.strip("!/ "):
        return None
    try:
        with warnings.catch_warnings(action="ignore", category=FutureWarning):
            pattern = _pattern(line)
    except (ValueError, re.error):
        return None
    if pattern.include is None or pattern.regex is None:
        return None
    found = linear(pattern.regex.pattern)
    few = line.count("*") <= MOST_STARS  # Python's are faster
    return pattern.regex if found is not None and few else found


def _pattern(rule: str) -> GitIgnoreSpecPattern:
    """Return pathspec's pattern of a rule, as git reads that.

    To git no bracket expression matches a slash, and `a/**/` is about the folders in
    `a`.
    """
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    rule = _BLANKS_AT_END.sub(r"\1", rule)
    found = GitIgnoreSpecPattern(_FOLDERS_IN.sub("/**/*/", rule))
    if found.regex is None or "[" not in rule:
        return found
    regex = _EXPRESSION.sub(_without_slash, found.regex.pattern)
    return GitIgnoreSpecPattern(re.compile(regex), include=found.include)


def _without_slash(match: re.Match[str]) -> str:
    negated, content = match.group(1, 2)
    if content in (None, "/"):  # an escaped character, or `?`
        return match.group()
    if negated:
        first = content.replace("]", r"\]", 1) if content[0] == "]" else content
        return f"[^/{first}]"
    return f"[{_RANGE.sub(_split, content)}]"


def _split(match: re.Match[str]) -> str:
    """Take the slash out of a range."""
    first, last = match.group(1, 2)
    if first is None or not first[-1] <= "/" <= last[-1]:
        return match.group()
    return f"{first}-.0-{last}"
