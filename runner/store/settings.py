"""Settings: flags, then environment, then the user's file, then the machine's.

A site's policy, which no setting overrides, is read by ``store.policy``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs
from msgspec import Struct

from runner import files
from runner.core import GIB, Problem, Profile, Severity, quantities
from runner.core.caps import BUILD_FILES, UPLOAD, Caps
from runner.core.errors import ConfigError
from runner.core.quantities import COUNT, SIZE, SWITCH, Kind
from runner.core.units import DAY_S
from runner.slurm.options import SlurmOptions
from runner.store import config_file
from runner.wire import addresses

if TYPE_CHECKING:
    from runner.images.substitutes import Rule

MACHINE_FILE = Path("/etc/rai/config.yml")


ENGINES = ("auto", "docker", "pyxis", "local", "bare")
IMAGES = "images"
"""The setting that only a file has: which image is used in place of which."""

PROGRESS = ("auto", "tty", "plain", "quiet")


class Settings(Struct, frozen=True):
    """Every setting; paths are absolute, times in seconds, sizes in bytes.

    ``keep_for``, ``keep_size`` and ``data_size`` are infinite where they are turned
    off. ``images`` are the rules of all files, the strongest first. ``server`` is the
    address of one, or "here" for none; where it is None the profile decides.
    """

    home: Path
    engine: str = "auto"
    profile: Profile | None = None
    progress: str = "auto"
    data_dir: Path | None = None
    download: bool = True
    gpu_wait: float = 600.0
    keep_for: float = 30 * DAY_S
    keep_size: float = 20 * GIB
    data_size: float = 20 * GIB
    project_size: int = UPLOAD.total_bytes
    project_file_size: int = UPLOAD.file_bytes
    project_files: int = UPLOAD.members
    build_files: int = BUILD_FILES
    strict_limits: bool = False
    milestones: tuple[Path, ...] = ()
    server: str | None = None
    images: tuple[Rule, ...] = ()
    slurm: SlurmOptions = SlurmOptions()

    @property
    def project_caps(self) -> Caps:
        """The ceilings of what a project sends."""
        return Caps(self.project_size, self.project_files, self.project_file_size)


def settings_files() -> tuple[Path, ...]:
    """Name the settings files of this machine and user, weakest first."""
    folder = platformdirs.user_config_dir("rai", appauthor=False)
    return MACHINE_FILE, Path(folder, "config.yml")


class FoundSettings(Struct, frozen=True):
    """The settings, the warnings about them, and by key what said each.

    A key that nothing said has its default, and is not among ``origins``.
    """

    settings: Settings
    warnings: list[Problem]
    origins: Mapping[str, str]


def load(
    environ: Mapping[str, str],
    paths: Sequence[Path],
    flags: Mapping[str, str | None],
) -> tuple[Settings, list[Problem]]:
    """Read all settings, as ``find`` does; the list holds warnings."""
    found = find(environ, paths, flags)
    return found.settings, found.warnings


def find(
    environ: Mapping[str, str],
    paths: Sequence[Path],
    flags: Mapping[str, str | None],
) -> FoundSettings:
    """Read all settings, and what said each.

    ``flags`` has the keys of Settings, as text, None where not given. ConfigError
    carries all problems at once.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    problems: list[Problem] = []
    for file in paths:
        found, places = _from_file(file, problems)
        rules = (*found.get(IMAGES, ()), *values.get(IMAGES, ()))
        values |= {**found, IMAGES: rules}
        origins |= places
    for setting in SETTINGS:
        variable, key = setting.variable, setting.key
        words = {variable: environ.get(variable), setting.option: flags.get(key)}
        for name, word in words.items():
            if text := (word or "").strip():
                values[key] = _from_word(setting, name, text, problems)
                kind = "variable" if name == variable else "option"
                origins[key] = f"{kind}:{name}"
    warnings = _only_warnings(problems)
    home = platformdirs.user_data_dir("rai", appauthor=False)
    return FoundSettings(Settings(**{"home": Path(home), **values}), warnings, origins)


def variables(settings: Settings) -> dict[str, str]:
    """Return the environment in which another process loads the same settings."""
    values = {s.variable: getattr(settings, s.key) for s in SETTINGS}
    return {name: _word(value) for name, value in values.items() if value is not None}


