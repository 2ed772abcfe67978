"""Draw the most spans that a page has in Chromium, which zooms and pans over them.

The trace is generated: streams and threads that are busy all the time, which is the
most that there can be to draw. There is no window and no GPU here, so Chromium draws in
software.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from runner.cli.timeline import MOST
from runner.core.evidence import Lane, LaneKind, Timeline
from runner.figures import traces
from runner.report import page as pages
from tests.kit import browsing
from tools.benchmarks import rows

MOST_CPU_MS, MOST_MB = 1000 / 30, 2.0
"""A frame's CPU is that of all of Chromium's processes, and hardly varies with load."""

STREAMS, THREADS = 8, 8
FRAMES = 360
WINDOW = {"width": 1600, "height": 1000}

# A wheel event a frame, as a user's hand would send them: in, along, out and back.
DRIVEN = """async (count) => {
  const view = document.querySelector(".timeline").timeline;
  const box = view.canvas.getBoundingClientRect();
  const wheel = (deltaX, deltaY, part) => {
    const [clientX, clientY] = [box.left + box.width * part, box.top + 100];
    const how = { deltaX, deltaY, clientX, clientY, cancelable: true };
    view.canvas.dispatchEvent(new WheelEvent("wheel", how));
  };
  const frame = () => new Promise(requestAnimationFrame);
  const taken = [];
  let last = await frame();
  for (let k = 0; k < count; k++) {
    const phase = k % 120;
    const part = 0.5 + 0.3 * Math.sin(k / 40);
    if (phase < 40) wheel(0, -60, part);
    else if (phase < 60) wheel(60, 0, part);
    else if (phase < 100) wheel(0, 60, part);
    else wheel(-60, 0, part);
    const now = await frame();
    taken.push((now - last) / 1000);
    last = now;
  }
  return taken;
}"""


def generated(count: int, seed: int = 1) -> Timeline:
    """Return a timeline of so many spans, each lane busy all the time."""
    chosen = random.Random(seed)
    names = [f"void kernel_{n}<float, {n}>(float const*, int)" for n in range(24)]
    names += ["cudaLaunchKernel", "cudaMemcpyAsync", "cudaStreamSynchronize"]
    notes = [
        (("grid", f"{n} x 1 x 1"), ("registers", f"{n % 255}")) for n in range(200)
    ]
    lanes = [
        *(Lane("m4.1.py (7)", f"GPU 0, stream {n}", LaneKind.GPU) for n in range(8)),
        *(Lane("m4.1.py (7)", f"thread {n}", LaneKind.API) for n in range(8)),
    ]
    made = Timeline(names, lanes, [(), *notes])
    each = count // len(lanes)
    for lane in range(len(lanes)):
        api, at = lane >= STREAMS, 0
        for number in range(each):
            at += chosen.randrange(200, 4_000)
            length = chosen.randrange(1_000, 90_000)
            made.lane.append(lane)
            made.start.append(at)
            made.length.append(length)
            made.name.append(24 + number % 3 if api else chosen.randrange(24))
            made.facts.append(0 if api else chosen.randrange(1, 201))
            made.link.append(1 + lane % STREAMS * each + number)
            made.merged.append(1)
            # Every fifth call makes the next one.
            at += 150 if api and number % 5 == 0 else length
    return made


def measure() -> Iterator[dict[str, object]]:
    """Yield how long frames take with the most spans of a report, and of a page."""
    if browsing.executable() is None:
        return
    for count in (traces.MOST, MOST):
        began = time.perf_counter()
        page = pages.timeline_page("generated", generated(count))
        made_s = time.perf_counter() - began
        with tempfile.TemporaryDirectory() as folder, browsing.started() as browser:
            file = Path(folder, "page.html")
            file.write_text(page, "utf-8")
            opened_s, taken, cpu_s = _driven(browser, file)
        cpu_ms = 1000 * cpu_s / len(taken)
        megabytes = len(page) / 1e6
        yield rows.row(
            f"timeline of {count:,} generated spans in Chromium without a GPU",
            f"CPU for 30 frames/s on one core, a page under {MOST_MB:g} MB",
            cpu_ms <= MOST_CPU_MS and megabytes < MOST_MB,
            cpu_ms_a_frame=round(cpu_ms, 1),
            frames_s=round(len(taken) / sum(taken), 1),
            frame=rows.spread(taken),
            page_mb=round(megabytes, 2),
            page_made_s=round(made_s, 2),
            opened_s=round(opened_s, 2),
            rendering="software",
            load=round(os.getloadavg()[0], 1),
        )


def _driven(browser: browsing.Browser, file: Path) -> tuple[float, list[float], float]:
    """Return how long the page took to open and each frame, and the CPU of frames."""
    page = browser.new_page(viewport=WINDOW)
    began = time.perf_counter()
    page.goto(file.as_uri())
    page.locator(".timeline[data-state=drawn]").wait_for(state="attached")
    opened_s = time.perf_counter() - began
    before_s = _cpu_s()
    taken = page.evaluate(DRIVEN, FRAMES)
    return opened_s, taken, _cpu_s() - before_s


def _cpu_s() -> float:
    """Return the CPU time of this process's descendants that live: the browser's."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            parents[int(stat.parent.name)] = int(fields[1])
            ticks[int(stat.parent.name)] = int(fields[11]) + int(fields[12])
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    used = sum(ticks.get(pid, 0) for pid in ours - {os.getpid()})
    return used / os.sysconf("SC_CLK_TCK")
