#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of the Python package, its extension modules and the library below under AddressSanitizer,
# LeakSanitizer and UndefinedBehaviorSanitizer.
#   tools/scripts/python_asan.sh [PYTEST-ARGUMENT ...]
# Needs the packages of tools/install_deps.sh --sanitizers --python. Python itself is not instrumented, so the sanitizer's
# runtime is loaded first. Fails on an error, and on a leak of memory that h5feed allocated; Python's own leaks at its end do
# not count.
set -euo pipefail
cd "$(dirname "$0")/../.."

python=$(tools/scripts/python_env.sh)
build=build/python-asan
runtime=$(clang++-14 -print-file-name=libclang_rt.asan-x86_64.so)
mkdir -p "$build"
if ! cmake --preset asan-ubsan -B "$build" -DH5FEED_COMPILE_TOGETHER=ON -DH5FEED_BUILD_FUZZERS=OFF -DH5FEED_BUILD_TOOLS=OFF \
  -DH5FEED_BUILD_PYTHON=ON "-DPython_EXECUTABLE=$python" -DCMAKE_MODULE_LINKER_FLAGS=-shared-libasan >"$build/configure.log" 2>&1
then
  cat "$build/configure.log" >&2
  exit 1
fi
targets=(h5feed_python h5feed_images)
! grep -q 'h5feed::gpu is on' "$build/configure.log" || targets+=(h5feed_python_fake_gpu)
cmake --build "$build" --target "${targets[@]}"

# Each process writes its report to a file of its own. PYTHONMALLOC makes every allocation of Python one that the sanitizer
# sees.
rm -f "$build"/report.*
failed=0
memory_test=python/tests/test_process.py::test_100000_batches_need_no_more_memory_than_20000  # the sanitizer keeps freed memory
env LD_PRELOAD="$runtime" PYTHONMALLOC=malloc PYTHONPATH="$PWD/$build/python" PYTHONDONTWRITEBYTECODE=1 HDF5_PLUGIN_PRELOAD=:: \
  ASAN_OPTIONS="log_path=$PWD/$build/report:detect_leaks=1" LSAN_OPTIONS=exitcode=0 UBSAN_OPTIONS=print_stacktrace=1 \
  "$python" -m pytest -q -p no:cacheprovider --deselect "$memory_test" "${@:-python/tests}" || failed=1

# Prints the errors, and the leaks whose first frame outside of allocator, standard library and nanobind is h5feed's.
cat "$build"/report.* 2>/dev/null | awk -v root="$PWD/" '
  function finish() {
    if (ours) { print leak; ++found }
    leak = ""
    decided = ours = 0
  }
  /ERROR: AddressSanitizer|runtime error:/ { error = 1; ++found }
  /ERROR: LeakSanitizer/ { error = 0 }
  error { print }
  /^(Direct|Indirect) leak of/ { finish(); inside = 1 }
  /^$/ { finish(); inside = 0 }
  inside { leak = leak $0 "\n" }
  inside && !decided && /^ *#[0-9]+/ && !/ in (operator new|malloc|calloc|realloc|posix_memalign|aligned_alloc|std::)/ &&
      !/\/(c\+\+|nanobind)\// {
    decided = 1
    ours = / [^ ]*\/(loader|cuda|python\/src)\/[^ ]*[.][ch]pp:/ && index($0, root) > 0
  }
  END { finish(); exit found > 0 }
' || failed=1
[ "$failed" = 0 ] && echo "python_asan: no error, and no leak of h5feed"
exit "$failed"
