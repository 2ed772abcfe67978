"""The nouns of a run, as frozen data.

Nothing here reads a file, a clock or a process. Units are in the names: ``_s`` seconds,
``_bytes`` bytes. Times of day are seconds since the epoch (UTC).
"""

from runner.model.build_spec import (
    BuildImage,
    BuildSpec,
    Command,
    DataResource,
    GpuRequest,
    Limits,
    Profile,
    Push,
)
from runner.model.ending import STEPS, Reason, State, Verdict, step
from runner.model.figures import (
    Findings,
    Inference,
    ProfileRow,
    ProfileTable,
    TimeUsage,
)
from runner.model.problem import Place, Problem, Severity
from runner.model.run import (
    CommandRecord,
    GitState,
    ImageUsed,
    JobRequest,
    Machine,
    Outcome,
    RunRecord,
)
from runner.model.units import GIB, MIB, MOST_PIDS
from runner.model.work import (
    Archive,
    DataFile,
    DataMount,
    EngineFacts,
    ImageAction,
    ImageFacts,
    ImagePlan,
    Invocation,
    Step,
    Stream,
    Workspace,
)

__all__ = [
    "GIB",
    "MIB",
    "MOST_PIDS",
    "STEPS",
    "Archive",
    "BuildImage",
    "BuildSpec",
    "Command",
    "CommandRecord",
    "DataFile",
    "DataMount",
    "DataResource",
    "EngineFacts",
    "Findings",
    "GitState",
    "GpuRequest",
    "ImageAction",
    "ImageFacts",
    "ImagePlan",
    "ImageUsed",
    "Inference",
    "Invocation",
    "JobRequest",
    "Limits",
    "Machine",
    "Outcome",
    "Place",
    "Problem",
    "Profile",
    "ProfileRow",
    "ProfileTable",
    "Push",
    "Reason",
    "RunRecord",
    "Severity",
    "State",
    "Step",
    "Stream",
    "TimeUsage",
    "Verdict",
    "Workspace",
    "step",
]
