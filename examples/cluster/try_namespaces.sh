#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains on two hosts, loses a rank, and goes on with fewer. The hosts are network namespaces of this machine, joined by a
# veth pair; each has a name and a local disk of its own.
#   1. Four ranks, two on each host, save one checkpoint every few steps. Rank 3 is killed in mid-epoch, and all ranks end.
#   2. Two ranks on the first host go on from the checkpoint to the end of the epoch.
# Then the script compares which samples every rank was given: those of the steps before the checkpoint and of those after it
# must be each sample of the epoch once, and a step that was lost must have had the samples that it has in the second run.
#   examples/cluster/try_namespaces.sh            build/release/examples/distributed, a process started for each rank
#   examples/cluster/try_namespaces.sh PYTHON     train.py, started by torchrun of that Python, which has torch and h5feed
# Needs build/release/h5feed, `ip` (package iproute2), and root or user namespaces. Where these are missing, prints which, and
# exits with 77.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly samples=3011 global_batch=24 save_every=8 addresses=(10.77.0.1 10.77.0.2)
readonly steps_per_epoch=$(((samples + global_batch - 1) / global_batch))

leave_out() {
  echo "try_namespaces: left out: $*"
  exit 77
}

# Starts itself again in namespaces of its own. Everything made there ends with them: links, mounts, processes.
if [ -z "${H5FEED_IN_NAMESPACES:-}" ]; then
  command -v ip >/dev/null || leave_out "there is no ip; install the package iproute2"
  own=(unshare --net --mount --uts --pid --fork --kill-child --mount-proc)
  [ "$(id -u)" -eq 0 ] || own+=(--user --map-root-user)
  "${own[@]}" true 2>/dev/null || leave_out "this user may not create namespaces"
  H5FEED_IN_NAMESPACES=1 exec "${own[@]}" "$0" "$@"
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/local" "$folder/disk0" "$folder/disk1"
mount -t tmpfs tmpfs /run  # `ip` keeps the names of namespaces there
printf '%s\n' "127.0.0.1 localhost" "${addresses[0]} host0" "${addresses[1]} host1" >"$folder/hosts"
mount --bind "$folder/hosts" /etc/hosts
ip link add veth0 type veth peer name veth1
for host in 0 1; do
  ip netns add "host$host"
  ip link set "veth$host" netns "host$host" name eth0
  ip -n "host$host" addr add "${addresses[$host]}/24" dev eth0
  ip -n "host$host" link set eth0 up
  ip -n "host$host" link set lo up
done

# on_host NUMBER COMMAND...: runs a command there; $folder/local is the host's own disk.
on_host() {
  local host=$1
  shift
  ip netns exec "host$host" unshare --uts sh -c 'hostname "$1" && mount --bind "$2" "$3" && shift 3 && exec "$@"' \
    sh "host$host" "$folder/disk$host" "$folder/local" "$@"
}

# start HOSTS RUN ARGUMENT...: starts two ranks on each host. Their output goes to $folder/RUN.log by way of a pipe, which is
# file descriptor 3 here; `started` are the processes to wait for.
start() {
  local hosts=$1 run=$2 host rank common environment
  shift 2
  common=("$folder/data.h5" --target labels --seed 5 --global-batch "$global_batch" --checkpoint "$folder/checkpoint"
    --save-every "$save_every" --stage-dir "$folder/local" --log-steps --log-indices "$folder/$run"
    --epoch-log "$folder/epochs.jsonl" "$@")
  mkfifo "$folder/$run.pipe"
  started=()
  for ((host = 0; host < hosts; ++host)); do
    environment=(env OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=eth0)
    if [ -n "$python" ]; then
      on_host "$host" "${environment[@]}" "$python" -m torch.distributed.run --nnodes "$hosts" --nproc-per-node 2 \
        --rdzv-backend c10d --rdzv-endpoint "${addresses[0]}:29400" --rdzv-id "$run" --max-restarts 0 \
        examples/cluster/train.py "${common[@]}" >"$folder/$run.pipe" 2>&1 &
      started+=($!)
      continue
    fi
    for local_rank in 0 1; do
      rank=$((2 * host + local_rank))
      on_host "$host" "${environment[@]}" RANK="$rank" LOCAL_RANK="$local_rank" WORLD_SIZE=$((2 * hosts)) LOCAL_WORLD_SIZE=2 \
        MASTER_ADDR="${addresses[0]}" MASTER_PORT=29500 build/release/examples/distributed "${common[@]}" \
        >"$folder/$run.pipe" 2>&1 &
      started+=($!)
    done
  done
  exec 3<"$folder/$run.pipe"
}

