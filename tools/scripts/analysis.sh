#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy, with the checks of .clang-tidy, and cppcheck over loader/, cuda/ and tools/. Fails on a finding. Takes a few minutes.
#   tools/scripts/analysis.sh
# Needs the packages of tools/install_deps.sh --analysis.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=build/analysis

# Without precompiled headers, which would have to be built first, so that missing includes are found, too.
cmake -S . -B "$build" -G Ninja -DCMAKE_C_COMPILER=clang-14 -DCMAKE_CXX_COMPILER=clang++-14 -DCMAKE_BUILD_TYPE=Debug \
  -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DH5FEED_COMPILE_TOGETHER=ON -DH5FEED_WITH_TORCH=OFF \
  -DH5FEED_BUILD_PYTHON=OFF -DH5FEED_BUILD_EXAMPLES=OFF -DH5FEED_BUILD_BENCHMARKS=OFF >/dev/null

# Sources that are compiled together are one unit; their findings name the source itself.
mapfile -t units < <(sed -n 's/^ *"file": "\(.*\)",\?$/\1/p' "$build/compile_commands.json" |
  grep -E '/(loader|cuda|tools)/' | grep -vE '/tests/|verify_interface|\.cu$' | sort -u)
[ ${#units[@]} -gt 0 ] || { echo "analysis: no sources in $build/compile_commands.json" >&2; exit 1; }
printf '%s\n' "${units[@]}" | xargs -P "$(nproc)" -I{} clang-tidy-14 -p "$build" --quiet --warnings-as-errors='*' {} \
  >"$build/clang-tidy.log" 2>/dev/null || { cat "$build/clang-tidy.log" >&2; exit 1; }

cppcheck --std=c++20 --enable=warning,performance,portability --suppressions-list=tools/scripts/cppcheck.txt --quiet -j "$(nproc)" \
  -Iloader -Iloader/include -Icuda/include -I. --error-exitcode=1 --template='{file}:{line}: {id}: {message}' loader cuda tools
echo "analysis: clang-tidy found nothing in ${#units[@]} units, cppcheck $(cppcheck --version | grep -o '[0-9.]*$') nothing in loader, cuda and tools"
