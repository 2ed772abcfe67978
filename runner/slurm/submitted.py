"""What sbatch answers: the number of a job, or why it took none.

The texts are those of slurm_strerror, as sbatch prints them since Slurm 20.11.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from runner.core.ending import Reason
from runner.core.errors import RaiError
from runner.core.limits import Limits
from runner.core.needs import JobNeeds
from runner.core.problem import Problem
from runner.core.quantities import size_text
from runner.core.screen import printable
from runner.slurm.options import SlurmOptions
from runner.slurm.target import SlurmTarget

MOST_TEXT = 2000
"""The most characters of what sbatch printed that are read, and shown."""

_NUMBER = re.compile(r"([0-9]{1,12})(?:;[\w.-]{1,100})?", re.ASCII)
_PREFIX = re.compile(
    r"^sbatch: (?:error: )?(?:Batch job submission failed: )?", re.MULTILINE
)

LISTS = "`sinfo -o '%P %N %c %m %G'` lists each node's cores, MiB and GPUs"
DEFAULT_MEMORY = size_text(Limits().memory_bytes)
TRY_LATER = "try again later"


class SubmitError(RaiError):
    """Slurm did not take a job; ``uncertain`` is whether it may have done so after all.

    That is where sbatch had sent the job, but got no answer.
    """

    def __init__(
        self, problem: Problem, reason: Reason, *, uncertain: bool = False
    ) -> None:
        super().__init__(problem, reason=reason, advice="")
        self.uncertain = uncertain


class SubmitCase(Struct, frozen=True):
    """What a text of sbatch means; ``words`` may have the names of what was asked."""

    pattern: str
    reason: Reason
    words: str
    hint: str
    uncertain: bool = False


_CASES = (
    SubmitCase(
        r"no partition specified",
        Reason.USAGE,
        "Slurm has no default partition here",
        "name one: --on slurm:PARTITION; `sinfo` lists them",
    ),
    SubmitCase(
        r"invalid partition",
        Reason.USAGE,
        "Slurm has no {partition}",
        "`sinfo` lists the partitions",
    ),
    SubmitCase(
        r"invalid account",
        Reason.BAD_CONFIG,
        "Slurm does not take {account} for {partition}",
        "set slurm.account; `sacctmgr show associations user=$USER` lists yours",
    ),
    SubmitCase(
        r"invalid qos",
        Reason.BAD_CONFIG,
        "Slurm does not take {qos} for {partition}",
        "set slurm.qos; `sacctmgr show associations user=$USER` lists yours",
    ),
    SubmitCase(
        r"invalid feature",
        Reason.BAD_CONFIG,
        "no node has {constraint}",
        "set slurm.constraint; `sinfo -o '%N %f'` lists the features",
    ),
    SubmitCase(
        r"invalid generic resource|invalid gres",
        Reason.NO_GPU,
        "Slurm does not know the GPUs that the run asks for",
        "`sinfo -o '%P %N %G'` lists them; `--gpus 0` runs only what needs none",
    ),
    SubmitCase(
        r"requested reservation is invalid|access denied to requested reservation",
        Reason.BAD_CONFIG,
        "Slurm has no such reservation, or it is not yours",
        "`scontrol show reservation` lists them; slurm.extra names one",
    ),
    SubmitCase(
        r"memory specification can ?not be satisfied",
        Reason.NOT_ALLOWED,
        "no node of {partition} has the {memory} of memory that the run asks for",
        f"lower resources.limits.memory, {DEFAULT_MEMORY} by default; {LISTS}",
    ),
    SubmitCase(
        r"more processors requested than permitted|cpu count per node can not",
        Reason.NOT_ALLOWED,
        "no node of {partition} has the cores that the run asks for",
        f"lower resources.cpu.cores; {LISTS}",
    ),
    SubmitCase(
        r"requested time limit is invalid",
        Reason.NOT_ALLOWED,
        "the run may take longer than jobs of {partition} may",
        "lower resources.limits.time; `sinfo -o '%P %l'` lists what each allows",
    ),
    SubmitCase(
        r"requested node configuration is not available",
        Reason.NOT_ALLOWED,
        "no node of {partition} has all that the run asks for at once",
        f"lower resources.limits.memory, cpu.cores or gpu; {LISTS}",
    ),
    SubmitCase(
        r"invalid node name",
        Reason.BAD_CONFIG,
        "Slurm has no such node",
        "`sinfo -N` lists them",
    ),
    SubmitCase(
        r"(?:QOS|Assoc)\w*Submit\w*Limit|Reached MaxJobs|temporarily unable to accept",
        Reason.BUSY,
        "Slurm takes no more jobs of yours now",
        "wait until one of them has ended",
    ),
    SubmitCase(
        r"(?:QOS|Assoc)(?:Max|Grp|Min)\w+",
        Reason.NOT_ALLOWED,
        "the run asks for more than the account or qos may have: {match}",
        "ask for less, or name another by slurm.account or slurm.qos",
    ),
    SubmitCase(
        r"job violates accounting/qos policy",
        Reason.NOT_ALLOWED,
        "the run asks for more, or more jobs, than the account or qos may have",
        "ask for less, or name another by slurm.account or slurm.qos",
    ),
    SubmitCase(
        r"group not permitted to use this partition|not permitted to use this node",
        Reason.NOT_ALLOWED,
        "you may not use {partition}",
        "`--on slurm:PARTITION` names another",
    ),
    SubmitCase(
        r"required partition not available|requested partition configuration not",
        Reason.BUSY,
        "{partition} takes no jobs now",
        f"{TRY_LATER}, or name another: --on slurm:PARTITION",
    ),
    SubmitCase(
        r"access/permission denied|invalid user id|protocol authentication error"
        r"|munge|invalid authentication credential",
        Reason.NOT_ALLOWED,
        "Slurm does not take jobs of this user from this machine",
        "ask those who keep the cluster",
    ),
    SubmitCase(
        r"socket timed out|zero bytes were transmitted|transport endpoint"
        r"|unexpected message received|connection (?:reset|timed out)",
        Reason.BUSY,
        "Slurm's controller did not answer",
        TRY_LATER,
        uncertain=True,
    ),
    SubmitCase(
        r"unable to contact slurm controller|unable to establish (?:config|control)"
        r"|connection refused|could not establish a configuration",
        Reason.BUSY,
        "Slurm's controller cannot be reached",
        f"`scontrol ping` shows whether it is up; {TRY_LATER}",
    ),
    SubmitCase(
        r"(?:unrecognized|invalid|ambiguous) option|option .* requires an argument",
        Reason.BAD_CONFIG,
        "sbatch does not take an option: {text}",
        "slurm.extra of the settings has further words for sbatch",
    ),
    SubmitCase(
        r"cannot stat file|s_p_parse_file|could not load",
        Reason.NO_ENGINE,
        "Slurm's programs find no cluster: {text}",
        "ask those who keep the cluster, or set SLURM_CONF",
    ),
)
"""In the order of their weight: the first that is found counts."""


def number(answer: str) -> str | None:
    """Return the number of the job from what ``sbatch --parsable`` printed.

    A site's own plugins may print lines before it.
    """
    lines = [line.strip() for line in answer[-MOST_TEXT:].splitlines()]
    found = _NUMBER.fullmatch(next((line for line in reversed(lines) if line), ""))
    return found[1] if found else None


def failure(
    said: str, target: SlurmTarget, options: SlurmOptions, needs: JobNeeds
) -> SubmitError:
    """Return why sbatch took no job, from what it printed to stderr."""
    text = _own(said)
    for case in _CASES:
        if found := re.search(case.pattern, text, re.IGNORECASE):
            words = case.words.format(
                partition=_partition(target),
                account=_named("account", options.account),
                qos=_named("qos", options.qos),
                constraint=_named("features", options.constraint),
                memory=size_text(needs.memory_bytes),
                match=found[0],
                text=text,
            )
            problem = Problem(printable(words), hint=case.hint)
            return SubmitError(problem, case.reason, uncertain=case.uncertain)
    told = f"Slurm did not take the run: {text or 'sbatch does not say why'}"
    # It may be a site's own plugin, which says what it wants.
    return SubmitError(Problem(printable(told)), Reason.NOT_ALLOWED)


def _own(said: str) -> str:
    """Return a text without what sbatch begins its lines with, in one line."""
    said = said[:MOST_TEXT] + ("..." if len(said) > MOST_TEXT else "")
    return "; ".join(_lines(_PREFIX.sub("", said)))


def _lines(text: str) -> Iterator[str]:
    for line in dict.fromkeys(text.splitlines()):
        if line.strip():
            yield line.strip()


def _partition(target: SlurmTarget) -> str:
    return (
        f"partition {target.partition}" if target.partition else "the default partition"
    )


def _named(what: str, text: str) -> str:
    return f"the {what} {text}" if text else f"your default {what}"
