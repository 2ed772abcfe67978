"""Why a job waits and how it ended, in words, by the reasons that Slurm writes.

The codes are those of Slurm 20.11 to 26.05. In place of a code, newer versions write a
sentence for some of them, which squeue prints as the reason.
"""

from __future__ import annotations

import re

from msgspec import Struct

from runner.core.ending import Reason
from runner.core.screen import printable
from runner.slurm.allowances import allowance

_LONGEST = 120
"""How many characters of Slurm's own words are shown."""

_ASK = "ask the administrators"
_LESS = "ask for less"

_CONSIDERED = "Slurm has not considered it yet"
_WAITS = {
    "": _CONSIDERED,
    "(null)": _CONSIDERED,
    "N/A": _CONSIDERED,
    "None": _CONSIDERED,
    # What passes by itself.
    "BeginTime": "it may not start before a set time, such as after a requeue",
    "BlockFreeAction": "nodes are being freed for it",
    "BurstBufferResources": "the burst buffer has not enough free space",
    "BurstBufferStageIn": "its data is being copied to the burst buffer",
    "Cleaning": "its earlier start is still being cleaned up",
    "Constraints": "no node that can carry it out is available now",
    "Dependency": "another job has to end first",
    "FedJobLock": "the clusters of the federation have to agree on where it starts",
    "JobArrayTaskLimit": "as many tasks of its array run as may at once",
    "Licenses": "no license that it asks for is free",
    "MaxPoweredUpNodes": "as many nodes are switched on as the cluster allows",
    "MpiPortsBusy": "no network ports for MPI are free",
    "NvidiaImexChannels": "no channel for GPU memory between nodes (IMEX) is free",
    "PowerNotAvail": "the cluster has no power left for it",
    "PowerReserved": "the cluster's power is reserved for other jobs",
    "Priority": "jobs of higher priority come first",
    "Prolog": "its node is being prepared",
    "Reservation": "its reservation has not begun, or is in use",
    "Resources": "no node has enough free CPUs, memory or GPUs",
    "SchedDefer": "Slurm's scheduler has not run yet",
    # What passes when administrators act.
    "FrontEndDown": f"no front end of the cluster is up: {_ASK}",
    "NodeDown": f"a node that it needs is down: {_ASK}",
    "NodesDown": "the nodes that it needs are down, drained or kept for others",
    "PartitionDown": f"its partition starts no jobs now: {_ASK}, or use another one",
    "PartitionInactive": f"its partition is inactive: {_ASK}, or use another one",
    "PartitionNodeLimit": "its partition has no nodes for it, or they are down:"
    f" {_ASK}, or use another one",
    "ReqNodeNotAvail": "a node that it needs is down, drained or kept for others",
    "QOSUsageThreshold": "your fair-share value is lower than its QOS demands:"
    " it rises with time",
    # Holds.
    "BurstBufferOperation": f"the burst buffer failed: {_ASK}",
    "JobHeldAdmin": f"an administrator, or Slurm itself, holds it: {_ASK}",
    "JobHeldUser": "it is held: `scontrol release NUMBER` lets it go",
    "JobHoldMaxRequeue": f"Slurm holds it, as it failed to start too often: {_ASK}",
    "PutBack": "it was put back into the queue and is held:"
    " `scontrol release NUMBER` lets it go",
    "RequeuedHeld": f"Slurm holds it, as it failed to start on a node: {_ASK}",
    # What a job asks for and does not get.
    "AccountNotAllowed": "your account or group may not use its partition:"
    " name another partition or account",
    "BadConstraints": f"no node of its partition has what it asks for: {_LESS},"
    " or name another partition",
    "DependencyNeverSatisfied": "it depends on a job that did not end as it has to",
    "InvalidAccount": f"its account does not exist, or not for you: {_ASK}",
    "InvalidQOS": f"its QOS does not exist, or not for you: {_ASK}",
    "MaxMemPerLimit": "it asks for more memory than the cluster or its partition allows"
    " a job: lower resources.limits.memory",
    "PartitionConfig": "its partition does not allow what it asks for, or not for you:"
    f" {_LESS}, or name another partition",
    "PartitionTimeLimit": "it asks for more time than its partition allows:"
    " lower resources.limits.time, or name another partition",
    "QOSNotAllowed": "its QOS may not be used by your account or in its partition:"
    " name another QOS or partition",
    "ReservationDeleted": "its reservation was deleted: name another one, or none",
    "ReservationInvalid": "its reservation is not valid: name another one, or none",
    # Limits of accounts and QOS without a family.
    "AccountingPolicy": f"a limit of your account or of the QOS is reached: {_ASK}",
    "AssociationJobLimit": "your account has as many jobs as it may:"
    " one has to end first",
    "AssociationResourceLimit": "your account uses as much as it may:"
    " other jobs of it have to end first",
    "AssociationTimeLimit": f"the time of your account is used up: {_ASK}",
    "QOSJobLimit": "the QOS has as many jobs as it may: one has to end first",
    "QOSResourceLimit": "the QOS uses as much as it may:"
    " other jobs of it have to end first",
    "QOSTimeLimit": f"the time of the QOS is used up: {_ASK}",
    # Reasons of an end, which a job keeps that waits again.
    "BlockMaxError": f"too many of its nodes failed: {_ASK}",
    "DeadLine": "its deadline passed",
    "InactiveLimit": "it was inactive for longer than the cluster allows",
    "JobLaunchFailure": "it could not be started on its node, or a signal ended it",
    "NonZeroExitCode": "its script ended with an error",
    "OutOfMemory": "it used more memory than it had asked for",
    "RaisedSignal": "a signal ended it",
    "SystemFailure": f"Slurm, its network or its disk failed: {_ASK}",
    "TimeLimit": "it met its time limit",
}
_NEVER = frozenset(
    {
        "AccountNotAllowed",
        "BadConstraints",
        "DependencyNeverSatisfied",
        "MaxMemPerLimit",
        "PartitionConfig",
        "PartitionTimeLimit",
        "QOSNotAllowed",
        "ReservationDeleted",
        "ReservationInvalid",
    }
)
"""What only a change of the job or of the cluster's settings would end."""

