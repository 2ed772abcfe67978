"""What `--repeat`, `--command` and `--budget` ask for."""

from __future__ import annotations

from msgspec import Struct

from runner.core import BuildSpec, Problem, quantities
from runner.core.errors import NotAllowedError, UsageError
from runner.core.policy import Policy
from runner.core.samples import MOST_ROUNDS
from runner.session import selection
from runner.session.options import Options


class Repeating(Struct, frozen=True):
    """The indexes of the commands to repeat, none if the run decides, and the time."""

    repeated: frozenset[int]
    budget_s: float


def read(
    spec: BuildSpec, left_out: frozenset[int], options: Options, rules: Policy
) -> Repeating:
    """Return what the options ask for.

    Raises:
        UsageError: an option has a wrong value; carries all problems.
        NotAllowedError: the budget is more than a run may take by the site's policy.
    """
    problems = []
    if not 1 <= options.repeat <= MOST_ROUNDS:
        text = f"--repeat {options.repeat} is not a number from 1 to {MOST_ROUNDS:,}"
        problems.append(Problem(text))
    repeated = frozenset[int]()
    if options.measured:
        try:
            repeated = selection.chosen(spec.commands, options.measured, "--command")
        except UsageError as error:
            problems += error.problems
    for index in sorted(repeated & left_out):
        text = f"--command: --only leaves out command {index + 1}"
        problems.append(Problem(text, hint="name it by --only too"))
    budget_s = spec.limits.time_s
    if options.budget is not None:
        given = quantities.duration_s(options.budget)
        if given is None or given <= 0:
            text = f"--budget {options.budget!r} is not a time span"
            problems.append(Problem(text, hint="write it as `90s`, `10m` or `1h30m`"))
        else:
            budget_s = given
    if problems:
        raise UsageError(*problems)
    ceiling = rules.ceilings.get("time_s")
    if ceiling and budget_s > ceiling.most:
        most = quantities.duration_text(ceiling.most)
        text = f"--budget is {options.budget}, and at most {most} is allowed"
        raise NotAllowedError(Problem(f"{text} by {ceiling.place}"))
    return Repeating(repeated, budget_s)
