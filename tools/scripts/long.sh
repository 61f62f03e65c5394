#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Longer runs than .ci/run: each header of the LibTorch adapter alone; h5feed as a subproject and as a shared library; the
# tests' own code under UndefinedBehaviorSanitizer; the LibTorch adapter, the command line and the commands that measure
# under AddressSanitizer; the Python package there, too; 200 kills of repack, 60 signals to every command, and hundreds of each
# signal to trainings in Python, at random moments; random runs of the loader for half an hour in release and under each
# sanitizer; 1,200 files of every form by an old and a new h5py, with the filters of plugins; pages of h5feed report in a
# browser; all tests of a build without OpenCV, LibTorch and CUDA; and two minutes of every fuzz target.
set -euo pipefail
cd "$(dirname "$0")/../.."

# random_runs PRESET: half an hour from a seed of the clock; its output is kept, and its end shown.
random_runs() {
  local log=build/$1/random_runs.log
  echo "random runs, $1: $log"
  H5FEED_TEST_SECONDS=1800 H5FEED_TEST_SEED=$(date +%s) HDF5_PLUGIN_PRELOAD=:: \
    "build/$1/tests/stress/random_runs_test" >"$log" 2>&1 || { tail -100 "$log"; return 1; }
  tail -3 "$log"
}

# corpus: compares files of both h5py with what h5feed reads, and with the table of docs/formats.md.
corpus() {
  local python=build/corpus/env/bin/python scripts=tests/conformance/corpus
  tools/scripts/python_env.sh build/corpus/env >/dev/null
  "$python" -m pip install --quiet --disable-pip-version-check hdf5plugin
  tools/scripts/build.sh release h5feed_python
  rm -rf build/corpus/old build/corpus/new
  /usr/bin/python3 "$scripts/generate.py" build/corpus/old --files 500
  "$python" "$scripts/generate.py" build/corpus/new --files 700
  PYTHONPATH=build/release/python "$python" "$scripts/compare.py" build/corpus/old build/corpus/new
  PYTHONPATH=build/release/python "$python" "$scripts/table.py" build/corpus/old build/corpus/new
}

tools/install_deps.sh --sanitizers --python --corpus --browser
tools/scripts/build.sh release -- -DH5FEED_LONG_TESTS=ON
ctest --preset release -R '^(public_headers_compile_alone|package_works_by_add_subdirectory_.*|package_of_shared_library_.*)$'
tools/scripts/browser_check.sh || [ $? = 77 ]  # 77: left out, and the last line says why
H5FEED_TEST_KILLS=200 build/release/tests/tools/tools_test --gtest_filter=Repack.loses_nothing_when_killed_at_any_moment
H5FEED_TEST_KILLS=20 build/release/tests/tools/interruptions_test

# Debian's LibTorch needs GCC, unlike the rest of the preset.
torch=build/asan-torch
cmake --preset asan-ubsan -B "$torch" -DCMAKE_C_COMPILER=gcc -DCMAKE_CXX_COMPILER=g++ -DH5FEED_WERROR=OFF \
  -DH5FEED_SANITIZE=address,undefined -DH5FEED_BUILD_FUZZERS=OFF -DH5FEED_WITH_TORCH=ON -DH5FEED_LONG_TESTS=ON
cmake --build "$torch" --target torch_test torch_feed_test resnet_test command_line_test measuring_test
HDF5_PLUGIN_PRELOAD=:: ctest --test-dir "$torch" -R '^(torch_test|torch_feed_test|resnet_test|command_line_test|measuring_test)$' \
  --output-on-failure

tools/scripts/build.sh asan-ubsan -- -DH5FEED_LONG_TESTS=ON
ctest --preset asan-ubsan -j "$(nproc)"
for preset in release asan-ubsan tsan; do
  tools/scripts/build.sh "$preset" random_runs_test
  random_runs "$preset"
done
corpus
H5FEED_TEST_KILLS=100 PYTHONPATH=build/release/python "$(tools/scripts/python_env.sh)" -m pytest -q -p no:cacheprovider python/tests/test_signals.py
tools/scripts/python_asan.sh

cmake --preset release -B build/bare -DH5FEED_COMPILE_TOGETHER=ON -DH5FEED_WITH_OPENCV=OFF -DH5FEED_WITH_TORCH=OFF -DH5FEED_WITH_CUDA=OFF
cmake --build build/bare
ctest --test-dir build/bare -j "$(nproc)" --output-on-failure
tools/scripts/fuzz.sh 120
