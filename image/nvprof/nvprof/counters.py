"""Measure counters with ncu: whether it can, and its command line."""

from __future__ import annotations

from collections.abc import Sequence

from nvprof.filter import KernelFilter
from nvprof.options import Options

METRICS: dict[str, str] = {
    "achieved_occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "branch_efficiency": "smsp__sass_average_branch_targets_threads_uniform.pct",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_read_throughput": "dram__bytes_read.sum.per_second",
    "dram_read_transactions": "dram__sectors_read.sum",
    "dram_utilization": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "dram_write_bytes": "dram__bytes_write.sum",
    "dram_write_throughput": "dram__bytes_write.sum.per_second",
    "dram_write_transactions": "dram__sectors_write.sum",
    "eligible_warps_per_cycle": "smsp__warps_eligible.sum.per_cycle_active",
    "flop_count_dp_fma": "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum",
    "flop_count_hp_fma": "smsp__sass_thread_inst_executed_op_hfma_pred_on.sum",
    "flop_count_sp_add": "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum",
    "flop_count_sp_fma": "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
    "flop_count_sp_mul": "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum",
    "gld_efficiency": "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct",
    "gld_throughput": "l1tex__t_bytes_pipe_lsu_mem_global_op_ld.sum.per_second",
    "gld_transactions": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "gst_efficiency": "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct",
    "gst_throughput": "l1tex__t_bytes_pipe_lsu_mem_global_op_st.sum.per_second",
    "gst_transactions": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "inst_executed": "smsp__inst_executed.sum",
    "inst_per_warp": "smsp__average_inst_executed_per_warp.ratio",
    "ipc": "sm__inst_executed.avg.per_cycle_active",
    "issue_slot_utilization": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "shared_efficiency": "smsp__sass_average_data_bytes_per_wavefront_mem_shared.pct",
    "shared_load_transactions": (
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
    ),
    "shared_store_transactions": (
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"
    ),
    "sm_efficiency": "smsp__cycles_active.avg.pct_of_peak_sustained_elapsed",
    "warp_execution_efficiency": ("smsp__thread_inst_executed_per_inst_executed.ratio"),
}
"""nvprof's metrics, and ncu's equivalents."""

EVENTS: dict[str, str] = {
    "active_cycles": "sm__cycles_active.sum",
    "active_warps": "sm__warps_active.sum",
    "branch": "smsp__sass_branch_targets.sum",
    "divergent_branch": "smsp__sass_branch_targets_threads_divergent.sum",
    "elapsed_cycles_sm": "sm__cycles_elapsed.sum",
    "inst_executed": "smsp__inst_executed.sum",
    "inst_issued": "smsp__inst_issued.sum",
    "shared_ld_bank_conflict": (
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"
    ),
    "shared_st_bank_conflict": (
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"
    ),
    "thread_inst_executed": "smsp__thread_inst_executed.sum",
    "warps_launched": "smsp__warps_launched.sum",
}
"""nvprof's events, and ncu's equivalent metrics."""

NO_LIST = (
    "listing metrics and events needs ncu (Nsight Compute), which was not found;"
    " nothing was run"
)
"""The error of --query-metrics without ncu."""

ADMIN = 21
"""The number of the capability CAP_SYS_ADMIN, which the driver requires."""


def allowed(params: str, status: str) -> bool:
    """Return whether the driver allows this process to read counters.

    `params` is /proc/driver/nvidia/params, `status` is /proc/self/status.
    """
    if "RmProfilingAdminOnly: 1" not in params:
        return True
    for line in status.splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> ADMIN & 1)
    return False


def unavailable(ncu: str | None, may: bool) -> str | None:
    """Return why counters cannot be measured; None if they can."""
    needs = "Metrics, events and analysis metrics need ncu (Nsight Compute)"
    if ncu is None:
        return f"{needs}, which was not found; profiling the timeline only."
    if not may:
        return (
            f"{needs} and permission to read counters, which the driver restricts to"
            " administrators here (ERR_NVGPUCTRPERM); profiling the timeline only."
        )
    return None


def measured(options: Options) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return ncu's metrics for nvprof's metrics and events, and unknown names."""
    found: dict[str, None] = {}
    unknown: list[str] = []
    for given, table in ((options.metrics, METRICS), (options.events, EVENTS)):
        for name in given:
            if name in table:
                found[table[name]] = None
            elif "__" in name:
                found[name] = None
            elif name != "all":
                unknown.append(name)
    return tuple(found), tuple(unknown)


def command(ncu: str, options: Options) -> tuple[str, ...]:
    """Return ncu's command line for measuring the application."""
    words = [ncu, "--target-processes", "all"]
    words += _kernels(options.kernels)
    if options.devices is not None:
        words += ["--devices", ",".join(map(str, sorted(options.devices)))]
    if not options.from_start:
        words += ["--profile-from-start", "off"]
    metrics, _ = measured(options)
    everything = options.analysis or "all" in (*options.metrics, *options.events)
    if everything or not metrics:
        words += ["--set", "full"]
    if metrics:
        words += ["--metrics", ",".join(metrics)]
    if options.csv:
        words.append("--csv")
    if options.output is not None:
        words += ["--export", options.output]
        words += ["--force-overwrite"] if options.force else []
    return (*words, *options.application)


def left_out(filters: Sequence[KernelFilter]) -> list[str]:
    """Return warnings of the parts of filters that `command` cannot pass on."""
    warnings = []
    if any(each.context or each.stream for each in filters):
        warnings.append(
            "Ignoring contexts and streams of --kernels: ncu measures kernels of all"
            " contexts and streams."
        )
    named = [each for each in filters if each.kernel]
    if named and len(named) != len(filters):
        warnings.append(
            "Ignoring kernel names of --kernels, since one filter has none and ncu"
            " supports only one pattern: measuring all kernels."
        )
    turns = [each.invocation for each in filters if each.invocation]
    if turns and not (len(filters) == 1 and _turn(turns[0])):
        warnings.append(
            "Ignoring invocations of --kernels, since ncu supports only one launch of"
            " one filter: measuring all launches."
        )
    return warnings


def _turn(invocation: str) -> int:
    """Return the number of the invocation, or 0 if it is not a single one."""
    return int(invocation) if invocation.isdigit() else 0


def _kernels(filters: Sequence[KernelFilter]) -> list[str]:
    """Return ncu's options that select kernels."""
    patterns = [each.kernel for each in filters if each.kernel]
    words: list[str] = []
    if patterns and len(patterns) == len(filters):
        if any("::" in each or "<" in each for each in patterns):
            words += ["--kernel-name-base", "demangled"]
        joined = patterns[0] if len(patterns) == 1 else "|".join(patterns)
        words += ["--kernel-name", f"regex:{joined}"]
    turn = _turn(filters[0].invocation) if len(filters) == 1 else 0
    if turn:
        words += ["--launch-skip", str(turn - 1), "--launch-count", "1"]
    return words
