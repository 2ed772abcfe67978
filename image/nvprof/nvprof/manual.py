"""Every option that nvprof had, what it takes, and what becomes of it here."""

from __future__ import annotations

from typing import NamedTuple

SWITCH = ("on", "off")


class Option(NamedTuple):
    """One option: how it is spelled, what it takes, and what is said of it."""

    name: str
    takes: str = ""
    help: str = ""
    short: str = ""
    allowed: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    why: str = ""


def served(
    name: str,
    takes: str,
    help: str,
    short: str = "",
    allowed: tuple[str, ...] = (),
) -> Option:
    """Describe an option that does here what it did."""
    return Option(name, takes, help, short, allowed)


def accepted(
    name: str, why: str, takes: str = "", idle: tuple[str, ...] = (), short: str = ""
) -> Option:
    """Describe an option that is taken and does nothing, with the sentence why.

    With a value in `idle` it asks for nothing, and nothing is said.
    """
    return Option(name, takes, "", short, idle=idle, why=why)


_CPU = "the CPU is not sampled; `perf record` or `py-spy` do that"
_BUFFER = "the buffers grow as they must"
_OPENACC = "OpenACC and OpenMP are not recorded"
_NAMES = "ranges and names of NVTX are not recorded"
_COUNTERS = "counters are measured by ncu, which has its own way"
_TOPOLOGY = "`nvidia-smi topo -m` shows it"
_CHILDREN = "only what is started below nvprof is profiled"
_MEMORY = "memory is not watched; copies and sets are in the tables"
_SYSTEM = "clocks and power are not recorded; `nvidia-smi dmon` shows them"

