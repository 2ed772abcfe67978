"""What is printed, and to what."""

from __future__ import annotations

from runner.core import Reason
from tests.hostile.case import Case, Ended

FLOOD = {"output": "100MiB", "time": 20}


def no_escapes(ended: Ended) -> None:
    """Assert that rai's own lines bring nothing raw of the project."""
    assert b"\x1b" not in ended.stderr
    assert b"\x9b" not in ended.stderr.replace("✱".encode(), b"")


CASES = (
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
            ends=Reason.DONE,
            ci=ci,
        )
        for name, what, command, ci in (
            ("random bytes", "random bytes", "head -c 30000000 /dev/urandom", ()),
            ("NULs", "NUL bytes", "head -c 30000000 /dev/zero", ()),
            (
                "escape sequences",
                "text and ESC[1K again and again",
                'perl -e \'print(("x" x 32768 . "\\e[1K") x 920)\'',
                ("strict root", "bubblewrap"),
            ),
            (
                "carriage returns",
                "lines that are drawn again",
                "perl -e 'print(\"Op Time: 1\\r\" x 2700000)'",
                (),
            ),
            (
                "almost figures",
                "text that almost is a figure",
                'perl -e \'print(("Op Time: " . "9" x 4000 . "x ") x 7500)\'',
                (),
            ),
        )
    ),
    Case(
        name="flooder left behind",
        tries="Leaves a child that floods stdout while the next command runs.",
        commands=("yes & true", "sleep 2"),
        limits={"output": "16MiB"},
        ends={"": Reason.DONE},
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
        name="faked end",
        tries="Prints lines as rai does: a run that is done.",
        commands=("printf '\\342\\234\\261 Run done\\n' >&2; exit 3",),
        ends=Reason.COMMAND_FAILED,
    ),
    Case(
        name="closed stdout of rai",
        tries="rai's stdout is closed from the start.",
        commands=("echo hello",),
        shell='exec "$@" >&-',
        ends=Reason.DONE,
    ),
    Case(
        name="full stdout of rai",
        tries="rai's stdout is /dev/full.",
        commands=("echo hello", "sleep 1"),
        shell='exec "$@" >/dev/full',
        ends=Reason.DONE,
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