fail() {
  echo "try_namespaces: $*" >&2
  tail -n 40 "$folder"/*.log >&2
  exit 1
}

python=${1:-}
[ -x build/release/h5feed ] && [ -n "$python" -o -x build/release/examples/distributed ] ||
  fail "build first: tools/scripts/build.sh release h5feed_program distributed"
build/release/h5feed generate "$folder/data.h5" --samples "$samples" --shape 3,16,16 --chunk 100 --filter gzip:1 --seed 1 >/dev/null

start 2 killed --epochs 1000
victim=
while read -r line <&3; do
  echo "$line" >>"$folder/killed.log"
  [[ -z $victim && $line == *"step $((3 * save_every + 3)) "* ]] || continue
  # This file system of processes shows those of this script alone.
  victim=$(grep -slzx 'RANK=3' /proc/[0-9]*/environ | cut -d/ -f3)
  kill -KILL $victim
done
[ -n "$victim" ] || fail "the training ended before its rank 3 was killed"
for process in "${started[@]}"; do
  ! wait "$process" || fail "a process of a training that lost a rank ended as if nothing had happened"
done
for host in 0 1; do
  [ "$(find "$folder/disk$host" -name '*.h5' | wc -l)" = 1 ] || fail "host $host has not exactly one copy of the file"
done

saved=$(grep -o 'saved after step [0-9]*' "$folder/killed.log" | tail -1 | cut -d' ' -f4)
epoch=$((saved / steps_per_epoch))
start 1 resumed --epochs $((epoch + 1))
cat <&3 >"$folder/resumed.log"
for process in "${started[@]}"; do wait "$process" || fail "the resumed training failed"; done
resumed=$(grep -o 'resumed after step [0-9]*' "$folder/resumed.log" | cut -d' ' -f4)
[ "$(ls "$folder"/killed | wc -l) $(ls "$folder"/resumed | wc -l)" = "4 2" ] || fail "not four ranks and then two logged"

# From lines of a step and its samples: a line "STEP SAMPLE" for each sample of the epoch.
pairs() {
  awk -v first=$((epoch * steps_per_epoch)) -v last=$(((epoch + 1) * steps_per_epoch)) \
    '$1 > first && $1 <= last { for (i = 2; i <= NF; ++i) print $1, $i }' "$folder/$1"/rank-*.txt | LC_ALL=C sort
}
pairs killed >"$folder/before"
pairs resumed >"$folder/after"
awk -v resumed="$resumed" '$1 > resumed' "$folder/before" >"$folder/lost"
awk -v resumed="$resumed" '$1 <= resumed' "$folder/before" >"$folder/kept"
again=$(LC_ALL=C comm -23 "$folder/lost" "$folder/after" | wc -l)
[ "$again" = 0 ] || fail "$again samples of lost steps came in another step after the checkpoint"
[ "$(cat "$folder/kept" "$folder/after" | awk '{ print $2 }' | sort -n)" = "$(seq 0 $((samples - 1)))" ] ||
  fail "not every sample of the epoch came exactly once: $(wc -l <"$folder/kept") before the checkpoint, $(wc -l <"$folder/after") after it"
[ -s "$folder/kept" ] || fail "the checkpoint is not one of mid-epoch"
echo "try_namespaces: 4 ranks on 2 hosts, rank 3 killed, resumed after step $resumed with 2 ranks: $(wc -l <"$folder/kept")" \
  "samples before the checkpoint and $(wc -l <"$folder/after") after it are each of $samples once" \
  "($(wc -l <"$folder/lost") of lost steps came again in the same steps)"
