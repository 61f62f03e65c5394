#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a virtual environment with what the Python package h5feed is built and tested with, and prints the path of its
# interpreter. PyTorch and JAX are left to the user: tests that need them are skipped without them.
#   tools/scripts/python_env.sh [FOLDER]     default: build/python-env
# Honours PYTHON, the interpreter to start from. If the environment is complete, needs no network. Otherwise, without Python
# 3.11 or without PyPI, says so on stderr and exits with 1.
set -euo pipefail

folder=${1:-$(dirname "$0")/../../build/python-env}
base=${PYTHON:-python3}
packages=("nanobind>=3.1" nanobind-backend "numpy>=1.25" h5py hypothesis mypy pytest pyyaml)
modules="import h5py, hypothesis, mypy, nanobind, nanobind_backend, numpy, pytest, yaml"

python=$folder/bin/python
if ! "$python" -c "$modules" 2>/dev/null; then
  if ! "$base" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "python_env: $base is no Python 3.11 or later; name one with PYTHON" >&2
    exit 1
  fi
  "$base" -m venv "$folder" >&2 || { echo "python_env: $base cannot make $folder; install python3-venv" >&2; exit 1; }
  if ! "$python" -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 20 "${packages[@]}" >&2; then
    echo "python_env: these packages could not be installed from PyPI: ${packages[*]}" >&2
    exit 1
  fi
fi
echo "$(cd "$folder" && pwd)/bin/python"
