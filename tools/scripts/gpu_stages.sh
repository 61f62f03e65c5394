# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The stages of tools/gpu_check.sh that need a GPU. Sourced by that script.
# shellcheck disable=SC2034,SC2154  # its variables

readonly waiting="not yet run; call tools/gpu_check.sh again"

# first_of FIELD: prints a field of nvidia-smi for the first GPU.
first_of() { nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null | sed -n 1p; }

# Exits if there is no GPU.
need_gpu() {
  if ! command -v nvidia-smi >/dev/null || ! nvidia-smi >/dev/null 2>&1; then
    fail "nvidia-smi finds no GPU; run this stage on a machine that has one"
  fi
}

# Sets `facts` and `result`, the JSON: that of an earlier call on this commit and GPU, if there is one.
look_at_gpu() {
  local device torch stem
  device=$(first_of name)
  torch=$(torch_home)
  torch=$(sed -n "s/^__version__.*= *'\(.*\)'/\1/p" "$torch/version.py" 2>/dev/null ||
    cat "$torch/build-version" 2>/dev/null || true)
  facts=(
    fact commit "$commit"
    fact device "$device"
    fact driver "$(first_of driver_version)"
    fact cuda "$(cuda_version)"
    fact torch "${torch:-none}"
    fact pcie "generation $(first_of pcie.link.gen.max || true), width $(first_of pcie.link.width.max || true)"
    fact cpu "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | sed -n 1p), $(nproc) threads"
    fact kernel "$(uname -r)"
    fact command "$command_line"
  )
  mkdir -p "$results"
  stem=$results/gpu-$(tr '[:upper:] ' '[:lower:]-' <<<"${device#NVIDIA }")
  result=$(grep -ls "\"commit\": \"$commit\"" "$stem"-*.json | tail -1) || true
  result=${result:-$stem-$(date +%Y%m%d).json}
  merge
}

# gpu_results ARGUMENT...: runs the program that reads and writes the JSON, even when the time is over.
gpu_results() {
  env ${libraries[gpu_results]:+"LD_LIBRARY_PATH=${libraries[gpu_results]}"} "${program[gpu_results]}" "$@"
}

# merge WHAT...: merges tests and rows into the JSON.
merge() {
  gpu_results merge "$result" "$waiting" "${facts[@]}" "$@" || fail "$result could not be written (the reason is above)"
}

# outcome_of NAME: prints the outcome of a test in the JSON; nothing if there is none.
outcome_of() { gpu_results test "$result" "$1" || fail "$result could not be read (the reason is above)"; }

# is_done NAME: whether the test has an outcome that need not be repeated; prints it.
is_done() {
  local outcome
  [ "$stage" = all ] || return 1
  outcome=$(outcome_of "$1")
  case $outcome in "" | "not run: "*) return 1 ;; esac
  echo "$1: $outcome, in an earlier call"
  is_good "$outcome" || status=1
}

# is_good OUTCOME: whether nothing failed.
is_good() { [[ $1 =~ ^(passed|profiled|not\ run|[0-9]+\ passed,\ [0-9]+\ skipped,\ 0\ failed$) ]]; }

# note NAME OUTCOME: writes the outcome of a test.
note() {
  merge test "$1" "$2"
  echo "$1: $2"
  is_good "$2" || status=1
}

# run_tests NAME: runs a program of tests.
run_tests() {
  local name=$1 log=$logs/$1.log code=0 most outcome
  most=$(share 120)
  echo "== test $name"
  ! is_done "$name" || return 0
  if [ -z "${program[$name]:-}" ]; then
    [ -z "${absent[$name]:-}" ] || note "$name" "not run: ${absent[$name]}"
    return 0
  fi
  run "$most" "$name" 2>&1 | tee "$log" || code=$?
  outcome="$(grep -c '^\[       OK \]' "$log" || true) passed, $(grep -c '^\[  SKIPPED \].*ms)' "$log" || true) skipped"
  outcome+=", $(grep -c '^\[  FAILED  \].*ms)' "$log" || true) failed"
  case $code in
    0) ;;
    124 | 137)
      ! out_of_time || return 0
      outcome="ended after $most s: $outcome"
      ;;
    *) [[ $code -eq 1 && $outcome != *" 0 failed" ]] || outcome="ended with status $code: $outcome" ;;
  esac
  if [ "$name" = gpu_test ] && ! grep -q '^\[       OK \] OnGpu' "$log"; then
    fail "no test ran on the GPU: $(grep -m1 'no GPU' "$log" || echo "see $log")"
  fi
  note "$name" "$outcome"
}

# Sets `files`, the directory for the benchmarks' files. Memory is better than disks, which are not what is measured.
choose_files() {
  [ -z "$files" ] || { mkdir -p "$files"; return 0; }
  local shared memory
  shared=$(df -k --output=avail /dev/shm 2>/dev/null | sed -n 2p)
  memory=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)
  if [ "${shared:-0}" -ge 12000000 ] && [ "${memory:-0}" -ge 40000000 ]; then
    files=$(mktemp -d /dev/shm/h5feed-gpu-XXXXXX)
  else
    files=$(mktemp -d "$logs/files-XXXXXX")
  fi
  trap 'rm -rf "$files"' EXIT
}

# lack REASON NAME...: writes rows that have no value because of REASON. NAME may be several, joined by commas.
lack() {
  local reason=$1 name rows=()
  shift
  for name in $(tr , ' ' <<<"$*"); do rows+=(lacks "$name" "$reason"); done
  merge "${rows[@]}"
}

