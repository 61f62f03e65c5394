#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the static libraries that the wheels contain, from the sources of Debian 12's packages: libhdf5 without the S3
# driver (which needs libcurl), and three modules of OpenCV with the codecs of JPEG, PNG, TIFF, WebP and BMP. All symbols
# are hidden, because h5py, netCDF4 and OpenCV's own package bring theirs into the same process.
#   tools/scripts/wheel_libraries.sh FOLDER
# Installs them in FOLDER/hdf5 and FOLDER/opencv; one that is there stays. Called by wheel.sh.
set -euo pipefail

declare -A sources=(
  [hdf5]=h/hdf5/hdf5_1.10.8+repack1.orig.tar.gz
  [opencv]=o/opencv/opencv_4.6.0+dfsg.orig.tar.xz
)
declare -A checksums=(
  [hdf5]=7b38e58ff83b13fd8959a90b13bf896bc318ba096c940ab0847abf3ad41a0b31
  [opencv]=40a59ba7e5c18a43652de0a08733c9843a39bba619b1f3e26a5fac4a6f041423
)

mkdir -p "$1"
out=$(realpath "$1")
export CFLAGS="-O2 -fPIC -fvisibility=hidden" CXXFLAGS="-O2 -fPIC -fvisibility=hidden"

# Says on the way out what was not built, and removes what there is of it.
library=
finish() {
  [ $? = 0 ] || {
    echo "wheel_libraries: $library was not built: $(tail -1 "$out/$library.log"); see $out/$library.log" >&2
    rm -rf "${out:?}/$library"
  }
}
trap finish EXIT

# unpack SOURCE SHA256: gets a source from Debian's pool and unpacks it in $out/source.
unpack() {
  local mirror archive
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' | sed -n 1p)
  [ -n "$mirror" ] || {
    echo "apt knows no mirror of Debian 12; run apt-get update"
    exit 1
  }
  archive=$out/$(basename "$1")
  rm -rf "$out/source"
  mkdir -p "$out/source"
  /usr/lib/apt/apt-helper -qq -o APT::Sandbox::User=root download-file "${mirror%/}/pool/main/$1" "$archive" "SHA256:$2"
  tar -xf "$archive" -C "$out/source" --strip-components=1
}

# build_hdf5: for C and C++, configured as Debian does, but for S3.
build_hdf5() {
  cd "$out/source"
  ./configure --prefix="$out/hdf5" --disable-shared --enable-build-mode=production --with-default-api-version=v18 \
    --enable-unsupported --enable-threadsafe --enable-cxx --with-zlib --with-szlib --disable-hl --disable-tests --disable-tools
  make -j "$(nproc)" -C src install
  make -j "$(nproc)" -C c++/src install
  rm -r "$out/hdf5/bin"  # compiler wrappers, which CMake would ask
  cp COPYING "$out/hdf5/"
}

# build_opencv: only what h5feed calls. Debian's own build brings 130 libraries.
build_opencv() {
  local feature options=()
  for feature in ADE EIGEN FFMPEG GDAL GDCM GSTREAMER GTK IPP ITT JASPER LAPACK OPENCL OPENEXR OPENJPEG PROTOBUF QUIRC TBB V4L; do
    options+=("-DWITH_$feature=OFF")
  done
  for feature in JPEG PNG TIFF WEBP ZLIB TESTS PERF_TESTS JAVA SHARED_LIBS opencv_apps opencv_python3; do
    options+=("-DBUILD_$feature=OFF")  # of the codecs the system's are used
  done
  cmake -S "$out/source" -B "$out/source/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$out/opencv" \
    -DBUILD_LIST=core,imgproc,imgcodecs "${options[@]}"
  cmake --build "$out/source/build" --parallel "$(nproc)" --target install
  cp "$out/source/COPYRIGHT" "$out/source/LICENSE" "$out/opencv/"
}

for library in hdf5 opencv; do
  [ ! -d "$out/$library" ] || continue
  (
    unpack "${sources[$library]}" "${checksums[$library]}"
    "build_$library"
  ) >"$out/$library.log" 2>&1
done
rm -rf "$out/source"
