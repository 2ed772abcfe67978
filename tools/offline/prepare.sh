#!/bin/bash
# Where there is a network: fill build/offline with what the machine with a GPU lacks.
#     PYTHON=python3.12 [STEPS="server slurm"] bash tools/offline/prepare.sh [FASHION_MNIST_FOLDER]
set -eu
mkdir -p "$(dirname "$0")/../../build/offline"
cd "$(dirname "$0")/../../build/offline"
PYTHON=${PYTHON:-python3.12}
mkdir -p wheels data debs
get() { # for Python 3.12 on x86-64, whatever this machine's
  "$PYTHON" -m pip download -q --only-binary=:all: --python-version 3.12 --implementation cp $(
    for n in 2_28 2_27 2_26 2_24 2_17; do echo --platform manylinux_${n}_x86_64; done) --platform manylinux2014_x86_64 \
    --platform manylinux1_x86_64 -d wheels "$@"
}
needs=$("$PYTHON" -c 'import os, tomllib; p = tomllib.load(open("../../pyproject.toml", "rb")); server = "server" in os.environ.get("STEPS", ""); print(*p["project"]["dependencies"], *p["project"]["optional-dependencies"]["server"] * server, *p["build-system"]["requires"], sep="\n")')
find wheels -name '*.whl' ! -name 'pycuda-*' -delete
mapfile -t named <<<"$needs"
get "${named[@]}"
get --no-deps 'nvidia-cudnn-frontend>=1.18,<1.28'
get editables # what hatchling needs for `pip install -e`
get pytools mako siphash24 # what PyCUDA needs
get hypothesis pytest pytest-timeout pytest-xdist # for the steps `alone` and `tests`
compgen -G "wheels/pycuda-*.whl" || { # from its sources, with CUDA's headers: 3 minutes, once
  venv=$(mktemp -d)
  "$PYTHON" -m venv "$venv"
  "$venv/bin/pip" install -q setuptools wheel numpy nvidia-cuda-{runtime,crt,profiler-api,nvcc}
  "$venv/bin/pip" download -q --no-deps --no-build-isolation --no-binary :all: pycuda -d "$venv"
  PATH=$(echo "$venv"/lib/python3*/site-packages/nvidia/cu*/bin):$PATH PYTHON=$venv/bin/python \
    bash ../../tools/offline/pycuda.sh "$venv"/pycuda-*.tar.gz wheels
  rm -rf "$venv"
}
[ $# -eq 0 ] || cp "$1"/t10k-*-ubyte.gz data/
(cd debs && ls git_*.deb >/dev/null 2>&1 || apt-get download -q git libpcre2-8-0)
# Debian's Slurm, and the libraries of Debian that another system may lack or have in another version.
[[ ${STEPS:-} != *slurm* ]] || mkdir -p debs/slurm
[[ ${STEPS:-} != *slurm* ]] || (cd debs/slurm && ls slurmctld_*.deb >/dev/null 2>&1 || apt-get download -q slurmctld slurmd slurm-client \
  slurm-wlm-basic-plugins munge libmunge2 libhwloc15 libjson-c5 libnuma1 libdbus-1-3 libsystemd0 libpam0g libaudit1 \
  libcap-ng0 libcap2 libreadline8 libtinfo6 liblz4-1 libgcrypt20 libgpg-error0 libudev1)
# The machine has no .git: the newest commit and what it changed, from which the one before is made.
mkdir -p git
git ls-files -z --full-name ../.. >git/files
git cat-file commit HEAD >git/head.commit
git cat-file commit HEAD^ >git/before.commit
git diff --binary HEAD HEAD^ >git/before.patch
git status --short | head -3
du -cm wheels data debs git
