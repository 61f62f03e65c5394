#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the fuzz targets and runs each, as many at a time as there are CPUs, from the target's own seeds and the inputs
# that are kept in tests/fuzz/corpus. Prints executions and what they covered (edges of the program). Fails on a finding and
# prints the path of its input.
#   tools/scripts/fuzz.sh SECONDS [TARGET ...]     without TARGET: all; a target is named as in tests/fuzz/CMakeLists.txt
#   tools/scripts/fuzz.sh runs=N [TARGET ...]      N executions each, none of which may take 2 s
#   tools/scripts/fuzz.sh keep [TARGET ...]        adds to tests/fuzz/corpus what the last run found, as few inputs as cover it
# Needs the packages of tools/install_deps.sh --sanitizers.
set -euo pipefail
cd "$(dirname "$0")/../.."

how=${1:-}
if [[ $how =~ ^[1-9][0-9]*$ ]]; then
  limits="-max_total_time=$how -timeout=10"
elif [[ $how =~ ^runs=[1-9][0-9]*$ ]]; then
  limits="-$how -timeout=2"
elif [ "$how" = keep ]; then
  limits=
else
  sed -n 's/^#   //p' "$0" >&2
  exit 2
fi
shift
tools/scripts/build.sh asan-ubsan fuzz_targets
programs=$PWD/build/asan-ubsan/tests/fuzz
runs=$PWD/build/asan-ubsan/fuzz_runs
kept=$PWD/tests/fuzz/corpus
mapfile -t known <"$programs/targets.txt"
targets=("$@")
[ $# -gt 0 ] || targets=("${known[@]}")
for target in "${targets[@]}"; do
  if [[ ! " ${known[*]} " == *" $target "* ]]; then
    echo "fuzz: no target $target; there are: ${known[*]}" >&2
    exit 2
  fi
done

# keep_target TARGET: replaces the kept corpus by one of the last run's inputs that cover the same.
keep_target() {
  local target=$1 folder=$runs/$1
  rm -rf "$folder/kept"
  mkdir -p "$folder/kept" "$kept"
  "$programs/$target" -merge=1 -max_len=4096 -artifact_prefix="$folder/" "$folder/kept" "$folder/corpus" >"$folder/merge.log" 2>&1
  # The same inputs make the same archive.
  tar -C "$folder/kept" --sort=name --owner=0 --group=0 --mode=644 --mtime=@0 -cJf "$kept/$target.tar.xz" .
  printf '%-20s %6s inputs, %s bytes\n' "$target" "$(find "$folder/kept" -type f | wc -l)" "$(stat -c %s "$kept/$target.tar.xz")"
}

# run_target TARGET: prints one line with executions and result; creates TARGET.failed on a finding.
run_target() {
  local target=$1 folder=$runs/$1 result=ok executions edges
  rm -rf "$folder" "$runs/$target.failed"
  mkdir -p "$folder/corpus"
  "$programs/$target" "--write-seeds=$folder/corpus"
  [ ! -f "$kept/$target.tar.xz" ] || tar -C "$folder/corpus" -xJf "$kept/$target.tar.xz"
  # Small memory limits: a decoder that allocates as much as a header claims is a finding. libhdf5 does so, and touches
  # what it got only once it has read the file; the targets of the index are therefore limited in what they touch.
  local most_allocated=256
  if [[ $target == *index_fuzz ]]; then
    most_allocated=2000000
    export ASAN_OPTIONS=allocator_may_return_null=1
  fi
  # shellcheck disable=SC2086  # two words
  if ! "$programs/$target" $limits -max_len=4096 -rss_limit_mb=2048 -malloc_limit_mb="$most_allocated" \
    -print_final_stats=1 -artifact_prefix="$folder/" "$folder/corpus" >"$folder/log" 2>&1; then
    touch "$runs/$target.failed"
    tail -40 "$folder/log"
    result="FINDING, its input and log are in build/asan-ubsan/fuzz_runs/$target"
  fi
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$folder/log")
  edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$folder/log" | tail -1)
  printf '%-20s %12s executions, %6s edges: %s\n' "$target" "${executions:-unknown}" "${edges:-unknown}" "$result"
}
export -f run_target keep_target
export programs runs kept limits

mkdir -p "$runs"
action=run_target
[ "$how" != keep ] || action=keep_target
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -euo pipefail -c "$action {}"
[ "$how" != keep ] || exit 0
failed=()
for target in "${targets[@]}"; do
  [ ! -e "$runs/$target.failed" ] || failed+=("$target")
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "fuzz: findings in ${failed[*]}"
  exit 1
fi
case $how in
  runs=*) echo "fuzz: ${#targets[@]} targets, ${how#runs=} executions each, no finding" ;;
  *) echo "fuzz: ${#targets[@]} targets, $how s each, no finding" ;;
esac
