"""Cases that lie by topic in a package, a file for each, and their results."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.kit import marks


def by_topic(package: str) -> dict[str, tuple[Any, ...]]:
    """Return the ``CASES`` of each file of a package, by the files' names."""
    (folder,) = import_module(package).__path__
    names = sorted(p.stem for p in Path(folder).glob("*.py") if p.stem[0] != "_")
    return {name: import_module(f"{package}.{name}").CASES for name in names}


def tables(package: str, ends: Callable[[Any], str]) -> Iterator[str]:
    """Yield a table of each topic: what its cases try, and how each ends."""
    for topic, cases in by_topic(package).items():
        about = (import_module(f"{package}.{topic}").__doc__ or "").split("\n")
        yield f"\n**{topic.capitalize()}.** {about[0]}\n\n"
        yield marks.heading(["what is tried", "how it ends"])
        for case in cases:
            yield marks.row([case.tries.removesuffix("."), ends(case)])


def keep(variable: str, row: Mapping[str, object]) -> None:
    """Append a result to the file that a variable names, if it names one."""
    if name := os.environ.get(variable):
        line = (json.dumps(row) + "\n").encode()
        file = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, line)  # one call, as several processes append
        finally:
            os.close(file)
