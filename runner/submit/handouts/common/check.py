"""Check the convolutions of this folder: on its GPU if it has one, else on the CPU.

    python3 check.py            # all of plan.json, or convolution.cpp
    python3 check.py tiled      # the variants of these names

It needs Python and g++, and for a GPU nvcc. Kernels are launched as plan.json says, on
a few images, and each number of y is compared with a plain loop's sum in double. On a
GPU, and for convolution.cpp, all images are computed too, and timed.

On the CPU the threads of a block take turns, from one __syncthreads to the next. That
finds wrong indices, sizes and barriers, but no race between threads, and says nothing
of speed. Of CUDA it knows what STAND_IN has: __shared__ and __constant__ memory,
atomicAdd, float4, __ldg and the like. Warps (__shfl_sync), tensor cores, half,
textures, cooperative groups and PTX need a GPU.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

HERE = Path(__file__).resolve().parent
IMAGES = 10000
FEW = 3  # images of which every number is compared
LAYERS = {"conv1": (12, 1, 70, 70, 5), "conv2": (24, 12, 33, 33, 5)}  # M, C, H, W, K
ROUNDING = {"fp32": 2.0**-24, "tf32": 2.0**-10, "half": 2.0**-10}  # by class

STAND_IN = r"""
#include <ucontext.h>
#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __syncthreads() stand_in::wait(__LINE__)
struct dim3 { unsigned x, y, z; };
static dim3 threadIdx, blockIdx, blockDim, gridDim;
template <class A, class B> constexpr auto min(A a, B b) { return a < b ? a : b; }
template <class A, class B> constexpr auto max(A a, B b) { return a < b ? b : a; }
template <class T> T __ldg(const T *from) { return *from; }
template <class T, class U> T atomicAdd(T *to, U more) {
    const T old = *to;
    *to += more;
    return old;
}
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
#define VECTORS(T) struct alignas(8) T##2 { T x, y; }; struct T##3 { T x, y, z; }; \
    struct alignas(16) T##4 { T x, y, z, w; }; \
    inline T##2 make_##T##2(T x, T y) { return {x, y}; } \
    inline T##4 make_##T##4(T x, T y, T z, T w) { return {x, y, z, w}; }
VECTORS(float) VECTORS(int)

namespace stand_in { // the threads of a block, each on a stack of its own
enum { MOST = 1024, STACK = 64 << 10, SHARED = 227 << 10, BEYOND = 4096 };
alignas(16) static unsigned char shared[SHARED + BEYOND], stacks[MOST][STACK];
static ucontext_t scheduler, threads[MOST];
static int line_of[MOST], running; // where a thread waits; 0 if it has ended
static void (*kernel)(const void *);
static const void *called; // what `kernel` calls

[[gnu::noinline]] static void wait(int line) {
    line_of[running] = line;
    swapcontext(threads + running, &scheduler);
}
static void thread() { kernel(called), line_of[running] = 0; }
static void block(unsigned count, size_t bytes) {
    memset(shared, 255, sizeof shared);
    for (unsigned t = 0; t < count; t++) {
        getcontext(threads + t);
        threads[t].uc_stack.ss_sp = stacks[t], threads[t].uc_stack.ss_size = STACK;
        threads[t].uc_link = &scheduler, line_of[t] = -1;
        makecontext(threads + t, thread, 0);
    }
    for (int line = -1; line; ) { // from one barrier to the next
        line = 0;
        for (unsigned t = 0; t < count; t++) {
            if (!line_of[t]) continue;
            running = t;
            threadIdx = {t % blockDim.x, t / blockDim.x % blockDim.y,
                         t / (blockDim.x * blockDim.y)};
            swapcontext(&scheduler, threads + t);
            if (line && line_of[t] && line_of[t] != line)
                stop("threads of a block wait at the __syncthreads of line %d and at "
                     "that of line %d", line, line_of[t]);
            line = line_of[t] ? line_of[t] : line;
        }
    }
    for (size_t i = bytes; i < bytes + BEYOND; i++)
        if (shared[i] != 255)
            stop("shared memory beyond its %zu bytes (shared_bytes) is written", bytes);
}
template <class F> void launch(const long *n, F call) {
    const auto u = [n](int i) { return unsigned(n[i]); };
    kernel = [](const void *to) { (*(const F *)to)(); };
    called = &call, gridDim = {u(0), u(1), u(2)}, blockDim = {u(3), u(4), u(5)};
    const unsigned count = u(3) * u(4) * u(5);
    if (count > MOST || n[6] > SHARED)
        stop("a block of %u threads with %ld bytes is too large", count, n[6]);
    for (unsigned z = 0; z < u(2); z++)
        for (unsigned y = 0; y < u(1); y++)
            for (unsigned x = 0; x < u(0); x++)
                blockIdx = {x, y, z}, block(count, n[6]);
}
}
#define BY_NAME(name) extern "C" decltype(name) name; // as the judge finds it
#define LAUNCH(name, n, ...) stand_in::launch(n, [=] { ::name(__VA_ARGS__); })
#define CONSTANT(name, from, bytes) memcpy(&::name, from, bytes)
"""

ON_CPU = r"""
static float *reserve(size_t n) { return (float *)memset(malloc(4 * n), 255, 4 * n); }
static void copy(void *to, const void *from, size_t n) { memcpy(to, from, 4 * n); }
static void finish() {}
#define CORES int(sysconf(_SC_NPROCESSORS_ONLN))
"""

ON_GPU = r"""
static void ok(cudaError_t e) {
    if (e) stop("%s (%s)", cudaGetErrorString(e), cudaGetErrorName(e));
}
static float *reserve(size_t n) {
    float *p;
    ok(cudaMalloc(&p, 4 * n)), ok(cudaMemset(p, 255, 4 * n));
    return p;
}
static void copy(void *to, const void *from, size_t n) {
    ok(cudaMemcpy(to, from, 4 * n, cudaMemcpyDefault));
}
static void finish() { ok(cudaDeviceSynchronize()); }
#define BY_NAME(name)
#define LAUNCH(name, n, ...) do { const long *a = n; \
    ok(cudaFuncSetAttribute((const void *)::name, \
                            cudaFuncAttributeMaxDynamicSharedMemorySize, int(a[6]))); \
    ::name<<<dim3(a[0], a[1], a[2]), dim3(a[3], a[4], a[5]), a[6]>>>(__VA_ARGS__); \
    ok(cudaGetLastError()); } while (0)
