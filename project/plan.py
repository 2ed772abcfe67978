"""Write plan.json: what is submitted of the registry, as data for the judge.

python plan.py [--m3 NAME] [--m4 NAME ...] [--final NAME]
               [--milestone MILESTONE NAME ...] [--edition NAME] [--images N]
               [--architecture sm_NN ...] [--out FILE] [--check | --list]

An option that is not given keeps what plan.json has; without one, m3 is the simplest
kernel, final is the fastest of fp32, and m4 is three steps of the ladder that each add
one idea to the one before: many launches over a scratch array (`register_gemm`), one
launch without it (`implicit_gemm`), and tensor cores (`tensor_split`). A plan has the
launches for every known GPU architecture that a variant supports. The judge puts its
GPU's number of multiprocessors into grids; all else is for a usual GPU.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from course import editions, program, variants
from course.editions import Edition
from course.errors import ProjectError, UsageError
from course.variants import FP32, Variant
from gpu import compiler
from gpu.compiler import Unit
from gpu.planned import Json, convolution, shapes
from plans import kernels
from plans.kernels import BEST, VARIANTS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
FILE = ROOT / "plan.json"
VERSION = 1
WIDTH = 160  # of a value that stands on one line, which fits most launches
AGAIN = "run python project/plan.py"
CHOSEN = {
    "m3": ("naive",),
    "m4": ("register_gemm", "implicit_gemm", "tensor_split"),
    "final": (BEST[FP32],),
}
"""The variants of milestones where nothing else is named."""


@dataclass(frozen=True)
class Choice:
    """What a plan.json is made of."""

    edition: str = editions.DEFAULT.name
    images: int = 10_000
    architectures: tuple[str, ...] = tuple(sorted(variants.SHARED, key=variants.number))
    milestones: dict[str, tuple[str, ...]] = field(default_factory=CHOSEN.copy)


def made(choice: Choice) -> Json:
    """Return plan.json's content; raise UsageError for what cannot be planned."""
    edition = editions.edition(choice.edition)
    units: set[Unit] = set()
    entries = {
        milestone: [
            _entry(*kernels.select([name]), edition, choice, units) for name in names
        ]
        for milestone, names in choice.milestones.items()
    }
    registry = {_name(path): _sha256(path) for path in registry_files()}
    lines = (f"{name}\0{sha256}\n" for name, sha256 in sorted(registry.items()))
    files = {path for unit in units for path in unit.files()}
    document = {
        "version": VERSION,
        "edition": edition.name,
        "registry": hashlib.sha256("".join(lines).encode()).hexdigest(),
        "registry_files": sorted(registry),
        "sources": dict(sorted((_name(path), _sha256(path)) for path in files)),
        "milestones": entries,
    }
    plain: Json = json.loads(json.dumps(document))  # lists instead of tuples
    return plain


def _entry(
    variant: Variant, edition: Edition, choice: Choice, units: set[Unit]
) -> Json:
    """Return a variant's entry; add to ``units`` the files that it compiles."""
    layers = shapes(edition, choice.images)
    plans = []
    refused: list[str] = []
    for architecture in choice.architectures:
        gpu = variants.usual(architecture)
        whys = {name: variant.refusal(s, gpu) for name, s in layers.items()}
        if any(whys.values()):
            refused += [f"{name}: {why}" for name, why in whys.items() if why][:1]
            continue
        convolutions = []
        for name, shape in layers.items():
            part = variant.serve(shape, gpu)
            unit = compiler.unit_of(part, shape)
            units.add(unit)
            convolutions.append(convolution(name, part, shape, unit))
        plans.append({"architectures": [architecture], "convolutions": convolutions})
    if not plans:
        whole = "; ".join(dict.fromkeys(refused))
        raise UsageError(f"no plan of {variant.name}: {whole}")
    return {"variant": variant.name, "class": variant.accuracy, "plans": plans}


def registry_files() -> set[Path]:
    """Return the modules of project/ that plans are made of: all that this imports."""
    found: set[Path] = set()
    waiting = [Path(__file__).resolve()]
    while waiting:
        path = waiting.pop()
        if path in found or not path.is_file():
            continue
        found.add(path)
        for node in ast.walk(ast.parse(path.read_bytes())):
            match node:
                case ast.Import(names=names):
                    waiting += [HERE / f"{alias.name}.py" for alias in names]
                case ast.ImportFrom(module=str(module), names=names):
                    room = HERE.joinpath(*module.split("."))
                    waiting += [room / f"{alias.name}.py" for alias in names]
                    waiting.append(room.with_suffix(".py"))
    return found


