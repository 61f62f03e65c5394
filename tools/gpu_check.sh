#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that needs a GPU: builds with CUDA, runs the tests labelled gpu, also under compute-sanitizer, runs
# the GPU benchmarks, and writes one JSON file to benchmarks/results.
#   tools/gpu_check.sh [--commit SHA] [--results DIR] [build|test|bench|all]
#     build  configures the preset gpu and builds tests and benchmarks
#     test   runs the tests; needs a GPU
#     bench  runs the benchmarks of docs/results.md that have no value yet; needs a GPU
#     all    all three (default)
#     --commit SHA   names the commit if there is no git checkout; in one, the tree must be clean and SHA its HEAD
#     --results DIR  directory to use instead of benchmarks/results
# Needs the packages of tools/install_deps.sh; when they are copied to a machine without a network, do not forget
# liblzf-dev and libbz2-dev. Honours CMAKE_PREFIX_PATH, Torch_DIR and CUDACXX; without the first two, the LibTorch
# of python3 is used. Each stage ends within 8 minutes. The JSON names what has not run by then, with the reason;
# another call on the same day and commit continues from there.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly stage_seconds=470
command_line="tools/gpu_check.sh $*"
commit=""
results=benchmarks/results
stage=all

# fail TEXT [CODE]: prints TEXT and exits.
fail() {
  echo "tools/gpu_check.sh: $1" >&2
  exit "${2:-1}"
}

while [ $# -gt 0 ]; do
  case $1 in
    --commit | --results)
      [ -n "${2:-}" ] || fail "$1 needs a value" 2
      case $1 in --commit) commit=$2 ;; *) results=$2 ;; esac
      shift 2
      ;;
    build | test | bench | all) stage=$1; shift ;;
    *) fail "unknown argument \"$1\"; see its first lines" 2 ;;
  esac
done

# A repository in a parent directory is not this tree's.
if [ -e .git ]; then
  head=$(git rev-parse HEAD) || fail "git does not read this tree (its message is above), so no commit names what is measured"
  if [ -n "$commit" ] && [ "$(git rev-parse --verify --quiet "$commit^{commit}")" != "$head" ]; then
    fail "--commit $commit is not what is checked out, which is $head; leave it out"
  fi
  # The result of an earlier stage does not change what is measured.
  changes=$(git status --porcelain -- . ':!benchmarks/results') || fail "git status failed (its message is above)"
  [ -z "$changes" ] || fail "the tree has changes that are not committed, so no commit names what is measured; commit them"
  commit=$head
elif [ -z "$commit" ]; then
  fail "no git here; name the commit with --commit SHA"
fi

readonly tests=build/gpu/tests/gpu/gpu_test
readonly torch_tests=build/gpu/tests/gpu/torch_gpu_test
readonly programs=build/gpu/benchmarks/gpu
readonly logs=build/gpu/check
readonly torch_names="normalize_vs_eager normalize_vs_eager_f16 stall_resnet50 exposed_copy epoch_vs_memory gpu_use_naive gpu_use_h5feed"
stage_end=0

begin_stage() {
  echo "== $1"
  stage_end=$((SECONDS + stage_seconds))
}

# limited COMMAND...: runs COMMAND for at most the rest of the stage; returns 124 if that was too short.
limited() {
  local left=$((stage_end - SECONDS))
  [ "$left" -gt 0 ] || return 124
  timeout -k 5 "$left" "$@"
}

# Finds the LibTorch of python3, if the caller names none.
find_torch() {
  [ -z "${CMAKE_PREFIX_PATH:-}${Torch_DIR:-}" ] || return 0
  local prefix
  prefix=$(python3 -c 'import torch; print(torch.utils.cmake_prefix_path)' 2>/dev/null) || return 0
  export CMAKE_PREFIX_PATH=$prefix
}

# has_target NAME: whether the preset gpu was configured with that target.
has_target() { cmake --build build/gpu --target help | grep "$1: " >/dev/null; }

