#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages (12 and 13) that h5feed is built from. If they are installed already, does nothing
# and needs no root; otherwise uses sudo, or prints the command to run and exits 1.
#   tools/install_deps.sh [--format] [--sanitizers] [--python] [--corpus] [--network] [--browser] [--packages] [--analysis] [--coverage]
#     --format      also the formatter that .ci/run checks with, clang-format 14; Debian 12 only
#     --sanitizers  also Clang 14, the compiler of the sanitizer presets, with its sanitizers and libFuzzer;
#                   Debian 12 only
#     --python      also the headers of Python and its module venv, for the Python package, and make and xz, for its wheels
#     --browser     also Chromium, in which tools/scripts/browser_check.sh opens pages of h5feed report
#     --corpus      also Debian's own h5py, an old one, which writes a part of the corpus (tests/conformance/corpus)
#     --packages    also what makes Debian packages (tools/scripts/deb.sh)
#     --coverage    also the programs of LLVM 14 that tools/scripts/coverage.sh reads counters with; Debian 12 only
#     --analysis    also clang-tidy 14 and cppcheck, for tools/scripts/analysis.sh; Debian 12 only
#     --network     also ip, with which examples/cluster/try_namespaces.sh makes hosts of network namespaces
set -euo pipefail

packages=(
  g++ cmake ninja-build git
  libhdf5-dev libtbb-dev libopencv-dev libjpeg-dev libdeflate-dev liblz4-dev libzstd-dev zlib1g-dev
  liblzf-dev libblosc-dev libbz2-dev libaec-dev libzfp-dev
  libcli11-dev nlohmann-json3-dev libspdlog-dev libfmt-dev
  libssl-dev
  libgtest-dev libgmock-dev libbenchmark-dev
  dataset-fashion-mnist patch
)
# Debian 12 has no c-blosc2, which is optional.
[ "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" = bookworm ] || packages+=(libblosc2-dev)
# Whether the user names a LibTorch, which is then used instead of Debian's.
names_torch() {
  [ -z "${Torch_DIR:-}" ] || return 0
  local IFS=':;' prefix
  for prefix in ${CMAKE_PREFIX_PATH:-}; do
    [ ! -f "$prefix/Torch/TorchConfig.cmake" ] || return 0
    [ ! -f "$prefix/share/cmake/Torch/TorchConfig.cmake" ] || return 0
  done
  return 1
}
# Without OpenBLAS, Debian's LibTorch multiplies matrices by the reference BLAS, which is several times slower.
names_torch || packages+=(libtorch-dev libgloo-dev libopenblas0-pthread)
for argument in "$@"; do
  case $argument in
    --format) packages+=(clang-format-14) ;;
    --sanitizers) packages+=(clang-14 libclang-rt-14-dev lld) ;;
    --python) packages+=(python3-dev python3-venv make xz-utils) ;;
    --corpus) packages+=(python3-h5py) ;;
    --network) packages+=(iproute2) ;;
    --browser) packages+=(chromium) ;;
    --analysis) packages+=(clang-14 clang-tidy-14 cppcheck) ;;
    --coverage) packages+=(llvm-14) ;;
    --packages) packages+=(dpkg-dev file) ;;
    *) echo "install_deps: unknown argument $argument" >&2; exit 2 ;;
  esac
done

if ! command -v dpkg-query >/dev/null; then
  echo "install_deps: this is not Debian; install what these packages hold: ${packages[*]}" >&2
  exit 1
fi
missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "install_deps: all ${#packages[@]} packages are installed"
  exit 0
fi

export DEBIAN_FRONTEND=noninteractive
line="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
if [ "$(id -u)" -eq 0 ]; then
  root=()
elif command -v sudo >/dev/null && sudo -v; then
  root=(sudo --preserve-env=DEBIAN_FRONTEND)
else
  echo "install_deps: run this as root: $line" >&2
  exit 1
fi
echo "install_deps: installing ${missing[*]}"
"${root[@]}" apt-get update -qq
"${root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
echo "install_deps: installed ${#missing[@]} packages, ${#packages[@]} are there"
