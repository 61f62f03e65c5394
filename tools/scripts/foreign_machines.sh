#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the decoders, the order, the conversion of batches and the conformance tests for other processors, on an x86-64
# machine with Debian 12, and runs their tests under QEMU's user emulation. s390x is big-endian, and some of its tests fail (docs/known-flaws.md).
#   tools/scripts/foreign_machines.sh [ARCH ...]     arm64 (the default) or s390x, Debian's names
# Installs cross compilers and QEMU, which needs root. The libraries of the other architecture are not installed: they are
# unpacked to build/foreign/ARCH/sysroot. Prints one line for each architecture: tests that passed, were skipped and failed.
# H5FEED_JOBS sets how many sources are compiled at a time; the default is one for each processor.
set -euo pipefail
cd "$(dirname "$0")/../.."

tests=(plan_test batch_test store_test zfp_test conformance_test)
# It starts its own program again, which the machine cannot do without the emulator.
left_out=(StoreWriterDeathTest.a_full_disk_is_one_error_and_leaves_nothing)
# What h5feed without OpenCV, LibTorch and CUDA is built and tested with.
packages=(
  libhdf5-dev libtbb-dev libdeflate-dev liblz4-dev libzstd-dev zlib1g-dev liblzf-dev libblosc-dev libbz2-dev libaec-dev
  libzfp-dev libspdlog-dev libfmt-dev libgtest-dev libgmock-dev libstdc++6
)

# install_tools ARCH ...: cross compilers and the emulator, unless they are installed.
install_tools() {
  local arch missing=()
  command -v qemu-"$(processor_of "$1")"-static >/dev/null || missing+=(qemu-user-static)
  for arch in "$@"; do
    command -v "$(processor_of "$arch")-linux-gnu-g++" >/dev/null || missing+=("g++-$(processor_of "$arch")-linux-gnu")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  [ "$(id -u)" -eq 0 ] || { echo "foreign_machines: run this as root: apt-get install ${missing[*]}" >&2; return 1; }
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# processor_of ARCH: the name that GNU and QEMU have for Debian's architecture.
processor_of() {
  case $1 in
    arm64) echo aarch64 ;;
    s390x) echo s390x ;;
    *) echo "foreign_machines: unknown architecture $1; known are arm64 and s390x" >&2; return 1 ;;
  esac
}

# make_sysroot ARCH FOLDER: unpacks the packages of ARCH and all that they depend on to FOLDER/sysroot. apt reads the
# machine's sources, but has its own state in FOLDER/apt, in which nothing is installed.
make_sysroot() {
  local arch=$1 sysroot=$2/sysroot state=$2/apt package link target
  [ "$(cat "$sysroot/packages" 2>/dev/null)" != "${packages[*]}" ] || return 0
  rm -rf "$sysroot" "$state"
  mkdir -p "$sysroot" "$state/lists/partial" "$state/cache/archives/partial"
  : >"$state/status"
  local apt=(apt-get -qq -o "APT::Architecture=$arch" -o "APT::Architectures=$arch" -o "Dir::State=$state"
    -o "Dir::State::status=$state/status" -o "Dir::Cache=$state/cache" -o APT::Sandbox::User= -o Debug::NoLocking=true)
  "${apt[@]}" update
  "${apt[@]}" install -y --no-install-recommends --download-only "${packages[@]}" >/dev/null
  for package in "$state"/cache/archives/*.deb; do
    dpkg -x "$package" "$sysroot"
  done
  # Links to /..., which would lead out of the sysroot.
  find "$sysroot" -lname '/*' -print0 | while IFS= read -r -d '' link; do
    target=$(readlink "$link")
    ln -snf "$(realpath -sm --relative-to="$(dirname "$link")" "$sysroot$target")" "$link"
  done
  echo "${packages[*]}" >"$sysroot/packages"
}

# write_toolchain PROCESSOR FOLDER: FOLDER/toolchain.cmake, and FOLDER/h5cc and h5c++, which CMake asks where HDF5 is.
write_toolchain() {
  local processor=$1 folder=$2 tool
  for tool in h5cc h5c++; do
    sed "s|^prefix=.*|prefix=\"$folder/sysroot/usr\"|; s|^\(C[A-Z]*BASE\)=\"\(g[c+][c+]\)\"|\1=\"$processor-linux-gnu-\2 --sysroot=$folder/sysroot\"|" \
      "$folder/sysroot/usr/bin/$tool" >"$folder/$tool"
    chmod +x "$folder/$tool"
  done
  cat >"$folder/toolchain.cmake" <<CMAKE
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR $processor)
set(CMAKE_C_COMPILER $processor-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER $processor-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE $processor-linux-gnu)
set(CMAKE_SYSROOT "$folder/sysroot")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-$processor-static -L "$folder/sysroot")
set(HDF5_C_COMPILER_EXECUTABLE "$folder/h5cc")
set(HDF5_CXX_COMPILER_EXECUTABLE "$folder/h5c++")
CMAKE
}

# count WORD LOG: how many tests ended with that word.
count() { grep -c "^\[ *$1 *\] .* ms)" "$2" || true; }

# check ARCH: builds and tests for one architecture, and prints its line.
check() {
  local arch=$1 folder=$PWD/build/foreign/$1 processor name path log filter ended=()
  processor=$(processor_of "$arch")
  mkdir -p "$folder"
  make_sysroot "$arch" "$folder"
  write_toolchain "$processor" "$folder"
  # PRE_TEST: programs would be run during the build, to list their tests.
  cmake -S . -B "$folder/build" -G Ninja "-DCMAKE_TOOLCHAIN_FILE=$folder/toolchain.cmake" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_GTEST_DISCOVER_TESTS_DISCOVERY_MODE=PRE_TEST -DH5FEED_COMPILE_TOGETHER=ON -DH5FEED_WITH_TORCH=OFF \
    -DH5FEED_WITH_CUDA=OFF -DH5FEED_WITH_OPENCV=OFF -DH5FEED_BUILD_PYTHON=OFF -DH5FEED_BUILD_TOOLS=OFF \
    -DH5FEED_BUILD_EXAMPLES=OFF -DH5FEED_BUILD_BENCHMARKS=OFF -DH5FEED_INSTALL=OFF \
    >"$folder/configure.log" 2>&1 || { cat "$folder/configure.log" >&2; return 1; }
  cmake --build "$folder/build" -j "${H5FEED_JOBS:-$(nproc)}" --target "${tests[@]}"

  log=$folder/tests.log
  filter=-$(IFS=:; echo "${left_out[*]}")
  : >"$log"
  for name in "${tests[@]}"; do
    path=$(find "$folder/build/tests" -name "$name" -type f)
    HDF5_PLUGIN_PRELOAD=:: "qemu-$processor-static" -L "$folder/sysroot" "$path" "--gtest_filter=$filter" >>"$log" 2>&1 ||
      ended+=("$name ($?)")
  done
  grep -B20 '^\[  FAILED  \] .* ms)' "$log" || true
  echo "$arch, QEMU $("qemu-$processor-static" --version | sed -n 's/.*version \([0-9.]*\).*/\1/p'):" \
    "$(count OK "$log") tests passed, $(count SKIPPED "$log") skipped, $(count FAILED "$log") failed, ${#left_out[@]} left out"
  [ ${#ended[@]} -eq 0 ] || { echo "foreign_machines: $arch: failed, with the exit status: ${ended[*]}; see $log" >&2; return 1; }
}

[ $# -gt 0 ] || set -- arm64
for arch in "$@"; do
  processor_of "$arch" >/dev/null
done
install_tools "$@"
for arch in "$@"; do
  check "$arch"
done
