"""A server whose runs Slurm carries out: how late a line comes, and teams in turn.

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

from runner.core import Reason, record
from runner.core.wire import QueueState
from runner.server.scheduling import ServerRules
from runner.store.paths import Home
from tests.kit import cluster, direct
from tests.kit.site import Site
from tools.benchmarks import rows
from tools.benchmarks.followed import BEATS, CLOCK

TEAMS = 10
EACH = int(os.environ.get("RAI_BENCH_RUNS", "10"))
NODES = 2
SMALL = "{limits: {memory: 256MiB, time: 5m}}"
MOST_P50_S, MOST_P99_S = 1.0, 3.0
LOOK_S = 0.2
PATIENCE_S = 1800.0


def measure() -> Iterator[dict[str, object]]:
    """Measure how late a line comes, and in which order the runs of teams go."""
    with (
        cluster.cluster(settings={}) as slurm,
        tempfile.TemporaryDirectory(prefix="rai-bench-") as name,
    ):
        site = Site(Path(name) / "site", "--place", "slurm", listen="")
        site.environ["SLURM_CONF"] = str(slurm.conf)
        with closing(site):
            site.start()
            yield _soon(site, Path(name))
            yield _measured(site, slurm, Path(name))


def _soon(site: Site, folder: Path) -> dict[str, object]:
    """Print the time on a node, and see how late each line comes to a terminal."""
    (code,) = site.codes("clock", "ann")
    ann = site.stranger("clock", "ann")
    done = ann.rai("login", f"unix://{site.socket}", input=code)
    assert done.returncode == 0, done.stderr
    direct.seal(folder / "clock", CLOCK.replace("COUNT", str(BEATS)), SMALL)
    with ann.started("run", "-p", folder / "clock" / "project") as client:
        assert client.stdout is not None
        late = sorted(time.time() - float(line) for line in client.stdout)
        client.communicate()
    p50, p99 = (late[int(len(late) * part)] for part in (0.5, 0.99))
    return rows.row(
        "a line from a node of Slurm to a terminal, by a server",
        f"p50 at most {MOST_P50_S:g} s, p99 at most {MOST_P99_S:g} s, none missing",
        p50 <= MOST_P50_S and p99 <= MOST_P99_S and len(late) == BEATS,
        lines=len(late),
        p50_s=round(p50, 3),
        p99_s=round(p99, 3),
        max_s=round(late[-1], 3),
    )


def _measured(site: Site, slurm: cluster.Cluster, folder: Path) -> dict[str, object]:
    """Queue all runs of a team before the next one's, and look at their order."""
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
    home = Home(site.runs.parent)
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
