"""Make a request from a project or a parcel, settings and options; needs no engine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from runner import archive, buildfile, engines
from runner.buildfile import selection
from runner.core import (
    BuildSpec,
    GitState,
    GpuRequest,
    JobRequest,
    Problem,
    Profile,
    Severity,
    masking,
    policy,
)
from runner.core.errors import ConfigError, NotAllowedError, UsageError
from runner.core.parcel import Parcel
from runner.core.policy import NO_POLICY, Policy, RolePolicy
from runner.core.variables import Secrets, wrong_name, wrong_value
from runner.engines.imagestore import KEEPING
from runner.gpu import choice
from runner.images import allowed, substitutes
from runner.session.options import NONE_GIVEN, Options
from runner.session.project import read_spec
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


class Prepared(Struct, frozen=True):
    """A request that is checked and can be started, with the warnings found.

    ``parcel`` is the folder of the run that holds the sealed project; None for a
    project that is packed from its folder. ``text`` is the build file with the values
    that records mask. ``staged`` is a folder that is packed in place of the project's,
    ``commit`` the one whose files it has. ``sent`` is whether the parcel comes from a
    server's client, whose folders are not this machine's.
    """

    request: JobRequest
    settings: Settings
    warnings: tuple[Problem, ...] = ()
    parcel: RunPaths | None = None
    text: str = ""
    staged: Path | None = None
    commit: GitState | None = None
    sent: bool = False


def in_ci() -> bool:
    """Return whether a CI system runs this process: all of them set ``CI``."""
    return bool(os.environ.get("CI"))


def settings(options: Options = NONE_GIVEN) -> tuple[Settings, list[Problem]]:
    """Read this user's settings with these options; the list holds warnings.

    Raises:
        ConfigError: a file, a variable or an option is wrong; carries all problems.
    """
    return stored.load(os.environ, stored.settings_files(), options.settings)


def prepare(path: Path, options: Options = NONE_GIVEN) -> Prepared:
    """Read a project's build file and check it against the site's policy.

    ``path`` is the project's folder or its build file.

    Raises:
        SpecError, ConfigError, UsageError, NotAllowedError: with every problem found.
    """
    found, warnings = settings(options)
    spec, problems, text = read_spec(path)
    spec = in_image(spec, found, options)
    project = (path.parent if path.is_file() else path).resolve()
    request, more = _request(project, spec, text, found, options)
    skipped = {spec.commands[n].place for n in request.left_out}
    problems = [one for one in problems if not one.place or one.place not in skipped]
    return Prepared(request, found, (*warnings, *problems, *more), text=text)


def staged(
    folder: Path,
    project: Path,
    title: str,
    options: Options = NONE_GIVEN,
    *,
    inner: bool = False,
) -> Prepared:
    """Prepare to run a folder that was made of a project, as part of a submission.

    ``folder`` has a build file of its own; its run is recorded as one of the
    ``project`` with this ``title``; ``inner`` where a later one needs it. Raise errors
    as ``prepare`` does.
    """
    prepared = _made_of(project.resolve(), prepare(folder, options))
    request = replace(prepared.request, title=title, inner=inner)
    return replace(prepared, request=request)


def exported(
    path: Path, project: Path, commit: GitState, options: Options = NONE_GIVEN
) -> Prepared:
    """Prepare to run the files of a project's commit, which were written elsewhere.

    ``path`` is the folder that has them, or the build file in it; the run is recorded
    as one of the ``project`` at that ``commit``. Raise errors as ``prepare`` does.
    """
    return replace(_made_of(project, prepare(path, options)), commit=commit)


def _made_of(project: Path, prepared: Prepared) -> Prepared:
    """Return what was prepared in a folder that was made of a project."""
    folder, request = prepared.request.project, prepared.request
    # The folder is gone when somebody reads the record.
    spec = replace(request.spec, file=Path(request.spec.file).name)
    request = replace(request, project=project, spec=spec)
    return replace(prepared, request=request, staged=folder)


def reopen(
    folder: RunPaths,
    options: Options = NONE_GIVEN,
    values: Mapping[str, str] = NO_VALUES,
    text: str = "",
) -> Prepared:
    """Prepare to run a sealed parcel again: the project and request in a run's folder.

    ``options`` choose the engine, the home folder and the wait for a GPU; the parcel
    decides the rest. ``values`` are, by name, what is masked in its build file and what
    was given by ``-e``; ``text`` is the whole of the file, unmasked. What a server's
    client sent always runs in the strict profile, waits for no other run, and for a GPU
    as long as this machine's settings say.

    Raises:
        UsageError: there is no parcel, it is damaged, or a value is not given.
        SpecError, ConfigError, NotAllowedError: as for ``prepare``.
    """
    found, warnings = settings(options)
    parcel = archive.read_parcel(folder.parcel)
    known = {**options.secrets.values, **values}
    text = _filled(parcel, known, text)
    secrets = Secrets({name: known[name] for name in parcel.env_given})
    spec, problems = buildfile.parse(text, parcel.spec_file)
    spec = substitutes.applied(spec, parcel.substitute)
    given = replace(
        options,
        gpus=parcel.gpus,
        keep_going=parcel.keep_going,
        secrets=secrets,
        only=parcel.only,
        repeat=parcel.repeat,
        measured=parcel.measured,
        budget=parcel.budget,
    )
    if sent := options.allowed is not None:
        _check_sent(parcel)
        found = replace(found, profile=Profile.STRICT)
    else:
        found = replace(
            found,
            profile=Profile(parcel.profile) if parcel.profile else None,
            gpu_wait=parcel.gpu_wait_s if options.gpu_wait is None else found.gpu_wait,
        )
    project = Path(parcel.project)
    request, more = _request(project, spec, text, found, given)
    request = replace(request, title=parcel.title)
    warnings = [*warnings, *problems, *more]
    return Prepared(request, found, tuple(warnings), folder, sent=sent)


def _check_sent(parcel: Parcel) -> None:
    """Raise NotAllowedError for what a server's clients may not ask for."""
    if parcel.after:
        raise NotAllowedError("a run on a server cannot wait for others (--after)")
    for option, words in (("--only", parcel.only), ("--command", parcel.measured)):
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
    return substitutes.applied(spec, substitutes.decide(spec, options.image, rules))


