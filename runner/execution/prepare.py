"""Make a request from a project or a parcel, settings and options; needs no engine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from runner import engines, pack
from runner.core import (
    BuildSpec,
    GitState,
    JobRequest,
    Problem,
    Profile,
    RunRequest,
    Severity,
    masking,
    policy,
    screen,
)
from runner.core.errors import ConfigError, NotAllowedError, UsageError
from runner.core.policy import NO_POLICY, Policy, RolePolicy
from runner.core.work import NO_SECRETS, Secrets, wrong_name, wrong_value
from runner.engines import KEEPING
from runner.engines.gpu import choice
from runner.execution.project import read_spec
from runner.spec import buildfile, image_names, images
from runner.store import policy as policies
from runner.store import settings as stored
from runner.store.home import record_of
from runner.store.paths import RunPaths
from runner.store.settings import Settings

MOST_WORDS = 1000
"""How many commands a server's client may name: each word is looked for in all."""

NO_VALUES: Mapping[str, str] = MappingProxyType({})


WITHOUT_IMAGES = engines.TABLE.keys() - {KEEPING}
"""The engines that use this machine's programs, whatever image is named."""


class Options(Struct, frozen=True):
    """The options of the command line; None leaves one to the settings or build file.

    All are text as typed: ``gpu_wait`` is a time span such as "10m", ``gpus`` a number
    or UUIDs, ``after`` names the runs that end before this one begins, ``image`` an
    image that is used in place of the build file's. ``secrets`` are variables for the
    commands, ``only`` names the commands that run. ``repeat`` is how many rounds the
    commands that ``measured`` names have, ``budget`` the time span that the rounds
    after the first may take together. ``stop_grace_s`` is how long commands may live
    after SIGTERM, for a caller that is killed soon after it. ``elsewhere`` says that a
    server runs it: this machine's policy and images do not count there.
    """

    engine: str | None = None
    profile: str | None = None
    gpus: str | None = None
    gpu_wait: str | None = None
    keep_going: bool = False
    home: Path | None = None
    after: tuple[str, ...] = ()
    image: str | None = None
    secrets: Secrets = NO_SECRETS
    only: tuple[str, ...] = ()
    repeat: int = 1
    measured: tuple[str, ...] = ()
    budget: str | None = None
    stop_grace_s: float | None = None
    elsewhere: bool = False

    @property
    def settings(self) -> dict[str, str | None]:
        """The options that override a setting, by the setting's key."""
        return {
            "engine": self.engine,
            "profile": self.profile,
            "gpu_wait": self.gpu_wait,
            "home": str(self.home) if self.home else None,
        }


NONE_GIVEN = Options()
"""No options: the settings and the build file decide."""


class Prepared(Struct, frozen=True):
    """A request that is checked and can be started, with the warnings found.

    ``parcel`` is the folder of the run that holds the sealed project; None for a
    project that is packed from its folder. ``staged`` is a folder that is packed in
    place of the project's, ``commit`` the one whose files it has.
    """

    request: JobRequest
    settings: Settings
    warnings: tuple[Problem, ...] = ()
    parcel: RunPaths | None = None
    staged: Path | None = None
    commit: GitState | None = None


def in_ci() -> bool:
    """Return whether a CI system runs this process: all of them set ``CI``."""
    return bool(os.environ.get("CI"))


def settings(options: Options = NONE_GIVEN) -> tuple[Settings, list[Problem]]:
    """Read this user's settings with these options; the list holds warnings.

    Raises:
        ConfigError: a file, a variable or an option is wrong; carries all problems.
    """
    return stored.load(os.environ, stored.settings_files(), options.settings)


def prepare(
    path: Path, options: Options = NONE_GIVEN, *, staged: bool = False
) -> Prepared:
    """Read a project's build file and check it against the site's policy.

    ``path`` is the project's folder or its build file, and may be ``staged``.

    Raises:
        SpecError, ConfigError, UsageError, NotAllowedError: with every problem found.
    """
    found, warnings = settings(options)
    spec, problems, text = read_spec(path, staged=staged)
    spec = in_image(spec, found, options)
    project = (path.parent if path.is_file() else path).resolve()
    shown = buildfile.redacted(text)
    asked = RunRequest(
        screen.json_text(project),
        spec.file,
        shown,
        gpus=options.gpus,
        # As the system went on for which the file was written.
        keep_going=options.keep_going
        or bool(spec.substitute and image_names.made_here(spec)),
        after=options.after,
        env_given=options.secrets.names,
        only=options.only,
        substitute=spec.substitute,
        repeat=options.repeat,
        measured=options.measured,
        budget=options.budget,
        secret=replace(options.secrets, spec_text=text if text != shown else ""),
    )
    request, more = _checked(asked, project, spec, found, options)
    skipped = {spec.commands[n].place for n in request.left_out}
    problems = [one for one in problems if not one.place or one.place not in skipped]
    return Prepared(request, found, (*warnings, *problems, *more))


