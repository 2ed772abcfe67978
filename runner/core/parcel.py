"""A sealed request: what to run and how, kept beside the packed project."""

from __future__ import annotations

import msgspec

from runner.core import written
from runner.core.build_spec import Substitute
from runner.core.run import GitState

PARCEL_VERSION = 1
LONGEST_BYTES = 4 << 20


class Parcel(msgspec.Struct, frozen=True):
    """What a worker needs to carry out a run, besides ``source.tar.zst``.

    ``project`` is the client's folder and ``spec_file`` its build file, as shown.
    ``sha256`` is of the archive's uncompressed tar stream. ``profile`` and ``gpus`` are
    the options of the command line; None leaves both to the build file. ``after`` are
    the ids of runs to wait for, ``warnings`` what was noticed while packing.
    ``env_given`` are the names of the variables given by ``-e``: no value is kept.
    ``only`` are the words of ``--only``.
    ``substitute`` is the image that was decided in place of the build file's, ``title``
    what the run is of a submission. ``repeat``, ``measured`` and ``budget`` are the
    options of a run whose commands are measured several times.
    """

    project: str
    spec_file: str
    spec_text: str
    sha256: str
    user: str = ""
    git: GitState | None = None
    profile: str | None = None
    gpus: str | None = None
    keep_going: bool = False
    gpu_wait_s: float = 600.0
    after: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    env_given: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    substitute: Substitute | None = None
    title: str = ""
    repeat: int = 1
    measured: tuple[str, ...] = ()
    budget: str | None = None
    version: int = PARCEL_VERSION


def to_json(parcel: Parcel) -> bytes:
    """Return the parcel as JSON."""
    return written.encode(parcel)


def from_json(data: bytes) -> Parcel:
    """Parse a parcel; raise ValueError if it is damaged or of an unknown version."""
    parcel = msgspec.json.decode(data, type=Parcel)
    if parcel.version != PARCEL_VERSION:
        raise ValueError(f"parcel version {parcel.version} is not supported")
    return parcel