def _filled(parcel: Parcel, values: Mapping[str, str], text: str) -> str:
    """Return the parcel's build file with its masked values filled in.

    ``text`` is that already, or "". Raise UsageError unless the values are those that
    the parcel lacks.
    """
    names = dict.fromkeys((*buildfile.masked(parcel.spec_text), *parcel.env_given))
    if unknown := [name for name in values if name not in names]:
        needed = f"only {', '.join(names)}" if names else "none"
        problem = f"{', '.join(unknown)} is not a masked value of the run; it has "
        raise UsageError(problem + needed)
    filled = text or buildfile.filled(parcel.spec_text, values)
    masked = buildfile.masked(filled)
    variables = [name for name in parcel.env_given if name not in values]
    if missing := dict.fromkeys((*masked, *variables)):
        lacking = [f"{name} of {parcel.spec_file}" for name in masked] + variables
        text = f"the record has no value of {', '.join(lacking)}, because it is secret"
        options = " ".join(f"-e {name}=VALUE" for name in missing)
        raise UsageError(Problem(text, hint=f"add {options} to the command"))
    return filled


def _request(
    project: Path,
    spec: BuildSpec,
    text: str,
    found: Settings,
    options: Options,
) -> tuple[JobRequest, Sequence[Problem]]:
    """Apply the options and the site's policy to a spec; return its warnings too."""
    if wrong := list(_wrong(options.secrets)):
        raise UsageError(*wrong)
    left_out = selection.left_out(spec.commands, options.only)
    rules = NO_POLICY if options.elsewhere else _rules(options.allowed)
    warnings = [*_unmasked(options.secrets), *_written(options.secrets, text)]
    # A server runs what it was sent in the strict profile, whatever image is named.
    usual = Profile.STRICT if options.elsewhere else spec.profile
    profile = found.profile or usual
    limits = policy.fit(spec.limits, rules)
    if options.stop_grace_s is not None:
        limits = replace(limits, stop_grace_s=options.stop_grace_s)
    spec = replace(spec, limits=limits)
    if options.gpus is not None:
        spec = replace(spec, gpu=_gpus(options.gpus, spec))
    if refused := refusals(spec, profile, rules, found.engine):
        raise NotAllowedError(*refused)
    asked = selection.repeating(
        spec,
        left_out,
        rules,
        repeat=options.repeat,
        measured=options.measured,
        budget=options.budget,
    )
    request = JobRequest(
        project=project,
        spec=spec,
        spec_text=buildfile.redacted(text),
        profile=profile,
        keep_going=options.keep_going,
        gpu_wait_s=found.gpu_wait,
        gpus=options.gpus,
        after=options.after,
        secrets=options.secrets,
        only=options.only,
        left_out=left_out,
        policy=rules,
        strict_limits=_strict_limits(found, rules),
        repeat=options.repeat,
        measured=options.measured,
        repeated=asked.repeated,
        budget=options.budget,
        budget_s=asked.budget_s,
        gpus_out=options.gpus_out,
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


def _gpus(text: str, spec: BuildSpec) -> GpuRequest | None:
    """Apply the GPUs of the command line, which are never optional."""
    asked = choice.parse(text)
    if asked is None or spec.gpu is None:
        return asked
    return replace(spec.gpu, count=asked.count, uuids=asked.uuids, optional=False)


def refusals(
    spec: BuildSpec, profile: Profile, rules: Policy, engine: str
) -> list[Problem]:
    """Return all that is not allowed; an engine that builds images looks again."""
    found = policy.over(spec.limits, profile, rules)
    if not rules.images or engine in WITHOUT_IMAGES:
        return found
    return found + allowed.problems(spec, rules, builds=engine == KEEPING)
