#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the results of run.py as Markdown tables: render.py RESULT.json [--all | --docs FILE]

Shows each loader at its best number of workers; --all: at every number of workers. --docs replaces the text between
the lines <!-- league --> and <!-- end of league --> of FILE."""

import json
import sys


def rate(value):
    return f"{value:,.0f}"


def best_rows(rows):
    """Returns the fastest row of each loader and order, in order of appearance; a failed row if none delivered."""
    best = {}
    for row in rows:
        key = row["loader"], row["order"], row["same_order"]
        known = best.get(key)
        if known is None or row.get("samples_per_s", 0) > known.get("samples_per_s", 0):
            best[key] = row
    return list(best.values())


def times(value):
    return f"{value:.2f} ×" if value < 10 else f"{value:.0f} ×"


def seconds(value):
    return f"{value:.2f} s" if value >= 0.1 else f"{value * 1e3:.0f} ms"


def table(measured, every_row):
    rows = measured["rows"]
    ours = max((row for row in rows if row["loader"] == "h5feed" and "samples_per_s" in row),
               key=lambda row: row["samples_per_s"], default=None)
    shown = sorted(rows if every_row else best_rows(rows), key=lambda row: -row.get("samples_per_s", 0))
    lines = ["| loader | order | workers | samples/s, start included | slowest to fastest | after the start | first batch "
             "| h5feed is | |", "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |"]
    for row in shown:
        start = f"| {row['loader']} | {row['order']}{', the same' if row['same_order'] else ''} |"
        if "samples_per_s" not in row:
            lines.append(f"{start} {row['num_workers']} | | | | | | no figure: {row['error']} |".replace("\n", " "))
            continue
        ratio = "" if row["loader"] == "h5feed" or ours is None else times(ours["samples_per_s"] / row["samples_per_s"])
        note = row["note"]
        if "share_of_limit" in row:
            note = f"{row['share_of_limit']:.0%} of the limit; {note}"
        after = rate(row["after_start"]) if "after_start" in row else ""
        first = seconds(row["first_batch_s"]) if "first_batch_s" in row else ""
        lines.append(f"{start} {row['num_workers']} | {rate(row['samples_per_s'])} | {rate(row['slowest'])} to "
                     f"{rate(row['fastest'])} | {after} | {first} | {ratio} | {note} |")
    return lines


def copies(measured):
    """Says what the peers' own formats took."""
    made = [f"{peer} {copy['bytes'] / 2**20:,.0f} MiB in {copy['seconds']:.0f} s" if "bytes" in copy
            else f"{peer} failed: {copy['error']}" for peer, copy in measured["conversions"].items()]
    if not made:
        return []
    return ["", f"The file has {measured['bytes'] / 2**20:,.0f} MiB. Copies in the peers' own formats, made before and not "
            f"counted: {'; '.join(made)}."]


def markdown(results, every_row=False):
    machine, versions = results["machine"], results["versions"]
    settings = results["settings"]
    readers = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    lines = [f"{results['date']}, commit {results['commit']}; {machine['cpu']}, {machine['cores']} cores, "
             f"{machine['memory_bytes'] / 2**30:.0f} GiB, load {results['load'][0]:.1f} before the first run; {readers}. "
             f"Batches of {settings['batch_size']}, pages warm, h5feed's cache {settings['cache_bytes']}. "
             f"Command: `{results['command']}`"]
    for peer, install in results["left_out"].items():
        lines += [f"Left out: {peer}, which was not installed ({install})."]
    for measured in results["files"]:
        lines += ["", f"**{measured['file']}**, {measured['order']}, medians of up to {measured['rounds']} rounds, load "
                  f"{measured['load'][0]:.1f} at the end", ""]
        lines += table(measured, every_row) + copies(measured)
    return "\n".join(lines)


def replace_marked(path, name, text):
    """Replaces the lines of a Markdown file between the marks <!-- name --> and <!-- end of name -->."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    with open(path, encoding="utf-8") as opened:
        before, rest = opened.read().split(begin)
    _, after = rest.split(end)
    with open(path, "w", encoding="utf-8") as out:
        out.write(before + begin + text + "\n" + end + after)


def replace_tables(path, results):
    """Replaces the tables of a Markdown file."""
    replace_marked(path, "league", markdown(results))


def main():
    with open(sys.argv[1], encoding="utf-8") as opened:
        results = json.load(opened)
    if sys.argv[2:3] == ["--docs"]:
        replace_tables(sys.argv[3], results)
    else:
        print(markdown(results, "--all" in sys.argv[2:]))


if __name__ == "__main__":
    main()
