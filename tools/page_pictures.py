"""Draw the pictures of a server's pages in docs/, with a made-up course in Chromium."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from runner.core import Reason
from runner.core.wire import Capacity, ServerGpu
from runner.server.database.accounts import Invitation
from runner.server.decision import decide
from runner.server.scheduling import QueueHistory, ServerRules
from runner.spec import milestones
from tests.kit import browsing, graded
from tests.kit.web import WebServer, serving

DOCS = Path(__file__).resolve().parent.parent / "docs"
SIZE = {"width": 1200, "height": 760}
TEAMS = 24
GPU = ServerGpu("GPU-0", "NVIDIA H200")


def course(folder: Path, web: WebServer) -> None:
    """Fill a server: milestones with deadlines, teams, times, a queue."""
    random.seed(7)
    web.site.milestones = (folder,)
    web.clock = lambda: graded.AT + 3 * 86400
    days = {"m3": "2023-11-10", "final": "2023-11-20"}
    for name, file in milestones.names(()).items():
        due = f"deadline: {days[name]} 23:59 UTC\n" if name in days else ""
        (folder / f"{name}.yml").write_text(file.read_text() + due)
    for number in range(TEAMS):
        team = f"team-{number + 1:02}"
        web.store.invite([Invitation(team, "ada")], web.now(), 60.0)
        for name, all_of in (("m3", 0.95), ("final", 0.8)):
            if random.random() < all_of:
                ratio = random.lognormvariate(0.3, 0.5)
                late_s = 5400.0 * (random.random() < 0.1)
                measured = graded.measurement(ratio)
                graded.add(web.store, team, measured, milestone=name, late_s=late_s)
            elif random.random() < 0.6:
                wrong = Reason.WRONG_ANSWER
                graded.add(web.store, team, milestone=name, reason=wrong)
    graded.add(web.store, "team-07", milestone="final", reason=Reason.WRONG_ANSWER)
    ids = [f"{number:x}4e81c0d2a" for number in range(1, 6)]
    for run, team in zip(ids, ("02", "07", "11", "07", "19"), strict=True):
        web.put(web.token(f"team-{team}", "ada"), run, project="/home/ada/conv")
    web.begin(ids[0])
    web.begin(ids[1])
    web.runs.say(ids[1], b"Loading fashion-mnist data... done\nNew Inference\n")
    rows = web.store.unfinished()
    facts = Capacity("0", ("docker",), (GPU,), cores=2)
    known = QueueHistory()
    web.decision = decide(rows, facts, ServerRules(), known, web.now())


def main() -> None:
    """Write web-mine.png, web-standings.png and web-staff.png."""
    with tempfile.TemporaryDirectory() as name, browsing.started() as browser:
        folder = Path(name, "milestones")
        folder.mkdir()
        rules = ServerRules(low_disk_bytes=0, term=graded.TERM, slots=2)
        with serving(Path(name), rules, gpus=1) as web:
            course(folder, web)
            base = f"https://127.0.0.1:{web.doors.port}"
            staff = web.token("staff", "grace", "staff")
            ada = web.token("team-07", "ada")
            shots = (("mine", "/", ada), ("staff", "/staff", staff))
            for shot, path, token in (*shots, ("standings", "/standings/final", ada)):
                code = web.ask("POST", "/api/v1/codes", token).json["code"]
                context = browser.new_context(ignore_https_errors=True, viewport=SIZE)
                page = context.new_page()
                page.goto(f"{base}/enter?code={code}")
                page.wait_for_url(f"{base}/")
                page.goto(base + path)
                page.screenshot(path=DOCS / f"web-{shot}.png")
                context.close()


if __name__ == "__main__":
    main()