def staged(
    path: Path,
    project: Path,
    options: Options = NONE_GIVEN,
    *,
    title: str = "",
    inner: bool = False,
    commit: GitState | None = None,
) -> Prepared:
    """Prepare to run files that were made of a project, as a run of that project.

    ``path`` is the folder that has them, or the build file in it. The run is recorded
    with a ``title``, and at a ``commit`` that the files are of; ``inner`` where a later
    run of the same submission needs it. Raise errors as ``prepare`` does.
    """
    # The folder is gone when somebody reads the record. Who has a commit names that.
    prepared = prepare(path, options, staged=commit is None)
    request, project = prepared.request, project.resolve()
    spec = replace(request.spec, file=Path(request.spec.file).name)
    shown = screen.json_text(project)
    asked = replace(
        request.asked, project=shown, spec_file=spec.file, title=title, inner=inner
    )
    return replace(
        prepared,
        request=replace(request, asked=asked, project=project, spec=spec),
        staged=request.project,
        commit=commit,
    )


def reopen(
    folder: RunPaths,
    options: Options = NONE_GIVEN,
    values: Mapping[str, str] = NO_VALUES,
) -> Prepared:
    """Prepare to run a sealed parcel again: the project and request in a run's folder.

    ``options`` choose the engine, the home folder, the wait for a GPU and the runs to
    wait for; the parcel decides the rest. ``values`` are, by name, what is masked in
    its build file and what was given by ``-e``.

    Raises:
        UsageError: there is no parcel, it is damaged, or a value is not given.
        SpecError, ConfigError, NotAllowedError: as for ``prepare``.
    """
    asked = pack.read_parcel(folder.parcel)
    secret = Secrets({**options.secrets.values, **values})
    return opened(folder, replace(asked, secret=secret, after=options.after), options)


def opened(
    folder: RunPaths, asked: RunRequest, options: Options = NONE_GIVEN
) -> Prepared:
    """Prepare to run what was asked with the sealed project in a run's folder.

    What a server's client sent always runs in the strict profile, waits for no other
    run, and for a GPU as long as this machine's settings say. Raise errors as
    ``reopen`` does.
    """
    found, warnings = settings(options)
    text = _filled(asked)
    values = {name: asked.secret.values[name] for name in asked.env_given}
    secret = Secrets(values, text if text != asked.spec_text else "")
    spec, problems = buildfile.parse(text, asked.spec_file)
    spec = image_names.applied(spec, asked.substitute)
    if asked.sent:
        _check_sent(asked)
        found = replace(found, profile=Profile.STRICT)
    else:
        found = replace(
            found,
            profile=Profile(asked.profile) if asked.profile else None,
            gpu_wait=asked.gpu_wait_s if options.gpu_wait is None else found.gpu_wait,
        )
    asked = replace(asked, secret=secret)
    request, more = _checked(asked, Path(asked.project), spec, found, options)
    return Prepared(request, found, (*warnings, *problems, *more), folder)


def _check_sent(asked: RunRequest) -> None:
    """Raise NotAllowedError for what a server's clients may not ask for."""
    if asked.after:
        raise NotAllowedError("a run on a server cannot wait for others (--after)")
    for option, words in (("--only", asked.only), ("--command", asked.measured)):
        if len(words) > MOST_WORDS:
            text = f"{option} is given {len(words):,} times, and at most {MOST_WORDS:,}"
            raise NotAllowedError(f"{text} is allowed on a server")


def replay(
    folder: RunPaths,
    options: Options = NONE_GIVEN,
    values: Mapping[str, str] = NO_VALUES,
) -> Prepared:
    """Prepare to repeat an earlier run with its engine and the very image that it used.

    ``options.engine`` chooses another engine. An engine without isolation is used only
    if this user's settings name it: a record may be another's. Raise errors as
    ``reopen`` does.
    """
    earlier = record_of(folder)
    if options.engine is None and earlier.engine is not None:
        name = earlier.engine.name
        # What the record says of the engine decides nothing.
        if name == engines.UNCONFINED and settings(options)[0].engine != name:
            text = f"run {folder.id} ran without isolation"
            hint = f"--engine {name} runs it so again, --engine auto in a sandbox"
            raise UsageError(Problem(text, hint=hint))
        options = replace(options, engine=name)
    if not folder.source.is_file():
        text = f"run {folder.id} cannot be run again: {folder.source} is absent"
        raise UsageError(Problem(text, hint="-p DIR takes the project as it is now"))
    prepared = reopen(folder, options, values)
    request = replace(prepared.request, replays=folder.id, image=earlier.image)
    return replace(prepared, request=request)


def in_image(spec: BuildSpec, found: Settings, options: Options) -> BuildSpec:
    """Apply the option and the setting that name another image than the spec's.

    Raises:
        UsageError: the option's name is not valid.
    """
    rules = () if options.elsewhere else found.images
    return image_names.applied(spec, image_names.decide(spec, options.image, rules))


