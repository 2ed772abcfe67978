"""Submissions of a course: the last hour of 80 teams with one GPU, and its boards."""

from __future__ import annotations

import hashlib
import json
import os
import random
import ssl
import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPSConnection
from multiprocessing import get_context
from pathlib import Path

from msgspec.structs import replace

from runner.core import Reason
from runner.core.wire import API
from runner.server.database import open_store
from runner.server.grading import Grading
from runner.server.scheduling import Role, ServerRules
from tests.kit import graded
from tests.kit import judge_cases as made
from tests.kit import sample_submission as sample
from tests.kit.graded import TERM, add, measurement
from tests.kit.queued import Queue
from tests.kit.submitted import CUBINS, Submitting, built, measured, sealed
from tests.kit.web import serving
from tools.benchmarks import rows

TEAMS = 80
AT_ONCE = 50
SUBMITTED, REHEARSED, RUNS = 3, 5, 10  # of each team in the hour
MEASURE_S, COMPILE_S, RUN_S = 4.0, 2.0, 30.0
HOUR_S = 3600.0
MOST_RECEIPT_S, MOST_BOARD_S = 2.0, 0.2
BOARD = 2000
ORDERS = 100
RULES = ServerRules(
    roles={"student": Role("student", a_day=None, gpu_a_day_s=None, waiting=1000)},
    low_disk_bytes=0,
    term=TERM,
    slots=2,
)


def measure() -> Iterator[dict[str, object]]:
    """Measure receipts under load, the wait for the last verdict, and boards."""
    for part in (_receipts, _hour, _board, _order):
        with tempfile.TemporaryDirectory() as name:
            yield part(Path(name))


def _receipts(folder: Path) -> dict[str, object]:
    """Have teams submit in the same second, by TLS, from a process of their own."""
    data = sealed(sample.write(folder / "team"), folder / "sent.tar.zst")
    with serving(folder, RULES, gpus=1) as web:
        tokens = [web.token(f"team {n}") for n in range(AT_ONCE)]
        with ProcessPoolExecutor(1, get_context("spawn")) as other:
            given = web.doors.port, data, tokens
            other.submit(os.getpid).result()
            took = other.submit(submit_all, *given).result()
        kept = len(web.store.submissions())
    p95 = statistics.quantiles(took, n=20)[-1]
    wanted = AT_ONCE * (SUBMITTED + REHEARSED)
    return rows.row(
        "50 teams submit 8 times in a row, all at once, each by new TLS connections",
        f"a receipt in {MOST_RECEIPT_S:g} s (p95), none lost",
        p95 <= MOST_RECEIPT_S and kept == wanted,
        submissions=kept,
        wanted=wanted,
        receipt_p50_s=round(statistics.median(took), 3),
        receipt_p95_s=round(p95, 3),
        receipt_most_s=round(max(took), 3),
    )


def submit_all(port: int, data: bytes, tokens: list[str]) -> list[float]:
    """Submit for all teams at the same time; return the seconds of each receipt."""
    with ThreadPoolExecutor(len(tokens)) as pool:
        some = pool.map(lambda token: _submitted(port, data, token), tokens)
        return [seconds for each in some for seconds in each]


def _submitted(port: int, data: bytes, token: str) -> list[float]:
    took = []
    for number in range(SUBMITTED + REHEARSED):
        sent = data + number.to_bytes(1, "big")
        sha256 = hashlib.sha256(sent).hexdigest()
        asked = {"milestone": "final", "upload": sha256}
        asked |= {"rehearsal": number >= SUBMITTED}
        began = time.monotonic()
        _put(port, f"/uploads/{sha256}", token, sent)
        key = os.urandom(5).hex()
        _put(port, f"/submissions/{key}", token, json.dumps(asked).encode())
        took.append(time.monotonic() - began)
    return took


def _put(port: int, path: str, token: str, body: bytes) -> None:
    context = ssl._create_unverified_context()
    link = HTTPSConnection("127.0.0.1", port, timeout=60, context=context)
    with closing(link):
        link.request("PUT", API + path, body, {"Authorization": f"Bearer {token}"})
        answer = link.getresponse()
        assert answer.status == 201, answer.read()


