"""The command line of a milestone's script."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from course import checkpoints, editions
from course.editions import Edition, Model
from course.errors import UsageError
from course.variants import FP32, RTOL

MOST = 10_000


@dataclass(frozen=True)
class Arguments:
    """What to classify, how many images, and with which backend and kernels."""

    edition: Edition
    model: Model
    size: int = MOST
    backend: str | None = None
    variants: tuple[str, ...] = ()
    accuracy: str = FP32


@dataclass(frozen=True)
class Accepts:
    """The options that a script accepts."""

    about: str
    own: bool  # models with our own convolution, or with the library's
    backends: tuple[str, ...] = ()
    variants: bool = False
    classes: bool = False  # accuracy classes


class _Parser(argparse.ArgumentParser):
    """A parser that raises UsageError instead of exiting."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def read(accepts: Accepts, words: Sequence[str] | None = None) -> Arguments:
    """Parse a command line, by default that of the process.

    Raises UsageError.
    """
    parsed = _parser(accepts).parse_intermixed_args(words)
    edition = editions.edition(parsed.edition)
    model, size = parsed.model, list(parsed.words)
    if edition.names_model and size and not size[0][:1].isdigit():
        if model is not None:
            raise UsageError(
                f"two models given: `{model}` and `{size[0]}`; name one of them"
            )
        model = size.pop(0)
    return Arguments(
        edition,
        _model(edition, model, accepts),
        data_size(size),
        parsed.backend if accepts.backends else None,
        tuple(parsed.variant) if accepts.variants else (),
        parsed.accuracy if accepts.classes else FP32,
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
        help=f"number of images, 1 to {MOST}; edition 2017fa takes the model first",
    )
    parser.add_argument(
        "--edition", help=f"one of {known} (default: $RAI_EDITION, else 2019fa)"
    )
    parser.add_argument("--model", help="a model of the edition or of RAI_MODELS_DIR")
    if accepts.backends:
        listed = ", ".join(accepts.backends)
        parser.add_argument(
            "--backend",
            choices=accepts.backends,
            metavar="NAME",
            help=f"backend of the network: {listed} (default: the first available)",
        )
    if accepts.variants:
        parser.add_argument(
            "--variant",
            action="append",
            default=[],
            metavar="NAME",
            help="a kernel; repeatable (default: the optimised course kernels)",
        )
    if accepts.classes:
        parser.add_argument(
            "--class",
            dest="accuracy",
            choices=tuple(RTOL),
            default=FP32,
            metavar="NAME",
            help=f"accuracy of the convolutions: {', '.join(RTOL)} (default: {FP32})",
        )
    return parser


def _model(edition: Edition, name: str | None, accepts: Accepts) -> Model:
    """Return the named model, or the first that the script can run."""
    fitting = edition.with_convolutions(own=accepts.own)
    model = checkpoints.find(edition, name or fitting[0].name)
    if model.own != accepts.own:
        whose = "our own" if model.own else "the library's"
        run = ", ".join(other.name for other in fitting)
        raise UsageError(
            f"model `{model.name}` uses {whose} convolution; this script runs {run}"
        )
    return model


def data_size(words: Sequence[str]) -> int:
    """Parse the number of images; without a word, return MOST."""
    if not words:
        return MOST
    text = " ".join(words)
    digits = text.lstrip("0") if text.isascii() and text.isdigit() else ""
    # Python refuses to convert numbers of thousands of digits.
    if not digits or len(digits) > len(str(MOST)) or int(digits) > MOST:
        raise UsageError(
            f"invalid data size `{text}`; expected a whole number from 1 to {MOST}"
        )
    return int(text)


def count(word: str) -> int:
    """Parse a positive whole number."""
    if not (word.isascii() and word.isdigit() and int(word)):
        raise UsageError(f"invalid count `{word}`; expected a whole number above 0")
    return int(word)
