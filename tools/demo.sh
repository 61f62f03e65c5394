#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Complete demonstration: packs Fashion-MNIST into HDF5, measures the loader on it, trains a small CNN from it.
#   tools/demo.sh [CMAKE-ARGUMENT ...]
# Honours CMAKE_PREFIX_PATH, Torch_DIR and CUDACXX. In a second run the training starts within
# seconds.
set -euo pipefail
cd "$(dirname "$0")/.."

source=/usr/share/datasets/fashion-mnist  # Debian's package dataset-fashion-mnist
lowest_accuracy=88

tools/install_deps.sh
tools/scripts/build.sh release demo -- "$@"
h5feed=build/release/h5feed
training=build/release/examples/fashion_mnist
if [ ! -x "$training" ]; then
  echo "tools/demo.sh: the training needs LibTorch; install libtorch-dev, or name one with Torch_DIR" >&2
  exit 1
fi
data=build/demo/fashion.h5

if [ ! -f "$data" ]; then
  mkdir -p "$(dirname "$data")"
  "$h5feed" pack "$data" \
    --idx "train/images=$source/train-images-idx3-ubyte.gz" --idx "train/labels=$source/train-labels-idx1-ubyte.gz" \
    --idx "test/images=$source/t10k-images-idx3-ubyte.gz" --idx "test/labels=$source/t10k-labels-idx1-ubyte.gz"
fi
"$h5feed" info "$data"
"$h5feed" bench "$data" --data train/images --target train/labels --num-workers 0,1,2,4

log=build/demo/training.log
"$training" "$data" --epochs 3 --num-workers 2 | tee "$log"

accuracy=$(sed -n 's/^test accuracy: \([0-9.]*\) %$/\1/p' "$log")
waits=$(sed -n 's/.*waited for data \([0-9.]* %\).*/\1/p' "$log" | paste -sd, | sed 's/,/, /g')
if ! awk -v got="$accuracy" -v least="$lowest_accuracy" 'BEGIN { exit !(got >= least) }'; then
  echo "tools/demo.sh: test accuracy $accuracy % after 3 epochs, expected at least $lowest_accuracy %" >&2
  exit 1
fi
echo "tools/demo.sh: an HDF5 file fed a LibTorch training: test accuracy $accuracy % (at least $lowest_accuracy expected)," \
  "waiting for data $waits of the epochs"