def _hour(folder: Path) -> dict[str, object]:
    """Let an hour and what follows go by on a clock of our own: a second a step."""
    queue = Queue(folder, gpus=1, rules=RULES)
    site, drawn = Submitting(queue, folder), random.Random(1)
    began, ends = queue.now, queue.now + HOUR_S
    arrivals = sorted(
        (drawn.uniform(began, ends), f"team {team}", kind)
        for team in range(TEAMS)
        for kind in "s" * SUBMITTED + "t" * REHEARSED + "r" * RUNS
    )
    numbers, over = [], {}
    judged_at, count = began, 0
    while arrivals or len(over) < len(numbers):
        while arrivals and arrivals[0][0] <= queue.now:
            _, team, kind = arrivals.pop(0)
            if kind == "r":
                queue.put(f"{count:010x}", team, gpus=1)
            else:
                numbers.append(site.put(team, rehearsal=kind == "t"))
            count += 1
        queue.step()
        _end_runs(queue)
        if len(over) < len(numbers):
            waiting = {one.number for one in queue.store.unjudged()}
            for number in numbers:
                if number not in waiting and number not in over:
                    over[number] = queue.now
                    rehearsal = site.one(number).rehearsal
                    judged_at = judged_at if rehearsal else queue.now
        if queue.now > ends + 10 * HOUR_S:
            break
    done = sum(site.one(number).reason is Reason.DONE for number in over)
    waits = [
        at - site.one(number).received_at
        for number, at in over.items()
        if not site.one(number).rehearsal
    ]
    queue.close()
    after = judged_at - ends
    return rows.row(
        "the last hour of 80 teams: 240 submissions, 400 rehearsals, 800 runs, one GPU",
        "the last submission's verdict within the hour after; none lost",
        after <= HOUR_S and done == len(numbers),
        judged=done,
        wanted=len(numbers),
        verdict_p50_s=round(statistics.median(waits), 1),
        verdict_p95_s=round(statistics.quantiles(waits, n=20)[-1], 1),
        last_verdict_after_the_deadline_s=round(after, 1),
    )


def _end_runs(queue: Queue) -> None:
    """End what ran for as long as it takes."""
    for run, status in list(queue.runs.known.items()):
        if status.ended or not status.claimed:
            continue
        row = queue.row(run)
        began = row.started_at or queue.now
        kind = COMPILE_S if not row.gpus else MEASURE_S if row.submission else RUN_S
        if queue.now - began < kind:
            continue
        if row.submission:
            build = measured(made.ACCEPTED) if row.gpus else built(CUBINS)
            queue.runs.write(run, "build.tar.zst", build)
        queue.runs.end(run, Reason.DONE)


def _board(folder: Path) -> dict[str, object]:
    """Ask for the standings of 2,000 submissions, each time after a change."""
    store = open_store(f"sqlite:///{folder}/store.sqlite")
    drawn = random.Random(2)
    for number in range(BOARD):
        add(store, f"team {number % TEAMS}", measurement(drawn.uniform(0.7, 30.0)))
    grading = Grading(store, (), TERM)
    milestone = grading.milestone("final")
    took = []
    for number in range(20):
        store.add_upload("team 1", "5" * 64, number, float(number))
        add(store, "team 1", measurement(40.0))
        began = time.perf_counter()
        page = grading.standings(milestone, "team 1", staff=False)
        took.append(time.perf_counter() - began)
    store.close()
    assert len(page.boards[0].standings) == TEAMS
    middle = statistics.median(took)
    return rows.row(
        f"the standings of {BOARD:,} submissions of {TEAMS} teams, computed anew",
        f"at most {MOST_BOARD_S:g} s",
        middle <= MOST_BOARD_S,
        standings_s=round(middle, 3),
        most_s=round(max(took), 3),
    )


def _order(folder: Path) -> dict[str, object]:
    """Order two codes 1 % apart by four measurements of each, drawn with their noise.

    The noise is that of twelve measurements in a row of `best` on an H200: a standard
    deviation of 0.08 %, and here three times as much.
    """
    store = open_store(f"sqlite:///{folder}/store.sqlite")
    drawn, right = random.Random(3), 0
    grading = Grading(store, (), TERM)
    milestone = grading.milestone("final")
    for number in range(ORDERS):
        term = replace(milestone, name=f"m{number}")
        for team, ratio in (("slow", 0.7256 * 1.01), ("fast", 0.7256)):
            its = {"milestone": term.name}
            add(store, team, measurement(ratio), **its)
            one = store.submissions(team, term.name, 1)[0]
            for again in store.add_reruns([one] * 4, graded.AT):
                noisy = ratio * drawn.gauss(1, 0.0024)
                graded.end(store, again, measurement(noisy, made.SITE_MS / 1e4))
        board = grading.standings(term, "", staff=True).boards[0]
        right += board.standings[0].name == "fast"
    store.close()
    return rows.row(
        "two codes 1 % apart, by four measurements of each",
        "in the right order in 95 of 100",
        right >= 95,
        right=right,
        of=ORDERS,
    )