_SENTENCES = (
    (r"ReqNodeNotAvail\b", "ReqNodeNotAvail"),
    (r"RaisedSignal:", "RaisedSignal"),
    (r"Nodes required for job are DOWN\b", "NodesDown"),
    (r"uid \d+ not in group permitted to use this partition", "AccountNotAllowed"),
    (r"Job's account not permitted to use this partition", "AccountNotAllowed"),
    (r"Job's QOS not permitted to use this partition", "QOSNotAllowed"),
    (r"Job's QOS not known", "QOSNotAllowed"),
    (r"Reservation .{1,100} was deleted", "ReservationDeleted"),
    (r"Reservation .{1,100} is invalid", "ReservationInvalid"),
    (r"Reservation .{1,100}, which this job was running under", "ReservationEnded"),
    (r"Job is at or exceeds ", "AllowanceUsed"),
    (r"launch failure limit exceeded requeued held", "JobHoldMaxRequeue"),
    (r"(?:launch failed|user env retrieval failed) requeued held", "RequeuedHeld"),
    (r"job requeued in held state", "PutBack"),
)
_CODES = tuple((re.compile(sentence), code) for sentence, code in _SENTENCES)
_UNAVAILABLE = re.compile(r"UnavailableNodes:([\w\[\],.-]{1,60})\Z", re.ASCII)
_SIGNAL = re.compile(r"RaisedSignal:(\d{1,3})\(([\w /]{1,40})\)\Z", re.ASCII)


def why_waits(reason: str) -> str:
    """Return what a job waits for, in words, by Slurm's reason.

    Of a reason that is not known, Slurm's own words are quoted, bounded and escaped.
    """
    code = _code(reason)
    words = _WAITS.get(code)
    if words is None:
        limit = allowance(code)
        return limit.words if limit else f'Slurm says "{_shown(reason)}"'
    down = _UNAVAILABLE.search(reason)
    if code == "ReqNodeNotAvail" and down:
        return f"nodes are down, drained or kept for others: {down[1]}"
    if code == "ReqNodeNotAvail" and "Reserved for maintenance" in reason:
        return "its nodes are reserved for maintenance"
    return words


def never_starts(reason: str) -> bool:
    """Return whether a job with this reason waits for good.

    What administrators may end without touching the job or the cluster's settings,
    such as holds, used up budgets and nodes that are down, is not for good.
    """
    code = _code(reason)
    if code in _WAITS:
        return code in _NEVER
    limit = allowance(code)
    return limit is not None and limit.never


class JobEnd(Struct, frozen=True):
    """How Slurm ended a job that left no record: never a success."""

    reason: Reason
    words: str


def how_ended(state: str, reason: str) -> JobEnd:
    """Return how a job ended, by its final state and its reason in Slurm."""
    match state:
        case "TIMEOUT":
            words = _TIMES.get(_code(reason), "at its time limit")
            return JobEnd(Reason.TIME_LIMIT, f"Slurm ended the job {words}")
        case "DEADLINE":
            return JobEnd(Reason.TIME_LIMIT, "Slurm ended the job at its deadline")
        case "OUT_OF_MEMORY":
            words = "the job used more memory than it had asked for"
            return JobEnd(Reason.MEMORY_LIMIT, words)
        case "CANCELLED":
            return JobEnd(Reason.CANCELLED, "the job was cancelled in Slurm")
        case "FAILED" if never_starts(reason):
            return JobEnd(Reason.NOT_ALLOWED, f"it never started: {why_waits(reason)}")
        case "FAILED":
            return JobEnd(Reason.RUNNER_LOST, f"the job failed{_failure(reason)}")
        case _:
            words = _LOST.get(state) or f'Slurm ended the job as "{_shown(state)}"'
            return JobEnd(Reason.RUNNER_LOST, words)


_TIMES = {
    "AllowanceUsed": "when your account or its QOS had no time left",
    "ReservationEnded": "when its reservation ended",
}
_LOST = {
    "BOOT_FAIL": "the job's node did not boot",
    "COMPLETED": "the job ended, but the run left no record",
    "NODE_FAIL": "the job's node failed",
    "PREEMPTED": "Slurm gave the job's node to a job of higher priority",
    "REVOKED": "another cluster of the federation took the job",
}


def _failure(reason: str) -> str:
    signal = _SIGNAL.match(reason)
    if signal:
        return f": signal {signal[1]} ({signal[2]}) ended rai's worker"
    code = _code(reason)
    if code == "NonZeroExitCode":
        return ": rai's worker ended with an error"
    if _WAITS.get(code) == _CONSIDERED:
        return ""
    return f": {why_waits(reason)}"


def _code(reason: str) -> str:
    """Return the code that a reason is, or that its sentence stands for."""
    if reason in _WAITS:
        return reason
    return next((code for form, code in _CODES if form.match(reason)), reason)


def _shown(text: str) -> str:
    """Return words of Slurm on one line, bounded, without what steers a terminal."""
    line = " ".join(text[: 4 * _LONGEST].split())
    cut = f"{line[:_LONGEST]}..." if len(line) > _LONGEST else line
    return printable(cut)