#define CONSTANT(name, from, bytes) \
    ok(cudaMemcpyToSymbol(::name, from, bytes, 0, cudaMemcpyDeviceToDevice))
"""

BEFORE = r"""
#include <cassert>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <unistd.h>
#include <vector>
[[noreturn]] void stop(const char *format, ...) {
    va_list values;
    va_start(values, format);
    vprintf(format, values);
    fflush(stdout);
    _exit(3);
}
"""

# NaN lies around the arrays and, at first, in them, so that what a kernel reads or
# writes outside is seen. Of B images the last N are compared.
MAIN = r"""
struct Pointer { // for whatever a kernel takes: float *, const float *, int *, ...
    void *to;
    template <class T> operator T *() const { return (T *)to; }
};
LAUNCHES;
enum { MARGIN = 4096 };
static Pointer array(size_t n) { return {reserve(n + 2 * MARGIN) + MARGIN}; }
int main(int count, char **words) {
    std::vector<long> n;
    for (int i = 2; i < count; i++) n.push_back(atol(words[i]));
    const long B = n[0], N = n[1], M = n[2], C = n[3], H = n[4], W = n[5], K = n[6];
    const long rows = H - K + 1, columns = W - K + 1;
    const long in = C * H * W, out = M * rows * columns, taps = C * K * K;
    std::vector<float> image(N * in), weight(M * taps), found(N * out);
    unsigned seed = 408;
    for (auto *values : {&image, &weight})
        for (float &v : *values)
            v = int((seed = seed * 1664525 + 1013904223) >> 8) / 8388608.f - 1;
    const Pointer x = array(B * in), k = array(M * taps), y = array(B * out);
    copy((float *)x + (B - N) * in, image.data(), N * in);
    copy(k, weight.data(), M * taps);
    const auto now = [] {
        timespec time;
        clock_gettime(CLOCK_MONOTONIC, &time);
        return time.tv_sec + time.tv_nsec / 1e9;
    };
    double seconds = 1e9;
    for (int i = 0; i < (B > N ? 4 : 1); i++) {
        finish();
        const double start = now();
        launches(y, x, k, n.data());
        finish();
        seconds = std::fmin(seconds, now() - start);
    }
    copy(found.data(), (float *)y + (B - N) * out, N * out);
    std::vector<uint32_t> margin(2 * MARGIN);
    copy(&margin[0], (float *)y - MARGIN, MARGIN);
    copy(&margin[MARGIN], (float *)y + B * out, MARGIN);
    for (uint32_t bits : margin)
        if (bits != ~0u) stop("something is written before or after y");
    long wrong = 0;
    char first[99] = "0 0 -";
    for (long i = 0; i < N * out; i++) {
        const long b = i / out, m = i % out / (rows * columns);
        const long h = i / columns % rows, w = i % columns;
        double sum = 0, size = 0;
        for (long c = 0; c < C; c++)
            for (long p = 0; p < K; p++)
                for (long q = 0; q < K; q++) {
                    const double term = double(weight[((m * C + c) * K + p) * K + q]) *
                                        image[((b * C + c) * H + h + p) * W + w + q];
                    sum += term, size += std::fabs(term);
                }
        const double allowed = (taps + 2) * atof(words[1]) * size + FLT_MIN;
        if (!(std::fabs(found[i] - sum) <= allowed) && !wrong++)
            sprintf(first, "%.6g %.6g y[%ld][%ld][%ld][%ld]", found[i], sum, B - N + b,
                    m, h, w);
    }
    printf("\n%.9f %ld %ld %s", seconds, wrong, N * out, first); // the last line
}
"""

CPP: dict[str, Any] = {"unit": {"file": "convolution.cpp"}}  # as in a plan
LAUNCHES = "static void launches(Pointer y, Pointer x, Pointer k, const long *n)"
SHARED = re.compile(r"\bextern\s+__shared__\s+([^;]*?)(\w+)\s*\[\s*\]\s*;")


def stop(text: str) -> NoReturn:
    """End with what is wrong with the files."""
    sys.exit(f"check.py: {text}")


def number(value: int | str, names: dict[str, int]) -> int:
    """Return a number of plan.json, or the value of its arithmetic."""
    if isinstance(value, str):
        known = {"ceil": math.ceil, "min": min, "max": max, "__builtins__": {}}
        try:
            value = eval(value, known, dict(names))
        except Exception as error:
            stop(f'plan.json: "{value}": {error}; there are {", ".join(names)}')
    if not isinstance(value, int):
        stop(f"plan.json: {value} is no whole number; there is ceil(a / b)")
    return value


def find_gpu() -> int:
    """Return the multiprocessors of the GPU that CUDA's driver has here; 0 for none."""
    try:
        driver, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    except OSError:
        return 0
    if not driver.cuInit(0):
        driver.cuDeviceGetAttribute(ctypes.byref(count), 16, 0)
    return count.value


