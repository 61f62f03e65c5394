#!/usr/bin/env bash
# What only a GPU can prove: builds with CUDA, runs the tests labelled gpu, also under compute-sanitizer, runs
# the GPU benchmarks, and writes one JSON into benchmarks/results.
#   tools/gpu_check.sh [--commit SHA] [--results DIR] [build|test|bench|all]
#     build  configures the preset gpu and builds tests and benchmarks
#     test   runs the tests; needs a GPU
#     bench  runs the benchmarks of the README that have no value yet; needs a GPU
#     all    all three (default)
#     --commit SHA   names the commit where git is not there; with git the tree must be clean
#     --results DIR  instead of benchmarks/results
# Honours CMAKE_PREFIX_PATH, Torch_DIR and CUDACXX; without the first two a LibTorch of python3's is used. Each
# stage ends within 8 minutes. What has not run by then stands in the JSON with its reason; a further call on
# the same day and commit goes on from there.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly stage_seconds=470
command_line="tools/gpu_check.sh $*"
commit=""
results=benchmarks/results
stage=all
while [ $# -gt 0 ]; do
  case $1 in
    --commit) commit=${2:?--commit needs a commit}; shift 2 ;;
    --results) results=${2:?--results needs a directory}; shift 2 ;;
    build | test | bench | all) stage=$1; shift ;;
    *) echo "tools/gpu_check.sh: unknown argument \"$1\"; see its first lines" >&2; exit 2 ;;
  esac
done

if git rev-parse --git-dir >/dev/null 2>&1; then
  # The result of an earlier stage is no change of what is measured.
  if [ -n "$(git status --porcelain -- . ':!benchmarks/results')" ]; then
    echo "tools/gpu_check.sh: the tree has changes that are not committed, so no commit names what is measured; commit them" >&2
    exit 1
  fi
  commit=$(git rev-parse HEAD)
elif [ -z "$commit" ]; then
  echo "tools/gpu_check.sh: no git here; name the commit with --commit SHA" >&2
  exit 1
fi

readonly tests=build/gpu/tests/gpu/gpu_test
readonly programs=build/gpu/benchmarks/gpu
readonly logs=build/gpu/check
readonly torch_names="normalize_vs_eager normalize_vs_eager_f16 stall_resnet50 exposed_copy epoch_vs_memory gpu_use_naive gpu_use_h5feed"
stage_end=0

begin_stage() {
  echo "== $1"
  stage_end=$((SECONDS + stage_seconds))
}

# limited COMMAND...: for at most the rest of the stage; 124 when that was too short.
limited() {
  local left=$((stage_end - SECONDS))
  [ "$left" -gt 0 ] || return 124
  timeout -k 5 "$left" "$@"
}

# The LibTorch that python3 holds, where the caller names none.
find_torch() {
  [ -z "${CMAKE_PREFIX_PATH:-}${Torch_DIR:-}" ] || return 0
  local prefix
  prefix=$(python3 -c 'import torch; print(torch.utils.cmake_prefix_path)' 2>/dev/null) || return 0
  export CMAKE_PREFIX_PATH=$prefix
}

build() {
  begin_stage build
  find_torch
  mkdir -p "$logs"
  rm -f "$logs/no-torch"
  # The program and the examples are not needed, nor what they are built from.
  local build=(tools/build.sh gpu gpu_test gpu_benchmark gpu_results --
    -DH5FEED_BUILD_TOOLS=OFF -DH5FEED_BUILD_EXAMPLES=OFF)
  if ! limited "${build[@]}" -DH5FEED_WITH_TORCH=AUTO; then
    echo "tools/gpu_check.sh: once more without LibTorch" >&2
    limited "${build[@]}" -DH5FEED_WITH_TORCH=OFF
    echo "LibTorch could not be used when this was built" >"$logs/no-torch"
  elif ! cmake --build build/gpu --target help | grep gpu_benchmark_torch: >/dev/null; then
    echo "no LibTorch with CUDA was found when this was built" >"$logs/no-torch"
  elif ! limited cmake --build build/gpu --target gpu_benchmark_torch; then
    echo "the benchmarks with LibTorch could not be built" >"$logs/no-torch"
    exit 1
  fi
}

