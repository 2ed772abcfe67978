"""Files of a project that rai reads whole, and what a site's policy refuses."""

from __future__ import annotations

import os
from collections.abc import Callable

from runner.core import Reason
from tests.hostile.case import FEW, Case, Ended, Site

LARGE = 8 << 30
POLICY = "limits:\n  time: 1m\n  network: false\n"


def sparse(name: str) -> Callable[[Site], None]:
    """Make a file of 8 GB that takes no space."""

    def make(site: Site) -> None:
        with (site.project / name).open("wb") as file:
            file.truncate(LARGE)

    return make


def pipe(name: str) -> Callable[[Site], None]:
    """Make a named pipe that nobody writes to."""

    def make(site: Site) -> None:
        (site.project / name).unlink(missing_ok=True)
        os.mkfifo(site.project / name)

    return make


def device(name: str) -> Callable[[Site], None]:
    """Make a link to a device that never ends."""

    def make(site: Site) -> None:
        (site.project / name).unlink(missing_ok=True)
        (site.project / name).symlink_to("/dev/zero")

    return make


def says(*words: str) -> Callable[[Ended], None]:
    """Check what rai says."""

    def check(ended: Ended) -> None:
        said = ended.stderr.decode(errors="replace")
        assert all(word in said for word in words), said

    return check


CASES = (
    Case(
        name="huge build file",
        tries="Has a build file of 8 GB.",
        make=sparse("rai_build.yml"),
        ends=Reason.USAGE,
        check=says("larger than"),
        ci=FEW,
    ),
    Case(
        name="build file is a pipe",
        tries="Has a named pipe in place of the build file.",
        make=pipe("rai_build.yml"),
        ends=Reason.USAGE,
    ),
    Case(
        name="build file is a device",
        tries="Has a link to /dev/zero in place of the build file.",
        make=device("rai_build.yml"),
        ends=Reason.USAGE,
    ),
    Case(
        name="huge ignore file",
        tries="Has a .raiignore of 8 GB.",
        commands=("true",),
        make=sparse(".raiignore"),
        ends=Reason.NOT_ALLOWED,
        ci=FEW,
    ),
    Case(
        name="ignore file is a pipe",
        tries="Has a named pipe in place of .gitignore.",
        commands=("true",),
        make=pipe(".gitignore"),
        ends=Reason.DONE,
    ),
    Case(
        name="huge Dockerfile",
        tries="Has a Dockerfile of 8 GB.",
        spec="rai: {version: 0.2}\ncommands: {build: ['true']}\n",
        make=sparse("Dockerfile"),
        ends={"": Reason.NOT_ALLOWED, "docker": Reason.BUILD_FAILED},
    ),
    Case(
        name="over the policy",
        tries="Asks for more time and the network than the site allows.",
        commands=("true",),
        limits={"time": "2h", "network": True},
        policy=POLICY,
        limit_s=20,
        ends=Reason.NOT_ALLOWED,
        check=says("/etc/rai/policy.yml:2:9", "/etc/rai/policy.yml:3:12"),
        ci=FEW,
    ),
    Case(
        name="image not listed",
        tries="Builds an image where the site lists the only ones.",
        spec="rai: {version: 0.2}\ncommands: {build: ['true']}\n",
        files={"Dockerfile": "FROM debian\n"},
        policy='images: ["debian"]\n',
        ends=Reason.NOT_ALLOWED,
        check=says("building an image", "/etc/rai/policy.yml:1:9"),
        columns=("docker",),
    ),
    Case(
        name="policy overridden",
        tries="Turns the site's strict limits off by a variable.",
        commands=("true",),
        policy="strict_limits: true\n",
        environment={"RAI_STRICT_LIMITS": "false"},
        ends=Reason.NOT_ALLOWED,
        check=says("strict_limits in /etc/rai/policy.yml:1:16"),
        columns=("user",),
    ),
)
