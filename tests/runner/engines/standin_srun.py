"""A program in the place of srun with pyxis: one node, containers by bubblewrap.

It knows the options that the engine may give, and refuses others. As with Slurm, a step
goes on when srun is killed, what a step leaves behind is killed, and srun prints a line
about a task that failed. As pyxis does, it keeps containers by their names, and prints
what it imports. An image is the machine's own /usr; one named "missing" is not there.
STANDIN_FOLDER is where it keeps its state; STANDIN_WITHOUT are options that it lacks.
STANDIN_SRUN is a real srun, which has the steps then, without the options of pyxis.
"""

from __future__ import annotations

import getopt
import os
import signal
import subprocess
import sys
from pathlib import Path

OWN = [
    *("jobid=", "nodes=", "ntasks=", "nodelist=", "cpus-per-task=", "mpi=", "export="),
    *("overlap", "quiet", "help"),
]
PYXIS = [
    *("container-image=", "container-mounts=", "container-workdir="),
    *("container-name=", "container-env=", "no-container-mount-home"),
    *("no-container-entrypoint", "container-readonly", "container-writable"),
    *("container-remap-root", "no-container-remap-root"),
]
SYSTEM = ("/usr", "/etc", "/bin", "/lib", "/lib64", "/sbin")

STEP = """
import subprocess, sys
code = subprocess.call(sys.argv[1:])
sys.exit(code if code >= 0 else 128 - code)
"""
"""The program of a step; what it started dies with it."""


def known() -> list[str]:
    without = os.environ.get("STANDIN_WITHOUT", "").split()
    return [*OWN, *(name for name in PYXIS if name.rstrip("=") not in without)]


def imported(image: str, name: str) -> None:
    """Make the container of a name, unless it is there; say so as pyxis does."""
    container = Path(os.environ["STANDIN_FOLDER"], name)
    if container.exists():
        return
    if not image.startswith("docker://"):
        sys.exit(f"srun: error: the image is {image}")
    short = image.removeprefix("docker://")
    print(f"pyxis: importing docker image: {short}", file=sys.stderr)
    if "missing" in image:
        print(
            "slurmstepd: error: pyxis: failed to import docker image", file=sys.stderr
        )
        print(f"slurmstepd: error: pyxis: [ERROR] no {short}", file=sys.stderr)
        sys.exit(1)
    container.mkdir()
    print(f"pyxis: imported docker image: {short}", file=sys.stderr)


def confined(given: dict[str, str], command: list[str]) -> list[str]:
    """Return bubblewrap's command line for a step."""
    words = [
        "bwrap",
        "--unshare-pid",
        "--die-with-parent",
        "--tmpfs",
        "/",
        "--dev-bind",
        "/dev",
        "/dev",
    ]
    words += ["--proc", "/proc", "--dir", "/run", "--dir", "/tmp"]
    for path in SYSTEM:
        if Path(path).exists():
            words += ["--ro-bind", path, path]
    for mount in filter(None, given.get("--container-mounts", "").split(",")):
        source, target, flags = mount.split(":")
        words += ["--bind" if flags == "rw" else "--ro-bind", source, target]
    if "--container-readonly" in given:
        words += ["--remount-ro", "/"]
    words += ["--chdir", given.get("--container-workdir", "/"), "--clearenv"]
    for pair in given["--export"].split(","):
        name, _, value = pair.partition("=")
        words += ["--setenv", name, value]
    words += ["--setenv", "SLURM_JOB_ID", given["--jobid"]]
    return [*words, *command]


def main() -> int:
    try:
        found, command = getopt.getopt(sys.argv[1:], "", known())
    except getopt.GetoptError as error:
        sys.exit(f"srun: error: {error}")
    given = dict(found)
    if "--help" in given:
        print(*(f"      --{name}" for name in known()), sep="\n")
        return 0
    if any(name.startswith(("PYXIS_", "SLURM_NTASKS")) for name in os.environ):
        sys.exit("srun: error: the environment has options")
    imported(given["--container-image"], given["--container-name"])
    words = confined(given, command)
    if real := os.environ.get("STANDIN_SRUN"):
        own = [f"{name}={value}" if value else name for name, value in found]
        own = [word for word in own if not word.startswith(("--container", "--no-"))]
        # Slurm shows a step the machine's processes, as pyxis does.
        words = ["/usr/bin/env", "-i", f"PATH={os.defpath}", *words]
        os.execv(real, [real, *own, *words])
    words[1:1] = ["--unshare-pid", "--die-with-parent"]
    # The step's own process has no mark, as slurmstepd has none.
    step = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", STEP, *words],
        env={"PATH": os.defpath},
        start_new_session=True,
    )

    def end(number: int, frame: object) -> None:
        print("srun: forcing job termination", file=sys.stderr)
        step.kill()

    signal.signal(signal.SIGTERM, end)
    code = step.wait()
    if code:
        print("srun: error: n1: task 0: Exited", file=sys.stderr)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
