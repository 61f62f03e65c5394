#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds h5feed and runs all of its tests.
#   tools/test.sh [CMAKE-ARGUMENT ...]
# Honours CMAKE_PREFIX_PATH, Torch_DIR and CUDACXX.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/install_deps.sh
tools/scripts/build.sh release -- "$@"
ctest --preset release -j "$(nproc)"
echo "tools/test.sh: no test of the release build failed (those skipped are listed above) on $(. /etc/os-release && echo "$PRETTY_NAME"), $(nproc) CPUs"
