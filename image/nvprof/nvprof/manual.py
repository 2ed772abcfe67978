"""All options of nvprof, their values and help."""

from __future__ import annotations

from typing import NamedTuple

SWITCH = ("on", "off")


class Option(NamedTuple):
    """An option's name, value and help, or why it has no effect."""

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
    """Return an option that is supported."""
    return Option(name, takes, help, short, allowed)


def accepted(
    name: str, why: str, takes: str = "", idle: tuple[str, ...] = (), short: str = ""
) -> Option:
    """Return an option that is accepted without effect, and the reason.

    There is no warning for a value in `idle`, which requests nothing.
    """
    return Option(name, takes, "", short, idle=idle, why=why)


_CPU = "the CPU is not sampled; use `perf record` or `py-spy`"
_BUFFER = "buffers grow as needed"
_OPENACC = "OpenACC and OpenMP are not recorded"
_NAMES = "NVTX ranges and names are not recorded"
_COUNTERS = "counters are measured by ncu, which has its own options"
_TOPOLOGY = "use `nvidia-smi topo -m`"
_CHILDREN = "only processes started by nvprof are profiled"
_MEMORY = "allocations are not recorded, only copies and sets"
_SYSTEM = "clocks and power are not recorded; use `nvidia-smi dmon`"

OPTIONS: tuple[Option, ...] = (
    served("export-profile", "FILE", "write an SQLite file; see %p, %h below", "o"),
    served("output-profile", "FILE", "the same as --export-profile"),
    served("force-overwrite", "", "overwrite existing files", "f"),
    served("import-profile", "FILE", "print the contents of a file written by -o", "i"),
    served("export-trace", "FILE", "write a trace for ui.perfetto.dev"),
    served("log-file", "FILE", "write output to FILE; %1 or - is stdout, %2 stderr"),
    served("csv", "", "print comma-separated values"),
    served(
        "normalized-time-unit",
        "UNIT",
        "s, ms, us, ns, col (per column), auto (per value)",
        "u",
        ("s", "ms", "us", "ns", "col", "auto"),
    ),
    served("print-summary", "", "print the summary even with -o or a trace", "s"),
    served("print-summary-per-gpu", "", "print a summary of each GPU"),
    served("print-gpu-summary", "", "print only the summary of GPU activities"),
    served("print-api-summary", "", "print only the summary of API calls"),
    served("print-gpu-trace", "", "print every kernel, copy and set in order"),
    served("print-api-trace", "", "print every API call in order"),
    served("trace", "WHAT", "profile gpu, api, or gpu,api"),
    served(
        "profile-api-trace",
        "WHAT",
        "show API calls of: none, runtime, driver or all",
        "",
        ("none", "runtime", "driver", "all"),
    ),
    served("profile-child-processes", "", "show every process that uses CUDA"),
    served(
        "profile-from-start",
        "on|off",
        "off: only between cudaProfilerStart and cudaProfilerStop",
        "",
        SWITCH,
    ),
    served("kernels", "FILTER", "only kernels that match; repeatable"),
    served("devices", "IDS", "only these GPUs: all, or 0,1"),
    served("metrics", "NAMES", "measure metrics with ncu, if installed", "m"),
    served("events", "NAMES", "measure events with ncu, if installed", "e"),
    served("analysis-metrics", "", "measure ncu's full set, if installed"),
    served("query-metrics", "", "list ncu's metrics"),
    served("query-events", "", "list ncu's metrics"),
    served("demangling", "on|off", "off: print mangled C++ names", "", SWITCH),
    served("timeout", "SECONDS", "end the application SECONDS after CUDA starts", "t"),
    served("options", "FILE", "read more options from FILE"),
    served("quiet", "", "print nothing"),
    served("version", "", "print the version", "V"),
    served("help", "", "print this help", "h"),
    Option("profile-from-start-off"),  # the name in CUDA 5
    accepted("aggregate-mode", _COUNTERS, "on|off", ("on",)),
    accepted("aggregate-mode-off", _COUNTERS),
    accepted("annotate-mpi", _NAMES, "MPI", ("off",)),
    accepted("concurrent-kernels", "kernels are not serialized", "on|off", ("on",)),
    accepted("concurrent-kernels-off", "kernels are not serialized"),
    accepted("continuous-sampling-interval", _COUNTERS, "MS"),
    accepted(
        "cpu-thread-tracing", "pthread calls are not recorded", "on|off", ("off",)
    ),
    accepted("dependency-analysis", "it is a feature of the Visual Profiler"),
    accepted(
        "print-dependency-analysis-trace", "it is a feature of the Visual Profiler"
    ),
    accepted("device-buffer-size", _BUFFER, "MB"),
    accepted("device-cdp-buffer-size", _BUFFER, "MB"),
    accepted("profiling-semaphore-pool-size", _BUFFER, "COUNT"),
    accepted("event-collection-mode", _COUNTERS, "MODE", ("kernel",)),
    accepted(
        "kernel-latency-timestamps", "it would slow down launches", "on|off", ("off",)
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
    """Return the text of `--help`."""
    lines = ["Usage: nvprof [options] [application] [application-arguments]", ""]
    for option in OPTIONS:
        if not option.help:
            continue
        short = f"-{option.short}, " if option.short else "    "
        spelled = f"  {short}--{option.name} {option.takes}".rstrip()
        gap = " " if len(spelled) < 38 else f"\n{'':38} "
        lines.append(f"{spelled:38}{gap}{option.help}")
    lines += ["", "Accepted for compatibility, without effect:"]
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
        "FILTER is a regular expression that matches part of a kernel's name, or",
        '[context]:[stream]:[kernel]:[invocation], e.g. "::forward:2".',
        "In file names %p is the process ID, %h the host name, %q{NAME} the variable",
        "NAME, and %% a percent sign. Options end at the application, or at --.",
    ]
    return "\n".join(lines)