def planned(
    one: dict[str, Any], layer: str, images: int, multiprocessors: int
) -> tuple[str, list[int]]:
    """Return a convolution's launches in C++, and the numbers that they take."""
    m, c, h, w, k = LAYERS[layer]
    numbers = [images, min(images, FEW), m, c, h, w, k]
    if one == CPP:
        call = "rai_convolve(y, x, k, n[0], n[2], n[3], n[4], n[5], n[6], CORES)"
        return f"{LAUNCHES} {{ {call}; }}", numbers
    names = {"B": images, "M": m, "C": c, "H": h, "W": w, "K": k}
    names |= {"H_out": h - k + 1, "W_out": w - k + 1, **one["unit"].get("defines", {})}
    if one.get("storage", "float32") != "float32":
        stop("arrays of float16 are for `rai submit` alone")
    kernels = {launch["kernel"]: None for launch in one["launches"]}
    lines = [*(f"BY_NAME({kernel})" for kernel in kernels), f"{LAUNCHES} {{"]
    for name, size in one.get("scratch", {}).items():
        lines.append(f"static auto {name} = array(n[{len(numbers)}] / 4 + 1);")
        numbers.append(number(size, names))
    for name in one.get("constants", ()):
        lines.append(f"CONSTANT({name}, k, 4 * n[2] * n[3] * n[6] * n[6]);")
    for launch in one["launches"]:
        at, given = len(numbers), launch.get("numbers", [])
        on_gpu = {"MULTIPROCESSORS": multiprocessors, **names}
        numbers += [number(value, on_gpu) for value in launch["grid"]]
        values = [*launch["block"], launch.get("shared_bytes", 0), *given]
        numbers += [number(value, names) for value in values]
        words = [launch["kernel"], f"n + {at}", *launch["buffers"]]
        words += [f"int(n[{at + 7 + i}])" for i in range(len(given))]
        lines.append(f"LAUNCH({', '.join(words)});")
    return "\n".join([*lines, "}"]), numbers


