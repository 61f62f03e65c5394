#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fails unless a shared library of h5feed exports only what its public headers declare, and what h5feed::gpu, which is a
# library of its own, calls of the loader. Prints how many symbols there are.
#   tools/scripts/exported_symbols.sh LIBRARY      e.g. build/deb/loader/libh5feed.so
set -euo pipefail
library=$(realpath "$1")
cd "$(dirname "$0")/../.."

# What is marked H5FEED_EXPORT outside of the public headers.
internal=$(grep -rhE --include='*.[ch]pp' --exclude-dir=include H5FEED_EXPORT loader | grep -oE '[A-Za-z_0-9]+(\(|<| \{| final)' | tr -d '(<{ ')
names=$(sed 's,//.*,,' loader/include/h5feed/*.hpp cuda/include/h5feed/*.hpp | grep -oE '[A-Za-z_][A-Za-z_0-9]*' | sort -u)

count=0 foreign=()
while read -r symbol; do
  count=$((count + 1))
  # Names within the namespace h5feed, each after its length: class, nested class, member. Operators have no length.
  if [[ $symbol =~ ^_Z(T[ISV]|GV)?NK?[RO]?6h5feed([0-9].*)$ ]]; then
    rest=${BASH_REMATCH[2]}
    while [[ $rest =~ ^([0-9]+)(.*)$ ]]; do
      name=${BASH_REMATCH[2]:0:${BASH_REMATCH[1]}}
      rest=${BASH_REMATCH[2]:${BASH_REMATCH[1]}}
      grep -qxF "$name" <<<"$internal" && break
      grep -qxF "$name" <<<"$names" && continue
      foreign+=("$symbol")
      break
    done
  elif [[ ! $symbol =~ ^_ZNK?[RO]?6h5feed[a-z][a-zA-Z] ]]; then
    foreign+=("$symbol")
  fi
done < <(nm -D --defined-only --format=posix "$library" | cut -d' ' -f1 | sed 's/@.*//')

if [ "$count" -lt 100 ] || [ ${#foreign[@]} -gt 0 ]; then
  printf '%s\n' "${foreign[@]}" | c++filt >&2
  echo "exported_symbols: $library exports ${#foreign[@]} symbols that no public header declares, of $count" >&2
  exit 1
fi
echo "exported_symbols: $library exports $count symbols, all declared by public headers"
