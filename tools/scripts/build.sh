#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Configures and builds one preset; used by demo.sh, test.sh and .ci/run.
#   tools/scripts/build.sh PRESET [TARGET ...] [-- CMAKE-ARGUMENT ...]
# Honours CMAKE_PREFIX_PATH, Torch_DIR and CUDACXX, even if they have changed since the last call.
set -euo pipefail
cd "$(dirname "$0")/../.."

preset=$1
shift
targets=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  targets+=("$1")
  shift
done
[ $# -eq 0 ] || shift

# Clears what CMake cached of an earlier LibTorch, which would override the variables.
forget=()
for variable in Torch_DIR Caffe2_DIR TORCH_LIBRARY c10_LIBRARY C10_CUDA_LIBRARY; do
  forget+=("-U$variable")
done
# Linkers that take a fraction of the default one's time, where they are installed.
linker=()
for name in lld gold; do
  if command -v "ld.$name" >/dev/null; then
    linker=("-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=$name")
    break
  fi
done
mkdir -p "build/$preset"
log=build/$preset/configure.log
if ! cmake --preset "$preset" "${forget[@]}" -DH5FEED_COMPILE_TOGETHER=ON "${linker[@]}" "$@" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
grep -A3 'CMake Warning' "$log" || true
sed -n 's/^-- \(h5feed .*\)/\1/p; s/^-- \(  .*\)/\1/p' "$log"  # the summary: which LibTorch, which CUDA
cmake --build --preset "$preset" ${targets[@]:+--target "${targets[@]}"}
