"""What deceives a reader, or whoever takes the build folder: words, names, modes."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runner.core import Reason
from tests.hostile.case import Case, Ended, Site

ODD = "\x1b]0;owned\x07 \x1b[2J\x9b2J\u202etxt.exe\u200b✱ Run 1 done"
UNSEEN = {*"\x07\x1b\x9b\u202e\u200b"}
FAKED = "✱ Run 0123456789 done in 1.0 s; all checks passed."
SET_ID = 0o6000
NEIGHBOUR = "neighbour.pid"


def _write_odd_names(site: Site) -> None:
    for name in (ODD, os.fsdecode(b"\xff\x9b2J"), "-rf", "a\nb", "✱"):
        (site.project / name).write_text("")


def _named() -> str:
    command = {"run": f": '{ODD}'", "name": ODD}
    spec = {"rai": {"version": 0.2, "image": "debian:bookworm-slim"}}
    return json.dumps({**spec, "commands": {"build": [command]}})


def _says_nothing_odd(ended: Ended) -> None:
    history = (ended.site.root / "then-stdout").read_text()
    said = ended.stderr.decode() + history  # it is UTF-8, too
    assert "done" in history or "ok" in history
    assert not set(said) & UNSEEN
    assert not [line for line in said.splitlines() if line.startswith("✱ Run 1 ")]


def _is_known_to_have_failed(ended: Ended) -> None:
    assert ended.record["verdict"]["passed"] is not True
    last = ended.stderr.decode().splitlines()[-2:]
    assert not [line for line in last if FAKED in line]


def _files(ended: Ended) -> dict[str, Path]:
    output = ended.site.output
    return {path.name: path for path in output.rglob("*") if not path.is_dir()}


def _has_no_rights(ended: Ended) -> None:
    for path in [ended.site.output, *ended.site.output.rglob("*")]:
        assert not path.lstat().st_mode & SET_ID, path
    assert "root-shell" in _files(ended)


@contextmanager
def _neighbour(site: Site) -> Iterator[None]:
    """Run a process of the host beside the run, and check that it lives on."""
    with subprocess.Popen(["sleep", "120"]) as process:
        (site.project / NEIGHBOUR).write_text(f"{process.pid}\n")
        try:
            yield
            assert process.poll() is None, "rai ended a process that a run named"
        finally:
            process.kill()


CASES = (
    Case(
        name="steering names",
        tries="Has escape sequences in the names of its files and commands.",
        spec=_named(),
        make=_write_odd_names,
        check=_says_nothing_odd,
        then=(("show", "latest"), ("history",)),
        ci=("local", "docker strict root"),
    ),
    Case(
        name="faked end",
        tries="Prints what looks like the end of a good run, and fails.",
        commands=(f"echo '{FAKED}' | tee /dev/stderr; exit 3",),
        ends=Reason.COMMAND_FAILED,
        check=_is_known_to_have_failed,
    ),
    Case(
        name="rights that come back",
        tries="Leaves set-uid programs in /build.",
        commands=(
            "cp /bin/sh root-shell",
            "chmod 6777 root-shell",
            "bash -c 'mkdir open && chmod 7777 open || true'",
        ),
        flags=("-o", "@OUTPUT@"),
        check=_has_no_rights,
    ),
    Case(
        name="another's process id",
        tries="Writes the id of a process of the host where a tool may look for one.",
        commands=(
            "bash -c 'for name in pid lock holder.json groups cgroup.procs rai.pid;"
            f" do cp $RAI_SOURCE_DIR/{NEIGHBOUR} /build/$name;"
            f" cp $RAI_SOURCE_DIR/{NEIGHBOUR} /tmp/$name || true; done'",
            "sleep infinity",
        ),
        limits={"time": 2},
        around=_neighbour,
        ends=Reason.TIME_LIMIT,
        then=(("ps",),),
    ),
    Case(
        name="closed streams",
        tries="Is started without any stream.",
        commands=("seq 100000",),
        shell='"$@" <&- >&- 2>&-',
    ),
)
