#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages in build/deb/packages: libh5feed0.2 (the shared library and the reader process), h5feed (the
# program), h5feed-images (the codecs of encoded images) and libh5feed-dev. They are without the CUDA part, whose toolkit
# Debian's main archive does not have. Checks the exported symbols of the library.
#   tools/scripts/deb.sh [CMAKE-ARGUMENT ...]   e.g. "-DH5FEED_DEBIAN_MAINTAINER=NAME <ADDRESS>"
#   tools/scripts/deb.sh try                    as root, on a machine to throw away: installs what was built, uses the program
#                                               and the library as a user does, and removes the packages again
set -euo pipefail
cd "$(dirname "$0")/../.."
build=build/deb

fail() {
  echo "deb: $*" >&2
  exit 1
}

build_packages() {
  tools/install_deps.sh --packages
  mkdir -p "$build"
  cmake --preset release -B "$build" -DBUILD_SHARED_LIBS=ON -DCMAKE_INSTALL_PREFIX=/usr -DH5FEED_COMPILE_TOGETHER=ON \
    -DH5FEED_WITH_CUDA=OFF -DH5FEED_BUILD_PYTHON=OFF -DH5FEED_BUILD_TESTS=OFF -DH5FEED_BUILD_BENCHMARKS=OFF \
    -DH5FEED_BUILD_EXAMPLES=OFF "$@" >"$build/configure.log" 2>&1 || { cat "$build/configure.log" >&2; exit 1; }
  cmake --build "$build"
  tools/scripts/exported_symbols.sh "$build/loader/libh5feed.so"
  rm -rf "$build/packages"
  (cd "$build" && cpack -B packages >packages.log 2>&1) || { cat "$build/packages.log" >&2; exit 1; }
  rm -rf "$build/packages/_CPack_Packages"
  du -h "$build"/packages/*.deb
}

# try_packages: each step fails on its own; the data are images, stored raw and encoded.
try_packages() {
  local packages=("$PWD/$build"/packages/*.deb) source=$PWD
  [ -e "${packages[0]}" ] || fail "there are no packages in $build/packages; run tools/scripts/deb.sh first"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  apt-get install -y -qq --no-install-recommends "${packages[@]}" g++ cmake make >/dev/null
  cd "$work"
  h5feed generate raw.h5 --samples 100 --shape 1,8,8 --dtype u8 --classes 10 --chunk 10 --filter gzip:4
  h5feed check raw.h5  # by the reader process
  H5FEED_READER=/nonexistent h5feed info raw.h5 && fail "h5feed info did not use the reader process"
  h5feed bench raw.h5 --target labels
  mkdir -p photos/red
  printf 'P3\n2 1\n255\n255 0 0  255 0 0\n' >photos/red/a.ppm
  h5feed pack photos.h5 --images photos --store bytes
  h5feed check photos.h5
  man --version >/dev/null 2>&1 && man -w h5feed
  cmake -S "$source/tests/package/consumer" -B consumer -DCMAKE_BUILD_TYPE=Debug -DEXPECT_TORCH=OFF -DEXPECT_CUDA=OFF >configure.log
  cmake --build consumer >build.log
  consumer/consumer "$work/raw.h5"
  consumer/nvml_consumer "$work/raw.h5"
  ldd consumer/consumer | grep 'libh5feed\.so' || fail "the consumer was not linked with the shared library"
  dpkg --purge libh5feed-dev h5feed h5feed-images libh5feed0.2
  local left
  left=$(find /usr -name '*h5feed*' ! -path "$work/*")
  [ -z "$left" ] || fail "after removal there are still: $left"
  echo "deb: installed, used and removed ${#packages[@]} packages on $(. /etc/os-release && echo "$PRETTY_NAME")"
}

if [ "${1:-}" = try ]; then
  try_packages
elif [[ "${1:--}" != -* ]]; then
  sed -n 's/^#   //p' "$0" >&2
  exit 2
else
  build_packages "$@"
fi
