"""What reaches for this machine and the networks around it, with a network."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from runner.engines.network import own_addresses
from tests.hostile.case import Case, Site

GATEWAYS = ("10.0.2.2", "10.0.2.3", "169.254.169.254")
TRY = (
    "cat /proc/net/route; for a in $(cat /src/addresses); do"
    ' timeout 2 bash -c "echo >/dev/tcp/$a/$(cat /src/port)" && exit 1; done; true'
)


@contextmanager
def _listening(site: Site) -> Iterator[None]:
    """Listen on every address of this machine; tell the project where."""
    own = [str(each) for each in own_addresses() if each.version == 4]
    with socket.create_server(("", 0)) as server:
        (site.project / "port").write_text(str(server.getsockname()[1]))
        (site.project / "addresses").write_text(" ".join((*own, *GATEWAYS)))
        yield


CASES = (
    Case(
        name="this machine by its addresses",
        tries="Has a network, and connects to each address of this machine.",
        commands=(TRY,),
        limits={"network": "true", "time": 60},
        around=_listening,
        needs="private addresses",
        columns=("docker", "local root"),
        elsewhere="refused where the user may not open /dev/net/tun",
        ci=("docker strict root",),
    ),
)
