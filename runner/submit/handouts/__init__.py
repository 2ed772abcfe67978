"""Handouts: a milestone's project with a TODO where the answer goes.

A handout is made of the folders beside this file, and is its own manual: `common`, then
`cpu`, or `kernels` with `one` of them or with `three`. A site's milestone may have its
own, in the folder `handout/` beside its file.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from runner.core import Problem
from runner.core.errors import UsageError
from runner.core.milestone import Milestone
from runner.spec.milestones import folder as own
from runner.spec.milestones.folder import HANDOUT

FOLDERS = Path(__file__).parent
_WORD = re.compile(r"@([A-Z]+)@")
_LAYERS = re.compile(r"^(IMAGES|LAYERS) = (.*?)(?=  #|$)", re.MULTILINE)
"""What check.py has of the milestone."""


def write(folder: Path, milestone: Milestone) -> tuple[str, ...]:
    """Write a milestone's handout into a folder, which may be new; return the names.

    Raises:
        UsageError: there is none, a file of it exists, or cannot be written.
        ConfigError: the site's own cannot be read, or holds links or too much.
    """
    texts = _own(milestone) or {
        name: text.encode() for name, text in contents(milestone).items()
    }
    if there := [name for name in texts if os.path.lexists(folder / name)]:
        hint = "nothing is overwritten: name another folder"
        raise UsageError(Problem(f"{folder} has {', '.join(there)} already", hint=hint))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            with (folder / name).open("xb") as new:
                new.write(text)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from error
    return tuple(texts)


def _own(milestone: Milestone) -> dict[str, bytes]:
    """Return the files of a site's own handout; none where it has none."""
    handout = Path(milestone.folder) / HANDOUT.name
    if not milestone.folder or not os.path.lexists(handout):
        return {}
    return own.read_folder(handout, HANDOUT)


def contents(milestone: Milestone) -> dict[str, str]:
    """Return the texts of a milestone's handout, by the names of its files.

    Raises:
        UsageError: there is none for this milestone.
    """
    found = {
        file.name: file.read_text(encoding="utf-8")
        for folder in _parts(milestone)
        for file in sorted((FOLDERS / folder).iterdir())
        if file.is_file()
    }
    layers = [(layer.name, layer.shape) for layer in milestone.layers]
    sizes = {name: (s.M, s.C, s.H, s.W, s.K) for name, s in layers}
    rows = (" | ".join(map(str, (name, *size))) for name, size in sizes.items())
    ideas = (
        f"| `{name}` | {text.partition(': ')[2].partition('.')[0]} |"
        for name, text in found.items()
        if name.endswith((".cu", ".cpp"))
    )
    words = {
        "TITLE": milestone.title,
        "MILESTONE": milestone.name,
        "CLASS": milestone.accuracy,
        "IMAGES": f"{milestone.images}",
        "MOST": f"{max((s.M * s.C * s.K**2 for _, s in layers), default=0)}",
        "LAYERS": "\n".join(f"| {row} |" for row in rows),
        "FILES": "\n".join(ideas),
    }
    own = {"IMAGES": words["IMAGES"], "LAYERS": str(sizes).replace("'", '"')}
    return {
        name: _LAYERS.sub(lambda m: f"{m[1]} = {own[m[1]]}", text)
        if name == "check.py"
        else _WORD.sub(lambda m: words[m[1]], text)
        for name, text in found.items()
    }


def _parts(milestone: Milestone) -> tuple[str, ...]:
    """Return the folders that a milestone's handout is made of; raise UsageError."""
    count = milestone.entries
    if milestone.planned and milestone.layers:
        for number, folder in ((1, "one"), (3, "three")):
            if count.least <= number <= count.most:
                return "common", "kernels", folder
    elif milestone.layers and milestone.team.patterns == ("convolution.cpp",):
        return "common", "cpu"
    text = f"there is no handout for {milestone.name}, which takes"
    takes = f"{count} kernels" if milestone.planned else "a project of your own"
    hint = "docs/submit.md says what a submission is, and rai's own repository is one"
    raise UsageError(Problem(f"{text} {takes}", hint=hint))
