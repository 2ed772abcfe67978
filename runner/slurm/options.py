"""What a user's or a site's settings say about Slurm."""

from __future__ import annotations

from msgspec import Struct


class SlurmOptions(Struct, frozen=True):
    """The group `slurm:` of the settings; "" and None leave a choice to Slurm.

    ``python`` is the Python of rai on the nodes, "" for the one that runs rai here.
    ``extra`` are further words for sbatch, as they are.
    """

    account: str = ""
    qos: str = ""
    constraint: str = ""
    extra: tuple[str, ...] = ()
    cores: int | None = None
    python: str = ""
