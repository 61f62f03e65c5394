#!/usr/bin/env bash
# Checks the facts of the house and prints them: sources in each folder, lines of each file, length of the README,
# licence lines, and every include against the tables of docs/rooms.md.
#   tools/scripts/house.sh [ROOT]     ROOT: another tree to check; default: this repository
# Exits with 1 after one line for each violation, "FILE:LINE: what is wrong".
set -euo pipefail

readonly most_sources=32 most_lines=400 most_readme_lines=150
tables=$(cd "$(dirname "$0")/../.." && pwd)/docs/rooms.md
cd "${1:-$(dirname "$0")/../..}"

# files_named SUFFIXES: lists the files of the tree that end in one of them, "a|b".
files_named() {
  find . -mindepth 1 \( -path './.*' -o -path './build*' \) -prune -o -type f \
    -regextype posix-extended -regex ".*\.($1)" -print | sed 's|^\./||' | LC_ALL=C sort
}
mapfile -t sources < <(files_named 'cpp|hpp|h|cu|cuh|cc|inl')
mapfile -t python < <(files_named 'py|pyi')
violations=$(mktemp)
trap 'rm -f "$violations"' EXIT

# Folders of the library and the program; tests are found by the name of what they test.
printf '%s\n' "${sources[@]}" | awk -v most="$most_sources" '
  /^(loader|cuda|tools)\// { sub("/[^/]*$", ""); ++count[$0] }
  END {
    for (folder in count) if (count[folder] > most) printf "%s: %d sources, at most %d\n", folder, count[folder], most
  }' >>"$violations"

if [ $((${#sources[@]} + ${#python[@]})) -gt 0 ]; then
  awk -v most="$most_lines" '
    FNR == 1 { first = /^#!/ ? 2 : 1 }
    FNR == first && !/SPDX-License-Identifier: Apache-2.0/ {
      print FILENAME ":" FNR ": no licence line (SPDX-License-Identifier)"
    }
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
      if (quoted_include) {
        if (header !~ /\//) print FILENAME ":" FNR ": includes \"" header "\" without its folder"
        else if (!may(room, target_of(header))) print where room " must not use " target_of(header)
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
folders=$(printf '%s\n' "${sources[@]}" | sed -nE 's,^((loader|cuda|tools)/.*)/[^/]*$,\1,p' | sort | uniq -c | sort -rn |
  awk 'NR == 1 { printf "%d sources (%s)", $1, $2 }')
longest=$(wc -l "${sources[@]}" | sort -rn | awk '$2 != "total" { printf "%d lines (%s)", $1, $2; exit }')
echo "house: ${#sources[@]} sources and ${#python[@]} of Python; fullest folder $folders of at most $most_sources; longest file $longest of at most" \
  "$most_lines; README $readme_lines lines of at most $most_readme_lines; every include is allowed by docs/rooms.md"
