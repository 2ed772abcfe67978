"""Whether a run is taken: what is asked, its build file, and what its role allows."""

from __future__ import annotations

import hashlib
import re

from msgspec.structs import replace

from runner.core import (
    BuildSpec,
    Problem,
    Profile,
    Reason,
    RunRequest,
    Severity,
    policy,
)
from runner.core.errors import SpecError, UsageError
from runner.core.policy import NO_POLICY
from runner.core.quantities import DAY_S
from runner.core.request import to_json
from runner.core.work import wrong_name, wrong_value
from runner.engines.gpu import choice
from runner.server.messages import refuse
from runner.server.paths import SHA256
from runner.server.scheduling import Role
from runner.spec import buildfile, image_names, images
from runner.store import runs

RUN_ID = re.compile(runs.ID)
_ENGINE = re.compile("[a-z]{0,20}")
UNCONFINED = "bare"
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
        RaiError: likewise (usage, not_allowed).
    """
    if wrong := _wrong(request):
        raise refuse(Reason.USAGE, *wrong)
    spec = _spec(request)
    rules = policy.within(NO_POLICY, role.policy)
    lowered = replace(spec, limits=policy.fit(spec.limits, rules))
    # All that the role does not allow; the worker looks again.
    profile = Profile(request.profile or Profile.STRICT)
    found = policy.over(lowered.limits, profile, rules)
    found += images.not_allowed(spec, rules, builds=False)
    if request.engine == UNCONFINED:
        text = "a server runs nothing without isolation"
        found.append(Problem(text, hint="leave the engine to the server"))
    if found:
        raise refuse(Reason.NOT_ALLOWED, *found)
    buildfile.repeating(
        lowered,
        buildfile.left_out(spec.commands, request.only),
        rules,
        repeat=request.repeat,
        measured=request.measured,
        budget=request.budget,
    )
    # Of the GPUs of another partition than the server's only Slurm knows.
    return _gpus(spec, None if role.partition else most_gpus)


def _wrong(request: RunRequest) -> list[str]:
    words = *request.only, *request.measured
    names = request.project, request.spec_file, request.user, request.title, *words
    long = [name for name in names if len(name) > MOST_TEXT or "\0" in name]
    secrets_fit = set(request.env_given) == set(request.secret.values)
    few = len(words) <= MOST_WORDS
    wait_fits = 0 <= request.gpu_wait_s <= DAY_S
    checks = {
        "the SHA-256 of the upload is none": SHA256.fullmatch(request.upload),
        "the name of the engine is not valid": _ENGINE.fullmatch(request.engine),
        "the secrets are not those that the request names": secrets_fit,
        "the SHA-256 of the project is none": SHA256.fullmatch(request.sha256),
        "the wait for a GPU is out of bounds": wait_fits,
        "there is no such profile": request.profile in (None, "", *Profile),
        "a run on a server cannot wait for others with --after": not request.after,
        f"--only and --command have over {MOST_WORDS:,} words": few,
        "a name in the request is too long": not long,
    }
    variables = {
        name: wrong_name(name) or wrong_value(value)
        for name, value in request.secret.values.items()
    }
    return [text for text, well in checks.items() if not well] + [
        f"-e {name[:40]}: the variable cannot be set: {why}"
        for name, why in variables.items()
        if why
    ]


def _spec(request: RunRequest) -> BuildSpec:
    """Return the build file with the options of the command line."""
    text = request.secret.spec_text or request.spec_text
    try:
        spec, _ = buildfile.parse(text, request.spec_file)
        masked = buildfile.masked(text)
        shown = buildfile.redacted(text)
    except SpecError as error:
        found = [one for one in error.problems if one.severity is Severity.ERROR]
        raise refuse(Reason.BAD_SPEC, *(found or error.problems)) from None
    if masked:
        names = ", ".join(masked)
        raise UsageError(f"the build file lacks the values of {names}")
    if shown != request.spec_text:
        raise UsageError("the build file is not the one that is shown")
    if request.gpus is not None:
        spec = replace(spec, gpu=choice.applied(request.gpus, spec.gpu))
    return image_names.applied(spec, request.substitute)


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
