#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The long forms of what .ci/run does briefly: 200 kills of repack at random moments, every fuzz target for
# two minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."

tools/install_deps.sh --fuzz
tools/scripts/build.sh release
H5FEED_TEST_KILLS=200 build/release/tests/tools/tools_test --gtest_filter=Repack.LosesNothingWhenKilledAtAnyMoment
tools/scripts/fuzz.sh 120
