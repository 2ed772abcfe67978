"""What the roles of a server's teams may do, and the server's own bounds."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from runner.core.policy import RolePolicy
from runner.core.units import DAY_S, GIB


class Role(Struct, frozen=True):
    """What a team of this role may do; None is no bound.

    ``ceilings`` are by the name of the field of Limits, ``images`` patterns of the only
    images. ``at_once`` runs of a team run at a time and ``waiting`` wait; ``a_day`` may
    be queued in any 24 hours, and once its GPUs were in use for ``gpu_a_day_s`` of them
    no run with a GPU starts. ``upload_bytes`` is what one project may have packed,
    ``disk_bytes`` what the uploads and runs of a team may take, ``keep_s`` how long a
    run is kept after its end. A higher ``priority`` starts first. On a cluster Slurm
    is asked for the ``account``, ``qos`` and ``partition``, "" for the usual ones.
    """

    name: str
    priority: int = 0
    ceilings: Mapping[str, float] = field(default_factory=dict)
    images: tuple[str, ...] | None = None
    at_once: int | None = None
    waiting: int = 100
    a_day: int | None = None
    gpu_a_day_s: float | None = None
    upload_bytes: int = 1 * GIB
    disk_bytes: int = 20 * GIB
    keep_s: float = 30 * DAY_S
    account: str = ""
    qos: str = ""
    partition: str = ""

    @property
    def policy(self) -> RolePolicy:
        """What a worker allows a run of this role."""
        source = f"the role `{self.name}` of this server"
        return RolePolicy(self.ceilings, self.images, source)

    @property
    def slurm(self) -> dict[str, str]:
        """What Slurm is asked for, by the names of sbatch's options."""
        named = {
            "account": self.account,
            "qos": self.qos,
            "partition": self.partition,
        }
        return {name: value for name, value in named.items() if value}


STUDENT = Role(
    "student",
    ceilings={"time_s": 600.0, "pids": 4096.0, "network": 0.0},
    at_once=2,
    a_day=200,
    gpu_a_day_s=7200.0,
)
STAFF = Role("staff", priority=10, waiting=1000)


class ServerRules(Struct, frozen=True):
    """The settings of a server: server.yml in its folder.

    ``slots`` is how many runs without a GPU run at a time; None makes it half of the
    machine's cores. Of a cluster, such as the ``place`` slurm:gpu, at most ``gpu_jobs``
    runs with a GPU and ``cpu_jobs`` without are in Slurm's queue at a time. Nothing new
    is taken while less than ``low_disk_bytes`` are free.
    """

    roles: Mapping[str, Role] = field(
        default_factory=lambda: {one.name: one for one in (STUDENT, STAFF)}
    )
    slots: int | None = None
    place: str = ""
    gpu_jobs: int = 16
    cpu_jobs: int = 64
    low_disk_bytes: int = 5 * GIB
    code_valid_s: float = 14 * DAY_S
    token_valid_s: float | None = 200 * DAY_S

    def role(self, name: str) -> Role:
        """Return a role; one that the file no longer has may do what students may."""
        return self.roles.get(name) or self.roles.get(STUDENT.name) or STUDENT