def _name(path: Path) -> str:
    """Return a file's path in the project, with slashes."""
    return path.relative_to(ROOT).as_posix()


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def text(value: object, indent: int = 0) -> str:
    """Return JSON in which a value takes one line if it fits."""
    line = json.dumps(value)
    if len(line) + indent <= WIDTH or not isinstance(value, dict | list):
        return line
    inner = indent + 1
    if isinstance(value, dict):
        ends = "{}"
        items = [f"{json.dumps(key)}: {text(v, inner)}" for key, v in value.items()]
    else:
        ends, items = "[]", [text(v, inner) for v in value]
    body = ",\n".join(" " * inner + item for item in items)
    return f"{ends[0]}\n{body}\n{' ' * indent}{ends[1]}"


def chosen(document: Json) -> Choice:
    """Return what a plan.json was made of.

    Raises KeyError, IndexError or TypeError where it is none.
    """
    entries = document["milestones"]
    plans = [
        plan for found in entries.values() for entry in found for plan in entry["plans"]
    ]
    named = {name: tuple(e["variant"] for e in entries[name]) for name in entries}
    architectures = {name for plan in plans for name in plan["architectures"]}
    return Choice(
        document["edition"],
        plans[0]["convolutions"][0]["shape"]["B"],
        tuple(sorted(architectures, key=variants.number)),
        CHOSEN | named,
    )


def changes(old: Json, new: Json) -> list[str]:
    """Return what of a plan.json is no longer so."""
    before, after = old.get("sources", {}), new["sources"]
    said = [
        f"it is older than {name}, or names it in vain"
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]
    if old.get("registry") != new["registry"]:
        said.append(
            "it is older than the registry, project/plans/kernels.py and its imports"
        )
    if not said and old != new:
        said.append("it has been edited")
    return said


def read(path: Path) -> tuple[Json, Choice] | None:
    """Return a plan.json and what it was made of; None if there is none."""
    try:
        document = json.loads(path.read_bytes())
        return document, chosen(document)
    except FileNotFoundError:
        return None
    except (ValueError, LookupError, TypeError, AttributeError):
        raise ProjectError(
            f"{path} is no plan of this script; remove it, then {AGAIN}"
        ) from None


def check(path: Path, old: Json, new: Json) -> None:
    """Raise ProjectError with everything about a plan.json that is stale."""
    if said := changes(old, new):
        lines = "".join(f"\n  {line}" for line in said)
        raise ProjectError(f"{path.name} is stale; {AGAIN}{lines}")


def _architecture(word: str) -> str:
    if not re.fullmatch(r"sm_[1-9][0-9]{1,2}", word):
        raise argparse.ArgumentTypeError(f"`{word}`; expected a name such as sm_90")
    return word


def parsed(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0], allow_abbrev=False
    )
    add = parser.add_argument
    known = ", ".join(editions.EDITIONS)
    for name in CHOSEN:
        add(
            f"--{name}",
            dest="named",
            action="append",
            default=[],
            type=lambda variant, name=name: (name, variant),
            metavar="NAME",
            help=f"a kernel of {name}; repeatable",
        )
    add(
        "--milestone",
        dest="named",
        action="append",
        default=[],
        nargs=2,
        metavar=("MILESTONE", "NAME"),
        help="a kernel of a milestone of your site; repeatable",
    )
    add("--edition", metavar="NAME", help=f"one of {known}")
    add("--images", type=int, metavar="N")
    add(
        "--architecture",
        dest="architectures",
        action="append",
        type=_architecture,
        metavar="sm_NN",
        help="of a GPU, such as sm_120; repeatable (default: all known)",
    )
    add("--out", type=Path, default=FILE, help="(default: plan.json beside project/)")
    add("--list", action="store_true", help="print the names of all variants instead")
    add("--check", action="store_true", help="only say whether the file is up to date")
    return parser.parse_args(words)


def main() -> None:
    """Write plan.json, or check it."""
    options = vars(parsed())
    path, only_check = options.pop("out"), options.pop("check")
    if options.pop("list"):
        print(*VARIANTS, sep="\n")
        return
    kept = read(path)
    before = kept[1] if kept else Choice()
    named: dict[str, tuple[str, ...]] = {}
    for milestone, variant in options.pop("named"):
        named[milestone] = (*named.get(milestone, ()), variant)
    given = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in options.items()
        if value is not None
    }
    new = made(replace(before, **given, milestones=before.milestones | named))
    if only_check:
        if kept is None:
            raise ProjectError(f"{path} is missing; {AGAIN}")
        check(path, kept[0], new)
        return
    path.write_text(f"{text(new)}\n", encoding="utf-8")


if __name__ == "__main__":
    program.run(main)
