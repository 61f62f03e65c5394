#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures which lines and branches of loader/ and cuda/ the C++ tests execute, with Clang's instrumentation: all suites but
# those of LibTorch and Python. Prints a table by folder; the report of each line is build/coverage/html/index.html.
#   tools/scripts/coverage.sh [CTEST-ARGUMENT ...]     for example -R plan_test
set -euo pipefail
cd "$(dirname "$0")/../.."

tools/install_deps.sh --sanitizers --coverage
build=build/coverage
mkdir -p "$build"
# Counters are kept in a mapped file (%c below), which a process that is killed leaves, too: the reader of isolation = process.
flags="-O1 -g1 -fprofile-instr-generate -fcoverage-mapping -mllvm -runtime-counter-relocation -Wno-unused-command-line-argument"
cmake --preset asan-ubsan -B "$build" -DH5FEED_SANITIZE= -DH5FEED_BUILD_FUZZERS=OFF -DH5FEED_BUILD_PYTHON=OFF \
  -DH5FEED_COMPILE_TOGETHER=ON -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS="$flags" -DCMAKE_CXX_FLAGS_RELWITHDEBINFO= \
  >"$build.log" 2>&1 || { cat "$build.log" >&2; exit 1; }
cmake --build "$build"

rm -rf "$build/profiles"
# A test that fails has covered what it covered; the suites are judged elsewhere.
LLVM_PROFILE_FILE="$PWD/$build/profiles/%c%4m.profraw" ctest --test-dir "$build" -j "$(nproc)" --output-on-failure "$@" || true

find "$build/profiles" -name '*.profraw' >"$build/profiles.txt"
# A process that a test kills may leave a profile that is cut off.
llvm-profdata-14 merge -sparse --failure-mode=all -f "$build/profiles.txt" -o "$build/merged.profdata"
objects=()
while read -r program; do
  objects+=(-object "$program")
done < <(find "$build" -type f -executable ! -path '*/CMakeFiles/*' -exec sh -c 'head -c4 "$1" | grep -q ELF' _ {} \; -print)
of=("-instr-profile=$build/merged.profdata" "-ignore-filename-regex=/(tests|tools|benchmarks|examples|build)/|^/usr/" "${objects[@]}")
llvm-cov-14 show "${of[@]}" -format=html -output-dir="$build/html" 2>/dev/null
llvm-cov-14 export "${of[@]}" -summary-only 2>/dev/null >"$build/summary.json"
python3 - "$build/summary.json" "$PWD/" <<'PYTHON'
import collections, json, os, sys
files = json.load(open(sys.argv[1]))["data"][0]["files"]
rows = collections.defaultdict(lambda: [0, 0, 0, 0])
for file in files:
    path = file["filename"].removeprefix(sys.argv[2])
    if path.startswith(("loader/", "cuda/")):
        for name in {os.path.dirname(path), path.split("/")[0], "all"}:
            for i, part in enumerate(("lines", "branches")):
                rows[name][2 * i] += file["summary"][part]["covered"]
                rows[name][2 * i + 1] += file["summary"][part]["count"]
print("| folder | lines | branches |\n| --- | ---: | ---: |")
for name, (lines, of_lines, branches, of_branches) in sorted(rows.items()):
    share = lambda covered, count: f"{100 * covered / count:.1f} % of {count:,}" if count else "none"
    print(f"| `{name}` | {share(lines, of_lines)} | {share(branches, of_branches)} |")
PYTHON
