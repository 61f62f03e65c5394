#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two ranks on each of the named hosts, started by Open MPI's mpirun. MPI starts the processes; their sums go by NCCL or Gloo.
#   examples/cluster/mpi.sh HOST,HOST... FILE.h5 [ARGUMENT OF train.py ...]
# The first host has rank 0. Needs ssh without a password to each host, this folder at the same path on each, and further
# options of mpirun in MPIRUN_OPTIONS. A run that ended is started again in the same way, also with other hosts; it goes on
# from the checkpoint in the current folder, which all hosts share.
set -euo pipefail

hosts=$1
shift
slots=${hosts//,/:2,}:2
# Without --bind-to none, mpirun gives each rank one core, which its reading threads would share with the training.
# shellcheck disable=SC2086
exec mpirun --host "$slots" --npernode 2 --bind-to none ${MPIRUN_OPTIONS:-} \
  -x MASTER_ADDR="${hosts%%,*}" -x MASTER_PORT="${MASTER_PORT:-29500}" -x OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}" -x PATH \
  "${PYTHON:-python3}" "$(dirname "$0")/train.py" "$@" \
  --checkpoint "$PWD/train.pt" --stage-dir "${STAGE_DIR:-/tmp}" --epoch-log "$PWD/epochs.jsonl"
