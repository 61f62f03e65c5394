#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Climbs the ladder: one model, one file, one change at a time, from a naive training to h5feed's; and several batch sizes.

    benchmarks/ladder/run.py --folder /tmp/ladder --json OUT.json --docs docs/results.md --picture docs/ladder.svg

Each measurement is a process of its own, so that its peak of memory is its own. A round measures every rung once and
then the highest rung below echo with every batch size; rounds repeat, so that drift of the machine affects all. Every
rung must train on the same samples with the same labels: the check sums of all are compared. A rung that does not apply
on the device is listed with the reason. Without FILE the file is generated in --folder. Results of an earlier call with
the same --json and settings are kept, and the rounds go on: --time-limit makes several short calls of a long one.
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import picture
import tables

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUMMARIZED = ("samples_per_s", "epoch_seconds", "wait_share", "cpu_seconds", "host_idle_bytes", "host_peak_bytes", "gpu_busy",
              "device_peak_bytes", "loss")
BATCH_RUNG = "gapless"
CHECK_TOLERANCE = 1e-5  # float32 is rounded in another order where the samples are normalized late


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", metavar="FILE", help="uint8 images (N,C,H,W) and integer labels")
    parser.add_argument("--folder", type=pathlib.Path, default="ladder", help="for the file that is generated; kept")
    parser.add_argument("--samples", type=int, default=1000, help="of the file that is generated")
    parser.add_argument("--shape", default="3,64,64", help="of a generated sample")
    parser.add_argument("--chunk", type=int, default=100, help="samples of a generated chunk")
    parser.add_argument("--filter", default="gzip:4", help="of the generated file")
    parser.add_argument("--data", default="images", help="dataset of the samples")
    parser.add_argument("--target", default="labels", help="dataset of the labels")
    parser.add_argument("--model", default="cnn", help="cnn, resnet18 or resnet50")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64, help="of the rungs")
    parser.add_argument("--batch-sizes", default="16,32,64,128,256", help="of the table; empty: none")
    parser.add_argument("--num-workers", type=int, default=2, help="from the second rung on")
    parser.add_argument("--training-threads", type=int, default=1, help="of LibTorch's operators; 0: its choice")
    parser.add_argument("--order", default="chunk:4", help="from the rung chunks on")
    parser.add_argument("--cache-bytes", default="8MiB", help="from the rung chunks on")
    parser.add_argument("--learning-rate", type=float, default=0.01, help="for batches of 64; scaled linearly")
    parser.add_argument("--warmup-epochs", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--time-limit", type=float, default=230, help="seconds; no round starts that would pass it")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="Release build of h5feed")
    parser.add_argument("--json", type=pathlib.Path, help="write the results here, after every round")
    parser.add_argument("--docs", help="replace the tables between the marks of this Markdown file")
    parser.add_argument("--picture", help="write the picture here (SVG)")
    return parser.parse_args()


def answer_of(*command):
    """Runs a program and returns the JSON that it prints; ends this one with its error."""
    run = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"run.py: {(run.stderr or run.stdout).strip()}")  # which begins with the name of the program
    return json.loads(run.stdout)


def make_file(options):
    """Returns the file to train from; generates it if none is named and it is not there."""
    if options.file:
        return options.file
    options.folder.mkdir(parents=True, exist_ok=True)
    file = options.folder / "ladder-{samples}x{shape}-chunk{chunk}-{filter}.h5".format(**vars(options))
    if not file.exists():
        words = [options.build / "h5feed", "generate", file, "--samples", options.samples, "--shape", options.shape, "--chunk",
                 options.chunk, "--filter", options.filter, "--ratio", 1.5, "--classes", options.classes, "--seed", 1]
        subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)
    return file


