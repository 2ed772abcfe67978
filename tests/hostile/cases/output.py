"""Output that is made to cost rai time, memory or space."""

from __future__ import annotations

from runner.core import Reason
from tests.hostile.case import Case

_FOREVER = """perl -e '$| = 1; $x = {piece}; print $x while 1'"""


def _endless(name: str, tries: str, piece: str, *ci: str) -> Case:
    return Case(
        name=name,
        tries=tries,
        commands=(_FOREVER.format(piece=piece),),
        limits={"time": 2, "output": "8GiB"},
        ends=Reason.TIME_LIMIT,
        ci=ci,
    )


CASES = (
    _endless(
        "erased lines",
        "Erases a line of 32 KiB again and again, past the time limit.",
        r'("a" x 32768) . ("\e[1K" x 8192)',
        "",
    ),
    _endless("carriage returns", "Prints only carriage returns.", r'"\r" x 65536'),
    _endless("backspaces", "Writes over one place.", r'"x\b" x 32768'),
    _endless(
        "figures without end",
        "Prints inferences without end.",
        r'"New Inference\nOp Time: 0.1\n" x 2048',
        "",
    ),
    _endless(
        "tables without end",
        "Prints profiles with long names without end.",
        r'"==1== Profiling result:\nTime(%) Time Calls Avg Min Max Name\n" .'
        r' ("1.00%  1.0us  1  1.0us  1.0us  1.0us  " . ("k" x 1000) . "\n") x 400',
    ),
    Case(
        name="small writes in turns",
        tries="Makes an event of each byte, with both streams in turns.",
        commands=(
            """perl -e 'for (1..200000) { syswrite(STDOUT, "o");"""
            """ syswrite(STDERR, "e") }'""",
        ),
        limits={"time": 60},
        ends=Reason.DONE,
    ),
    Case(
        name="a flooder left behind",
        tries="Leaves a process behind that prints without end.",
        commands=("yes & sleep 1",),
        limits={"time": 20, "output": "1GiB"},
        ends=Reason.DONE,
    ),
)
