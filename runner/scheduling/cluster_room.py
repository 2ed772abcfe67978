"""What room a cluster has for runs, by its nodes.

What a run needs has to be free on one node. Others' jobs run there too, so the room is
what the cluster says is free, less the runs that were handed over since. While it is
full some runs are handed over nevertheless: they wait in the cluster's own queue, where
their priority grows as that of others' jobs does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from runner.scheduling.turns import QueuedRun, lane
from runner.wire.host import HostFacts, HostNode, HostRun

WAIT_A_NODE = 1
"""So many runs of a line may wait in the cluster's queue, for each node in order."""

SKEW_S = 2.0
"""How far the clocks of nodes may be apart."""

_UNKNOWN = HostRun("", claimed=False, ended=False)


class ClusterRoom(Struct):
    """What is free of a cluster's nodes that are in order, and how many runs go on.

    ``waiting`` are the runs in the cluster's queue, and ``lines`` their numbers, of
    which each may be ``may_wait``. ``placed`` are nodes by the ids of their runs.
    """

    nodes: list[NodeRoom]
    may_wait: int
    going: int = 0
    teams: dict[str, int] = {}
    waiting: list[QueuedRun] = []
    lines: dict[Hashable, int] = {}
    placed: dict[str, str] = {}

    @property
    def alone(self) -> bool:
        """Whether a run has all of it to itself: none has."""
        return False

    @property
    def gpus(self) -> int:
        """How many GPUs there are that are not out."""
        return sum(gpu_count(node.gpus) for node in self.nodes)

    @property
    def gpus_free(self) -> int:
        """How many of them are free."""
        return sum(gpu_count(node.gpus_free) for node in self.nodes if not node.alone)

    @property
    def slots(self) -> int:
        """How many runs without a GPU have room."""
        return sum(node.slots for node in self.nodes)

    @property
    def slots_free(self) -> int:
        """How many more of them have room."""
        free = (node.slots_free for node in self.nodes if not node.alone)
        return sum(max(0, one) for one in free)

    @property
    def whole(self) -> bool:
        """Whether a run that wants to be alone takes all: it takes a node."""
        return False

    def line(self, run: QueuedRun) -> Hashable:
        """Return what a run waits for: those with GPUs of one model start in order."""
        return lane(run), run.gpu_model

    def full(self, closed: Collection[Hashable]) -> bool:
        """Whether nothing more starts: there may be further lines."""
        return False

    def never(self, run: QueuedRun) -> bool:
        """Whether no node has what a run needs."""
        return not any(node.could(run) for node in self.nodes)

    def before(self, run: QueuedRun) -> int:
        """Return how many runs of its line wait in the cluster's queue."""
        return self.lines.get(self.line(run), 0)

    def fits(self, run: QueuedRun) -> bool:
        """Whether a run may be handed over: it has a node, or may wait for one."""
        before = self.before(run)
        if not before and self._node(run) is not None:
            return True
        kept = any(node.keeps_back(run) for node in self.nodes)
        return before < self.may_wait and not kept

    def take(self, run: QueuedRun) -> None:
        """Count a run as handed over."""
        self._hand(run, None if self.before(run) else self._node(run))

    def hand_over(self, run: QueuedRun) -> None:
        """Count a run that the cluster has in its queue already.

        It closes its line to others only where no node has room for it: else it starts
        at once, or waits for something else, such as memory, which others need not.
        """
        self._hand(run, self._node(run))

    def _hand(self, run: QueuedRun, node: NodeRoom | None) -> None:
        self._count(run, 1)
        if node is not None:
            node.take(run)
            self.placed[run.id] = node.name
        else:
            self._wait(run)

    def _wait(self, run: QueuedRun) -> None:
        """Count a run as one that waits in the cluster's queue."""
        self.lines[self.line(run)] = self.before(run) + 1
        self.waiting.append(run)

    def keep(self, run: QueuedRun, name: str, *, counted: bool) -> None:
        """Count a run as going on that the cluster has given a node already.

        ``counted`` is whether what it has is not among what is free.
        """
        self._count(run, 1)
        self.placed[run.id] = name
        for node in self.nodes:
            if node.name == name and not counted and node.fits(run):
                node.take(run)
            elif node.name == name:
                node.alone = node.alone or run.alone

    def give(self, run: QueuedRun) -> None:
        """Count a run as ended."""
        self._count(run, -1)
        name = self.placed.pop(run.id, "")
        for node in self.nodes:
            if node.name == name:
                node.give(run)

    def played(self) -> ClusterRoom:
        """Return another one, in which runs start only where something is free."""
        nodes = [node.copy() for node in self.nodes]
        teams, placed = dict(self.teams), dict(self.placed)
        found = ClusterRoom(
            nodes, 0, self.going, teams, waiting=[], lines={}, placed=placed
        )
        for run in self.waiting:
            found._count(run, -1)
        return found

    def _node(self, run: QueuedRun) -> NodeRoom | None:
        """Return the node that a run would have: the one where the least is left."""
        fitting = [node for node in self.nodes if node.fits(run)]
        if run.gpus:
            return min(fitting, key=lambda one: gpu_count(one.gpus_free), default=None)
        # Runs without a GPU are spread, and leave those with GPUs to others.
        return max(
            fitting,
            key=lambda one: (-gpu_count(one.gpus_free), one.slots_free),
            default=None,
        )

    def _count(self, run: QueuedRun, more: int) -> None:
        self.going += more
        self.teams[run.team] = self.teams.get(run.team, 0) + more


