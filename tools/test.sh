#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds h5feed and runs all of its tests. Those of the Python package need nanobind, pytest and others from PyPI, which go into
# build/python-env; without a network they are left out, and the last line says so.
#   tools/test.sh [CMAKE-ARGUMENT ...]
# Honours CMAKE_PREFIX_PATH, Torch_DIR, CUDACXX and PYTHON.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/install_deps.sh --python
left_out=
if python=$(tools/scripts/python_env.sh); then
  set -- -DH5FEED_BUILD_PYTHON=ON "-DPython_EXECUTABLE=$python" "$@"
else
  left_out="; those of the Python package are left out"
  set -- -DH5FEED_BUILD_PYTHON=AUTO -UPython_EXECUTABLE "$@"
fi
tools/scripts/build.sh release -- "$@"
ctest --preset release -j "$(nproc)"
echo "tools/test.sh: no test of the release build failed (those skipped are listed above$left_out) on $(. /etc/os-release && echo "$PRETTY_NAME"), $(nproc) CPUs"