class Ladder:
    def __init__(self, options):
        self.options = options
        self.file = make_file(options)
        self.program = options.build / "benchmarks" / "ladder" / "ladder_rung"
        sizes = [int(size) for size in options.batch_sizes.split(",") if size]
        self.settings = {key: getattr(options, key) for key in (
            "data", "target", "model", "classes", "device", "epochs", "batch_size", "num_workers", "training_threads", "order",
            "cache_bytes", "learning_rate", "warmup_epochs")}
        environment = answer_of(options.build / "h5feed", "env", "--json")
        self.results = {
            "date": datetime.date.today().isoformat(), "commit": environment["build"]["commit"],
            "machine": environment["machine"], "command": command_line(), "load": [os.getloadavg()[0]],
            "file": {"name": pathlib.Path(self.file).name, "bytes": os.path.getsize(self.file)},
            "settings": self.settings, "rounds": 0,
            "rungs": [{"rung": name, "runs": []} for name in answer_of(self.program, "--list")],
            "batch_sizes": [{"batch_size": size, "runs": []} for size in sizes]}
        self.go_on()

    def go_on(self):
        """Takes over the results of an earlier call with the same settings."""
        if not self.options.json or not self.options.json.exists():
            return
        earlier = json.loads(self.options.json.read_text())
        for key in ("commit", "file", "settings"):
            if earlier[key] != self.results[key]:
                sys.exit(f"run.py: {self.options.json} was measured with another {key}: {earlier[key]}; name another file with --json")
        earlier["load"] += self.results["load"]
        earlier["command"] = self.results["command"]
        self.results = earlier

    def check(self):
        """Ends the program if a rung could not train on the file, before the first is measured."""
        self.call(["--check"], self.options.batch_size)

    def measure(self, rung, batch_size):
        return self.call(["--rung", rung], batch_size)

    def call(self, words, batch_size):
        words = [self.program, self.file, *words]
        for key, value in {**self.settings, "batch_size": batch_size}.items():
            words += ["--" + key.replace("_", "-"), value]
        return answer_of(*words)

    def measure_round(self):
        for entry in self.results["rungs"]:
            answer = self.measure(entry["rung"], self.options.batch_size)
            entry["change"] = answer.pop("change")
            if "not_run" in answer:
                entry["not_run"] = answer["not_run"]
                print(f"{entry['rung']}: left out, {answer['not_run']}", file=sys.stderr)
                continue
            self.add(entry, answer)
        for entry in self.results["batch_sizes"]:
            self.add(entry, self.measure(BATCH_RUNG, entry["batch_size"]))
        self.results["rounds"] += 1
        self.compare_samples()

    @staticmethod
    def add(entry, answer):
        entry["runs"].append(answer)
        print(f"{answer['rung']}, batches of {answer['batch_size']}: {answer['samples_per_s']:,.0f} samples/s, waited "
              f"{answer['wait_share']:.0%}", file=sys.stderr, flush=True)

    def compare_samples(self):
        """Ends the program if a run trained on other samples, labels or values than the first."""
        runs = [run for entry in self.results["rungs"] + self.results["batch_sizes"] for run in entry["runs"]]
        for run in runs:
            for key in ("check_sum", "fresh_samples"):
                if abs(run[key] - runs[0][key]) > CHECK_TOLERANCE * abs(runs[0][key]):
                    sys.exit(f"run.py: {run['rung']} with batches of {run['batch_size']} does not train on the samples of "
                             f"{runs[0]['rung']}: {key} {run[key]} instead of {runs[0][key]}")

    def save(self):
        for entry in self.results["rungs"] + self.results["batch_sizes"]:
            if entry["runs"]:
                entry.update({key: spread([run[key] for run in entry["runs"]]) for key in SUMMARIZED})
                later = [wait for run in entry["runs"] for wait in run["first_batch_seconds"][1:]]
                entry["gap_seconds"] = spread(later)
        if self.options.json:
            self.options.json.write_text(json.dumps(self.results, indent=1, ensure_ascii=False) + "\n")


def spread(values):
    """Returns the median and the range; null if nothing was measured."""
    known = [value for value in values if value is not None]
    return {"median": statistics.median(known), "least": min(known), "most": max(known)} if known else None


def command_line():
    words = [pathlib.Path(word).name if os.sep in word else word for word in sys.argv[1:]]
    return " ".join(["benchmarks/ladder/run.py", *words])


def main():
    options = parse_arguments()
    ladder = Ladder(options)
    ladder.check()
    pathlib.Path(ladder.file).read_bytes()  # the page cache is warm from the first rung on
    start = time.monotonic()
    longest = 0.0
    while ladder.results["rounds"] < options.rounds:
        begun = time.monotonic()
        if longest and begun - start + longest > options.time_limit:
            print(f"run.py: {ladder.results['rounds']} of {options.rounds} rounds within --time-limit; call it again to go on",
                  file=sys.stderr)
            break
        ladder.measure_round()
        ladder.save()
        longest = max(longest, time.monotonic() - begun)
    print(tables.markdown(ladder.results))
    if options.docs:
        tables.write(options.docs, ladder.results, options.picture)
    if options.picture:
        picture.write(options.picture, ladder.results)


if __name__ == "__main__":
    main()
