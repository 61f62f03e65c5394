#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that needs a GPU, in one sitting: tests, benchmarks, compute-sanitizer, and a profile of the kernels.
# Writes one JSON file, rewritten after each test and benchmark.
#   tools/gpu_check.sh [OPTION ...] [build|test|bench|sanitize|profile|all]
#     build     configures the preset gpu and builds tests and benchmarks; needs nvcc, but no GPU
#     test      runs the tests labelled gpu
#     bench     runs the benchmarks that have no value yet, first those of docs/results.md
#     sanitize  runs the tests that need no LibTorch under memcheck and racecheck
#     profile   lets ncu explain four variants of the normalize kernel
#     all       all of these, what needs no LibTorch first (default)
#     --seconds N     time for all stages together; default 560, for machines that end a command after 10 minutes
#     --results DIR   directory for the JSON and the logs; default: benchmarks/results, and build/gpu/check for the logs
#     --bundle DIR    after building, copies the stripped programs and their libraries to DIR
#     --prebuilt DIR  uses programs of a bundle that was made on another machine; builds here what does not start
#     --files DIR     directory for the benchmarks' files of up to 12 GB, which stay there for the next call; default:
#                     a temporary directory in memory, if that is large enough, or with the logs
#     --commit SHA    names the commit if there is no git checkout; in one, the tree must be clean and SHA its HEAD
# Needs the packages of tools/install_deps.sh; when they are copied to a machine without a network, do not forget
# liblzf-dev and libbz2-dev. Honours CMAKE_PREFIX_PATH, Torch_DIR and CUDACXX; without the first two, the LibTorch
# of python3 is used.
# The JSON names what has not run when the time is over, with the reason. Another call on the same commit, with the same
# --results, continues from there: `all` repeats no test that has run and no benchmark that has a value. A stage that is
# named repeats its tests.
# Exit status: 0 all is done, 1 something failed, 2 wrong usage, 3 out of time, call again.
set -euo pipefail
readonly caller=$PWD
cd "$(dirname "$0")/.."

command_line="tools/gpu_check.sh $*"
stage=all
seconds=560
commit=""
results=benchmarks/results
logs=build/gpu/check
bundle=""
prebuilt=""
files=""
status=0

# fail TEXT [CODE]: prints TEXT and exits.
fail() {
  echo "tools/gpu_check.sh: $1" >&2
  exit "${2:-1}"
}

# say TEXT: prints a message about what could not be done.
say() { echo "tools/gpu_check.sh: $1" >&2; }

# absolute PATH: prints PATH as seen from where the script was called.
absolute() { case $1 in /*) echo "$1" ;; *) echo "$caller/$1" ;; esac }

while [ $# -gt 0 ]; do
  case $1 in
    --seconds | --commit | --results | --bundle | --prebuilt | --files)
      [ -n "${2:-}" ] || fail "$1 needs a value" 2
      case $1 in
        --seconds) seconds=$2 ;;
        --commit) commit=$2 ;;
        --results) results=$(absolute "$2") logs=$(absolute "$2")/logs ;;
        --bundle) bundle=$(absolute "$2") ;;
        --prebuilt) prebuilt=$(absolute "$2") ;;
        --files) files=$(absolute "$2") ;;
      esac
      shift 2
      ;;
    build | test | bench | sanitize | profile | all) stage=$1; shift ;;
    *) fail "unknown argument \"$1\"; see its first lines" 2 ;;
  esac
done
[[ $seconds =~ ^[1-9][0-9]{1,5}$ ]] || fail "--seconds $seconds: give a number of seconds, 10 or more" 2

# The last seconds are for programs that are told to end, and for the result. The clock is that of `date`, which tests
# can replace.
now() { date +%s; }
deadline=$(($(now) + seconds - 8))
seconds_left() { echo $((deadline - $(now))); }

# limited MOST COMMAND...: runs COMMAND for at most MOST seconds, and at most the rest of the time. Returns 124 or 137 if
# that was too short.
limited() {
  local most=$1 left
  shift
  left=$(seconds_left)
  [ "$left" -gt 0 ] || return 124
  timeout -k 5 "$((most < left ? most : left))" "$@"
}

# share SECONDS: prints the longest time for a step, so that one which hangs leaves time to others. A stage that is
# named may use all of it.
share() { if [ "$stage" = all ]; then echo "$1"; else echo "$seconds"; fi; }

# out_of_time: whether the time of all stages is over.
late=""
out_of_time() {
  [ "$(seconds_left)" -le 0 ] || return 1
  late=yes
}

# A repository in a parent directory is not this tree's.
if [ -e .git ]; then
  head=$(git rev-parse HEAD) ||
    fail "git does not read this tree (its message is above), so no commit names what is measured"
  if [ -n "$commit" ] && [ "$(git rev-parse --verify --quiet "$commit^{commit}")" != "$head" ]; then
    fail "--commit $commit is not what is checked out, which is $head; leave it out"
  fi
  # The result of an earlier stage does not change what is measured.
  exceptions=(':!benchmarks/results')
  [[ $results != "$PWD"/* ]] || exceptions+=(":!${results#"$PWD"/}")
  changes=$(git status --porcelain -- . "${exceptions[@]}") || fail "git status failed (its message is above)"
  [ -z "$changes" ] ||
    fail "the tree has changes that are not committed, so no commit names what is measured; commit them"
  commit=$head
fi
if [ -n "$prebuilt" ]; then
  bundled=$(sed -n 's/^commit //p' "$prebuilt/facts" 2>/dev/null) ||
    fail "--prebuilt $prebuilt is no bundle; make one with --bundle"
  [ "${commit:-$bundled}" = "$bundled" ] ||
    fail "--prebuilt $prebuilt is of commit $bundled, not of $commit; make it again"
  commit=$bundled
fi
[ -n "$commit" ] || fail "no git here; name the commit with --commit SHA"

# shellcheck source=tools/scripts/gpu_programs.sh
. tools/scripts/gpu_programs.sh
# shellcheck source=tools/scripts/gpu_stages.sh
. tools/scripts/gpu_stages.sh

[ "$stage" = build ] || need_gpu
mkdir -p "$logs"
prepare gpu_results gpu_test gpu_benchmark
[ "$stage" = build ] || look_at_gpu
case $stage in
  build) prepare_torch ;;
  all)
    run_tests gpu_test
    run_benchmarks gpu_benchmark
    prepare_torch
    run_tests torch_gpu_test
    run_benchmarks gpu_benchmark_torch
    sanitize
    profile
    ;;
  test)
    run_tests gpu_test
    prepare_torch
    run_tests torch_gpu_test
    ;;
  bench)
    run_benchmarks gpu_benchmark
    prepare_torch
    run_benchmarks gpu_benchmark_torch
    ;;
  sanitize) sanitize ;;
  profile) profile ;;
esac
[ -z "$bundle" ] || make_bundle
[ "$stage" = build ] || show_results
if [ "$status" -eq 0 ] && [ -n "$late" ]; then
  say "out of time; call it again to go on"
  status=3
fi
exit "$status"