OPTIONS: tuple[Option, ...] = (
    served("export-profile", "FILE", "write an SQLite file; see %p, %h below", "o"),
    served("output-profile", "FILE", "the same, as it was first called"),
    served("force-overwrite", "", "overwrite files that exist", "f"),
    served("import-profile", "FILE", "print what a file of -o has in it", "i"),
    served("export-trace", "FILE", "write a trace for ui.perfetto.dev"),
    served("log-file", "FILE", "print there; %1 or - is stdout, %2 is stderr"),
    served("csv", "", "print comma-separated values"),
    served(
        "normalized-time-unit",
        "UNIT",
        "s, ms, us, ns, col (one a column), auto (one a value)",
        "u",
        ("s", "ms", "us", "ns", "col", "auto"),
    ),
    served("print-summary", "", "print the tables, with -o or a trace too", "s"),
    served("print-summary-per-gpu", "", "print a table of each GPU"),
    served("print-gpu-summary", "", "print the table of GPU activities only"),
    served("print-api-summary", "", "print the table of API calls only"),
    served("print-gpu-trace", "", "print each kernel, copy and set in its order"),
    served("print-api-trace", "", "print each API call in its order"),
    served("trace", "WHAT", "profile gpu, api, or gpu,api"),
    served(
        "profile-api-trace",
        "WHAT",
        "show calls of the none, runtime, driver or all",
        "",
        ("none", "runtime", "driver", "all"),
    ),
    served("profile-child-processes", "", "show every process that used CUDA"),
    served(
        "profile-from-start",
        "on|off",
        "off: only from cudaProfilerStart to cudaProfilerStop",
        "",
        SWITCH,
    ),
    served("kernels", "FILTER", "only kernels that match; may be repeated"),
    served("devices", "IDS", "only these GPUs: all, or 0,1"),
    served("metrics", "NAMES", "measure by ncu, where it is there", "m"),
    served("events", "NAMES", "measure by ncu, where it is there", "e"),
    served("analysis-metrics", "", "measure ncu's full set, where it is there"),
    served("query-metrics", "", "list ncu's metrics"),
    served("query-events", "", "list ncu's metrics"),
    served(
        "demangling", "on|off", "off: leave names as the linker has them", "", SWITCH
    ),
    served("timeout", "SECONDS", "end the application so long after CUDA starts", "t"),
    served("options", "FILE", "read more options from a file"),
    served("quiet", "", "print nothing"),
    served("version", "", "print the version", "V"),
    served("help", "", "print this", "h"),
    Option("profile-from-start-off"),  # how CUDA 5 spelled it
    accepted("aggregate-mode", _COUNTERS, "on|off", ("on",)),
    accepted("aggregate-mode-off", _COUNTERS),
    accepted("annotate-mpi", _NAMES, "MPI", ("off",)),
    accepted("concurrent-kernels", "kernels are not serialized", "on|off", ("on",)),
    accepted("concurrent-kernels-off", "kernels are not serialized"),
    accepted("continuous-sampling-interval", _COUNTERS, "MS"),
    accepted(
        "cpu-thread-tracing", "threads' calls are not recorded", "on|off", ("off",)
    ),
    accepted("dependency-analysis", "it was the Visual Profiler's"),
    accepted("print-dependency-analysis-trace", "it was the Visual Profiler's"),
    accepted("device-buffer-size", _BUFFER, "MB"),
    accepted("device-cdp-buffer-size", _BUFFER, "MB"),
    accepted("profiling-semaphore-pool-size", _BUFFER, "COUNT"),
    accepted("event-collection-mode", _COUNTERS, "MODE", ("kernel",)),
    accepted(
        "kernel-latency-timestamps", "CUPTI slows launches by it", "on|off", ("off",)
    ),
    accepted("replay-mode", _COUNTERS, "MODE"),
    accepted("skip-kernel-replay-save-restore", _COUNTERS, "on|off", ("off",)),
    accepted("pc-sampling-period", _COUNTERS, "PERIOD"),
    accepted("source-level-analysis", _COUNTERS, "NAMES", short="a"),
    accepted("profile-all-processes", _CHILDREN),
    accepted("system-profiling", _SYSTEM, "on|off", ("off",)),
    accepted("track-memory-allocations", _MEMORY, "on|off", ("off",)),
    accepted("unified-memory-profiling", _MEMORY, "MODE", ("off",)),
    accepted("openacc-profiling", _OPENACC, "on|off", ("off",)),
    accepted("openacc-summary-mode", _OPENACC, "MODE"),
    accepted("openmp-profiling", _OPENACC, "on|off", ("off",)),
    accepted("print-openacc-constructs", _OPENACC),
    accepted("print-openacc-summary", _OPENACC),
    accepted("print-openacc-trace", _OPENACC),
    accepted("print-openmp-summary", _OPENACC),
    accepted("context-name", _NAMES, "NAME"),
    accepted("stream-name", _NAMES, "NAME"),
    accepted("process-name", _NAMES, "NAME"),
    accepted("print-nvlink-topology", _TOPOLOGY),
    accepted("print-pci-topology", _TOPOLOGY),
    accepted("cpu-profiling", _CPU, "on|off", ("off",)),
    accepted("cpu-profiling-explain-ccff", _CPU, "FILE"),
    accepted("cpu-profiling-frequency", _CPU, "HZ"),
    accepted("cpu-profiling-max-depth", _CPU, "DEPTH"),
    accepted("cpu-profiling-mode", _CPU, "MODE"),
    accepted("cpu-profiling-percentage-threshold", _CPU, "PERCENT"),
    accepted("cpu-profiling-scope", _CPU, "SCOPE"),
    accepted("cpu-profiling-show-ccff", _CPU, "on|off", ("off",)),
    accepted("cpu-profiling-show-library", _CPU, "on|off", ("off",)),
    accepted("cpu-profiling-thread-mode", _CPU, "MODE"),
    accepted("cpu-profiling-unwind-stack", _CPU, "on|off"),
    accepted("print-cpu-profiling", _CPU),
)

LONG: dict[str, Option] = {option.name: option for option in OPTIONS}
SHORT: dict[str, Option] = {each.short: each for each in OPTIONS if each.short}
SHORT["?"] = LONG["help"]


def usage() -> str:
    """Write what `--help` prints."""
    lines = ["Usage: nvprof [options] [application] [application-arguments]", ""]
    for option in OPTIONS:
        if not option.help:
            continue
        short = f"-{option.short}, " if option.short else "    "
        spelled = f"  {short}--{option.name} {option.takes}".rstrip()
        gap = " " if len(spelled) < 38 else f"\n{'':38} "
        lines.append(f"{spelled:38}{gap}{option.help}")
    lines += ["", "Accepted, for they were nvprof's, and without effect:"]
    row = " "
    for option in OPTIONS:
        if option.why:
            if len(row) + len(option.name) > 76:
                lines.append(row)
                row = " "
            row += f" --{option.name}"
    lines += [
        row,
        "",
        "A filter is part of a kernel's name, or the path",
        '[context]:[stream]:[kernel]:[invocation], e.g. "::forward:2".',
        "In names of files %p is the process, %h the host, %q{NAME} the variable NAME,",
        "and %% a percent sign. Options end at the application, or at --.",
    ]
    return "\n".join(lines)
