"""Write docs/h200/report.json, .md and .html, and their pictures, of finished runs.

    python tools/keep_report.py latest

On a machine with a GPU: after `rai run -p .`. A run whose record is not in docs/h200/
gets a file there, named by its id. tests/test_kept_report.py holds the Markdown and the
page to the JSON, and this to the records. Times of day are UTC.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "h200"
RAI = str(Path(sys.executable).with_name("rai"))


def keep(runs: list[str], folder: Path = FOLDER) -> None:
    """Write each form of the report of some runs to a folder."""
    pictures = folder / "pictures"
    for old in pictures.glob("*.svg"):
        old.unlink()
    for form, more in (
        ("json", []),
        ("md", ["--pictures", str(pictures)]),
        ("html", []),
    ):
        command = [RAI, "report", *runs, "-o", str(folder / f"report.{form}"), *more]
        subprocess.run(command, check=True, env={**os.environ, "TZ": "UTC"})
    known = {json.loads(file.read_bytes()).get("id") for file in folder.glob("*.json")}
    for run in json.loads((folder / "report.json").read_bytes())["runs"]:
        if run["run"] not in known:
            command = [RAI, "show", run["run"], "--json"]
            shown = subprocess.run(command, check=True, capture_output=True)
            (folder / f"{run['run']}.json").write_bytes(shown.stdout)


if __name__ == "__main__":
    keep(sys.argv[1:] or ["latest"])
