"""A server whose runs Slurm carries out: a hundred runs of ten teams on two nodes.

Slurm's scheduler is as it is by default. The nodes are on this machine.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from benchmarks import rows
from runner.core import Reason, record
from runner.scheduling.roles import ServerRules
from runner.store.paths import Home
from runner.wire.remote_runs import QueueState
from tests.runner.server import direct
from tests.runner.server.site import Site
from tests.runner.slurm import cluster

TEAMS = 10
EACH = int(os.environ.get("RAI_BENCH_RUNS", "10"))
NODES = 2
SMALL = "{limits: {memory: 256MiB, time: 5m}}"
LOOK_S = 0.2
PATIENCE_S = 1800.0


def measure() -> Iterator[dict[str, object]]:
    """Queue all runs of a team before the next one's, and look at their order."""
    with (
        cluster.cluster(settings={}) as slurm,
        tempfile.TemporaryDirectory(prefix="rai-bench-") as name,
    ):
        site = Site(Path(name) / "site", "--place", "slurm", listen="")
        site.environ["SLURM_CONF"] = str(slurm.conf)
        with closing(site):
            site.start()
            yield _measured(site, slurm, Path(name))


def _measured(site: Site, slurm: cluster.Cluster, folder: Path) -> dict[str, object]:
    packed = direct.seal(folder / "p", '["echo hi"]', SMALL)
    people = [site.person(f"team{number}", "ann") for number in range(TEAMS)]
    site.rai("drain", "all are sending")
    owner: dict[str, str] = {}
    for who in people:
        with who.client() as client:
            for _ in range(EACH):
                owner[direct.queue(client, packed)] = who.team
    began = time.monotonic()
    site.rai("drain", "--off")
    most = 0
    with people[0].client() as client:
        while time.monotonic() < began + PATIENCE_S:
            view = client.queue()
            if not view.running and not view.waiting:
                break
            handed = [r for r in view.running if r.state is not QueueState.WAITING]
            most = max(most, len(handed))
            time.sleep(LOOK_S)
    took_s = time.monotonic() - began
    home = Home(site.jobs_home)
    files = [home.run(run).record for run in owner]
    ends = [record.from_json(one.read_bytes()) for one in files if one.exists()]
    done = sum(
        one.verdict is not None and one.verdict.reason is Reason.DONE for one in ends
    )
    order = [owner[run] for run in _handed_over(site)]
    rounds = [order[at : at + TEAMS] for at in range(0, len(order), TEAMS)]
    fair = sum(len(set(one)) == TEAMS for one in rounds)
    allowed = ServerRules().cpu_jobs
    return rows.row(
        f"{len(owner)} runs of {TEAMS} teams by a server on {NODES} nodes of Slurm",
        "all done once, each round has a run of every team, and no more jobs in"
        " Slurm than the server's settings say",
        done == len(owner) == len(order) and fair == EACH and most <= allowed,
        done=done,
        handed_over=len(order),
        fair_rounds=fair,
        rounds=len(rounds),
        most_in_slurm=most,
        took_s=round(took_s, 1),
        a_run_s=round(took_s / len(owner), 2),
    )


def _handed_over(site: Site) -> list[str]:
    lines = [one for one in site.log.read_text().splitlines() if one.startswith("{")]
    steps = [json.loads(one) for one in lines]
    return [one["run"] for one in steps if one.get("step") == "run_start"]
