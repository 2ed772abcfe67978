#!/bin/bash
# On the machine with a GPU, from the repository's root:
#
#     bash tools/offline/device.sh [setup] [job] [submit] [planted] [measure] [alone] [tests] [server] [slurm]
#                                                  (default: setup, job and planted)
#
# README.md says what each does and what has to be carried. A step that fails is told at the
# end, and the others go on. Variables: TIMES (of planted, 3), LIMIT (seconds, 560), WORK (/tmp/rai), OUT (build/out).
set -u
cd "$(dirname "$0")/../.." || exit
export PYTHONUNBUFFERED=1
PYTHON=$(command -v python3) # not the one in $WORK/bin
ROOT=$PWD TOOLS=$PWD/tools/offline HERE=$PWD/build/offline
WORK=${WORK:-/tmp/rai} OUT=${OUT:-$PWD/build/offline/out} TIMES=${TIMES:-3} LIMIT=${LIMIT:-560}
mkdir -p "$WORK" "$OUT" "$WORK/wheels" "$WORK/bin"
exec > >(tee -a "$OUT/device.log") 2>&1
export RAI_HOME=$WORK/home RAI_DATA_DIR=$HERE/data PATH=$WORK/bin:$PATH
export PIP_NO_INDEX=1 PIP_FIND_LINKS=$WORK/wheels PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
unset PIP_CONFIG_FILE PIP_INDEX_URL PIP_EXTRA_INDEX_URL
export PIP_CONFIG_FILE=/dev/null
GPUS=($(nvidia-smi --query-gpu=uuid --format=csv,noheader 2>/dev/null))
GPUS=(${GPUS[@]:-})
FIRST=0 LAST=0
((${#GPUS[@]})) && FIRST=${GPUS[0]} LAST=${GPUS[-1]}
EXTRA=gpu; ((${#GPUS[@]})) || EXTRA=project
BEGAN=$SECONDS
FAILED=()

say() { printf '=== %4d s  %s\n' $((SECONDS - BEGAN)) "$*"; }
try() { say "$*"; "$@" || { FAILED+=("$*"); say "FAILED: $*"; return 1; }; }

# What a call has left: what comes back is packed before it is killed.
left() { local rest=$((LIMIT - SECONDS + BEGAN)); echo $((rest > 1 ? rest : 1)); }

facts() {
  uname -sr; nproc; nvidia-smi -L 2>/dev/null; "$PYTHON" -VV; "$PYTHON" -m pip --version; command -v git nvcc g++ bwrap unshare make
  "$PYTHON" -c 'import ensurepip; print("ensurepip", ensurepip.version())'
  ls -d "$ROOT/.git" /usr/local/cuda* 2>/dev/null
}

have_git() {
  command -v git >/dev/null || {
    for deb in "$HERE"/debs/*.deb; do dpkg -x "$deb" "$WORK/deb"; done
    printf '#!/bin/sh\nexport GIT_EXEC_PATH=%s/usr/lib/git-core GIT_TEMPLATE_DIR=%s/usr/share/git-core/templates\nexport LD_LIBRARY_PATH=%s/usr/lib/x86_64-linux-gnu:$LD_LIBRARY_PATH\nexec %s/usr/bin/git "$@"\n' \
      "$WORK/deb" "$WORK/deb" "$WORK/deb" "$WORK/deb" >"$WORK/bin/git"
    chmod +x "$WORK/bin/git"
  }
  export GIT_CONFIG_GLOBAL=$WORK/gitconfig # the user's own stays as it is
  git config --global --add safe.directory '*' || true
  [ -e .git ] || history || return
  git log --oneline -3
}

# Make the two newest commits of the files that are here; with the ids they have, if HEAD is no merge.
history() {
  local head before tree old
  git init -q -b main && xargs -0 git add -f -- <"$HERE/git/files" && tree=$(git write-tree) &&
    git apply --cached "$HERE/git/before.patch" && old=$(git write-tree) && git read-tree "$tree" || return
  if [ "$(grep -c '^parent ' "$HERE/git/head.commit")" = 1 ] && grep -qx "tree $tree" "$HERE/git/head.commit" &&
    grep -qx "tree $old" "$HERE/git/before.commit"; then
    before=$(git hash-object -t commit -w "$HERE/git/before.commit") && echo "$before" >.git/shallow &&
      head=$(git hash-object -t commit -w "$HERE/git/head.commit") || return
  else
    say "the commits have other ids here: HEAD is a merge, or files differ"
    export GIT_AUTHOR_NAME=me GIT_AUTHOR_EMAIL=me@localhost GIT_COMMITTER_NAME=me GIT_COMMITTER_EMAIL=me@localhost
    before=$(git commit-tree -m before "$old") && head=$(git commit-tree -m head -p "$before" "$tree") || return
  fi
  git update-ref refs/heads/main "$head"
}

wheels() {
  cp "$HERE"/wheels/*.whl "$WORK/wheels" || return
  # What the machine has already, as wheels again: they are too large to carry.
  local named=(numpy pip setuptools wheel)
  [ $EXTRA = gpu ] && named+=(nvidia-cudnn-cu13)
  "$PYTHON" "$TOOLS/repack.py" "$WORK/wheels" "${named[@]}"
}

environment() {
  rm -rf "$WORK/venv"
  "$PYTHON" -m venv --without-pip "$WORK/venv" &&
    "$PYTHON" -m pip --python "$WORK/venv/bin/python" install -q -e "$ROOT[$EXTRA]" hypothesis pytest pytest-timeout pytest-xdist &&
    "$WORK/venv/bin/rai" --version
}

nvprof_here() {
  [ $EXTRA = gpu ] || return 0
  local own; own=$("$PYTHON" -c 'import nvidia; print(list(nvidia.__path__)[0])')
  # In /usr/local every sandbox sees it.
  make -C image/nvprof install BUILD="$WORK/nvprof" PREFIX="${PREFIX:-/usr/local}" PYTHON="$PYTHON" ||
    make -C image/nvprof install BUILD="$WORK/nvprof" PREFIX="${PREFIX:-/usr/local}" PYTHON="$PYTHON" CUDA_HOME="$own/cu13"
}

setup() {
  facts
  try have_git
  try wheels && try environment
  try nvprof_here
  "$WORK/venv/bin/rai" doctor
}

job() {
  # The default job on the first GPU; the folder of the run comes back whole.
  "$WORK/venv/bin/rai" run -p . --engine local --gpus "$([ $EXTRA = gpu ] && echo "$FIRST" || echo 0)"
  local status=$? run
  run=$(cd "$RAI_HOME/runs" && ls -td [0-9a-f]* | head -1)
  "$WORK/venv/bin/rai" show "$run"
  tar -C "$RAI_HOME/runs" -cf - "$run" | split -b 15M - "$OUT/run.tar."
  return $status
}

submit() {
  # As a student types it, without a flag; final twice, so that the ranking has two entries of it.
  local rai=$WORK/venv/bin/rai
  {
    "$rai" submit final && "$rai" submit final --json >"$OUT/submit.json" &&
      "$rai" submit m3 >"$OUT/m3.txt" 2>&1 && "$rai" submit m4 >"$OUT/m4.txt" 2>&1 &&
      "$rai" ranking && "$rai" runs
  } 2>&1 | tee "$OUT/submit.txt"
  return "${PIPESTATUS[0]}"
}

planted() {
  local lines status=0
  lines=$(wc -l <tools/benchmarks/results.jsonl)
  if ((${#GPUS[@]} > 1 && ${#steps[@]} == 1)) || [ -n "${BOTH:-}" ]; then # a GPU for each
    cases same "$FIRST" & local same=$!
    cases slower "$LAST" || status=$?
    wait $same || status=$?
  else
    cases "${CASE:-}" "$FIRST" || status=$?
  fi
  tail -n +$((lines + 1)) tools/benchmarks/results.jsonl >"$OUT/rows.jsonl"
  tar -C "$WORK" -czf "$OUT/planted.tar.gz" planted
  return $status
}

cases() { # one of the two, or both, on a GPU
  local words=()
  [ $EXTRA = gpu ] || words=(--stand-in)
  [ -z "$1" ] || words+=(--case "$1")
  timeout -k 10 "$(left)" "$WORK/venv/bin/python" -m tools.benchmarks.planted "${words[@]}" --times "$TIMES" \
    --folder "$WORK/planted" -- --engine local --budget 90s --gpus "$2"
}

# What `make gpu` does, in three steps, as a call has a limit. PyTorch, of which cuDNN's times are, is the machine's.
measure() {
  local python=$WORK/venv/bin/python status=0
  "$PYTHON" -c 'import site; print(*site.getsitepackages(), sep="\n")' >"$("$python" -c 'import site; print(site.getsitepackages()[0])')/machine.pth"
  ("$python" -m tools.benchmarks.judge_ladder prepare >"$WORK/prepare.log" 2>&1) & local prepared=$!
  for size in 100 1000 10000; do for name in m1.2 m3.1 m4.1 final; do
    say "$name.py $size"; "$python" "project/$name.py" "$size" | tail -n 3 || status=1
  done; done
  wait $prepared || status=1
  { timeout -k 10 "$(left)" "$python" project/bench.py &&
    timeout -k 10 "$(left)" "$python" -m tools.benchmarks.judge_ladder measure && "$python" -m tools.benchmarks.judge_ladder keep &&
    "$python" project/results.py --drop; } >"$OUT/measure.log" 2>&1 || status=1
  tail -n 60 "$OUT/measure.log"
  cp project/measurements/*.jsonl "$OUT"
  return $status
}

alone() { # tests that measure, one after the other
  marked_gpu tests/exploits image/nvprof/tests
}

tests() { # others; what they need and the machine lacks is skipped
  marked_gpu -n 8 --dist worksteal ${TESTS:-project/tests tests/engines tests/engines/gpu}
}

marked_gpu() { # without plugins that the machine may have beside PyTorch
  PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 timeout -k 10 "$(left)" "$WORK/venv/bin/python" -m pytest -q -m gpu -p xdist -p pytest_timeout \
    --durations 8 "$@" 2>&1 | tee -a "$OUT/tests.log"
  return ${PIPESTATUS[0]}
}

server() { # the default job by a server, beside the same job without one
  local lines status; lines=$(wc -l <tools/benchmarks/results.jsonl)
  cp "$HERE"/wheels/*.whl "$WORK/wheels"
  "$PYTHON" -m pip --python "$WORK/venv/bin/python" install -q -e "$ROOT[$EXTRA,server]" || return
  timeout -k 10 "$(left)" "$WORK/venv/bin/python" -m tools.benchmarks server_job; status=$?
  tail -n +$((lines + 1)) tools/benchmarks/results.jsonl >"$OUT/server_rows.jsonl"
  return $status
}

slurm() { # a Slurm that gives out the GPU: tests, then the default job by it and without it
  local lines status=0; lines=$(wc -l <tools/benchmarks/results.jsonl)
  bash "$TOOLS/slurm.sh" "$HERE/debs/slurm" "$WORK/slurm" || return
  timeout -k 10 "$(left)" "$WORK/venv/bin/python" -m pytest -v -rA --durations=0 -n 0 tests/execution/slurm/test_gpus.py \
    >"$OUT/slurm.log" 2>&1 || status=$?
  grep -E '^(PASSED|FAILED|ERROR|SKIPPED|[0-9]+ |=+ .* in )' "$OUT/slurm.log"
  timeout -k 10 "$(left)" "$WORK/venv/bin/python" -m tools.benchmarks slurm_job || status=$?
  tail -n +$((lines + 1)) tools/benchmarks/results.jsonl >"$OUT/slurm_rows.jsonl"
  return $status
}

steps=("$@"); ((${#steps[@]})) || steps=(setup job planted)
for step in "${steps[@]}"; do
  case $step in
    setup) setup ;;
    job | submit | planted | measure | alone | tests | server | slurm) try "$step" ;;
    *) echo "no such step: $step"; exit 2 ;;
  esac
done
ls -l "$OUT"
say "done; failed: ${FAILED[*]:-nothing}"
((${#FAILED[@]} == 0))