def room_of(
    facts: HostFacts,
    slots: int | None,
    active: Sequence[QueuedRun],
    seen: Mapping[str, HostRun],
) -> ClusterRoom:
    """Return the room that is left on a cluster's nodes beside the runs that go on.

    ``slots`` is how many runs without a GPU a node has room for; None leaves that to
    its cores. ``seen`` is what the host knows of active runs.
    """
    known = {run.id: seen.get(run.id, _UNKNOWN) for run in active}
    counted = {run.id for run in active if _is_counted(run, facts.nodes_at)}
    here = Counter(
        known[run.id].node for run in active if run.id in counted and not run.gpus
    )
    nodes = [
        node_room(one, slots, here[one.name]) for one in facts.nodes if not one.out
    ]
    room = ClusterRoom(
        nodes, WAIT_A_NODE * len(nodes), teams={}, waiting=[], lines={}, placed={}
    )
    for run in active:
        name = known[run.id].node
        if name or run.started_at is not None:
            room.keep(run, name, counted=run.id in counted)
        elif known[run.id].waits:
            room.hand_over(run)
        else:
            room.take(run)
    return room


def _is_counted(run: QueuedRun, at: float) -> bool:
    """Whether a run has begun before the cluster said what is free."""
    return run.started_at is not None and run.started_at + SKEW_S < at


class NodeRoom(Struct):
    """What is free of a node that is in order; changed by ``take`` and ``give``.

    ``slots`` is how many runs without a GPU it has room for. ``alone`` is whether a run
    has it to itself.
    """

    name: str
    cores: int
    cores_free: int
    slots: int
    slots_free: int
    gpus: dict[str, int]
    gpus_free: dict[str, int]
    alone: bool = False

    def could(self, run: QueuedRun) -> bool:
        """Whether it has all that a run needs, when nothing else runs there."""
        return not run.gpus or gpu_count(self.gpus, run.gpu_model) >= run.gpus

    def fits(self, run: QueuedRun) -> bool:
        """Whether what a run needs is free."""
        if self.alone or self.cores_free < 1 or not self.could(run):
            return False
        if run.alone and self.cores_free < self.cores:
            return False
        if run.gpus:
            return gpu_count(self.gpus_free, run.gpu_model) >= run.gpus
        return run.alone or self.slots_free > 0

    def keeps_back(self, run: QueuedRun) -> bool:
        """Whether only the bound of slots keeps a run from starting here."""
        free = self.cores_free > 0 and not self.alone
        return free and self.slots_free < 1 and not run.gpus and not run.alone

    def take(self, run: QueuedRun) -> None:
        """Count a run as going on here."""
        self.cores_free -= 1
        self.alone = self.alone or run.alone
        if not run.gpus:
            self.slots_free -= 1
        left = run.gpus
        for model, free in self.gpus_free.items():
            if run.gpu_model in ("", model):
                taken = min(free, left)
                self.gpus_free[model] -= taken
                left -= taken

    def give(self, run: QueuedRun) -> None:
        """Count a run as ended that went on here."""
        if run.alone:
            self.alone = False
            self.cores_free, self.slots_free = self.cores, self.slots
            self.gpus_free = dict(self.gpus)
            return
        self.cores_free = min(self.cores_free + 1, self.cores)
        if not run.gpus:
            self.slots_free = min(self.slots_free + 1, self.slots)
        left = run.gpus
        for model, there in self.gpus.items():
            if run.gpu_model in ("", model):
                given = min(there - self.gpus_free[model], left)
                self.gpus_free[model] += given
                left -= given

    def copy(self) -> NodeRoom:
        """Return another one of the same room."""
        gpus, free = dict(self.gpus), dict(self.gpus_free)
        return replace(self, gpus=gpus, gpus_free=free)


def node_room(node: HostNode, slots: int | None, ours: int) -> NodeRoom:
    """Return what is free of a node where ``ours`` runs without a GPU go on.

    ``slots`` is how many of them it has room for; None leaves that to its cores.
    """
    places = node.cores if slots is None else slots
    free = min(node.cores_free, places - ours)
    gpus = dict(node.gpus)
    left = {model: min(node.gpus_free.get(model, 0), n) for model, n in gpus.items()}
    return NodeRoom(
        node.name, node.cores, node.cores_free, places, max(0, free), gpus, left
    )


def gpu_count(gpus: Mapping[str, int], model: str = "") -> int:
    """Return how many GPUs there are of a model, "" for all."""
    return gpus.get(model, 0) if model else sum(gpus.values())
