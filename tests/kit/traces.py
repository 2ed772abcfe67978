"""Small files as profilers write them, with the columns that their makers document."""

from __future__ import annotations

import sqlite3

_ON_GPU = """start INTEGER NOT NULL, end INTEGER NOT NULL,
  deviceId, contextId, streamId, correlationId"""
_SHAPE = """gridX, gridY, gridZ, blockX, blockY, blockZ, registersPerThread,
  staticSharedMemory, dynamicSharedMemory"""

NSYS = f"""
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE PROCESSES (globalPid, pid, name TEXT);
CREATE TABLE TARGET_INFO_GPU (id, name TEXT, smCount, computeMajor, computeMinor);
CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId, cudaId, pid, name TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (
  {_ON_GPU}, globalPid, demangledName, shortName, {_SHAPE});
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY ({_ON_GPU}, globalPid, bytes, copyKind);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET ({_ON_GPU}, globalPid, value, bytes);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (
  start, end, globalTid, correlationId, nameId, returnValue);
CREATE TABLE NVTX_EVENTS (start, end, eventType, text TEXT, globalTid, textId);
"""

NVIDIA = f"""
CREATE TABLE StringTable (_id_ INTEGER PRIMARY KEY, value TEXT NOT NULL UNIQUE);
CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL (
  _id_ INTEGER PRIMARY KEY, {_ON_GPU}, name, {_SHAPE});
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (
  _id_ INTEGER PRIMARY KEY, {_ON_GPU}, copyKind, srcKind, dstKind, bytes);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (
  _id_ INTEGER PRIMARY KEY, cbid, start, end, processId, threadId, correlationId,
  returnValue);
CREATE TABLE CUPTI_ACTIVITY_KIND_DEVICE (
  _id_ INTEGER PRIMARY KEY, numMultiprocessors, computeCapabilityMajor,
  computeCapabilityMinor, id, name);
"""


def database(path, schema, **tables):
    """Make a file with rows in tables; a row's columns may be fewer than the table's.

    A table's value is its columns, then rows of as many values.
    """
    base = sqlite3.connect(path)
    base.executescript(schema)
    for table, (columns, *rows) in tables.items():
        marks = ", ".join("?" * len(columns.split()))
        names = ", ".join(columns.split())
        base.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", rows)
    base.commit()
    base.close()
    return path


def of_process(pid, tid=0):
    """Return nsys's number of a process or of its thread."""
    return (1 << 56) | (pid << 24) | tid


SHAPE = (
    "registersPerThread gridX gridY gridZ blockX blockY blockZ"
    " staticSharedMemory dynamicSharedMemory"
)
KERNEL = f"start end deviceId contextId streamId correlationId {SHAPE}"


def nsys(path):
    """Two processes that use the same correlations on two GPUs; one has ranges."""
    shape = (32, 834, 1, 1, 256, 2, 1, 4096, 512)
    return database(
        path,
        NSYS,
        StringIds=(
            "id value",
            (1, "forward_kernel(float*, int)"),
            (2, "cudaLaunchKernel_v7000"),
            (3, "cudaMemcpy_v3020"),
            (4, "epoch"),
            (5, "cuMemAlloc_v2"),
        ),
        PROCESSES=(
            "globalPid pid name",
            (of_process(14), 14, "/usr/bin/python3"),
            (of_process(15), 15, "worker"),
        ),
        TARGET_INFO_GPU=(
            "id name smCount computeMajor computeMinor",
            (0, "NVIDIA A100", 108, 8, 0),
            (1, "NVIDIA H200", 132, 9, 0),
        ),
        TARGET_INFO_CUDA_DEVICE=("gpuId cudaId pid", (1, 0, 14), (0, 1, 15)),
        CUPTI_ACTIVITY_KIND_KERNEL=(
            f"{KERNEL} globalPid demangledName",
            (5_000, 9_000, 0, 1, 7, 1, *shape, of_process(14), 1),
            (9_500, 9_900, 0, 1, 7, 2, *shape, of_process(14), 1),
            (6_000, 7_000, 1, 1, 7, 1, *shape, of_process(15), 1),
        ),
        CUPTI_ACTIVITY_KIND_MEMCPY=(
            "start end deviceId contextId streamId correlationId globalPid"
            " bytes copyKind",
            (4_000, 4_500, 0, 1, 7, 3, of_process(14), 1 << 20, 1),
        ),
        CUPTI_ACTIVITY_KIND_MEMSET=(
            "start end deviceId contextId streamId correlationId globalPid value bytes",
            (4_600, 4_700, 0, 1, 8, 4, of_process(14), 0, 64),
        ),
        CUPTI_ACTIVITY_KIND_RUNTIME=(
            "start end globalTid correlationId nameId returnValue",
            (3_000, 4_600, of_process(14, 14), 3, 3, 0),
            (4_700, 4_800, of_process(14, 14), 1, 2, 0),
            (4_850, 4_900, of_process(14, 14), 2, 2, 0),
            (4_700, 4_900, of_process(15, 16), 1, 2, 0),
            (2_000, 2_100, of_process(15, 16), 9, 5, 2),
        ),
        NVTX_EVENTS=(
            "start end eventType text globalTid textId",
            (2_500, 9_000, 59, None, of_process(14, 14), 4),
            (2_600, 8_000, 59, "batch", of_process(14, 14), None),
            (2_700, None, 34, "a mark", of_process(14, 14), None),
        ),
    )


def nvidia(path):
    """A launch, a copy and their calls; times are since 1970."""
    start = 1_496_933_427_584_362_152
    return database(
        path,
        NVIDIA,
        StringTable=("_id_ value", (1, "_Z7forwardPf"), (2, "Tesla K80")),
        CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL=(
            f"{KERNEL} name",
            (start + 500, start + 900, 0, 1, 7, 8, 20, 3, 2, 1, 16, 16, 1, 0, 0, 1),
        ),
        CUPTI_ACTIVITY_KIND_MEMCPY=(
            "copyKind srcKind dstKind bytes start end deviceId contextId streamId"
            " correlationId",
            (1, 1, 3, 4096, start + 100, start + 300, 0, 1, 7, 5),
        ),
        CUPTI_ACTIVITY_KIND_RUNTIME=(
            "cbid start end processId threadId correlationId returnValue",
            (31, start, start + 310, 42, 1_142_654_784, 5, 0),
            (211, start + 320, start + 340, 42, 1_142_654_784, 8, 0),
            (999, start + 350, start + 360, 42, 1_142_654_784, 9, 0),
        ),
        CUPTI_ACTIVITY_KIND_DEVICE=(
            "numMultiprocessors computeCapabilityMajor computeCapabilityMinor id name",
            (13, 3, 7, 0, 2),
        ),
    )
