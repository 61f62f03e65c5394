#!/usr/bin/env bash
# What only a GPU can prove: builds with CUDA, runs the tests labelled gpu, also under compute-sanitizer,
# and writes one JSON into benchmarks/results.
#   tools/gpu_check.sh [--commit SHA] [build|test|all]
#     build  configures the preset gpu and builds the gpu tests
#     test   runs them; needs a GPU
#     all    both (default)
#     --commit SHA  names the commit where git is not there; with git the tree must be clean
# Honours CMAKE_PREFIX_PATH, Torch_DIR and CUDACXX. Each stage is ended after 8 minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly stage_seconds=480
command_line="tools/gpu_check.sh $*"
commit=""
stage=all
while [ $# -gt 0 ]; do
  case $1 in
    --commit) commit=${2:?--commit needs a commit}; shift 2 ;;
    build | test | all) stage=$1; shift ;;
    *) echo "tools/gpu_check.sh: unknown argument \"$1\"; see its first lines" >&2; exit 2 ;;
  esac
done

if git rev-parse --git-dir >/dev/null 2>&1; then
  if [ -n "$(git status --porcelain)" ]; then
    echo "tools/gpu_check.sh: the tree has changes that are not committed, so no commit names what is measured; commit them" >&2
    exit 1
  fi
  commit=$(git rev-parse HEAD)
elif [ -z "$commit" ]; then
  echo "tools/gpu_check.sh: no git here; name the commit with --commit SHA" >&2
  exit 1
fi

readonly program=build/gpu/tests/gpu/gpu_test
readonly logs=build/gpu/check

build() {
  timeout "$stage_seconds" tools/build.sh gpu gpu_test -- \
    -DH5FEED_BUILD_TOOLS=OFF -DH5FEED_BUILD_BENCHMARKS=OFF -DH5FEED_BUILD_EXAMPLES=OFF
}

# first_of FIELD: what nvidia-smi says of the first GPU.
first_of() { nvidia-smi --query-gpu="$1" --format=csv,noheader | head -1; }

# under_sanitizer TOOL: "passed" or "failed", or why it did not run.
under_sanitizer() {
  if ! command -v compute-sanitizer >/dev/null; then
    echo "not run: compute-sanitizer is not installed"
    return
  fi
  local log=$logs/$1.log
  # Not the batch of 2^31 elements, which takes hours there.
  if timeout "$stage_seconds" compute-sanitizer --tool "$1" --error-exitcode 99 "$program" \
    --gtest_filter='OnGpu.*:-*two_to_the_31st*' >"$log" 2>&1; then
    echo passed
  elif grep -qi 'device not supported\|not supported on this' "$log"; then
    echo "not run: compute-sanitizer refuses this device"
  else
    tail -30 "$log" >&2
    echo failed
  fi
}

check() {
  if ! command -v nvidia-smi >/dev/null || ! nvidia-smi >/dev/null 2>&1; then
    echo "tools/gpu_check.sh: nvidia-smi finds no GPU; run this stage on a machine that has one" >&2
    exit 1
  fi
  mkdir -p "$logs" benchmarks/results
  local device driver cuda outcome=0
  device=$(first_of name)
  driver=$(first_of driver_version)
  cuda=$(sed -n 's/^CMAKE_CUDA_COMPILER_VERSION[^=]*=//p; s/.*CMAKE_CUDA_COMPILER_VERSION "\(.*\)".*/\1/p' \
    build/gpu/CMakeCache.txt build/gpu/CMakeFiles/*/CMakeCUDACompiler.cmake | head -1)

  timeout "$stage_seconds" "$program" 2>&1 | tee "$logs/tests.log" || outcome=1
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

  local short
  short=$(tr '[:upper:] ' '[:lower:]-' <<<"${device#NVIDIA }")
  local result
  result=benchmarks/results/gpu-$short-$(date +%Y%m%d).json
  cat >"$result" <<JSON
{"commit": "$commit", "device": "$device", "driver": "$driver", "cuda": "$cuda", "command": "$command_line",
 "tests": {"passed": $passed, "skipped": $skipped, "failed": $failed, "memcheck": "$memcheck", "racecheck": "$racecheck"},
 "rows": []}
JSON
  printf '%-12s %s\n' device "$device" driver "$driver" cuda "$cuda" commit "$commit" passed "$passed" \
    skipped "$skipped" failed "$failed" memcheck "$memcheck" racecheck "$racecheck" written "$result"
  if [ "$outcome" -ne 0 ] || [ "$failed" -ne 0 ] || [ "$memcheck" = failed ] || [ "$racecheck" = failed ]; then
    exit 1
  fi
}

[ "$stage" = test ] || build
[ "$stage" = build ] || check
