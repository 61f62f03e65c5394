#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests that read and write files on several file systems, and then loads from a sparse file of 100 GB there.
#   tools/scripts/file_systems.sh [tmpfs|ext4|overlay ...]     without names: all
# Needs root, which mounts them below a temporary folder. Prints one line for each file system. Needs a release build.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$PWD/build/release
tests=(store_test isolation_test stage_test data_loader_test tools_test faults_test oracle_test interruptions_test)

[ $# -gt 0 ] || set -- tmpfs ext4 overlay
for name in "$@"; do
  [[ " tmpfs ext4 overlay " == *" $name "* ]] ||
    { echo "file_systems: unknown file system $name; known are tmpfs, ext4 and overlay" >&2; exit 2; }
done
[ "$(id -u)" -eq 0 ] || { echo "file_systems: run this as root, which may mount file systems" >&2; exit 1; }
tools/scripts/build.sh release "${tests[@]}" scale h5feed_program

folder=$(mktemp -d)
unmount() {
  umount "$folder"/mnt-* 2>/dev/null || true
  rm -rf --one-file-system "$folder"
}
trap unmount EXIT

# mount_new NAME: mounts an empty file system at $folder/mnt-NAME.
mount_new() {
  local at=$folder/mnt-$1
  mkdir -p "$at"
  case $1 in
    tmpfs) mount -t tmpfs -o size=4G tmpfs "$at" ;;
    ext4)
      truncate -s 8G "$folder/ext4.img"
      mkfs.ext4 -q "$folder/ext4.img"
      mount -o loop "$folder/ext4.img" "$at"
      ;;
    overlay)
      # The layers lie on a tmpfs, because the temporary folder may be on an overlay itself, which cannot be an upper layer.
      mkdir -p "$folder/mnt-layers"
      mount -t tmpfs -o size=4G tmpfs "$folder/mnt-layers"
      mkdir "$folder/mnt-layers"/{lower,upper,work}
      mount -t overlay overlay -o "lowerdir=$folder/mnt-layers/lower,upperdir=$folder/mnt-layers/upper,workdir=$folder/mnt-layers/work" "$at"
      ;;
  esac
}

for name in "$@"; do
  mount_new "$name"
  at=$folder/mnt-$name
  log=$build/file_systems-$name.log
  : >"$log"
  for test in "${tests[@]}"; do
    program=$(find "$build/tests" -name "$test" -type f)
    TMPDIR=$at TEST_TMPDIR=$at "$program" >>"$log" 2>&1 ||
      { grep '^\[  FAILED  \]' "$log" >&2; echo "file_systems: $test fails on $name; see $log" >&2; exit 1; }
  done
  big=$("$build/benchmarks/scale" "$at" sparse_gb | tail -1)
  [[ $big != *error* ]] || { echo "file_systems: $name: $big" >&2; exit 1; }
  # Of each binary, the last line but for skipped tests has the number of those that passed.
  echo "$name: $(awk '/^\[  PASSED  \]/ {sum += $4} END {print sum}' "$log") tests passed; 100 GB: $big"
  rm -rf "${at:?}"/*
done
