#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the results of run.py as tables and as a picture: tables.py RESULT.json [DOCS.md [PICTURE.svg]]

Replaces the text between the lines <!-- ladder --> and <!-- end of ladder --> of DOCS.md; without it, prints the tables."""

import json
import os
import pathlib
import sys

import picture

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "peers"))
from render import rate, replace_marked  # noqa: E402


def percent(values):
    return f"{100 * values['median']:.0f} %" if values else "use not told"


def mebibytes(value):
    return f"{value / 2**20:,.0f} MiB"


def gpu(entry):
    """Formats how busy the GPU was and how much of its memory was in use."""
    if entry["gpu_busy"] is None and entry["device_peak_bytes"] is None:
        return "not measured"
    memory = mebibytes(entry["device_peak_bytes"]["median"]) if entry["device_peak_bytes"] else "memory not told"
    return f"{percent(entry['gpu_busy'])}, {memory}"


def host_memory(entry):
    """Formats the peak, and how much of it was there before the file was opened."""
    return f"{mebibytes(entry['host_peak_bytes']['median'])} ({mebibytes(entry['host_idle_bytes']['median'])})"


def seconds(values):
    return f"{values['median']:.2f} s" if values["median"] >= 1 else f"{values['median'] * 1e3:,.1f} ms"


def gain(entry, below):
    """Compares a rung with the one below it. Ranges that overlap show no difference."""
    if below is None:
        return ""
    now, before = entry["samples_per_s"], below["samples_per_s"]
    ratio = f"{now['median'] / before['median']:.2f} ×"
    overlap = now["least"] <= before["most"] and before["least"] <= now["most"]
    return ratio + (", within the spread" if overlap else "")


def rung_rows(results):
    lines = ["| rung | change | samples/s | slowest to fastest | of the rung below | waits for data | gap between epochs "
             "| GPU busy, its memory | host memory, peak (idle) | CPU s per 1,000 samples |",
             "| ---: | --- | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: |"]
    below = None
    for number, entry in enumerate(results["rungs"]):
        start = f"| {number} | {entry['change']} |"
        if "not_run" in entry:
            lines.append(f"{start} not measured, {entry['not_run']} | | | | | | | |")
            continue
        speed = entry["samples_per_s"]
        cpu = 1e3 * entry["cpu_seconds"]["median"] / entry["runs"][0]["samples"]
        gap = seconds(entry["gap_seconds"]) if entry["gap_seconds"] else ""
        lines.append(f"{start} {rate(speed['median'])} | {rate(speed['least'])} to {rate(speed['most'])} | "
                     f"{gain(entry, below)} | {percent(entry['wait_share'])} | {gap} | {gpu(entry)} | "
                     f"{host_memory(entry)} | {cpu:.2f} |")
        below = entry
    return lines


def batch_rows(results):
    lines = ["| batch size | learning rate | samples/s | epoch | steps of an epoch | waits for data | host memory, peak (idle) "
             "| GPU busy, its memory | loss of the last epoch |", "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: |"]
    for entry in results["batch_sizes"]:
        run = entry["runs"][0]
        lines.append(f"| {entry['batch_size']} | {run['learning_rate']:g} | {rate(entry['samples_per_s']['median'])} | "
                     f"{seconds(entry['epoch_seconds'])} | {run['steps'] // results['settings']['epochs']} | "
                     f"{percent(entry['wait_share'])} | {host_memory(entry)} | {gpu(entry)} | "
                     f"{entry['loss']['median']:.3f} |")
    return lines


def markdown(results, shown_picture=None):
    machine, settings = results["machine"], results["settings"]
    load = ", ".join(f"{value:.1f}" for value in results["load"])
    lines = [f"{results['date']}, commit {results['commit']}; {machine['cpu']}, {machine['cores']} cores, "
             f"{machine['memory_bytes'] / 2**30:.0f} GiB, load before the rounds {load}; medians of "
             f"{results['rounds']} rounds. "
             f"{settings['epochs']} epochs of {results['rungs'][0]['runs'][0]['fresh_samples'] // settings['epochs']:,} samples, "
             f"network {settings['model']} on {results['rungs'][0]['runs'][0]['device']}, batches of {settings['batch_size']}, "
             f"{settings['num_workers']} workers from rung 1 on. Command: `{results['command']}`", ""]
    if shown_picture:
        lines += [f"![{picture.alternative(results)}]({shown_picture})", ""]
    lines += rung_rows(results)
    reasons = sorted({run["gpu_why_not"] for entry in results["rungs"] for run in entry["runs"]} - {""})
    if reasons:
        lines += ["", f"The GPU is not measured: {'; '.join(reasons)}."]
    if results["batch_sizes"]:
        lines += ["", f"Batch sizes, on the rung {results['batch_sizes'][0]['runs'][0]['rung']}:", "", *batch_rows(results)]
    return "\n".join(lines)


def write(docs, results, shown_picture=None):
    """Replaces the tables of a Markdown file, with a link to the picture."""
    link = os.path.relpath(shown_picture, os.path.dirname(docs) or ".") if shown_picture else None
    replace_marked(docs, "ladder", markdown(results, link))


def main():
    results = json.loads(pathlib.Path(sys.argv[1]).read_text())
    docs, svg = (sys.argv[2:4] + [None, None])[:2]
    if not docs:
        print(markdown(results))
        return
    write(docs, results, svg)
    if svg:
        picture.write(svg, results)


if __name__ == "__main__":
    main()
