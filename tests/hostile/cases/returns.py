"""What comes back in /build."""

from __future__ import annotations

import stat
from pathlib import Path

from runner.core import Reason
from tests.hostile.case import FEW, Case, Ended

BACK = ("-o", "@OUTPUT@")


def stays_below(ended: Ended) -> None:
    """Assert that what was unpacked leads nowhere else and has no special rights."""
    for path in ended.site.output.rglob("*"):
        mode = path.lstat().st_mode
        assert not mode & (stat.S_ISUID | stat.S_ISGID) or stat.S_ISDIR(mode), path
        assert stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode), path
        if stat.S_ISLNK(mode):
            leads = (path.parent / path.readlink()).resolve()
            assert leads.is_relative_to(ended.site.output.resolve()), path
            assert not Path(path.readlink()).is_absolute(), path


def _back(name: str, tries: str, command: str, **more: object) -> Case:
    settings = {"check": stays_below, **more}
    return Case(name=name, tries=tries, commands=(command,), flags=BACK, **settings)


CASES = (
    _back(
        "links back",
        "Leaves links to the host's files, and a file below a link.",
        "ln -s @OUTSIDE@/secret a; ln -s @OUTSIDE@ b; ln -s ../../../outside/x c;"
        " ln -s . d; ln -s /etc/passwd e",
        ci=FEW,
    ),
    _back(
        "special files back",
        "Leaves FIFOs, sockets and device files.",
        "mkfifo f; mknod n p; mknod z c 1 5; "
        "perl -MSocket -e 'socket(S,1,1,0); bind(S, sockaddr_un(\"s\"))'; true",
    ),
    _back(
        "names back",
        "Leaves names like options, with newlines and escapes.",
        "touch -- -rf $'new\\nline' $'\\x1b[31m' 'a b' \"$(printf '\\377')\"",
    ),
    _back(
        "deep folders back",
        "Leaves 1,500 nested folders.",
        'perl -e \'for (1..1500) { mkdir "dddd"; chdir "dddd" or die }\'',
        ci=FEW,
    ),
    _back(
        "many files back",
        "Leaves 101,000 files where 100,000 may come back.",
        "perl -e 'for (1..101000) { open F, \">\", $_; close F }'",
        limits={"time": 120},
        ends=Reason.DISK_LIMIT,
        check=None,
    ),
    _back(
        "sparse file back",
        "Leaves a sparse file of 200 MiB.",
        "truncate -s 200M x",
        limits={"time": 120},
    ),
    _back(
        "hard links back",
        "Leaves 5,000 hard links to one file.",
        'perl -e \'open F, ">x"; close F; for (1..5000) { link "x", "l$_" }\'',
    ),
    _back(
        "locked folders back",
        "Leaves a folder of mode 0, and makes /build itself one.",
        "mkdir d; touch d/x; chmod 0 d; chmod 0 .",
    ),
    _back(
        "attributes back",
        "Leaves extended attributes, and a file that says it may do everything.",
        """touch x; perl -e 'my ($f, $u, $v) = ("x", "user.a", "b" x 4000);"""
        """ syscall(188, $f, $u, $v, 4000, 0); my $c = "security.capability";"""
        """ my $w = pack("V5", 0x2000001, ~0, ~0, ~0, ~0);"""
        """ syscall(188, $f, $c, $w, 20, 0)'""",
    ),
    _back(
        "moved /build",
        "Removes or replaces /build while it is collected.",
        "cd /; rm -rf /build/* ; rmdir /build; mv /build /tmp/b; ln -s /etc /build;"
        " true",
    ),
    _back(
        "growing file",
        "Leaves a process that writes and renames while /build is collected.",
        "(while :; do date >>a; mv a b; mv b a; done) >/dev/null 2>&1 &",
    ),
)
