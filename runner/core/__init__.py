"""The data of a run, as frozen structs.

Nothing here reads a file, a clock or a process. Units are in the names: ``_s`` seconds,
``_bytes`` bytes. Times of day are seconds since the epoch (UTC).
"""

from runner.core.build_spec import (
    LIMITS,
    BuildImage,
    BuildSpec,
    Command,
    DataResource,
    GpuRequest,
    Limit,
    Limits,
    Profile,
    Push,
    Substitute,
)
from runner.core.errors import (
    TRANSITIONS,
    Place,
    Problem,
    Reason,
    Severity,
    State,
    Verdict,
    transition,
)
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
    GpuFault,
    GpuFaultKind,
    GpuGrant,
    GpuProcess,
    GpuSituation,
    GpuState,
    GpuUse,
    GpuWay,
    HostGpus,
    WayTried,
)
from runner.core.quantities import GIB, MIB, MOST_PIDS
from runner.core.request import JobRequest, RunRequest
from runner.core.run import (
    CommandRecord,
    GitState,
    ImageUsed,
    Machine,
    Outcome,
    RunRecord,
)
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
