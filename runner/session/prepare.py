"""Make a request from a project or a parcel, settings and options; needs no engine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from runner import archive, buildfile
from runner.core import BuildSpec, GpuRequest, JobRequest, Problem, Profile
from runner.core.errors import NotAllowedError
from runner.gpu import choice
from runner.session.options import NONE_GIVEN, Options
from runner.session.project import read_spec
from runner.store import settings as stored
from runner.store.paths import RunPaths
from runner.store.settings import Settings


class Prepared(Struct, frozen=True):
    """A request that is checked and can be started, with the warnings found.

    ``parcel`` is the folder of the run that holds the sealed project; None for a
    project that is packed from its folder.
    """

    request: JobRequest
    settings: Settings
    warnings: tuple[Problem, ...] = ()
    parcel: RunPaths | None = None


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
    project = (path.parent if path.is_file() else path).resolve()
    request, more = _request(project, spec, text, found, options)
    return Prepared(request, found, (*warnings, *problems, *more))


def reopen(folder: RunPaths, options: Options = NONE_GIVEN) -> Prepared:
    """Prepare to run a sealed parcel again: the project and request in a run's folder.

    ``options`` choose the engine and the home folder; the parcel decides the rest.

    Raises:
        UsageError: there is no parcel, or it is damaged.
        SpecError, ConfigError, NotAllowedError: as for ``prepare``.
    """
    found, warnings = settings(options)
    parcel = archive.read_parcel(folder.parcel)
    spec, problems = buildfile.parse(parcel.spec_text, parcel.spec_file)
    sealed = replace(options, gpus=parcel.gpus, keep_going=parcel.keep_going)
    found = replace(
        found,
        profile=Profile(parcel.profile) if parcel.profile else None,
        gpu_wait=parcel.gpu_wait_s,
    )
    project = Path(parcel.project)
    request, more = _request(project, spec, parcel.spec_text, found, sealed)
    return Prepared(request, found, (*warnings, *problems, *more), folder)


def _request(
    project: Path,
    spec: BuildSpec,
    text: str,
    found: Settings,
    options: Options,
) -> tuple[JobRequest, Sequence[Problem]]:
    """Apply the options and the site's policy to a spec; return its warnings too."""
    policy, warnings = stored.policy(stored.POLICY_FILES)
    profile = found.profile or spec.profile
    spec = replace(spec, limits=stored.fit(spec.limits, policy))
    if options.gpus is not None:
        spec = replace(spec, gpu=_gpus(options.gpus, spec))
    if over := stored.over(spec.limits, profile, policy):
        raise NotAllowedError(*over)
    request = JobRequest(
        project=project,
        spec=spec,
        spec_text=buildfile.redacted(text),
        profile=profile,
        keep_going=options.keep_going,
        gpu_wait_s=found.gpu_wait,
        gpus=options.gpus,
        after=options.after,
    )
    return request, warnings


def _gpus(text: str, spec: BuildSpec) -> GpuRequest | None:
    """Apply the GPUs of the command line, which are never optional."""
    asked = choice.parse(text)
    if asked is None or spec.gpu is None:
        return asked
    return replace(spec.gpu, count=asked.count, uuids=asked.uuids, optional=False)
