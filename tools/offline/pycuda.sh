#!/bin/bash
# Build PyCUDA's wheel from its sdist, without cuRAND, which no file of ours uses: pycuda.sh SDIST FOLDER
# PYTHON has setuptools, wheel, and NumPy; nvcc is on the PATH. The driver's library need not be here.
set -eu
PYTHON=${PYTHON:-python3} made=$(mktemp -d) folder=$(realpath "$2")
nvcc=$(readlink -f "$(command -v nvcc)")
root=$(dirname "$(dirname "$nvcc")")
tar -xzf "$1" -C "$made"
printf '' | gcc -shared -x c - -Wl,-soname,libcuda.so.1 -o "$made/libcuda.so"
cd "$made"/pycuda-*
cat >siteconf.py <<END
CUDA_ROOT = "$root"
CUDA_ENABLE_CURAND = False
CUDADRV_LIB_DIR = ["$made"]
CUDADRV_LIBNAME = ["cuda"]
END
export LDFLAGS="-s -Wl,--no-as-needed" # the stub has no symbols that it could be needed for
# One compiler a core: distutils starts one after the other.
cat >parallel.py <<'END'
import os, sys
from concurrent.futures import ThreadPoolExecutor
try:
    from setuptools._distutils import ccompiler
except ImportError:
    from distutils import ccompiler
def compile(self, sources, output_dir=None, macros=None, include_dirs=None, debug=0, extra_preargs=None, extra_postargs=None, depends=None):
    macros, objects, extra, pp, build = self._setup_compile(output_dir, macros, include_dirs, sources, depends, extra_postargs)
    args = self._get_cc_args(pp, debug, extra_preargs)
    def one(obj):
        src, ext = build[obj]
        self._compile(obj, src, ext, args, extra, pp)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(one, [obj for obj in objects if obj in build]))
    return objects
ccompiler.CCompiler.compile = compile
sys.argv[0] = __file__ = "setup.py"
exec(compile_ := __builtins__.compile(open("setup.py").read(), "setup.py", "exec"))
END
"$PYTHON" parallel.py -q bdist_wheel -d "$folder" >"$made/log" 2>&1 || "$PYTHON" setup.py -q bdist_wheel -d "$folder" >"$made/log" 2>&1 ||
  { tail -n 20 "$made/log"; exit 1; }
rm -rf "$made"
ls -l "$folder"/pycuda-*.whl