# lack_all NAME REASON: writes that the rows of a program have no value because of REASON.
lack_all() {
  local kind=plain rows
  [ "$1" != gpu_benchmark_torch ] || kind=torch
  # shellcheck disable=SC2046  # names are words
  rows=$(gpu_results missing "$result" $(gpu_results rows "$kind"))
  # shellcheck disable=SC2086
  [ -z "$rows" ] || lack "$2" $rows
}

# run_benchmarks NAME: runs each benchmark of a program that lacks a value, as a process of its own: one that fails or
# hangs does not stop the others.
run_benchmarks() {
  local name=$1 log=$logs/$1.log listed lines line code most
  most=$(share 240)
  echo "== bench $name"
  if [ -z "${program[$name]:-}" ]; then
    [ -z "${absent[$name]:-}" ] || lack_all "$name" "${absent[$name]}"
    return 0
  fi
  if ! listed=$(run 60 "$name" --list 2>"$log"); then
    ! out_of_time || return 0
    say "${program[$name]} does not start: $(cat "$log")"
    lack_all "$name" "$name did not start"
    status=1
    return 0
  fi
  # shellcheck disable=SC2086  # names are words
  lines=$([ -z "$listed" ] || gpu_results missing "$result" $listed)
  [ -n "$lines" ] || { echo "every benchmark has a value in $result; remove it to measure again"; return 0; }
  choose_files
  while read -r line <&3; do
    rm -f "$logs/rows.json"
    code=0
    run "$most" "$name" --only "$line" --out "$logs/rows.json" --folder "$files" --keep 2>&1 | tee -a "$log" || code=$?
    case $code in
      0) ;;
      124 | 137)
        ! out_of_time || return 0
        lack "it took longer than $most s and was ended" "$line"
        status=1
        ;;
      *)
        lack "it ended with status $code" "$line"
        status=1
        ;;
    esac
    merge rows "$logs/rows.json"
  done 3<<<"$lines"
}

# cuda_tool NAME: prints the path of a tool that is installed next to nvcc, even if neither is in PATH.
cuda_tool() { PATH="$PATH:$(dirname "${CUDACXX:-/usr/local/cuda/bin/nvcc}"):/usr/local/cuda/bin" command -v "$1" || true; }

# under_cuda_tool MOST NAME COMMAND...: runs a tool of CUDA on a program.
under_cuda_tool() {
  local most=$1 name=$2
  shift 2
  limited "$most" env ${libraries[$name]:+"LD_LIBRARY_PATH=${libraries[$name]}"} "$@"
}

# Runs the tests under compute-sanitizer.
sanitize() {
  local tool log code most options sanitizer
  sanitizer=$(cuda_tool compute-sanitizer)
  most=$(share 150)
  for tool in memcheck racecheck; do
    echo "== sanitize $tool"
    ! is_done "$tool" || continue
    [ -n "$sanitizer" ] || { note "$tool" "not run: compute-sanitizer is not installed"; continue; }
    log=$logs/$tool.log code=0 options=()
    # The loader asks events whether they are done, and cudaErrorNotReady is an answer. The tests check return codes.
    [ "$tool" != memcheck ] || options=(--report-api-errors no)
    # Skips the batch of 2^31 elements, which takes hours here.
    under_cuda_tool "$most" gpu_test "$sanitizer" --tool "$tool" "${options[@]}" --error-exitcode 99 "${program[gpu_test]}" \
      --gtest_filter='*OnGpu.*:-*two_to_the_31st*' >"$log" 2>&1 || code=$?
    if grep -qi 'device not supported\|not supported on this' "$log"; then
      note "$tool" "not run: compute-sanitizer refuses this device"
    elif [ "$code" -eq 0 ]; then
      note "$tool" passed
    elif [ "$code" -eq 124 ] || [ "$code" -eq 137 ]; then
      ! out_of_time || return 0
      note "$tool" "ended after $most s"
    else
      tail -30 "$log" >&2
      note "$tool" failed
    fi
  done
}

# Profiles one launch of four variants of the normalize kernel, at the clock that the benchmarks run at. The outcome has
# the figures that explain a missed target, the log has all.
profile() {
  local row log code most profiler figures
  local wanted="Duration|DRAM Throughput|L2 Cache Throughput|Compute \(SM\) Throughput|Achieved Occupancy"
  profiler=$(cuda_tool ncu)
  most=$(share 60)
  for row in normalize_plain normalize_plain_f16 normalize_augmented normalize_augmented_f16; do
    echo "== profile $row"
    ! is_done "ncu_$row" || continue
    [ -n "$profiler" ] || { note "ncu_$row" "not run: ncu is not installed"; continue; }
    log=$logs/ncu_$row.log code=0
    under_cuda_tool "$most" gpu_benchmark "$profiler" --clock-control none --kernel-name regex:normalize_kernel \
      --launch-skip 1 --launch-count 1 --section SpeedOfLight --section MemoryWorkloadAnalysis --section Occupancy \
      --section LaunchStats --section WarpStateStats "${program[gpu_benchmark]}" --only "$row" --folder "$logs" \
      >"$log" 2>&1 || code=$?
    figures=$(sed -nE "s/^ *($wanted) +([^ ]+) +([0-9.,]+)\$/\1 \3 \2/p" "$log" | paste -sd';' | sed 's/;/, /g')
    if grep -q ERR_NVGPUCTRPERM "$log"; then
      note "ncu_$row" "not run: ncu may not read the GPU's counters here"
    elif [ -n "$figures" ]; then
      note "ncu_$row" "profiled: $figures"
    elif { [ "$code" -eq 124 ] || [ "$code" -eq 137 ]; } && out_of_time; then
      return 0
    else
      note "ncu_$row" "not run: ncu ended with status $code; see $log"
    fi
  done
}

# Prints the JSON as a table.
show_results() {
  gpu_results table "$result" || fail "$result could not be read (the reason is above)"
  echo "written $result"
}
