"""Write docs/h200/report.json, .md and .html, and their pictures, of finished runs.

    python tools/keep_report.py latest

On a machine with a GPU: after `rai run -p .`. A run whose record is not in docs/h200/
gets a file there, named by its id. tests/test_kept_report.py holds the Markdown and the
page to the JSON, and this to the records. Times of day are UTC. With Playwright and
Debian's chromium it looks at the page, too: report.png and report-dark-phone.png.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from runner.cli.report import MOST_MARKDOWN, title
from runner.report import markdown, pictures
from runner.report.document import sections as document
from runner.report.document.nouns import Report

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "h200"
LOOKS = (
    ("report.png", 1280, 1400, "light", ""),
    ("report-dark-phone.png", 390, 844, "dark", "#op-times-and-correctness"),
)
"""Each picture of the page: its file, the window's size, light or dark, and where."""

RAI = str(Path(sys.executable).with_name("rai"))


def keep(runs: list[str], folder: Path = FOLDER) -> None:
    """Write each form of the report of some runs to a folder."""
    for old in (folder / "pictures").glob("*.svg"):
        old.unlink()
    for form in ("json", "html"):
        command = [RAI, "report", *runs, "-o", str(folder / f"report.{form}")]
        subprocess.run(command, check=True, env={**os.environ, "TZ": "UTC"})
    _write_markdown(folder)
    known = {json.loads(file.read_bytes()).get("id") for file in folder.glob("*.json")}
    for run in json.loads((folder / "report.json").read_bytes())["runs"]:
        if run["run"] not in known:
            command = [RAI, "show", run["run"], "--json"]
            shown = subprocess.run(command, check=True, capture_output=True)
            (folder / f"{run['run']}.json").write_bytes(shown.stdout)


def _write_markdown(folder: Path) -> None:
    """Write report.md of report.json, with links to the pictures beside it."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    report = msgspec.json.decode((folder / "report.json").read_bytes(), type=Report)
    sections = document.sections(report)
    links = {}
    for one in document.pictures(sections):
        links[one.name] = f"pictures/{one.name}.svg"
        (folder / links[one.name]).write_text(pictures.svg(one.chart))
    text = markdown.document(title(report), sections, MOST_MARKDOWN, links)
    (folder / "report.md").write_text(text)


def look(folder: Path = FOLDER) -> None:
    """Take pictures of the page: on a screen, and dark on a phone."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.stdout.write(
            "There is no chromium here: no picture of the page is taken.\n"
        )
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=chromium, args=["--no-sandbox"]
        )
        for name, width, height, scheme, place in LOOKS:
            page = browser.new_page(
                viewport={"width": width, "height": height},
                color_scheme=scheme,
                reduced_motion="reduce",
            )
            page.goto(f"{(folder / 'report.html').as_uri()}{place}")
            page.screenshot(path=folder / name)
        browser.close()


if __name__ == "__main__":
    keep(sys.argv[1:] or ["latest"])
    look()
