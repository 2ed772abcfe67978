"""Settings: flags, then environment, then the user's file, then the machine's."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs
from msgspec import Struct

from runner.core import GIB, Place, Problem, Profile, Severity, addresses, quantities
from runner.core.addresses import SBATCH_OPTIONS
from runner.core.errors import ConfigError
from runner.core.quantities import DAY_S, SIZE, SWITCH, Kind, one_of
from runner.core.work import UPLOAD, Caps
from runner.spec.image_names import EXAMPLE, Rule, valid
from runner.store import policy
from runner.system import files

if TYPE_CHECKING:
    from runner.spec.fields import Fields


MACHINE_FILE = Path("/etc/rai/config.yml")


ENGINES = ("auto", "docker", "local", "bare")
SLURM = "slurm"
"""The setting that is a list in a file."""

IMAGES = "images"
"""The setting that only a file has: which image is used in place of which."""


class Settings(Struct, frozen=True):
    """Every setting; paths are absolute, times in seconds, sizes in bytes.

    ``keep_for`` and ``keep_size`` are infinite where they are turned off. ``images``
    are the rules of all files, the strongest first. ``server`` is the address of one,
    "here" for none, or a place of Slurm's; where it is None the profile decides.
    """

    home: Path
    engine: str = "auto"
    profile: Profile | None = None
    data_dir: Path | None = None
    download: bool = True
    gpu_wait: float = 600.0
    keep_for: float = 30 * DAY_S
    keep_size: float = 20 * GIB
    project_size: int = UPLOAD.total_bytes
    project_file_size: int = UPLOAD.file_bytes
    strict_limits: bool = False
    milestones: tuple[Path, ...] = ()
    server: str | None = None
    images: tuple[Rule, ...] = ()
    slurm: tuple[str, ...] = ()

    @property
    def project_caps(self) -> Caps:
        """The ceilings of what a project sends."""
        return Caps(self.project_size, UPLOAD.members, self.project_file_size)


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
    if any(problem.severity is Severity.ERROR for problem in problems):
        raise ConfigError(*problems)
    home = platformdirs.user_data_dir("rai", appauthor=False)
    settings = Settings(**{"home": Path(home), **values})
    return FoundSettings(settings, problems, origins)


def variables(settings: Settings) -> dict[str, str]:
    """Return the environment in which another process loads the same settings."""
    values = ((setting, setting.of(settings)) for setting in SETTINGS)
    return {s.variable: _word(s, value) for s, value in values if value is not None}


def written(setting: Setting, value: object) -> str:
    """Write a setting's value as a file would; "" if there is none."""
    if isinstance(value, float) and value != math.inf:
        return setting.kind.write(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return setting.kind.write(value)
    return "" if value is None else _word(setting, value)


def _word(setting: Setting, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return setting.kind.write(value)
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

    def of(self, settings: Settings) -> Any:  # noqa: ANN401 - of its field's type
        """Return its value among others."""
        return getattr(settings, self.key)

    @property
    def meaning(self) -> str:
        """What it says, and with what values: for `--help` and the documents."""
        return f"{self.help}: {self.kind.words}"


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


def _place(text: str) -> str | None:
    cluster = addresses.slurm_target(text)
    return str(cluster) if cluster else addresses.spelled(text)


_FOLDER = Kind("a folder", lambda text: Path(text).expanduser())
_FOLDERS = Kind(
    f"folders with `{os.pathsep}` between",
    lambda text: tuple(_FOLDER.parse(p) for p in text.split(os.pathsep) if p) or None,
    lambda paths: os.pathsep.join(map(str, paths)),
)
_WAIT = Kind("a time such as 10m", quantities.duration_s, quantities.duration_text)
_AGE = _or_none(
    "a time such as 30d", quantities.duration_s, lambda value: f"{value / DAY_S:g}d"
)
_SPACE = _or_none("a size such as 20GiB", quantities.size_bytes, quantities.size_text)
_BYTES = Kind("a size such as 1GiB", SIZE.parse, SIZE.write)
_SERVER = Kind("an address such as https://host:8443, here, or slurm:PARTITION", _place)
_WORDS = Kind(
    f"words of the form --NAME=VALUE, where NAME is {', '.join(SBATCH_OPTIONS[:-1])}"
    f" or {SBATCH_OPTIONS[-1]}",
    addresses.sbatch_words,
    shlex.join,
)
_PROFILE = one_of(tuple(Profile))

SETTINGS = (
    Setting("engine", "where commands run", one_of(ENGINES), "docker", "--engine"),
    Setting("profile", "how commands are confined", _PROFILE, "strict", "--profile"),
    Setting("home", "where runs and downloaded data are kept", _FOLDER, "~/rai"),
    Setting("data_dir", "where data files are looked for first", _FOLDER, "~/data"),
    Setting("download", "whether data files may be downloaded", SWITCH, "false"),
    Setting("gpu_wait", "how long to wait for GPUs in use", _WAIT, "10m", "--wait"),
    Setting("keep_for", "how long ended runs are kept", _AGE, "30d", "--older"),
    Setting(
        "keep_size",
        "how much ended runs, and data files, may take",
        _SPACE,
        "20GiB",
        "--size",
    ),
    Setting("project_size", "how much a project may send", _BYTES, "1GiB"),
    Setting("project_file_size", "how large each of its files may be", _BYTES, "1GiB"),
    Setting(
        "strict_limits",
        "whether a run is refused if a limit cannot be enforced",
        SWITCH,
        "true",
    ),
    Setting(
        "milestones", "where a site's own milestones are", _FOLDERS, "/srv/milestones"
    ),
    Setting("server", "where runs go", _SERVER, "https://host:8443"),
    Setting(SLURM, "what else sbatch is given", _WORDS, "[--account=course]"),
)


def _from_file(
    file: Path, problems: list[Problem]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a file's values, and the line of each."""
    try:
        raw = files.read(file, policy.MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return {}, {}
    except OSError as error:
        problems.append(Problem(f"{file} cannot be read: {error.strerror}"))
        return {}, {}
    grammar = {"": (*(s.key for s in SETTINGS), IMAGES)}
    fields = policy.config_fields(raw, str(file), grammar, problems)
    if fields is None:
        return {}, {}
    values: dict[str, Any] = {}
    places: dict[str, Place] = {}
    for s in SETTINGS:
        if s.key == SLURM:
            found = _words(fields, s)
        else:
            found = fields.read(s.key, None, s.kind, s.example)
        if found is not None:
            # Relative to the file, wherever rai is called.
            values[s.key] = _absolute(found, file.parent.absolute())
            places[s.key] = fields.place(s.key)
    if fields.has(IMAGES):
        values[IMAGES] = _image_rules(fields)
        places[IMAGES] = fields.place(IMAGES)
    problems += fields.problems.in_file_order()
    return values, {key: policy.origin(place) for key, place in places.items()}


def _words(fields: Fields, setting: Setting) -> object | None:
    """Read a list of words."""
    nodes = [node for _, node in fields.items(setting.key, setting.example)]
    text = shlex.join(getattr(node, "text", "") for node in nodes)
    value = setting.kind.parse(text)
    if nodes and value is None:
        hint = f"expected {setting.kind.words}"
        place = fields.place(setting.key)
        fields.problems.error(f"{setting.key} is [{text}]", place, hint)
    return value


def _from_word(
    setting: Setting, name: str, text: str, problems: list[Problem]
) -> object | None:
    value = setting.kind.parse(text)
    if value is None:
        message = f'{name} is "{text}"'
        problems.append(Problem(message, hint=f"expected {setting.kind.words}"))
    return _absolute(value, Path())


def _absolute(value: object, folder: Path) -> object:
    """Return a value with its paths, if it has any, made absolute from a folder."""
    if isinstance(value, tuple):
        return tuple(_absolute(part, folder) for part in value)
    return (folder / value).absolute() if isinstance(value, Path) else value


def _image_rules(fields: Fields) -> tuple[Rule, ...]:
    """Read the patterns of the setting ``images``, in their order in the file."""
    # The YAML parser takes long to import; who has fields has it already.
    from runner.spec.yamlfile import MappingNode, ScalarNode, kind

    node, example = fields.node.get(IMAGES), f'`"someone/old-name:*": {EXAMPLE}`'
    if isinstance(node, ScalarNode) and node.null:
        fields.warn(IMAGES, "is empty")
        return ()
    if not isinstance(node, MappingNode):
        if node is not None:
            hint = f"expected a mapping of patterns to images, e.g. {example}"
            fields.error(IMAGES, f"is {kind(node)}", hint)
        return ()
    rules = []
    for pattern, value in node.entries:
        if isinstance(value, ScalarNode) and valid(value.text.strip()):
            found = Rule(pattern.text.strip(), value.text.strip(), pattern.place)
            rules.append(found)
            continue
        hint = f"expected the name of an image, e.g. {example}"
        text = f"{IMAGES}: the image for `{pattern.text}` is {kind(value)}"
        fields.problems.error(text, value.place, hint)
    return tuple(rules)
