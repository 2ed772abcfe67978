"""The data of a run, as frozen structs.

Nothing here reads a file, a clock or a process. Units are in the names: ``_s`` seconds,
``_bytes`` bytes. Times of day are seconds since the epoch (UTC).
"""

from runner.core.build_spec import (
    BuildImage,
    BuildSpec,
    Command,
    DataResource,
    GpuRequest,
    Profile,
    Push,
    Substitute,
)
from runner.core.ending import TRANSITIONS, Reason, State, Verdict, transition
from runner.core.figures import (
    Findings,
    Inference,
    KernelCounters,
    ProfileFile,
    ProfileRow,
    ProfileTable,
    Source,
    TimeUsage,
)
from runner.core.gpu import (
    DockerGpus,
    Gpu,
    GpuGrant,
    GpuProcess,
    GpuSituation,
    GpuState,
    GpuUse,
    GpuWay,
    HostGpus,
    WayTried,
)
from runner.core.gpu_fault import GpuFault, GpuFaultKind
from runner.core.limits import LIMITS, Limit, Limits
from runner.core.problem import Place, Problem, Severity
from runner.core.request import JobRequest, RunRequest
from runner.core.run import (
    CommandRecord,
    GitState,
    ImageUsed,
    Machine,
    Outcome,
    RunRecord,
)
from runner.core.units import GIB, MIB, MOST_PIDS
from runner.core.work import (
    Archive,
    BuiltImage,
    DataFile,
    DataMount,
    EngineFacts,
    ImageAction,
    ImageFacts,
    ImageParts,
    ImagePlan,
    Invocation,
    Origin,
    Step,
    Stream,
    Workspace,
)
