#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the table of docs/formats.md from files of generate.py, or checks it against them.

    table.py FOLDER ... [--write]

Reads the first files of each folder, one for each row, with compare.py. Without --write, exits with 1 and prints what
differs if a row of the docs is not what h5feed does. Rows that no folder has, such as those of plugins that are not
installed, stay as they are; so do those that say which forms an older libhdf5 refuses of a format that this one knows.
"""

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path

import compare
import generate

DOCS = Path(__file__).resolve().parents[3] / "docs" / "formats.md"
BEGIN, END = "<!-- table.py: begin -->", "<!-- table.py: end -->"
WORDS = {"user_block": "user block", "fill": "fill value"}
# Filters whose decoders need libraries that a build may lack.
OPTIONAL = {"blosc2": "c-blosc2", "zfp": "libzfp"}
# What libhdf5 has against a format differs from version to version.
TOO_NEW = "refused by name where libhdf5 is older than the format"

Row = tuple[str, str]  # property and value


def row_of(name: str) -> Row:
    axis, _, value = name.partition("/")
    return WORDS.get(axis, axis), value


def known_rows() -> list[Row]:
    """All rows in the order of the table, also those of plugins, formats and types that other h5py have."""
    more = {"filters": ["szip", *generate.PLUGINS], "format": ["v112", "v114", "v200"]}
    names = [f"{axis}/{name}" for axis, values in generate.AXES.items() for value in [*values, *more.get(axis, [])]
             for name, _ in generate.forms_of(axis, value)]
    return list(dict.fromkeys(map(row_of, names)))


def format_of(row: Row) -> str:
    """The format of a row of one."""
    return row[1].split(",")[0] if row[0] == "format" else ""


def text_of(row: Row, verdict: compare.Verdict) -> str:
    """What the table says; empty where this build lacks a library."""
    library = next((OPTIONAL[name] for name in OPTIONAL if row[0] == "filters" and row[1].startswith(name)), "")
    if verdict.kind == "refused":
        if library and "is not built in" in verdict.message:
            return ""
        if row[0] == "format" and "if a newer library than this libhdf5" in verdict.message:
            return TOO_NEW
        reason = verdict.message.replace(verdict.file, "").split("; ")[0].lstrip(":/ ")
        return f"refused: {reason.removeprefix(verdict.dataset).lstrip(': ')}"
    if verdict.kind != "equal":
        raise SystemExit(f"{verdict.file} ({': '.join(row)}) is {verdict.kind}: {verdict.message}")
    if verdict.path != "direct":
        return "" if library else "through libhdf5"
    return f"direct, if h5feed was built with {library}" if library else "direct"


def measured(folders: Iterable[Path]) -> dict[Row, str]:
    rows: dict[Row, str] = {}
    for folder in folders:
        cases = {str(folder / c["file"]): row_of(c["row"]) for c in json.loads((folder / "cases.json").read_text()) if c["row"]}
        for verdict in compare.compare(map(Path, cases), jobs=2):
            if verdict.dataset == "source":  # of a virtual dataset
                continue
            row = cases[verdict.file]
            text = text_of(row, verdict)
            if text and rows.setdefault(row, text) != text:
                raise SystemExit(f"{verdict.file} ({': '.join(row)}) is {text}, and {rows[row]} by another writer")
    return rows


def documented(text: str) -> dict[Row, str]:
    table = text[text.index(BEGIN) : text.index(END)]
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("| ")]
    return {(c[0], c[1]): c[2] for c in cells if len(c) == 3 and c[0] not in ("property", "---")}


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("folder", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true", help="changes docs/formats.md")
    arguments = parser.parse_args()
    text = DOCS.read_text()
    rows, before = measured(arguments.folder), documented(text)
    too_new = {format_of(row) for row, found in rows.items() if found == TOO_NEW}
    kept = {row for row, said in before.items() if said == TOO_NEW and format_of(row) not in too_new}
    rows = {row: found for row, found in rows.items() if row not in kept or found.startswith("refused")}
    after = {row: found for row in known_rows() if (found := rows.get(row) or before.get(row))}
    if arguments.write:
        lines = [BEGIN, "| property | value | read |", "| --- | --- | --- |"]
        lines += [f"| {row[0]} | {row[1]} | {read} |" for row, read in after.items()]
        DOCS.write_text(text[: text.index(BEGIN)] + "\n".join(lines) + "\n" + text[text.index(END) :])
        return 0
    stale = sorted(row for row in before.keys() | after.keys() if before.get(row) != after.get(row))
    for row in stale:
        print(f"docs/formats.md: {': '.join(row)} is {after.get(row)!r}, the table has {before.get(row)!r}")
    if stale:
        print("docs/formats.md is stale; write its table anew with tests/conformance/corpus/table.py FOLDER --write")
    else:
        print(f"docs/formats.md has what was found of {len(rows)} of its {len(before)} rows")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
