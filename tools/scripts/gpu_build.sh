#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds every target of the preset gpu with the LibTorch of PyPI's torch, which has CUDA. Then proves, without a GPU, that
# the programs for one link and start, and that every program with code for GPUs has machine code for sm_90.
#   tools/scripts/gpu_build.sh [FOLDER]     the virtual environment; default: build/torch-env
# Needs nvcc and the packages of tools/install_deps.sh; the first time also PyPI, and 8 GB of disk. Honours PYTHON.
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=${1:-build/torch-env}
python=$folder/bin/python
if ! "$python" -c 'import torch, sys; sys.exit(torch.version.cuda is None)' 2>/dev/null; then
  "${PYTHON:-python3}" -m venv "$folder"
  "$python" -m pip install --quiet --disable-pip-version-check torch
fi
# nvcc may have come without cuobjdump.
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cuobjdump=$(command -v cuobjdump || find "$packages/nvidia" -name cuobjdump -type f | sed -n 1p)
if [ -z "$cuobjdump" ]; then
  "$python" -m pip install --quiet --disable-pip-version-check nvidia-cuda-cuobjdump
  cuobjdump=$(find "$packages/nvidia" -name cuobjdump -type f | sed -n 1p)
fi
chmod +x "$cuobjdump"

CMAKE_PREFIX_PATH=$("$python" -c 'import torch; print(torch.utils.cmake_prefix_path)')
export CMAKE_PREFIX_PATH
tools/scripts/build.sh gpu -- -DH5FEED_WITH_TORCH=ON

LD_LIBRARY_PATH=$(printf '%s:' "$packages/torch/lib" "$packages"/nvidia/*/lib)
export LD_LIBRARY_PATH
starts() {
  "$1" "$2" >/dev/null || { echo "gpu_build: $1 does not start" >&2; return 1; }
}
for program in gpu_benchmark gpu_benchmark_torch; do starts "build/gpu/benchmarks/gpu/$program" --list; done
for program in gpu_test torch_gpu_test; do starts "build/gpu/tests/gpu/$program" --gtest_list_tests; done

# has_code PROGRAM...: fails unless each program holds machine code for sm_90.
has_code() {
  local program
  for program in "$@"; do
    "$cuobjdump" --list-elf "$program" 2>/dev/null | grep 'sm_90' >/dev/null && continue
    echo "gpu_build: $program holds no machine code for sm_90" >&2
    return 1
  done
}
has_code build/gpu/benchmarks/gpu/gpu_benchmark{,_torch} build/gpu/tests/gpu/{gpu_test,torch_gpu_test}
# And whatever else holds code for a GPU: examples, tests, blocks of the docs.
mapfile -t others < <(find build/gpu -type f -executable ! -path '*/CMakeFiles/*' -exec \
  sh -c '"$0" --list-elf "$1" 2>/dev/null | grep -q "ELF file"' "$cuobjdump" {} \; -print)
has_code "${others[@]}"
echo "gpu_build: all targets of the preset gpu are built with torch $("$python" -c 'import torch; print(torch.__version__)'); four programs start, and ${#others[@]} hold sm_90 code"
