"""Counters by ncu: whether it can, and its command line out of nvprof's options."""

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
"""nvprof's metrics, and ncu's that measure the same."""

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
"""nvprof's events, and ncu's metrics that count the same."""

NO_LIST = (
    "metrics and events are listed by ncu (Nsight Compute), which is not found;"
    " nothing was run"
)
"""What is said to --query-metrics where there is no ncu."""

ADMIN = 21
"""The capability's number (CAP_SYS_ADMIN) that the driver asks for."""


def allowed(params: str, status: str) -> bool:
    """Tell whether the driver gives counters to this process.

    `params` is /proc/driver/nvidia/params, `status` is /proc/self/status.
    """
    if "RmProfilingAdminOnly: 1" not in params:
        return True
    for line in status.splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> ADMIN & 1)
    return False


def why_not(ncu: str | None, may: bool) -> str | None:
    """Say in a sentence why counters cannot be had; None where they can."""
    asked = "Metrics, events and analysis metrics need ncu (Nsight Compute)"
    if ncu is None:
        return f"{asked}, which is not found; the timeline is profiled without them."
    if not may:
        return (
            f"{asked} and the driver's leave, which only an administrator has here"
            " (ERR_NVGPUCTRPERM); the timeline is profiled without them."
        )
    return None


def measured(options: Options) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Give ncu's metrics for nvprof's metrics and events, and those that it has not."""
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
    """Write the command line that measures the application."""
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
    """Say which parts of filters `command` does not hand on."""
    told = []
    if any(each.context or each.stream for each in filters):
        told.append(
            "ncu is given no contexts and streams: those parts of --kernels are left"
            " out, and kernels of all of them are measured."
        )
    named = [each for each in filters if each.kernel]
    if named and len(named) != len(filters):
        told.append(
            "ncu takes one pattern: as a filter of --kernels has no name, kernels of"
            " every name are measured."
        )
    turns = [each.invocation for each in filters if each.invocation]
    if turns and not (len(filters) == 1 and _turn(turns[0])):
        told.append(
            "ncu takes one launch of one filter: the invocations of --kernels are left"
            " out, and all launches are measured."
        )
    return told


def _turn(invocation: str) -> int:
    """Give the one launch that is asked for; nought where it is not one."""
    return int(invocation) if invocation.isdigit() else 0


def _kernels(filters: Sequence[KernelFilter]) -> list[str]:
    """Choose kernels; ncu counts all launches that its one pattern finds."""
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