def _filled(asked: RunRequest) -> str:
    """Return the whole build file, with its masked values filled in.

    Raise UsageError unless the values are those that the request lacks.
    """
    values = asked.secret.values
    names = dict.fromkeys((*buildfile.masked(asked.spec_text), *asked.env_given))
    if unknown := [name for name in values if name not in names]:
        needed = f"only {', '.join(names)}" if names else "none"
        problem = f"{', '.join(unknown)} is not a masked value of the run; it has "
        raise UsageError(problem + needed)
    filled = asked.secret.spec_text or buildfile.filled(asked.spec_text, values)
    masked = buildfile.masked(filled)
    variables = [name for name in asked.env_given if name not in values]
    if missing := dict.fromkeys((*masked, *variables)):
        lacking = [f"{name} of {asked.spec_file}" for name in masked] + variables
        text = f"the record has no value of {', '.join(lacking)}, because it is secret"
        options = " ".join(f"-e {name}=VALUE" for name in missing)
        raise UsageError(Problem(text, hint=f"add {options} to the command"))
    return filled


def _checked(
    asked: RunRequest,
    project: Path,
    spec: BuildSpec,
    found: Settings,
    options: Options,
) -> tuple[JobRequest, Sequence[Problem]]:
    """Apply what is asked and the site's policy to a spec; return its warnings too."""
    secret, text = asked.secret, asked.secret.spec_text or asked.spec_text
    if wrong := list(_wrong(secret)):
        raise UsageError(*wrong)
    left_out = buildfile.left_out(spec.commands, asked.only)
    rules = NO_POLICY if options.elsewhere else _rules(asked.terms.allowed)
    warnings = [*_unmasked(secret), *_written(secret, text)]
    # A server runs what it was sent in the strict profile, whatever image is named.
    usual = Profile.STRICT if options.elsewhere else spec.profile
    profile = found.profile or usual
    limits = policy.fit(spec.limits, rules)
    if options.stop_grace_s is not None:
        limits = replace(limits, stop_grace_s=options.stop_grace_s)
    spec = replace(spec, limits=limits)
    if asked.gpus is not None:
        spec = replace(spec, gpu=choice.applied(asked.gpus, spec.gpu))
    if refused := refusals(spec, profile, rules, found.engine):
        raise NotAllowedError(*refused)
    repeated, budget_s = buildfile.repeating(
        spec,
        left_out,
        rules,
        repeat=asked.repeat,
        measured=asked.measured,
        budget=asked.budget,
    )
    request = JobRequest(
        replace(asked, profile=profile.value, gpu_wait_s=found.gpu_wait),
        project,
        spec,
        profile,
        left_out=left_out,
        policy=rules,
        strict_limits=_strict_limits(found, rules),
        repeated=repeated,
        budget_s=budget_s,
    )
    return request, warnings


def _rules(role: RolePolicy | None) -> Policy:
    """Return the site's policy, and within it what a server allows."""
    rules = policies.read()
    try:
        return rules if role is None else policy.within(rules, role)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _strict_limits(found: Settings, rules: Policy) -> str:
    """Return what asks that every limit is enforced; "" if nothing does."""
    if rules.strict_limits:
        return f"strict_limits in {rules.strict_limits}"
    return "the setting strict_limits" if found.strict_limits else ""


def _wrong(secrets: Secrets) -> Iterator[Problem]:
    """Yield why commands cannot get these variables."""
    for name, value in secrets.values.items():
        if why := wrong_name(name) or wrong_value(value):
            yield Problem(f"-e {name}: the variable cannot be set: {why}")


def _unmasked(secrets: Secrets) -> list[Problem]:
    """Warn of the variables whose values are too short to be masked."""
    names = [n for n in secrets.names if masking.too_short(secrets.values[n])]
    text = "the output shows the value, because it is too short to be masked"
    hint = (
        f"a secret needs {masking.SHORTEST_BYTES} characters, or"
        f" {masking.SHORTEST_NUMBER} if it is a number"
    )
    return [
        Problem(f"-e {name}: {text}", hint=hint, severity=Severity.WARNING)
        for name in names
    ]


def _written(secrets: Secrets, text: str) -> Iterator[Problem]:
    """Warn of the values that stand in the build file, which a run keeps as it is."""
    for name in secrets.names:
        value = secrets.values[name]
        if value and value in text and not masking.too_short(value):
            yield Problem(
                f"-e {name}: the value is kept with the run, as it stands in the build"
                " file too",
                hint=f"write ${name} there",
                severity=Severity.WARNING,
            )


def refusals(
    spec: BuildSpec, profile: Profile, rules: Policy, engine: str
) -> list[Problem]:
    """Return all that is not allowed; an engine that builds images looks again."""
    found = policy.over(spec.limits, profile, rules)
    if not rules.images or engine in WITHOUT_IMAGES:
        return found
    return found + images.not_allowed(spec, rules, builds=engine == KEEPING)
