#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the results of run.py as Markdown tables: render.py RESULT.json [--all]

Shows each loader at its best number of workers; --all: at every number of workers."""

import json
import sys


def rate(value):
    return f"{value:,.0f}"


def best_rows(rows):
    """Returns the fastest row of each loader, in order of appearance; a failed row if none delivered."""
    best = {}
    for row in rows:
        known = best.get(row["loader"])
        if known is None or row.get("samples_per_s", 0) > known.get("samples_per_s", 0):
            best[row["loader"]] = row
    return list(best.values())


def table(measured, every_row):
    rows = measured["rows"]
    ours = max((row for row in rows if row["loader"] == "h5feed" and "samples_per_s" in row),
               key=lambda row: row["samples_per_s"], default=None)
    shown = sorted(rows if every_row else best_rows(rows), key=lambda row: -row.get("samples_per_s", 0))
    lines = ["| loader | order | workers | samples/s | slowest - fastest | h5feed is | |",
             "| --- | --- | ---: | ---: | ---: | ---: | --- |"]
    for row in shown:
        start = f"| {row['loader']} | {row['order']} |"
        if "samples_per_s" not in row:
            lines.append(f"{start} | | | | no figure: {row['error']} |".replace("\n", " "))
            continue
        ratio = "" if row["loader"] == "h5feed" or ours is None else f"{ours['samples_per_s'] / row['samples_per_s']:.2f} x"
        note = row["note"]
        if "share_of_limit" in row:
            note = f"{row['share_of_limit']:.0%} of the limit; {note}"
        lines.append(f"{start} {row['num_workers']} | {rate(row['samples_per_s'])} | {rate(row['slowest'])} - "
                     f"{rate(row['fastest'])} | {ratio} | {note} |")
    return lines


def markdown(results, every_row=False):
    machine, versions = results["machine"], results["versions"]
    settings = results["settings"]
    readers = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    lines = [f"{results['date']}, commit {results['commit']}; {machine['cpu']}, {machine['cores']} cores, "
             f"{machine['memory_bytes'] / 2**30:.0f} GiB; {readers}. Batches of {settings['batch_size']}, pages warm, "
             f"h5feed's cache {settings['cache_bytes']}. Command: `{results['command']}`"]
    for measured in results["files"]:
        lines += ["", f"**{measured['file']}**, {measured['order']}, medians of {measured['rounds']}", ""]
        lines += table(measured, every_row)
    return "\n".join(lines)


def main():
    with open(sys.argv[1], encoding="utf-8") as opened:
        print(markdown(json.load(opened), "--all" in sys.argv[2:]))


if __name__ == "__main__":
    main()
