#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares `h5feed tune` with measurements, on data sets that h5feed generates.

For each set: compares the predictions for the sample with its measurements, and the recommendation with an
exhaustive sweep, in which the whole file is repacked for every candidate and read by `h5feed bench`.

  benchmarks/tune_sweep.py --program build/release/h5feed --directory DIR [--budget 60s] [--slot 1s] [--sets 5] [--no-sweep]
"""

import argparse
import json
import pathlib
import statistics
import subprocess

SETS = [
    ["--samples", "8000", "--shape", "3,64,64", "--ratio", "1.5"],
    ["--samples", "60000", "--shape", "28,28", "--ratio", "3"],
    ["--samples", "700", "--shape", "3,224,224", "--ratio", "1.3"],
    ["--samples", "1500", "--shape", "3,96,96", "--dtype", "f32", "--ratio", "1.4"],
    ["--samples", "12000", "--kind", "tokens", "--shape", "512"],
    ["--samples", "3000", "--shape", "1,128,128", "--dtype", "u16", "--ratio", "2"],
]


def run(*words):
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def window(tuned, chunk_rows):
    """Limits K of chunk:K to the number of chunks, as `tune` does."""
    kind, _, chunks = tuned["shuffle"].partition(":")
    return f"{kind}:{min(int(chunks), -(-tuned['shape'][0] // chunk_rows))}" if chunks else kind


def sweep(program, file, data, tuned, arguments):
    """Returns the median samples/s of every candidate in the whole file, by `bench` in three rounds."""
    places = []
    for i, row in enumerate(tuned["rows"]):
        place = file.parent / f"sweep-{i}.h5"
        subprocess.run([program, "repack", file, place, "--dataset", tuned["data"], "--chunk", str(row["chunk_rows"]),
                        "--filter", row["filter"], "--no-verify", "--force"], check=True, capture_output=True)
        places.append(place)
    rates = [[] for _ in places]
    for _ in range(3):
        for place, rate, row in zip(places, rates, tuned["rows"]):
            result = run(program, "bench", place, "--data", tuned["data"], *data, "--num-workers",
                         str(tuned["num_workers"]), "--batch-size", str(tuned["batch_size"]), "--shuffle",
                         window(tuned, row["chunk_rows"]), "--runs", "1", "--warmup", "0", "--time-budget", arguments.slot, "--json")
            rate.append(result["rows"][0]["samples_per_s"])
    for place in places:
        place.unlink()
    return [statistics.median(rate) for rate in rates]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--directory", required=True, type=pathlib.Path)
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--slot", default="1s")
    parser.add_argument("--sets", type=int, default=5)
    parser.add_argument("--no-sweep", action="store_true")
    arguments = parser.parse_args()
    for options in SETS[: arguments.sets]:
        file = arguments.directory / "set.h5"
        subprocess.run([arguments.program, "generate", file, *options, "--chunk", "100", "--filter", "gzip:1", "--force"],
                       check=True, capture_output=True)
        tokens = "tokens" in options
        data = ["--input-layout", "none"] if tokens else []
        tuned = run(arguments.program, "tune", file, "--data", "tokens" if tokens else "images", *data,
                    "--time-budget", arguments.budget, "--scratch", arguments.directory, "--json")
        measured = [row for row in tuned["rows"] if row["sample_measured_samples_per_s"]]
        errors = sorted(abs(row["sample_predicted_samples_per_s"] / row["sample_measured_samples_per_s"] - 1)
                        for row in measured)
        line = {
            "set": " ".join(options),
            "measured": len(measured),
            "of": len(tuned["rows"]),
            "seconds": round(tuned["seconds"], 1),
            "error_median": round(statistics.median(errors), 3),
            "error_max": round(errors[-1], 3),
            "within_15_percent": sum(error <= 0.15 for error in errors),
            "choice": f'{tuned["recommended"]["chunk_rows"]} {tuned["recommended"]["filter"]}',
        }
        if not arguments.no_sweep:
            rates = sweep(arguments.program, file, data, tuned, arguments)
            chosen = next(rate for rate, row in zip(rates, tuned["rows"])
                          if row["chunk_rows"] == tuned["recommended"]["chunk_rows"]
                          and row["filter"] == tuned["recommended"]["filter"])
            best = max(range(len(rates)), key=rates.__getitem__)
            line["choice_of_best"] = round(chosen / rates[best], 3)
            line["best"] = f'{tuned["rows"][best]["chunk_rows"]} {tuned["rows"][best]["filter"]}'
        print(json.dumps(line), flush=True)
        file.unlink()


if __name__ == "__main__":
    main()
