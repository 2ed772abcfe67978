"""The errors of rai itself, each with its Reason.

    RaiError
        SpecError       the build file is wrong          bad_spec
        ConfigError     a settings file or variable is   bad_config
        UsageError      the command line is              usage
        NotAllowedError the site's policy forbids it     not_allowed
        ImageError      no image to run in               build_failed, image_not_found
        EngineError     an engine failed, or there is none     internal, no_engine, ...
        BusyError       others use what the run needs          busy

A command that fails is not an error of rai: it is a Verdict.
"""

from __future__ import annotations

from collections.abc import Sequence

from runner.core import Problem, Reason


class RaiError(Exception):
    """Base of all errors that a user may see; the text can be shown as it is.

    ``advice`` is shown in place of the reason's own, "" for none.
    """

    reason = Reason.INTERNAL

    def __init__(
        self,
        *problems: Problem | str,
        reason: Reason | None = None,
        advice: str | None = None,
    ) -> None:
        self.problems: tuple[Problem, ...] = tuple(
            p if isinstance(p, Problem) else Problem(p) for p in problems
        )
        if reason is not None:
            self.reason = reason
        self.advice = self.reason.advice if advice is None else advice
        super().__init__("\n".join(str(p) for p in self.problems))


class SpecError(RaiError):
    """The build file cannot be used; carries every problem found, warnings too."""

    reason = Reason.BAD_SPEC

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(*problems)


class ConfigError(RaiError):
    """A settings file or an environment variable is wrong."""

    reason = Reason.BAD_CONFIG


class UsageError(RaiError):
    """The command line asks for something that does not exist or contradicts itself."""

    reason = Reason.USAGE


class NotAllowedError(RaiError):
    """The request exceeds a ceiling that the site's policy sets."""

    reason = Reason.NOT_ALLOWED


class ImageError(RaiError):
    """The image could not be built (build_failed) or found (image_not_found)."""

    reason = Reason.BUILD_FAILED


class EngineError(RaiError):
    """The engine failed, not the user's command."""


class BusyError(RaiError):
    """Others use what the run needs; the message says who."""

    reason = Reason.BUSY
