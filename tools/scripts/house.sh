#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the facts of the house and prints them: sources in each folder, lines of each file, length of the README,
# license lines, every include against the tables of docs/rooms.md, and that these tables have no cycle.
#   tools/scripts/house.sh [ROOT]     ROOT: another tree to check, by its own docs/rooms.md if it has one;
#                                     default: this repository
# Exits with 1 after one line for each violation, "FILE:LINE: what is wrong".
set -euo pipefail

readonly most_sources=32 most_lines=400 most_readme_lines=150
tables=$(cd "$(dirname "$0")/../.." && pwd)/docs/rooms.md
cd "${1:-$(dirname "$0")/../..}"
[ ! -f docs/rooms.md ] || tables=docs/rooms.md

# Prints the files whose paths match a pattern, hidden files and build folders excepted.
files_like() {
  find . -mindepth 1 \( -path './.*' -o -path './build*' \) -prune -o -type f -regextype posix-extended -regex "$1" -print |
    sed 's|^\./||' | LC_ALL=C sort
}
mapfile -t sources < <(files_like '.*\.(cpp|hpp|h|cu|cuh|cc|inl)')
mapfile -t python < <(files_like '.*\.(py|pyi)')
mapfile -t scripts < <(files_like '.*(\.(sh|pyi?|cmake|in)|/CMakeLists\.txt)')
[ ! -f .ci/run ] || scripts+=(.ci/run)
violations=$(mktemp)
trap 'rm -f "$violations"' EXIT

# Folders of the library and the program; tests are found by the name of what they test.
printf '%s\n' "${sources[@]}" | awk -v most="$most_sources" '
  /^(loader|cuda|tools)\// { sub("/[^/]*$", ""); ++count[$0] }
  END {
    for (folder in count) if (count[folder] > most) printf "%s: %d sources, at most %d\n", folder, count[folder], most
  }' >>"$violations"

