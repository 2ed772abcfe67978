"""What a site's policy refuses."""

from __future__ import annotations

from collections.abc import Callable

from runner.core import Reason
from tests.hostile.case import FEW, Case, Ended

POLICY = "limits:\n  time: 1m\n  network: false\n"


def says(*words: str) -> Callable[[Ended], None]:
    """Check what rai says."""

    def check(ended: Ended) -> None:
        said = ended.stderr.decode(errors="replace")
        assert all(word in said for word in words), said

    return check


CASES = (
    Case(
        name="over the policy",
        tries="Asks for more time and the network than the site allows.",
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
        policy="strict_limits: true\n",
        environment={"RAI_STRICT_LIMITS": "false"},
        ends=Reason.NOT_ALLOWED,
        check=says("strict_limits in /etc/rai/policy.yml:1:16"),
        columns=("user",),
    ),
)