build() {
  begin_stage build
  find_torch
  mkdir -p "$logs"
  rm -f "$logs/no-torch" "$torch_tests"
  # The program, the examples and their dependencies are not needed.
  local build=(tools/scripts/build.sh gpu gpu_test gpu_benchmark gpu_results --
    -DH5FEED_BUILD_TOOLS=OFF -DH5FEED_BUILD_EXAMPLES=OFF)
  if ! limited "${build[@]}" -DH5FEED_WITH_TORCH=AUTO; then
    echo "tools/gpu_check.sh: once more without LibTorch" >&2
    limited "${build[@]}" -DH5FEED_WITH_TORCH=OFF
    echo "LibTorch could not be used when this was built" >"$logs/no-torch"
  elif ! has_target gpu_benchmark_torch; then
    echo "no LibTorch with CUDA was found when this was built" >"$logs/no-torch"
  elif ! limited cmake --build build/gpu --target gpu_benchmark_torch torch_gpu_test; then
    echo "the benchmarks with LibTorch could not be built" >"$logs/no-torch"
    exit 1
  fi
}

# first_of FIELD: prints a field of nvidia-smi for the first GPU.
first_of() { nvidia-smi --query-gpu="$1" --format=csv,noheader | sed -n 1p; }

# Sets device, driver, cuda and result.
look_at_gpu() {
  if ! command -v nvidia-smi >/dev/null || ! nvidia-smi >/dev/null 2>&1; then
    fail "nvidia-smi finds no GPU; run this stage on a machine that has one"
  fi
  if [ ! -x "$tests" ] || [ ! -x "$programs/gpu_results" ]; then
    fail "nothing is built; run tools/gpu_check.sh build first"
  fi
  mkdir -p "$logs" "$results"
  device=$(first_of name)
  driver=$(first_of driver_version)
  cuda=$(sed -n 's/.*CMAKE_CUDA_COMPILER_VERSION "\(.*\)".*/\1/p' build/gpu/CMakeFiles/*/CMakeCUDACompiler.cmake | sed -n 1p)
  result=$results/gpu-$(tr '[:upper:] ' '[:lower:]-' <<<"${device#NVIDIA }")-$(date +%Y%m%d).json
}

# merge REASON TESTS|- [ROWS...]: merges tests and rows into the result file.
merge() {
  local reason=$1
  shift
  "$programs/gpu_results" merge "$result" "$commit" "$device" "$driver" "$cuda" "$command_line" "$reason" "$@" ||
    fail "$result could not be written (the reason is above)"
}

# compute-sanitizer, which is installed next to nvcc even if neither is in PATH.
sanitizer=$(PATH="$PATH:$(dirname "${CUDACXX:-/usr/local/cuda/bin/nvcc}"):/usr/local/cuda/bin" \
  command -v compute-sanitizer || true)

# under_sanitizer TOOL: prints "passed" or "failed", or why it did not run.
under_sanitizer() {
  if [ -z "$sanitizer" ]; then
    echo "not run: compute-sanitizer is not installed"
    return
  fi
  local log=$logs/$1.log code=0 options=()
  # The loader asks events whether they are done, and cudaErrorNotReady is an answer. The tests check return codes.
  [ "$1" != memcheck ] || options=(--report-api-errors no)
  # Skips the batch of 2^31 elements, which takes hours here.
  limited "$sanitizer" --tool "$1" "${options[@]}" --error-exitcode 99 "$tests" \
    --gtest_filter='*OnGpu.*:-*two_to_the_31st*' >"$log" 2>&1 || code=$?
  if grep -qi 'device not supported\|not supported on this' "$log"; then
    echo "not run: compute-sanitizer refuses this device"
  elif [ "$code" -eq 0 ]; then
    echo passed
  elif [ "$code" -eq 124 ] || [ "$code" -eq 137 ]; then
    echo "not run: out of time"
  else
    tail -30 "$log" >&2
    echo failed
  fi
}

check() {
  begin_stage test
  look_at_gpu
  local outcome=0
  limited "$tests" 2>&1 | tee "$logs/tests.log" || outcome=1
  if [ -x "$torch_tests" ]; then
    limited "$torch_tests" 2>&1 | tee -a "$logs/tests.log" || outcome=1
  fi
  local passed skipped failed
  passed=$(grep -c '^\[       OK \]' "$logs/tests.log" || true)
  skipped=$(grep -c '^\[  SKIPPED \].*ms)' "$logs/tests.log" || true)
  failed=$(grep -c '^\[  FAILED  \].*ms)' "$logs/tests.log" || true)
  if ! grep -q '^\[       OK \] OnGpu' "$logs/tests.log"; then
    fail "no test ran on the GPU: $(grep -m1 'no GPU' "$logs/tests.log" || echo "see $logs/tests.log")"
  fi
  local memcheck racecheck
  memcheck=$(under_sanitizer memcheck)
  racecheck=$(under_sanitizer racecheck)
  cat >"$logs/tests.json" <<JSON
{"passed": $passed, "skipped": $skipped, "failed": $failed, "memcheck": "$memcheck", "racecheck": "$racecheck"}
JSON
  merge "the benchmarks have not run yet" "$logs/tests.json"
  printf '%-12s %s\n' passed "$passed" skipped "$skipped" failed "$failed" memcheck "$memcheck" racecheck "$racecheck" \
    written "$result"
  if [ "$outcome" -ne 0 ] || [ "$failed" -ne 0 ] || [ "$memcheck" = failed ] || [ "$racecheck" = failed ]; then
    return 1
  fi
}

# not_run REASON NAMES...: prints rows without a value.
not_run() {
  local reason=$1
  shift
  printf '{"name": "%s", "value": null, "unit": "", "ceiling": null, "ratio": null, "repetitions": [], "not_run": "'"$reason"'"}\n' \
    "$@" | paste -sd, | sed 's/.*/{"rows": [&]}/'
}

# run_benchmarks PROGRAM NAMES: runs the benchmarks of NAMES, one per line, that PROGRAM has. Writes their
# rows to $logs/PROGRAM.json.
run_benchmarks() {
  local program=$programs/$1 listed names wanted
  rm -f "$logs/$1.json"
  if ! listed=$("$program" --list 2>"$logs/$1.log"); then
    echo "tools/gpu_check.sh: $program does not start: $(cat "$logs/$1.log")" >&2
    mapfile -t wanted <<<"$2"
    not_run "$1 did not start" "${wanted[@]}" >"$logs/$1.json"
    return 1
  fi
  names=$(grep -Fx "$2" <<<"$listed" | paste -sd, -) || true
  [ -n "$names" ] || return 0
  # Next to the build, which has room for files of some GB; a temporary directory may be in memory.
  rm -rf "$logs/files"
  mkdir -p "$logs/files"
  local code=0
  limited "$program" --only "$names" --out "$logs/$1.json" --folder "$logs/files" 2>&1 | tee "$logs/$1.log" || code=$?
  rm -rf "$logs/files"
  return "$code"
}

bench() {
  begin_stage bench
  look_at_gpu
  local names outcome=0 reason="out of time; call tools/gpu_check.sh bench again"
  merge "$reason" -
  names=$("$programs/gpu_results" missing "$result") || fail "$result could not be read (the reason is above)"
  if [ -z "$names" ]; then
    echo "every benchmark has a value in $result; remove it to measure again"
  else
    local with_torch without
    with_torch=$(tr ' ' '\n' <<<"$torch_names" | grep -Fx "$(tr , '\n' <<<"$names")") || true
    without=$(tr , '\n' <<<"$names" | grep -vFx "$(tr ' ' '\n' <<<"$torch_names")") || true
    rm -f "$logs"/gpu_benchmark*.json
    if [ -n "$without" ]; then
      run_benchmarks gpu_benchmark "$without" || outcome=1
      merge "$reason" - "$logs/gpu_benchmark.json"
    fi
    if [ -f "$logs/no-torch" ]; then
      # shellcheck disable=SC2086  # names are words
      not_run "$(cat "$logs/no-torch")" $torch_names >"$logs/gpu_benchmark_torch.json"
    elif [ -n "$with_torch" ]; then
      run_benchmarks gpu_benchmark_torch "$with_torch" || outcome=1
    fi
    merge "$reason" - "$logs/gpu_benchmark.json" "$logs/gpu_benchmark_torch.json"
  fi
  "$programs/gpu_results" table "$result" || fail "$result could not be read (the reason is above)"
  echo "written $result"
  return "$outcome"
}

status=0
case $stage in build | all) build ;; esac
case $stage in test | all) check || status=1 ;; esac
case $stage in bench | all) bench || status=1 ;; esac
exit "$status"
