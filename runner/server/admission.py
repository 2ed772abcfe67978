"""Whether a run is taken: what is asked, its build file, and what its role allows."""

from __future__ import annotations

import hashlib
import re

from msgspec.structs import replace

from runner import buildfile
from runner.buildfile import selection
from runner.core import (
    BuildSpec,
    Problem,
    Profile,
    Reason,
    RunRequest,
    Severity,
    policy,
)
from runner.core.errors import NotAllowedError, SpecError, UsageError
from runner.core.policy import NO_POLICY
from runner.core.request import to_json
from runner.core.units import DAY_S
from runner.core.variables import wrong_name, wrong_value
from runner.gpu import choice
from runner.images import allowed, substitutes
from runner.scheduling.roles import Role
from runner.server.refusing import refuse
from runner.server.uploadfiles import SHA256
from runner.store import runs

RUN_ID = re.compile(runs.ID)
_ENGINE = re.compile("[a-z]{0,20}")
UNCONFINED = "bare"
MOST_GPU_WAIT_S = DAY_S
MOST_TEXT = 4096
MOST_WORDS = 1000


def digest(request: RunRequest) -> str:
    """Return the SHA-256 by which the same request is known.

    Values that the server forgets are no part of it: who read it could try words.
    """
    return hashlib.sha256(to_json(request.kept)).hexdigest()


def gpus_admitted(request: RunRequest, role: Role, most_gpus: int | None) -> int:
    """Check a request against its role; return how many GPUs the queue counts for it.

    ``most_gpus`` is how many GPUs one run can have, None if that is not known now.

    Raises:
        DeniedError: with every problem found (usage, bad_spec, not_allowed, no_gpu).
    """
    if wrong := _wrong(request):
        raise refuse(Reason.USAGE, *wrong)
    spec = _spec(request)
    if found := _refused(spec, request, role):
        raise refuse(Reason.NOT_ALLOWED, *found)
    _check_rounds(spec, request, role)
    # Of the GPUs of another partition than the server's only Slurm knows.
    return _gpus(spec, None if role.partition else most_gpus)


def _wrong(request: RunRequest) -> list[str]:
    found = []
    if not SHA256.fullmatch(request.upload):
        found.append("the SHA-256 of the upload is none")
    if not _ENGINE.fullmatch(request.engine):
        found.append("the name of the engine is not valid")
    if set(request.env_given) != set(request.secret.values):
        found.append("the secrets are not those that the request names")
    for name, value in request.secret.values.items():
        if why := wrong_name(name) or wrong_value(value):
            found.append(f"-e {name[:40]}: the variable cannot be set: {why}")
    if not SHA256.fullmatch(request.sha256):
        found.append("the SHA-256 of the project is none")
    if not 0 <= request.gpu_wait_s <= MOST_GPU_WAIT_S:
        found.append("the wait for a GPU is out of bounds")
    if request.after:
        found.append("a run on a server cannot wait for others with --after")
    words = *request.only, *request.measured
    if len(words) > MOST_WORDS:
        found.append(f"--only and --command have more than {MOST_WORDS:,} words")
    texts = (request.project, request.spec_file, request.user, request.title, *words)
    if any(len(text) > MOST_TEXT or "\0" in text for text in texts):
        found.append("a name in the request is too long")
    return found


def _spec(request: RunRequest) -> BuildSpec:
    """Return the build file with the options of the command line."""
    text = request.secret.spec_text or request.spec_text
    try:
        spec, _ = buildfile.parse(text, request.spec_file)
        masked = buildfile.masked(text)
        shown = buildfile.redacted(text)
    except SpecError as error:
        raise refuse(Reason.BAD_SPEC, *_errors(error)) from None
    if masked:
        names = ", ".join(masked)
        raise refuse(Reason.USAGE, f"the build file lacks the values of {names}")
    if shown != request.spec_text:
        raise refuse(Reason.USAGE, "the build file is not the one that is shown")
    try:
        if request.gpus is not None:
            spec = replace(spec, gpu=choice.applied(request.gpus, spec.gpu))
    except UsageError as error:
        raise refuse(Reason.USAGE, *error.problems) from None
    return substitutes.applied(spec, request.substitute)


def _errors(error: SpecError) -> list[Problem]:
    found = [one for one in error.problems if one.severity is Severity.ERROR]
    return found or list(error.problems)


def _refused(spec: BuildSpec, request: RunRequest, role: Role) -> list[Problem]:
    """Return all that the role does not allow; the worker looks again."""
    rules = policy.within(NO_POLICY, role.policy)
    found: list[Problem] = []
    if request.engine == UNCONFINED:
        text = "a server runs nothing without isolation"
        found.append(Problem(text, hint="leave the engine to the server"))
    wanted = request.profile
    try:
        profile = Profile(wanted) if wanted else Profile.STRICT
    except ValueError:
        raise refuse(Reason.USAGE, "there is no such profile") from None
    found += policy.over(policy.fit(spec.limits, rules), profile, rules)
    return found + allowed.problems(spec, rules, builds=False)


def _check_rounds(spec: BuildSpec, request: RunRequest, role: Role) -> None:
    """Refuse an `--only`, `--repeat`, `--command` or `--budget` that cannot be."""
    rules = policy.within(NO_POLICY, role.policy)
    try:
        left_out = selection.left_out(spec.commands, request.only)
        selection.repeating(
            replace(spec, limits=policy.fit(spec.limits, rules)),
            left_out,
            rules,
            repeat=request.repeat,
            measured=request.measured,
            budget=request.budget,
        )
    except (UsageError, NotAllowedError) as error:
        raise refuse(error.reason, *error.problems) from None


def _gpus(spec: BuildSpec, most_gpus: int | None) -> int:
    """Return how many GPUs the queue counts for a run."""
    if spec.gpu is None:
        return 0
    if spec.gpu.optional:
        return min(spec.gpu.count, most_gpus or 0)
    if most_gpus is not None and spec.gpu.count > most_gpus:
        wanted = f"{spec.gpu.count} GPUs" if spec.gpu.count > 1 else "a GPU"
        text = f"the run needs {wanted}, and this server has {most_gpus or 'none'}"
        hint = "`--gpus 0` runs only the commands that need none"
        raise refuse(Reason.NO_GPU, Problem(text, hint=hint))
    return spec.gpu.count