# first_of FIELD: what nvidia-smi says of the first GPU.
first_of() { nvidia-smi --query-gpu="$1" --format=csv,noheader | sed -n 1p; }

# Sets device, driver, cuda and result.
look_at_gpu() {
  if ! command -v nvidia-smi >/dev/null || ! nvidia-smi >/dev/null 2>&1; then
    echo "tools/gpu_check.sh: nvidia-smi finds no GPU; run this stage on a machine that has one" >&2
    exit 1
  fi
  if [ ! -x "$tests" ] || [ ! -x "$programs/gpu_results" ]; then
    echo "tools/gpu_check.sh: nothing is built; run tools/gpu_check.sh build first" >&2
    exit 1
  fi
  mkdir -p "$logs" "$results"
  device=$(first_of name)
  driver=$(first_of driver_version)
  cuda=$(sed -n 's/.*CMAKE_CUDA_COMPILER_VERSION "\(.*\)".*/\1/p' build/gpu/CMakeFiles/*/CMakeCUDACompiler.cmake | sed -n 1p)
  result=$results/gpu-$(tr '[:upper:] ' '[:lower:]-' <<<"${device#NVIDIA }")-$(date +%Y%m%d).json
}

# merge REASON TESTS|- [ROWS...]
merge() {
  local reason=$1
  shift
  "$programs/gpu_results" merge "$result" "$commit" "$device" "$driver" "$cuda" "$command_line" "$reason" "$@"
}

# under_sanitizer TOOL: "passed" or "failed", or why it did not run.
under_sanitizer() {
  if ! command -v compute-sanitizer >/dev/null; then
    echo "not run: compute-sanitizer is not installed"
    return
  fi
  local log=$logs/$1.log code=0
  # Not the batch of 2^31 elements, which takes hours there.
  limited compute-sanitizer --tool "$1" --error-exitcode 99 "$tests" \
    --gtest_filter='OnGpu.*:-*two_to_the_31st*' >"$log" 2>&1 || code=$?
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
  local passed skipped failed
  passed=$(grep -c '^\[       OK \]' "$logs/tests.log" || true)
  skipped=$(grep -c '^\[  SKIPPED \].*ms)' "$logs/tests.log" || true)
  failed=$(grep -c '^\[  FAILED  \].*ms)' "$logs/tests.log" || true)
  if ! grep -q '^\[       OK \] OnGpu' "$logs/tests.log"; then
    echo "tools/gpu_check.sh: no test ran on the GPU: $(grep -m1 'no GPU' "$logs/tests.log" || echo "see $logs/tests.log")" >&2
    exit 1
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

# run_benchmarks PROGRAM NAMES: those of NAMES that PROGRAM has.
run_benchmarks() {
  local program=$programs/$1 names
  rm -f "$logs/$1.json"
  names=$("$program" --list | grep -Fx "$(tr , '\n' <<<"$2")" | paste -sd, -) || true
  [ -n "$names" ] || return 0
  # Beside the build, which has room for files of some GB; a temporary directory may be memory.
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
  names=$("$programs/gpu_results" missing "$result")
  if [ -z "$names" ]; then
    echo "every benchmark has a value in $result; remove it to measure anew"
  else
    run_benchmarks gpu_benchmark "$names" || outcome=1
    merge "$reason" - "$logs/gpu_benchmark.json"
    if [ -f "$logs/no-torch" ]; then
      # shellcheck disable=SC2086  # names are words
      printf '{"name": "%s", "value": null, "unit": "", "ceiling": null, "ratio": null, "repetitions": [], "not_run": "'"$(cat "$logs/no-torch")"'"}\n' \
        $torch_names | paste -sd, | sed 's/.*/{"rows": [&]}/' >"$logs/gpu_benchmark_torch.json"
    else
      run_benchmarks gpu_benchmark_torch "$names" || outcome=1
    fi
    merge "$reason" - "$logs/gpu_benchmark.json" "$logs/gpu_benchmark_torch.json"
  fi
  "$programs/gpu_results" table "$result"
  echo "written $result"
  return "$outcome"
}

status=0
case $stage in build | all) build ;; esac
case $stage in test | all) check || status=1 ;; esac
case $stage in bench | all) bench || status=1 ;; esac
exit "$status"
