"""What an image brings: it is the program's own, and nothing in it is trusted."""

from __future__ import annotations

from runner.core import Reason
from tests.hostile.case import Case, Ended

HEAD = "FROM debian:bookworm-slim\nLABEL rai-test=@MARK@\n"
SPEC = """\
rai: {version: 0.2}
resources: {limits: {time: 10, disk: 16MiB, output: 1MiB}}
commands:
  build_image: {dockerfile: Dockerfile}
  build:
    - %s
"""


def ran(ended: Ended) -> None:
    """Assert that the command ran."""
    assert b"ran" in ended.log(), ended.log()


def _image(
    name: str, tries: str, lines: str, command: str = "echo ran", **more: object
) -> Case:
    settings = {"check": ran, **more}
    return Case(
        name=name,
        tries=tries,
        spec=SPEC % command,
        files={"Dockerfile": HEAD + lines},
        columns=("docker",),
        limit_s=60,
        **settings,
    )


def _lying(*programs: str) -> str:
    """Return lines that replace programs by one that prints without end."""
    made = " ".join(f"/usr/local/bin/{name}" for name in programs)
    body = r"#!/usr/bin/perl\n$SIG{TERM}=\"IGNORE\";print \"\\n0 /build\\n\" while 1\n"
    return (
        f'RUN printf "{body}" >/lie && chmod 755 /lie && for p in {made};'
        " do cp /lie $p; done\n"
    )


CASES = (
    _image(
        "own tools",
        "Its own env, id, cat, tar, sleep and kill print without end.",
        _lying("env", "id", "cat", "tar", "sleep", "kill", "ls", "ps"),
    ),
    _image(
        "filled disk without du",
        "It has no du, and its program fills /build.",
        "RUN rm -f /usr/bin/du /usr/bin/df /usr/bin/stat\n",
        command="head -c 100000000 /dev/zero >x; sleep 20",
        ends=Reason.DISK_LIMIT,
        check=None,
        ci=("root",),
    ),
    _image(
        "variables",
        "Sets LD_PRELOAD, BASH_ENV, ENV, PATH, NVIDIA_VISIBLE_DEVICES, TMPDIR.",
        "ENV BASH_ENV=/evil ENV=/evil PYTHONSTARTUP=/evil PERL5OPT=-Mevil\n"
        "ENV NVIDIA_VISIBLE_DEVICES=all PATH=/evil:/usr/bin:/bin TMPDIR=/evil\n"
        "ENV LD_PRELOAD=/evil.so DOCKER_HOST=tcp://127.0.0.1:1\n",
    ),
    _image(
        "many variables",
        "Sets 400 variables of 200 bytes, and as many labels.",
        "".join(
            f"{word} " + " ".join(f"v{n}x{part}={'x' * 200}" for n in range(100)) + "\n"
            for word in ("ENV", "LABEL")
            for part in range(4)
        ),
    ),
    _image(
        "entrypoint",
        "Has an entrypoint, a command, a health check and a stop signal of its own.",
        'ENTRYPOINT ["/bin/false"]\nCMD ["/bin/false"]\nSTOPSIGNAL SIGUSR1\n'
        "HEALTHCHECK --interval=1s CMD touch /build/health\n",
    ),
    _image(
        "volumes",
        "Declares /build, /src, /data, /tmp and others as volumes.",
        "RUN mkdir -p /build /src && echo evil >/build/x && echo evil >/src/x\n"
        'VOLUME ["/build", "/src", "/data", "/tmp", "/other"]\n',
        command="test ! -e /build/x && test ! -e /src/x && echo ran",
    ),
    _image(
        "linked /build",
        "Its /build and /src are links to /etc.",
        "RUN rm -rf /build /src && ln -s /etc /build && ln -s /etc /src\n",
    ),
    _image(
        "user",
        "Is started as another user, in a folder that is not there.",
        "USER 0:0\nWORKDIR /nowhere\nRUN rm -rf /nowhere\n",
    ),
    _image(
        "setuid programs of its own",
        "Has a setuid shell, and a file with all capabilities.",
        "RUN cp /bin/bash /suid && chmod 6755 /suid\n",
        command="/suid -p -c 'touch /src/x; id -u' ; echo ran",
    ),
    _image(
        "empty",
        "Has no shell and nothing else.",
        "FROM scratch\nLABEL rai-test=@MARK@\nCOPY rai_build.yml /x\n",
        ends=Reason.IMAGE_NOT_FOUND,
        check=None,
    ),
)