def written(setting: Setting, value: object) -> str:
    """Write a setting's value as a file would; "" if there is none."""
    if isinstance(value, float) and value != math.inf:
        return setting.kind.write(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return setting.kind.write(value)
    return "" if value is None else _word(value)


def _word(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return os.pathsep.join(str(path) for path in value)
    if value == math.inf:
        return "none"
    return f"{value}s" if isinstance(value, float) else str(value)


class Setting(Struct, frozen=True):
    """One setting: its key in a file and in Settings, and how else it is given."""

    key: str
    help: str
    kind: Kind[Any]
    example: str
    option: str = ""

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return f"RAI_{self.key.upper()}"

    @property
    def meaning(self) -> str:
        """What it says, and with what values: for `--help` and the documents."""
        return f"{self.help}: {self.kind.words}"


def _one_of(words: Sequence[str]) -> Kind[str]:
    *most, last = words
    known = {str(word): word for word in words}
    return Kind(f"{', '.join(most)} or {last}", known.get)


def _path(text: str) -> Path:
    return Path(text).expanduser()


def _or_none(
    words: str, parse: Callable[[str], float | None], write: Callable[[Any], str]
) -> Kind[float]:
    """Return the kind of a bound, where 0 or "none" means that there is none."""

    def read(text: str) -> float | None:
        if text.strip().lower() in ("none", "off", "never"):
            return math.inf
        value = parse(text)
        return math.inf if value == 0 else value

    return Kind(f"{words}, or none", read, write)


def _paths(text: str) -> tuple[Path, ...] | None:
    return tuple(_path(part) for part in text.split(os.pathsep) if part) or None


_FOLDER = Kind("a folder", _path)
_FOLDERS = Kind(f"folders with `{os.pathsep}` between", _paths)
_WAIT = Kind("a time such as 10m", quantities.duration_s, quantities.duration_text)
_AGE = _or_none(
    "a time such as 30d", quantities.duration_s, lambda value: f"{value / DAY_S:g}d"
)
_SPACE = _or_none("a size such as 20GiB", quantities.size_bytes, quantities.size_text)
_BYTES = Kind("a size such as 1GiB", SIZE.parse, SIZE.write)
_NUMBER = Kind(
    "a whole number", lambda text: max(COUNT.parse(text) or 0, 0) or None, COUNT.write
)
_SERVER = Kind("an address such as https://host:8443, or here", addresses.spelled)
_PROGRESS = _one_of(PROGRESS)
_PROFILE = _one_of(tuple(Profile))

SETTINGS = (
    Setting("engine", "where commands run", _one_of(ENGINES), "docker", "--engine"),
    Setting("profile", "how commands are confined", _PROFILE, "strict", "--profile"),
    Setting("progress", "how progress is shown", _PROGRESS, "plain", "--progress"),
    Setting("home", "where runs and downloaded data are kept", _FOLDER, "~/rai"),
    Setting("data_dir", "where data files are looked for first", _FOLDER, "~/data"),
    Setting("download", "whether data files may be downloaded", SWITCH, "false"),
    Setting("gpu_wait", "how long to wait for GPUs in use", _WAIT, "10m", "--wait"),
    Setting("keep_for", "how long ended runs are kept", _AGE, "30d", "--older"),
    Setting("keep_size", "how much ended runs may take", _SPACE, "20GiB", "--size"),
    Setting("data_size", "how much data files may take", _SPACE, "20GiB"),
    Setting("project_size", "how much a project may send", _BYTES, "1GiB"),
    Setting("project_file_size", "how large each of its files may be", _BYTES, "1GiB"),
    Setting(
        "project_files", "how many files and folders it may send", _NUMBER, "50000"
    ),
    Setting("build_files", "how many a build folder may bring back", _NUMBER, "200000"),
    Setting(
        "strict_limits",
        "whether a run is refused if a limit cannot be enforced",
        SWITCH,
        "true",
        "--strict-limits",
    ),
    Setting(
        "milestones", "where a site's own milestones are", _FOLDERS, "/srv/milestones"
    ),
    Setting("server", "the server that runs go to", _SERVER, "https://host:8443"),
)


def _from_file(
    file: Path, problems: list[Problem]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a file's values, and the line of each."""
    try:
        raw = files.read(file, config_file.MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return {}, {}
    except OSError as error:
        problems.append(Problem(f"{file} cannot be read: {error.strerror}"))
        return {}, {}
    grammar = {"": (*(s.key for s in SETTINGS), IMAGES)}
    fields = config_file.fields(raw, str(file), grammar, problems)
    if fields is None:
        return {}, {}
    values: dict[str, Any] = {}
    for s in SETTINGS:
        value = fields.read(s.key, None, s.kind, s.example)
        # Relative to the file, wherever rai is called.
        if isinstance(value, Path):
            value = file.parent.absolute() / value
        elif isinstance(value, tuple):
            value = tuple(file.parent.absolute() / path for path in value)
        if value is not None:
            values[s.key] = value
    if fields.has(IMAGES):
        from runner.store import image_rules  # few have any

        values[IMAGES] = image_rules.read(fields, IMAGES)
    problems += fields.problems.in_file_order()
    return values, {key: config_file.origin(fields.place(key)) for key in values}


def _from_word(
    setting: Setting, name: str, text: str, problems: list[Problem]
) -> object | None:
    value = setting.kind.parse(text)
    if value is None:
        message = f'{name} is "{text}"'
        problems.append(Problem(message, hint=f"expected {setting.kind.words}"))
    if isinstance(value, tuple):
        return tuple(path.absolute() for path in value)
    return value.absolute() if isinstance(value, Path) else value


def _only_warnings(problems: list[Problem]) -> list[Problem]:
    if any(problem.severity is Severity.ERROR for problem in problems):
        raise ConfigError(*problems)
    return problems
