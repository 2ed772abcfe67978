"""Limits of an account or a QOS that a job waits for, in words.

Slurm builds the codes of these reasons from parts: whose limit it is, how it counts,
what of, in minutes or at once, and for each of whom.
"""

from __future__ import annotations

import re

from msgspec import Struct

_CODE = re.compile(
    r"(?P<whose>Assoc|QOS)?(?P<counted>Grp|Max|Min)"
    r"(?P<what>BB|Billing|Cpu|CPU|Energy|GRES|Jobs?|License|Mem(?:ory)?|Node"
    r"|SubmitJobs?|Unknown|Wall(?:Duration)?)"
    r"(?P<minutes>(?:Run)?Min(?:ute)?s)?(?P<each>Per(?:Account|Job|Node|User))?"
    r"(?:Limit|NotSatisfied)?"
)
_NOUNS = {
    "BB": "burst buffer space",
    "Billing": "billing units",
    "CPU": "CPUs",
    "Cpu": "CPUs",
    "Energy": "energy",
    "GRES": "GPUs (GRES)",
    "License": "licenses",
    "Mem": "memory",
    "Memory": "memory",
    "Node": "nodes",
    "Unknown": "units of a resource",
}
_MINUTES = {
    "BB": "burst buffer minutes",
    "Billing": "billing minutes",
    "CPU": "CPU minutes",
    "Cpu": "CPU minutes",
    "Energy": "energy minutes",
    "GRES": "GPU (GRES) minutes",
    "License": "license minutes",
    "Mem": "memory minutes",
    "Memory": "memory minutes",
    "Node": "node minutes",
    "Unknown": "minutes of a resource",
}
_UNCOUNTED = frozenset({"BB", "Energy", "Mem", "Memory"})
_LATER = "others have to end first"
_BUDGET = "ask for less time, or ask the administrators"


class Allowance(Struct, frozen=True):
    """A limit in words; ``never`` if the job by itself exceeds it."""

    words: str
    never: bool = False


def allowance(code: str) -> Allowance | None:
    """Return the limit that a reason's code is about; None if it is about none."""
    found = _CODE.fullmatch(code)
    if not found:
        return None
    owner = "your account" if found["whose"] == "Assoc" else "the QOS"
    what, minutes, each = found["what"], found["minutes"] or "", found["each"] or ""
    if "Job" in what:
        return Allowance(_jobs(owner, what, found["counted"], each))
    if what.startswith("Wall"):
        return _time(owner, found["counted"])
    if found["counted"] == "Grp":
        return Allowance(_shared(owner, what, minutes))
    if found["counted"] == "Min":
        words = f"it asks for {_less(what)} {_NOUNS[what]} than {owner} demands"
        return Allowance(f"{words}: ask for more", never=True)
    return _most(owner, what, minutes, each)


def _jobs(owner: str, what: str, counted: str, each: str) -> str:
    whose, verb = "you", "have"
    if each == "PerAccount":
        whose, verb = "your account", "has"
    elif counted == "Grp":
        whose, verb = owner, "has"
    doing = "running or waiting" if what.startswith("Submit") else "running"
    allows = "it may" if whose == owner else f"{owner} allows"
    return f"{whose} {verb} as many jobs {doing} as {allows}: one has to end first"


def _time(owner: str, counted: str) -> Allowance:
    if counted == "Grp":
        return Allowance(f"too little time of {owner} is left: {_BUDGET}")
    words = f"it asks for more time than {owner} allows a job"
    return Allowance(f"{words}: lower resources.limits.time", never=True)


def _shared(owner: str, what: str, minutes: str) -> str:
    if minutes and not minutes.startswith("Run"):
        return f"too few {_MINUTES[what]} of {owner} are left: {_BUDGET}"
    jobs = f"with it, the jobs of {owner} would use"
    return f"{jobs} {_more(what, minutes)} than they may: {_LATER}"


def _most(owner: str, what: str, minutes: str, each: str) -> Allowance:
    if each in {"PerJob", "PerNode"}:
        at = "a job" if each == "PerJob" else "on one node"
        advice = "ask for less, or for less time" if minutes else "ask for less"
        words = f"it asks for {_more(what, minutes)} than {owner} allows {at}"
        return Allowance(f"{words}: {advice}", never=True)
    whose = "your account's" if each == "PerAccount" else "your"
    jobs = f"with it, {whose} running jobs would use"
    return Allowance(f"{jobs} {_more(what, minutes)} than {owner} allows: {_LATER}")


def _more(what: str, minutes: str) -> str:
    return f"more {_MINUTES[what] if minutes else _NOUNS[what]}"


def _less(what: str) -> str:
    return "less" if what in _UNCOUNTED else "fewer"
