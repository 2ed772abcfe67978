"""The command lines of srun with pyxis, and what the steps report. Pure.

Options and formats: `srun --help` with pyxis 0.11 to 0.24, and enroot's image URIs,
`docker://[USER@][REGISTRY#]IMAGE[:TAG]`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from runner.core import Profile
from runner.engines import launch
from runner.images.names import without_hub

IMAGE = "--container-image"
NEEDED = (IMAGE, "--container-mounts", "--container-name", "--container-workdir")
"""Without these options of srun nothing can run."""

STRICT = ("--container-readonly", "--no-container-remap-root")
COMPATIBLE = ("--container-writable", "--container-remap-root")
ALWAYS = ("--no-container-mount-home", "--no-container-entrypoint")
"""Options that are given where srun has them; older versions of pyxis lack some."""

GPU_NAMES = ("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")
"""What enroot's hook reads to bring the driver's files into a container."""

NOT_IN_MOUNTS = re.compile(r"[,:+\s]")
"""What separates the parts of --container-mounts, so that no path may have it."""

KEPT = ("SLURM_CONF", "SLURM_JOB_ID", "SLURM_CLUSTER_NAME", "SLURM_WORKING_CLUSTER")
"""The variables of Slurm that srun gets. The others are options of the job."""

WRAPPER = """\
trap : TERM INT HUP
cd /build
: >"$0/$1.start"
end="$0/$1"
shift
exec 3>&2 2>/dev/null
(exec "$@" 2>&3 3>&-)
code=$?
{ echo $code; times; } >"$end.new"
mv "$end.new" "$end"
exit 0
"""
"""Run a command and write its exit code and processor time to a file.

srun prints a line to stderr when a task fails, so this always exits 0. The shell's own
stderr is closed, as it would print how a signal ended the command.
"""

_TIME = re.compile(r"(\d+)m([\d.]+)s")


class NodeMount(Struct, frozen=True):
    """A file or folder of the node, and its path in the container."""

    source: Path
    target: str
    writable: bool = False


class Reported(Struct, frozen=True):
    """What the wrapper reported: a command's exit code and processor time."""

    exit_code: int
    cpu_s: float | None = None


def uri(reference: str) -> str:
    """Return the URI by which enroot knows an image: a `#` follows the registry."""
    name = without_hub(reference)
    host, slash, rest = name.partition("/")
    if slash and ("." in host or ":" in host or host == "localhost"):
        return f"docker://{host}#{rest}"
    return f"docker://{name}"


def srun(
    environ: Mapping[str, str],
    container: Sequence[str],
    exported: Mapping[str, str],
    command: Sequence[str],
) -> list[str]:
    """Return the command line of a step of the job, on this node alone.

    ``environ`` is that of the job; ``exported`` the variables that a step gets beside
    Slurm's own.
    """
    words = ["srun", f"--jobid={environ['SLURM_JOB_ID']}", "--nodes=1", "--ntasks=1"]
    if node := environ.get("SLURMD_NODENAME"):
        words.append(f"--nodelist={node}")
    if (cores := environ.get("SLURM_CPUS_ON_NODE", "")).isdecimal():
        words.append(f"--cpus-per-task={cores}")
    variables = ",".join(f"{name}={value}" for name, value in exported.items())
    words += ["--overlap", "--quiet", "--mpi=none", f"--export={variables}"]
    return [*words, *container, *command]


def container(
    options: frozenset[str],
    name: str,
    image: str,
    profile: Profile = Profile.STRICT,
    binds: Sequence[NodeMount] = (),
) -> list[str]:
    """Return the options of a step for its container; ``options`` are what srun has.

    The image is named each time; pyxis imports it where there is no container of the
    name.
    """
    ways = (*ALWAYS, *(STRICT if profile is Profile.STRICT else COMPATIBLE))
    words = [f"{IMAGE}={uri(image)}", f"--container-name={name}"]
    words += [option for option in ways if option in options]
    if "--container-env" in options:
        words.append(f"--container-env={','.join(GPU_NAMES)}")
    if binds:
        mounts = ",".join(map(_mount, binds))
        words += [f"--container-mounts={mounts}", "--container-workdir=/build"]
    return words


def wrapped(folder: str, token: str, command: Sequence[str]) -> list[str]:
    """Return the command line that runs a command and reports how it ended.

    ``folder`` is where the container has the reports, ``token`` the name of this one.
    """
    return ["/bin/sh", "-c", WRAPPER, folder, token, *command]


def variables(names: Mapping[str, str], given: Mapping[str, str]) -> bytes:
    """Return the shell script that sets ``names`` and then what the user has ``given``.

    Search paths go before those of the image.
    """
    paths = {name: names[name] for name in ("PATH", "LD_LIBRARY_PATH")}
    rest = {name: value for name, value in names.items() if name not in paths}
    lines = "".join(
        f'export {name}={value}"${{{name}:+:${name}}}"\n'
        for name, value in paths.items()
    )
    return launch.exports(rest) + lines.encode() + launch.exports(given)


def environment_of(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that srun itself gets.

    Those of Slurm and pyxis are options too, of the user's job and not of this run.
    """
    return {
        name: value
        for name, value in environ.items()
        if name in KEPT or not name.startswith(("SLURM_", "PYXIS_"))
    }


def options(text: str) -> frozenset[str]:
    """Return the long options that the text of `srun --help` lists."""
    return frozenset(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))


def reported(text: str) -> Reported | None:
    """Return what the wrapper reported; None if that is not what it writes."""
    code, _, rest = text.partition("\n")
    if not (code.isascii() and code.isdecimal() and len(code) <= 3):
        return None
    spent = [int(m) * 60 + float(s) for m, s in _TIME.findall(rest)[2:4]]
    return Reported(int(code), sum(spent) if len(spent) == 2 else None)


def _mount(bind: NodeMount) -> str:
    return f"{bind.source}:{bind.target}:{'rw' if bind.writable else 'ro'}"
