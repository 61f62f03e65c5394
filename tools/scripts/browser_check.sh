#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Opens pages of h5feed report in a headless Chromium, in both colour schemes and at the width of a phone: axe-core must
# find nothing serious, and nothing may be cut, logged or asked from a network.
#   tools/scripts/browser_check.sh [FOLDER]     FOLDER: screenshots are left there
# Needs build/release/h5feed, Debian's package chromium (tools/install_deps.sh --browser) and PyPI, from which it fetches
# axe-core into build/axe. Without them it says so and exits with 77.
set -euo pipefail
cd "$(dirname "$0")/../.."

left_out() { echo "browser: left out: $*"; exit 77; }
command -v chromium >/dev/null || left_out "no chromium; run tools/install_deps.sh --browser"
axe=build/axe/axe_playwright_python/axe.min.js
if [ ! -f "$axe" ]; then
  python3 -m venv build/axe-env && build/axe-env/bin/pip install --quiet --disable-pip-version-check --retries 1 \
    --timeout 20 --no-deps --target build/axe axe-playwright-python==0.1.8 || left_out "axe-core cannot be fetched from PyPI"
fi
python3 tests/tools/report/browser_test.py build/release/h5feed "$axe" "$@"