def variants() -> Iterator[tuple[str, str, dict[str, dict[str, Any]]]]:
    """Yield the name of each variant, its class, and each layer's convolution."""
    if not (HERE / "plan.json").exists():
        yield "convolution", "fp32", dict.fromkeys(LAYERS, CPP)
        return
    try:
        plan = json.loads((HERE / "plan.json").read_text())
        entries = (one for several in plan["milestones"].values() for one in several)
        for entry in entries:
            named = {one.get("name"): one for one in entry["convolutions"]}
            if missing := {*LAYERS} - {*named} if None not in named else ():
                stop(f"plan.json: {entry['variant']} lacks {', '.join(missing)}")
            layers = {name: named.get(name) or named[None] for name in LAYERS}
            yield entry["variant"], entry["class"], layers
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        stop(f"plan.json: {type(error).__name__}: {error}")


class Checker:
    """Compiles and runs what is checked, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        path = os.pathsep.join((os.environ.get("PATH", ""), "/usr/local/cuda/bin"))
        gpu, self.nvcc = find_gpu(), shutil.which("nvcc", path=path)
        if gpu and not self.nvcc:
            print("There is no nvcc, so the CPU stands in for the GPU.")
        self.gpu = gpu if self.nvcc else 0
        self.folder, self.made = folder, dict[str, Path]()

    def program(self, unit: dict[str, Any], lines: str) -> Path:
        """Return the program of a source file and its launches, compiled once."""
        file = unit["file"]
        if not (HERE / file).is_file():
            stop(f"there is no {file}")
        source, own = (HERE / file).read_text(), ON_CPU
        compiler = ["g++", "-x", "c++", "-O3", "-march=native", "-pthread"]
        if unit != CPP["unit"] and self.gpu:
            compiler, own = [str(self.nvcc), "-x", "cu", "-arch=native"], ON_GPU
        elif unit != CPP["unit"]:
            compiler, own = ["g++", "-x", "c++", "-O2", "-w"], ON_CPU + STAND_IN
            source = SHARED.sub(r"\1*\2 = (decltype(\2))stand_in::shared;", source)
        macros = [f"#define {name} {n}" for name, n in unit.get("defines", {}).items()]
        parts = [BEFORE, own, MAIN.replace("LAUNCHES", LAUNCHES), *macros]
        parts += [f'#line 1 "{file}"', source, '#line 1 "plan.json"', lines, ""]
        text = "\n".join(parts)
        if text not in self.made:
            made = self.made[text] = self.folder / str(len(self.made))
            made.with_suffix(".cu").write_text(text)
            how = [*compiler, "-std=c++17", f"-I{HERE}", f"{made}.cu", "-o", str(made)]
            if subprocess.run(how).returncode:
                stop(f"{file} does not compile")
        return self.made[text]

    def right(
        self, where: str, one: dict[str, Any], layer: str, rounding: float, images: int
    ) -> float:
        """Compute a layer, say what is wrong, and return the share that is right."""
        lines, numbers = planned(one, layer, images, self.gpu or 4)
        program = self.program(one["unit"], lines)
        argv = [str(word) for word in (program, rounding, *numbers)]
        done = subprocess.run(argv, stdout=subprocess.PIPE, text=True)
        if images > FEW and "cudaErrorMemoryAllocation" in done.stdout:
            print(f"{where}: not timed, for the GPU has no room for {images} images")
            return 1
        if done.returncode:
            far = "an index may be far outside of its array"
            stop(f"{where}: {done.stdout or f'signal {-done.returncode}; {far}'}")
        printed, _, last = done.stdout.rpartition("\n")
        print(printed, end="")  # by the kernel itself
        seconds, wrong, count, found, expected, at = last.split()
        device = "GPU" if self.gpu and one != CPP else "CPU"
        if images > FEW:
            print(f"Op Time: {float(seconds):.6f}")
        if wrong == "0":
            print(f"{where}: right, {images} images on the {device}")
            return 1
        said = "was not written" if "nan" in found else f"is {found}"
        print(f"{where}: {wrong} of {count} numbers are wrong on the {device}.")
        print(f"The first, {at}, {said} and should be {expected}.")
        return 1 - int(wrong) / int(count)


def main() -> None:
    """Check each variant, and print the share of it that is right."""
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    with tempfile.TemporaryDirectory() as folder:
        checker = Checker(Path(folder))
        for variant, accuracy, layers in variants():
            if sys.argv[1:] and variant not in sys.argv[1:]:
                continue
            share = 1.0
            for layer, one in layers.items():
                what = (f"{variant}, {layer}", one, layer, ROUNDING[accuracy])
                share = min(share, checker.right(*what, FEW))
                if share == 1 and (checker.gpu or one == CPP):
                    share = checker.right(*what, IMAGES)
            # Rounded down, so that 1 means that every number is right.
            print(f"Correctness: {math.floor(share * 1e4) / 1e4:g} Model: {variant}")


if __name__ == "__main__":
    main()
