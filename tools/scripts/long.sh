#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Longer runs than .ci/run: the LibTorch adapter under AddressSanitizer, 200 kills of repack at random moments, and two
# minutes of every fuzz target.
set -euo pipefail
cd "$(dirname "$0")/../.."

tools/install_deps.sh --fuzz
tools/scripts/build.sh release
H5FEED_TEST_KILLS=200 build/release/tests/tools/tools_test --gtest_filter=Repack.loses_nothing_when_killed_at_any_moment
tools/scripts/build.sh asan-ubsan torch_test torch_feed_test resnet_test -- -DH5FEED_WITH_TORCH=ON
ctest --preset asan-ubsan -L torch
tools/scripts/fuzz.sh 120