if [ ${#scripts[@]} -gt 0 ]; then
  # A line for the interpreter, and one more, may come first.
  awk '
    FNR == 1 { missing[FILENAME] }
    FNR <= 3 && /SPDX-License-Identifier: Apache-2.0/ { delete missing[FILENAME] }
    END { for (file in missing) print file ":1: no license line (SPDX-License-Identifier)" }
  ' "${scripts[@]}" >>"$violations"
fi

if [ $((${#sources[@]} + ${#python[@]})) -gt 0 ]; then
  awk -v most="$most_lines" '
    FNR == 1 && FILENAME !~ /[.]pyi?$/ && !/SPDX-License-Identifier: Apache-2.0/ { print FILENAME ":1: no license line (SPDX-License-Identifier)" }
    FNR == most + 1 { print FILENAME ":" FNR ": more than " most " lines; split it by purpose" }
  ' "${sources[@]}" "${python[@]}" >>"$violations"
fi

if [ ${#sources[@]} -gt 0 ]; then
  awk '
    function words(text, into,    n, parts, i) {  # the texts between backquotes
      split("", into)
      n = split(text, parts, "`")
      for (i = 2; i <= n; i += 2) into[parts[i]] = 1
    }
    function folder_of(file,    slash) {
      for (slash = length(file); slash > 0 && substr(file, slash, 1) != "/"; --slash) {}
      return substr(file, 1, slash - 1)
    }
    # The nearest folder of `file` that the table lists. In loader, cuda and tools each folder has its own row.
    function room_of(file,    folder) {
      folder = folder_of(file)
      if (folder in allowed || folder ~ /^(loader|cuda|tools)(\/|$)/) return folder in allowed ? folder : ""
      while (folder != "" && !(folder in allowed)) folder = folder_of(folder)
      return folder
    }
    # The row that an included path belongs to, by the name that includes use: without loader/ and tests/.
    function target_of(header,    folder) {
      folder = folder_of(header)
      while (folder != "") {
        if (folder == "h5feed" || folder ~ /^h5feed\//) return "h5feed"
        if (("loader/" folder) in allowed) return folder
        if (folder in allowed || folder == "support") return folder
        folder = folder_of(folder)
      }
      return folder_of(header)
    }
    # Whether a header between angle brackets is one of a room: libraries have folders of other names, and those
    # of CUDA, <cuda/std/array>, have no suffix.
    function is_own(header, target) {
      return header ~ /[.](hpp|h|cuh|inl)$/ &&
        (target == "h5feed" || target == "support" || ("loader/" target) in allowed || target in allowed)
    }
    function may(room, target,    own, list) {
      own = room
      sub(/^(loader|benchmarks)\//, "", own)
      if (target == "h5feed" || target == own || everything[room]) return 1
      words(allowed[room], list)
      if (target in list) return 1
      if (("loader" in list) && (("loader/" target) in allowed)) return 1
      # A listed folder includes its rooms, but for the rooms of loader, which the table lists one by one.
      if (room ~ /^(benchmarks|tests)/) {
        while ((target = folder_of(target)) != "") if (target in list) return 1
      }
      return 0
    }
    # Whether the row of `room` lists `other`, itself or as one of the rooms of loader.
    function lists(room, other,    name, list) {
      name = other
      sub(/^loader\//, "", name)
      words(allowed[room], list)
      return everything[room] || (name in list) || (("loader" in list) && other ~ /^loader\//)
    }
    # Follows the rows of the table from `room`, depth first; `trail` is the way there.
    function find_cycles(room, trail,    other) {
      if (seen[room] == "left") return
      if (seen[room] == "entered") {
        print "docs/rooms.md: the folders include each other in a circle: " \
          substr(trail, index(trail, " " room " →") + 1) " " room
        return
      }
      seen[room] = "entered"
      for (other in allowed) if (other != room && lists(room, other)) find_cycles(other, trail " " room " →")
      seen[room] = "left"
    }
    FILENAME == tables {
      if (/^## /) part = $2
      if (part == "Folders" && /^\| `/) {
        split($0, cell, "|")
        words(cell[2], name)
        for (folder in name) {
          allowed[folder] = cell[4]
          everything[folder] = cell[4] ~ /^ all $/
        }
      } else if (part == "Libraries" && /^- [*][*]/) {
        split($0, quoted, "`")
        ++libraries
        library[libraries] = $2
        gsub(/[*]/, "", library[libraries])
        header_pattern[libraries] = quoted[2]
        rest = $0
        sub(/^[^`]*`[^`]*`/, "", rest)
        users[libraries] = rest
      }
      next
    }
    FNR == 1 {
      room = room_of(FILENAME)
      if (room == "") print FILENAME ": its folder is not in the table of docs/rooms.md"
    }
    room != "" && /^[ \t]*#[ \t]*include[ \t]*[<"]/ {
      line = $0
      sub(/^[ \t]*#[ \t]*include[ \t]*/, "", line)
      quoted_include = substr(line, 1, 1) == "\""
      header = substr(line, 2)
      sub(/[>"].*$/, "", header)
      where = FILENAME ":" FNR ": includes " (quoted_include ? "\"" header "\"" : "<" header ">") ": "
      if (quoted_include && header !~ /\//) {
        print FILENAME ":" FNR ": includes \"" header "\" without its folder"
        next
      }
      target = target_of(header)
      if (quoted_include || is_own(header, target)) {
        if (!may(room, target)) print where room " must not use " target
        next
      }
      for (i = 1; i <= libraries; ++i) {
        if (header !~ header_pattern[i]) continue
        words(users[i], list)
        fine = 0
        for (prefix in list) if (index(FILENAME, prefix) == 1) fine = 1
        if (!fine) print where library[i] " has no place there"
      }
    }
    END { for (room in allowed) find_cycles(room, "") }
  ' tables="$tables" "$tables" "${sources[@]}" >>"$violations"
fi

readme_lines=0
[ ! -f README.md ] || readme_lines=$(wc -l <README.md)
if [ "$readme_lines" -gt "$most_readme_lines" ]; then
  echo "README.md: $readme_lines lines, at most $most_readme_lines" >>"$violations"
fi

if [ -s "$violations" ]; then
  cat "$violations"
  exit 1
fi
# Each reader takes its input whole: one that stopped early would end the writer before it by SIGPIPE, and so this script.
folders=$(printf '%s\n' "${sources[@]}" | awk '
  /^(loader|cuda|tools)\// {
    sub("/[^/]*$", "")
    if (++count[$0] > most) { most = count[$0]; fullest = $0 }
  }
  END { printf "%d sources (%s)", most, fullest }')
longest=$(wc -l "${sources[@]}" | awk '
  $2 != "total" && $1 > most { most = $1; file = $2 }
  END { printf "%d lines (%s)", most, file }')
echo "house: ${#sources[@]} sources and ${#python[@]} of Python; fullest folder $folders of at most $most_sources;" \
  "longest file $longest of at most $most_lines; README $readme_lines lines of at most $most_readme_lines; every include is allowed by docs/rooms.md"
