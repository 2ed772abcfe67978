"""Output that is made to cost rai time, memory or space."""

from __future__ import annotations

from runner.core import Reason
from tests.hostile.case import FEW, Case, Ended

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


FLOOD = {"output": "100MiB", "time": 20}


def no_escapes(ended: Ended) -> None:
    """Assert that rai's own lines bring nothing raw of the project."""
    assert b"\x1b" not in ended.stderr
    assert b"\x9b" not in ended.stderr.replace("✱".encode(), b"")


CASES = (
    _endless(
        "erased lines",
        "Erases a line of 32 KiB again and again, past the time limit.",
        r'("a" x 32768) . ("\e[1K" x 8192)',
        *FEW,
    ),
    _endless("carriage returns", "Prints only carriage returns.", r'"\r" x 65536'),
    _endless("backspaces", "Writes over one place.", r'"x\b" x 32768'),
    _endless(
        "figures without end",
        "Prints inferences without end.",
        r'"New Inference\nOp Time: 0.1\n" x 2048',
        *FEW,
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
    ),
    Case(
        name="a flooder left behind",
        tries="Leaves a process behind that prints without end.",
        commands=("yes & sleep 1",),
        limits={"time": 20, "output": "1GiB"},
    ),
    Case(
        name="endless stdout",
        tries="Prints to stdout without end.",
        commands=("yes",),
        limits={"output": "1MiB"},
        ends=Reason.OUTPUT_LIMIT,
        ci=("",),
    ),
    Case(
        name="endless stderr",
        tries="Prints to stderr without end.",
        commands=("yes >&2",),
        limits={"output": "1MiB"},
        ends=Reason.OUTPUT_LIMIT,
    ),
    Case(
        name="little by little",
        tries="Prints 0.4 MB in each of four commands, of 1 MiB in all.",
        commands=("head -c 400000 /dev/zero",) * 4,
        limits={"output": "1MiB"},
        ends=Reason.OUTPUT_LIMIT,
    ),
    Case(
        name="one line",
        tries="Prints one line of 1 GB.",
        commands=("head -c 1000000000 /dev/zero | tr '\\0' x",),
        limits={"output": "64MiB", "time": 20},
        ends=Reason.OUTPUT_LIMIT,
    ),
    *(
        Case(
            name=name,
            tries=f"Prints 30 MB of {what}.",
            commands=(command,),
            limits=FLOOD,
            ci=ci,
        )
        for name, what, command, ci in (
            ("random bytes", "random bytes", "head -c 30000000 /dev/urandom", ()),
            ("NULs", "NUL bytes", "head -c 30000000 /dev/zero", ()),
            (
                "almost figures",
                "text that almost is a figure",
                'perl -e \'print(("Op Time: " . "9" x 4000 . "x ") x 7500)\'',
                (),
            ),
        )
    ),
    Case(
        name="terminal escapes",
        tries="Hides escape sequences in a command and in a file's name.",
        commands=("true '\x1b]0;mine\x07' '\u009b31m'", "false"),
        spec=None,
        ends=Reason.COMMAND_FAILED,
        check=no_escapes,
    ),
    Case(
        name="broken pipe",
        tries="Who reads rai's stdout goes away.",
        commands=("yes",),
        limits={"output": "1MiB"},
        shell='"$@" | head -n 1; exit 0',
        exit_code=0,
        ends=Reason.OUTPUT_LIMIT,
    ),
)
