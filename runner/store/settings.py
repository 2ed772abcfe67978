"""Settings: flags, then environment, then the user's file, then the machine's.

A site's policy, which no setting goes over, stands in a file of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs
from msgspec import Struct, field
from msgspec.structs import replace

from runner.core import (
    Limits,
    Place,
    Problem,
    Profile,
    Severity,
    quantities,
)
from runner.core.errors import ConfigError

if TYPE_CHECKING:
    from runner.yamlfile import Fields, Grammar

MACHINE_FILE = Path("/etc/rai/config.yml")
POLICY_FILES = (Path("/etc/rai/policy.yml"),)

ENGINES = ("auto", "docker", "local", "bare")
PROGRESS = ("auto", "tty", "plain", "quiet")


class Settings(Struct, frozen=True):
    """Every setting; paths are absolute, ``gpu_wait`` is in seconds."""

    home: Path
    engine: str = "auto"
    profile: Profile | None = None
    progress: str = "auto"
    data_dir: Path | None = None
    download: bool = True
    gpu_wait: float = 600.0


class Ceiling(Struct, frozen=True):
    """The most that a site allows of one thing, and the line that says so."""

    most: float
    place: Place


class Policy(Struct, frozen=True):
    """A site's ceilings, by the name of the field of Limits.

    ``strict`` is the line that allows no other profile, None where all are.
    """

    ceilings: Mapping[str, Ceiling] = field(default_factory=dict)
    strict: Place | None = None


def settings_files() -> tuple[Path, ...]:
    """Name the settings files of this machine and user, weakest first."""
    folder = platformdirs.user_config_dir("rai", appauthor=False)
    return MACHINE_FILE, Path(folder, "config.yml")


def load(
    environ: Mapping[str, str],
    files: Sequence[Path],
    flags: Mapping[str, str | None],
) -> tuple[Settings, list[Problem]]:
    """Read all settings; the list holds warnings.

    ``flags`` has the keys of Settings, as text, None where not given. ConfigError
    carries all problems at once.
    """
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for file in files:
        values |= _from_file(file, problems)
    variables = {s.key: environ.get(s.variable) for s in _SETTINGS if s.variable}
    names = {s.key: s.variable for s in _SETTINGS}
    values |= _from_words(variables, names, problems)
    options = {s.key: s.flag or "--" + s.key.replace("_", "-") for s in _SETTINGS}
    values |= _from_words(flags, options, problems)
    warnings = _only_warnings(problems)
    home = platformdirs.user_data_dir("rai", appauthor=False)
    return Settings(**{"home": Path(home), **values}), warnings


def policy(files: Sequence[Path]) -> tuple[Policy, list[Problem]]:
    """Read the ceilings; a file that is absent sets none, the lowest value counts."""
    ceilings: dict[str, Ceiling] = {}
    strict: Place | None = None
    problems: list[Problem] = []
    for file in files:
        fields = _fields(file, _POLICY_KEYS, problems)
        if fields is None:
            continue
        for name, ceiling in _ceilings(fields.section("limits")):
            known = ceilings.get(name)
            if known is None or ceiling.most < known.most:
                ceilings[name] = ceiling
        profile = fields.read("profile", None, _profile, _ONE_OF_PROFILES, "strict")
        if profile is Profile.STRICT:
            strict = strict or fields.place("profile")
        problems += fields.problems.in_file_order()
    return Policy(ceilings, strict), _only_warnings(problems)


def fit(limits: Limits, policy: Policy) -> Limits:
    """Lower to the ceilings what stands at its default: nobody asked for that."""
    usual = Limits()
    changes: dict[str, Any] = {
        name: type(getattr(usual, name))(ceiling.most)
        for name, ceiling in policy.ceilings.items()
        if getattr(limits, name) == getattr(usual, name) > ceiling.most
    }
    return replace(limits, **changes)


def over(limits: Limits, profile: Profile, policy: Policy) -> list[Problem]:
    """Say what goes over a ceiling, naming ceiling and file; for NotAllowedError."""
    problems = []
    for name, ceiling in policy.ceilings.items():
        asked = getattr(limits, name)
        if asked > ceiling.most:
            have, most = _shown(name, asked), _shown(name, ceiling.most)
            key = f"resources.limits.{_KEYS[name]}"
            text = f"{key} is {have}, and at most {most} is allowed by {ceiling.place}"
            problems.append(Problem(text))
    if policy.strict and profile is not Profile.STRICT:
        text = f"the {profile} profile is not allowed by {policy.strict}"
        hint = "have the image built from a Dockerfile of the project"
        problems.append(Problem(text, hint=hint))
    return problems


class _Setting(Struct, frozen=True):
    key: str
    convert: Callable[[str], object | None]
    expected: str
    example: str
    variable: str = ""
    flag: str = ""


def _one_of(words: Iterable[str]) -> Callable[[str], str | None]:
    return lambda text: text if text in words else None


def _profile(text: str) -> Profile | None:
    return next((profile for profile in Profile if profile == text), None)


def _path(text: str) -> Path:
    return Path(text).expanduser()


def _choice(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}"


_ONE_OF_PROFILES = _choice(Profile)
_FOLDER = "a folder"
_SETTINGS = (
    _Setting("engine", _one_of(ENGINES), _choice(ENGINES), "docker", "RAI_ENGINE"),
    _Setting("profile", _profile, _ONE_OF_PROFILES, "strict", "RAI_PROFILE"),
    _Setting("progress", _one_of(PROGRESS), _choice(PROGRESS), "plain", "RAI_PROGRESS"),
    _Setting("home", _path, _FOLDER, "~/rai", "RAI_HOME"),
    _Setting("data_dir", _path, _FOLDER, "~/data", "RAI_DATA_DIR"),
    _Setting("download", quantities.boolean, "true or false", "false", "RAI_DOWNLOAD"),
    _Setting(
        "gpu_wait",
        quantities.duration_s,
        "a time span",
        "10m",
        "RAI_GPU_WAIT",
        "--wait",
    ),
)

_KEYS = {
    "time_s": "time",
    "memory_bytes": "memory",
    "pids": "pids",
    "output_bytes": "output",
    "disk_bytes": "disk",
    "shm_bytes": "shm",
    "network": "network",
}
"""The fields of Limits that a policy caps, with their keys in YAML."""

_POLICY_KEYS = {"": ("limits", "profile"), "limits": tuple(_KEYS.values())}


def _from_file(file: Path, problems: list[Problem]) -> dict[str, Any]:
    fields = _fields(file, {"": tuple(s.key for s in _SETTINGS)}, problems)
    if fields is None:
        return {}
    values: dict[str, Any] = {}
    for s in _SETTINGS:
        value = fields.read(s.key, None, s.convert, s.expected, s.example)
        if isinstance(value, Path):
            # Relative to the file, wherever rai is called.
            value = file.parent.absolute() / value
        if value is not None:
            values[s.key] = value
    problems += fields.problems.in_file_order()
    return values


def _from_words(
    words: Mapping[str, str | None], names: Mapping[str, str], problems: list[Problem]
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for s in _SETTINGS:
        text = (words.get(s.key) or "").strip()
        if not text:
            continue
        value = s.convert(text)
        if value is None:
            message = f'{names[s.key]} is "{text}"'
            problems.append(Problem(message, hint=f"expected {s.expected}"))
        values[s.key] = value.absolute() if isinstance(value, Path) else value
    return values


def _fields(file: Path, grammar: Grammar, problems: list[Problem]) -> Fields | None:
    """Read a file as a mapping; None where it is absent, empty or unreadable."""
    try:
        raw = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        problems.append(Problem(f"{file} cannot be read: {error.strerror}"))
        return None
    # The YAML parser takes longer to import than most commands take to run.
    from runner.yamlfile import (
        Fields,
        Problems,
        compose,
        decode,
    )

    found = Problems()
    text = decode(raw, str(file), found)
    node = compose(text, str(file), found) if text is not None else None
    fields = Fields.of(node, grammar, found)
    if fields is None:
        problems += found.in_file_order()
    return fields


def _ceilings(limits: Fields) -> list[tuple[str, Ceiling]]:
    asked: dict[str, float | None] = {
        "time_s": limits.duration_s("time", None, "1h"),
        "memory_bytes": limits.size_bytes("memory", None),
        "pids": limits.whole("pids", None, "512"),
        "output_bytes": limits.size_bytes("output", None, "256MiB"),
        "disk_bytes": limits.size_bytes("disk", None, "2GiB"),
        "shm_bytes": limits.size_bytes("shm", None, "64MiB"),
        "network": limits.boolean("network", None),
    }
    return [
        (name, Ceiling(most, limits.place(_KEYS[name])))
        for name, most in asked.items()
        if most is not None
    ]


def _only_warnings(problems: list[Problem]) -> list[Problem]:
    if any(problem.severity is Severity.ERROR for problem in problems):
        raise ConfigError(*problems)
    return problems


def _shown(name: str, value: float) -> str:
    if name == "network":
        return "on" if value else "off"
    if name.endswith("_bytes"):
        return f"{value / (1 << 20):,.10g} MiB"
    return f"{value:,.10g}" + (" s" if name.endswith("_s") else "")
