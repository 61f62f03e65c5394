#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the fuzz targets and runs each for SECONDS, on a fresh corpus that starts from the target's own
# seeds, as many at a time as there are CPUs. Fails on a finding and prints the path of its input.
#   tools/scripts/fuzz.sh SECONDS [TARGET ...]     without TARGET: all; a target is named as in tests/fuzz/CMakeLists.txt
# Needs the packages of tools/install_deps.sh --sanitizers.
set -euo pipefail
cd "$(dirname "$0")/../.."

if [[ ! ${1:-} =~ ^[1-9][0-9]*$ ]]; then
  sed -n 's/^#   //p' "$0" >&2
  exit 2
fi
seconds=$1
shift
tools/scripts/build.sh asan-ubsan fuzz_targets
programs=$PWD/build/asan-ubsan/tests/fuzz
runs=$PWD/build/asan-ubsan/fuzz_runs
mapfile -t known <"$programs/targets.txt"
targets=("$@")
[ $# -gt 0 ] || targets=("${known[@]}")
for target in "${targets[@]}"; do
  if [[ ! " ${known[*]} " == *" $target "* ]]; then
    echo "fuzz: no target $target; there are: ${known[*]}" >&2
    exit 2
  fi
done

# run_target TARGET: prints one line with executions and result; creates TARGET.failed on a finding.
run_target() {
  local target=$1 folder=$runs/$1 result=ok executions
  rm -rf "$folder" "$runs/$target.failed"
  mkdir -p "$folder/corpus"
  "$programs/$target" "--write-seeds=$folder/corpus"
  # Small memory limits: a decoder that allocates as much as a header claims is a finding.
  if ! "$programs/$target" -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=2048 \
    -malloc_limit_mb=256 -print_final_stats=1 -artifact_prefix="$folder/" "$folder/corpus" >"$folder/log" 2>&1; then
    touch "$runs/$target.failed"
    tail -40 "$folder/log"
    result="FINDING, its input and log are in build/asan-ubsan/fuzz_runs/$target"
  fi
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$folder/log")
  printf '%-20s %12s executions in %s s: %s\n' "$target" "${executions:-unknown}" "$seconds" "$result"
}
export -f run_target
export programs runs seconds

mkdir -p "$runs"
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -euo pipefail -c 'run_target {}'
failed=()
for target in "${targets[@]}"; do
  [ ! -e "$runs/$target.failed" ] || failed+=("$target")
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "fuzz: findings in ${failed[*]}"
  exit 1
fi
echo "fuzz: ${#targets[@]} targets, ${seconds} s each, no finding"
