"""Run reach.py on the local engine with a network, as whoever starts this program.

``python -m tests.kit.one_network_run KIND WAY [OPEN]``; WAY is the program
that connects the network, OPEN a private network that a policy opens.
"""

from __future__ import annotations

import ipaddress
import sys
from pathlib import Path

from runner.core import Place
from runner.core.policy import PrivateTarget
from runner.engines import network
from runner.engines.local import LocalEngine
from tests.kit.internet import PORT
from tests.kit.running import Subject, run

ADDRESSES = (
    *("198.51.100.1", "10.9.9.9", "198.51.100.2", "10.8.8.8"),
    *("127.0.0.1", "::1", "10.0.2.2", "10.0.2.3", "::ffff:10.9.9.9"),
)


def main(kind: str, way: str, opened: str = "") -> int:
    network.WAYS = tuple(w for w in network.WAYS if w.program == way)
    program = Path(__file__).with_name("reach.py").read_bytes()
    targets: tuple[PrivateTarget, ...] = ()
    if opened:
        place = Place("policy.yml", 1, 1)
        targets = (PrivateTarget(opened, place, ipaddress.ip_network(opened)),)
    engine = LocalEngine(kind=kind)
    line = f"python3 /src/reach.py {PORT} {' '.join(ADDRESSES)}"
    files = {"reach.py": program}
    result = run(Subject(engine), [line], files=files, private=targets, network=True)
    sys.stdout.buffer.write(result.stdout)
    sys.stderr.buffer.write(result.stderr)
    return result.codes[0]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
