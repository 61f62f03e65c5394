#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Whether a commit is slower than another: builds both, and measures their programs in turn (`bench --alternate`) on files of
# its own. Fails (exit code 1) if B loses more than 5 % of the samples per second, or needs 5 % more CPU time, significantly.
#   tools/scripts/perf_gate.sh A [B]          B: default HEAD
# PERF_GATE_TIME: time of each of the three comparisons (default 2m). PERF_GATE_LOSS: the loss to find (default 5%).
set -euo pipefail
cd "$(dirname "$0")/../.."

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  echo "usage: tools/scripts/perf_gate.sh A [B], two commits" >&2
  exit 2
fi
folder=$PWD/build/perf_gate
mkdir -p "$folder"

# built COMMIT: builds the program of a commit in a work tree of its own, and prints its path.
built() {
  local commit tree
  commit=$(git rev-parse --verify --short=12 "$1^{commit}")
  tree=$folder/$commit
  if [ ! -d "$tree" ]; then git worktree add --quiet --detach "$tree" "$commit" >&2; fi
  (cd "$tree" && tools/scripts/build.sh release h5feed_program -- -DH5FEED_WITH_TORCH=OFF -DH5FEED_WITH_CUDA=OFF) >&2
  echo "$tree/build/release/h5feed"
}
a=$(built "$1")
b=$(built "${2:-HEAD}")
trap 'git worktree prune' EXIT

"$b" generate "$folder/gzip.h5" --samples 8000 --shape 3,64,64 --force
"$b" generate "$folder/raw.h5" --samples 8000 --shape 3,64,64 --filter none --force
lost=0
# compare FILE OPTION ...
compare() {
  echo "== $*"
  "$b" bench "$@" --alternate "$a" "$b" --max-loss "${PERF_GATE_LOSS:-5%}" --time-budget "${PERF_GATE_TIME:-2m}" ||
    { [ $? -eq 1 ] && lost=1; }
}
compare "$folder/gzip.h5" --shuffle chunk:16 --num-workers 1 --batch-size 128
compare "$folder/raw.h5" --shuffle full --num-workers 1 --batch-size 128
compare "$folder/gzip.h5" --target labels --num-workers "$(nproc)" --normalize
exit "$lost"
