#!/usr/bin/env bash
# The long forms of what .ci/run does briefly: every fuzz target for two minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/install_deps.sh --fuzz
tools/fuzz.sh 120
