"""What a milestone's command line asks for."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import checkpoints
import editions
from editions import Edition, Model
from errors import UsageError
from variants import FP32, RTOL

MOST = 10_000


@dataclass(frozen=True)
class Asked:
    """An edition, one of its models, how many images, and by what."""

    edition: Edition
    model: Model
    size: int = MOST
    backend: str | None = None
    variants: tuple[str, ...] = ()
    accuracy: str = FP32


@dataclass(frozen=True)
class Accepts:
    """What a script can be asked for."""

    about: str
    own: bool  # models with our convolution, or those with the library's
    backends: tuple[str, ...] = ()
    variants: bool = False
    classes: bool = False  # of accuracy


class _Parser(argparse.ArgumentParser):
    """A mistake is one sentence, for the script to print."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def read(accepts: Accepts, words: Sequence[str] | None = None) -> Asked:
    """Read a command line, where none is given that of the process."""
    said = _parser(accepts).parse_intermixed_args(words)
    edition = editions.edition(said.edition)
    model, size = said.model, list(said.words)
    if edition.names_model and size and not _starts_a_number(size[0]):
        if model is not None:
            raise UsageError(f"two models are named: `{model}` and `{size[0]}`")
        model = size.pop(0)
    return Asked(
        edition,
        _model(edition, model, accepts),
        data_size(size),
        said.backend if accepts.backends else None,
        tuple(said.variant) if accepts.variants else (),
        said.accuracy if accepts.classes else FP32,
    )


def _parser(accepts: Accepts) -> _Parser:
    parser = _Parser(
        description=accepts.about.strip().partition("\n")[0], allow_abbrev=False
    )
    known = ", ".join(editions.EDITIONS)
    parser.add_argument(
        "words",
        nargs="*",
        metavar="[model] [data size]",
        help=f"how many images, 1 to {MOST}; edition 2017fa names the model before it",
    )
    parser.add_argument(
        "--edition", help=f"one of {known} (default: RAI_EDITION, else 2019fa)"
    )
    parser.add_argument("--model", help="a model of the edition, or a stored one")
    if accepts.backends:
        listed = ", ".join(accepts.backends)
        parser.add_argument(
            "--backend",
            choices=accepts.backends,
            metavar="NAME",
            help=f"what runs the network: {listed} (default: the first, if it can)",
        )
    if accepts.variants:
        parser.add_argument(
            "--variant",
            action="append",
            default=[],
            metavar="NAME",
            help="a kernel; may stand more than once (default: all that teach)",
        )
    if accepts.classes:
        parser.add_argument(
            "--class",
            dest="accuracy",
            choices=tuple(RTOL),
            default=FP32,
            metavar="NAME",
            help=f"how exact the convolutions are: {', '.join(RTOL)} (default: {FP32})",
        )
    return parser


def _starts_a_number(word: str) -> bool:
    return word[:1].isdigit()


def _model(edition: Edition, name: str | None, accepts: Accepts) -> Model:
    """Find the model that is named, or else the first that the script can run."""
    fitting = edition.with_convolutions(own=accepts.own)
    model = checkpoints.find(edition, name or fitting[0].name)
    if model.own != accepts.own:
        whose = "ours" if model.own else "the library's"
        run = ", ".join(other.name for other in fitting)
        raise UsageError(
            f"model `{model.name}` has convolutions of {whose}; this script runs {run}"
        )
    return model


def data_size(words: Sequence[str]) -> int:
    """Read how many images are asked for; all, when nothing is said."""
    if not words:
        return MOST
    text = " ".join(words)
    digits = text.lstrip("0") if text.isascii() and text.isdigit() else ""
    # Python reads no number of thousands of digits.
    if not digits or len(digits) > len(str(MOST)) or int(digits) > MOST:
        raise UsageError(
            f"`{text}` is no data size; expected one whole number from 1 to {MOST}"
        )
    return int(text)


def count(word: str) -> int:
    """Read an option that counts something."""
    if not (word.isascii() and word.isdigit() and int(word)):
        raise UsageError(f"`{word}` is no count; expected a whole number from 1 on")
    return int(word)
