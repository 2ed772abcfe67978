"""What `rai doctor --fix` can do, and the facts that it is decided from."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from shlex import quote

from msgspec import Struct
from msgspec.structs import replace

from runner.core import ImageAction, ImagePlan
from runner.engines.doctor import Finding, Health
from runner.system import machine


class Remedy(Struct, frozen=True):
    """Something to repair: the command line that does it, and if it needs root."""

    what: str
    line: str
    root: bool = False


class Needs(Struct, frozen=True):
    """Facts that remedies are decided from; what is not known needs none.

    ``home`` is where runs are kept, ``rai`` this program, ``python`` the one that runs
    it. ``forbids`` are settings of the kernel that forbid sandboxes, each with the
    value that allows them.
    """

    home: str
    rai: str
    python: str
    user: str = ""
    home_exists: bool = True
    home_usable: bool = True
    home_own: bool = True
    docker_denied: bool = False
    sandbox: bool = True
    bubblewrap: bool = True
    installer: str = ""
    forbids: tuple[tuple[str, str], ...] = ()
    image: ImageAction = ImageAction.REUSE
    image_name: str = ""
    numpy_missing_in: str = ""
    shell: str = ""
    completion: str = ""


INSTALLERS = {
    "apt-get": "apt-get install -y bubblewrap",
    "dnf": "dnf install -y bubblewrap",
    "zypper": "zypper --non-interactive install bubblewrap",
    "pacman": "pacman -S --noconfirm bubblewrap",
    "apk": "apk add bubblewrap",
}
"""The programs that install packages, and how each installs bubblewrap."""

FORBIDDING = {
    "kernel.unprivileged_userns_clone": ("0", "1"),
    "kernel.apparmor_restrict_unprivileged_userns": ("1", "0"),
    "user.max_user_namespaces": ("0", "15000"),
}
"""Settings of the kernel: the value that forbids sandboxes, one that allows them."""

COMPLETIONS = {
    "bash": ".local/share/bash-completion/completions/rai",
    "fish": ".config/fish/completions/rai.fish",
}
"""Where a shell looks for a user's completions, below the user's home."""


def remedies(needs: Needs) -> list[Remedy]:
    """Return what can be done, first what needs no root."""
    return [*_own(needs), *_of_root(needs)]


def _own(needs: Needs) -> list[Remedy]:
    found = []
    home = quote(needs.home)
    if not needs.home_exists:
        found.append(Remedy("create the folder for runs", f"mkdir -p {home}"))
    elif not needs.home_usable and needs.home_own:
        found.append(Remedy("open the folder for runs to you", f"chmod u+rwx {home}"))
    if needs.numpy_missing_in:
        line = f"{quote(needs.python)} -m pip install -e"
        wanted = quote(f"{needs.numpy_missing_in}[project]")
        found.append(Remedy("install NumPy for the default job", f"{line} {wanted}"))
    if needs.image is not ImageAction.REUSE:
        what = f"{needs.image} the image of this project, {needs.image_name}"
        found.append(Remedy(what, f"{quote(needs.rai)} image build"))
    if needs.completion:
        file = quote(needs.completion)
        script = f"{quote(needs.rai)} --show-completion {needs.shell} > {file}"
        line = f"mkdir -p {quote(needs.completion.rpartition('/')[0])} && {script}"
        found.append(Remedy(f"complete rai's commands in {needs.shell}", line))
    return found


def _of_root(needs: Needs) -> list[Remedy]:
    found = []
    home, user = quote(needs.home), quote(needs.user)
    if needs.home_exists and not needs.home_usable and not needs.home_own:
        what, line = "make the folder for runs yours", f"chown -R {user} {home}"
        found.append(Remedy(what, line, root=True))
    if needs.docker_denied:
        what = "let you use the Docker Engine, from your next login on; whoever may use"
        what += " it has the rights of root"
        found.append(Remedy(what, f"usermod -aG docker {user}", root=True))
    if not needs.sandbox and not needs.bubblewrap and needs.installer:
        what, line = "install bubblewrap, for sandboxes", INSTALLERS[needs.installer]
        found.append(Remedy(what, line, root=True))
    if not needs.sandbox:
        for name, value in needs.forbids:
            what = "allow sandboxes, until this machine starts again"
            found.append(Remedy(what, f"sysctl -w {name}={value}", root=True))
    return found


SYSCTL = Path("/proc/sys")


def look(
    findings: Sequence[Finding],
    home: Path,
    project: Path,
    plan: ImagePlan | None,
    environ: Mapping[str, str],
) -> Needs:
    """Look at this machine; ``plan`` is how a run of ``project`` gets its image."""
    engines = {f.subject: f for f in findings}
    docker, local = engines.get("engine docker"), engines.get("engine local")
    shell = Path(environ.get("SHELL", "")).name
    found = Needs(
        home=str(home),
        rai=str(Path(sys.argv[0]).absolute()),
        python=sys.executable,
        user=machine.user(),
        home_exists=home.exists(),
        home_usable=os.access(home, os.R_OK | os.W_OK | os.X_OK),
        home_own=home.exists() and home.stat().st_uid == os.geteuid(),
        docker_denied=docker is not None and "you may not open" in docker.text,
        sandbox=local is None or local.state is not Health.MISSING,
        bubblewrap=shutil.which("bwrap") is not None,
        installer=next(filter(shutil.which, INSTALLERS), ""),
        forbids=tuple(_forbids()),
        numpy_missing_in=_clone_without_numpy(project),
        shell=shell,
        completion=_completion(shell, environ),
    )
    if plan is None:
        return found
    return replace(found, image=plan.action, image_name=plan.reference)


def _forbids() -> Iterator[tuple[str, str]]:
    for name, (forbidding, allowing) in FORBIDDING.items():
        with suppress(OSError):
            if (SYSCTL / name.replace(".", "/")).read_text().strip() == forbidding:
                yield name, allowing


def _clone_without_numpy(folder: Path) -> str:
    """Return the folder if it is rai's own, and Python's own environment lacks NumPy.

    Only an environment is changed, never the Python of the system.
    """
    if sys.prefix == sys.base_prefix or find_spec("numpy") is not None:
        return ""
    own = Path(__file__).parents[2]
    return str(own) if folder.resolve() == own and (own / "project").is_dir() else ""


def _completion(shell: str, environ: Mapping[str, str]) -> str:
    """Return the file that this user's shell lacks; "" for none."""
    home = environ.get("HOME")
    if shell not in COMPLETIONS or not home:
        return ""
    file = Path(home, COMPLETIONS[shell])
    return "" if file.exists() else str(file)
