"""The folders of a run inside its image, and the result that it leaves."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path


def read(module: str, argv: list[str] | None = None) -> tuple[Path, Path]:
    """Return the source and the build folder that a module's command line names."""
    parser = argparse.ArgumentParser(prog=f"python3 -m {module}")
    parser.add_argument("--source", type=Path, default=Path("/src"))
    parser.add_argument("--out", type=Path, default=Path("/build"))
    options = parser.parse_args(argv)
    return options.source.resolve(), options.out.resolve()


def keep_measurement(out: Path, found: Mapping[str, object]) -> None:
    """Write ``measurement.json`` aside, then rename it."""
    aside = out / ".measurement.json"
    aside.write_text(f"{json.dumps(found, allow_nan=False)}\n", encoding="utf-8")
    aside.replace(out / "measurement.json")
