#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures h5feed and other ways to feed from the same HDF5 file, in turn.

    benchmarks/peers/run.py FILE... --order chunk:16 --json OUT.json

Every repetition is a separate process. A round measures each setting once, h5feed's between those of the
peers; rounds repeat, so that drift of the machine affects all. The file is read once before the first round.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import time

import render

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PYTORCH_PEER = os.path.join(ROOT, "tools", "pytorch_peer.py")
OTHER_READERS = os.path.join(HERE, "other_readers.py")
RUN_LIMIT_S = 60

# What a row does more or less than the others; shown in the table.
NOTES = {
    "h5feed": "batches in order, in reused slots; labels too",
    "PyTorch + h5py, per sample": "shuffle=True; default collation; labels too",
    "PyTorch + h5py, tuned": "whole chunks (order full: rows in file order), 1 GiB chunk cache, no collation; labels too",
    "LibTorch DataLoader + HDF5 C++": "one row a read under a mutex, 1 GiB chunk cache, Stack; no labels",
    "H5Dread in threads": "a bound: whole chunks (order full: rows) into slots, no batches in order, no labels",
    "hidefix": "as tuned; index read in advance, on its own threads; no labels",
    "pyfive": "as tuned; no labels",
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE[@ORDER]", help="ORDER overrides --order for the file")
    parser.add_argument("--data", default="images", help="dataset of the samples, uint8")
    parser.add_argument("--target", default="labels", help="dataset of the labels; empty: none")
    parser.add_argument("--order", default="chunk:16", help="sequential, full or chunk:K")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--num-workers", default="0,1,2,4")
    parser.add_argument("--cache-bytes", default="128MiB", help="of h5feed")
    parser.add_argument("--time-budget", type=float, default=1.5, help="seconds of one repetition")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--time-limit", type=float, default=280, help="seconds for one file; no round starts past it")
    parser.add_argument("--peers", default="", help="only peers whose name contains one of these, by comma")
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"), help="Release build of h5feed")
    parser.add_argument("--python", default=sys.executable, help="interpreter with torch, h5py and other readers")
    parser.add_argument("--json", help="write the results here, after every file")
    return parser.parse_args()


def require(options):
    """Exits with the command that installs what is missing."""
    program = os.path.join(options.build, "h5feed")
    if not os.access(program, os.X_OK):
        sys.exit(f"{program} is missing; build it: cmake --preset release && cmake --build --preset release")
    try:
        answer = subprocess.run([options.python, PYTORCH_PEER, "--versions"], capture_output=True, text=True)
        found = json.loads(answer.stdout)
    except (OSError, ValueError):
        sys.exit(f"{options.python} cannot run {PYTORCH_PEER}; name another with --python")
    missing = [name for name in ("torch", "h5py") if found[name] is None]
    if missing:
        packages = " ".join("python3-" + name for name in missing)
        sys.exit(f"{options.python} has no {' and '.join(missing)}: apt-get install {packages} and --python "
                 f"/usr/bin/python3, or {options.python} -m pip install {' '.join(missing)}")
    for name in ("hidefix", "pyfive", "hdf5plugin"):
        code = f"import importlib.metadata as m, {name}; print(m.version('{name}'))"
        answer = subprocess.run([options.python, "-c", code], capture_output=True, text=True)
        found[name] = answer.stdout.strip() if answer.returncode == 0 else None
        if found[name] is None:
            print(f"left out: {name}; {options.python} -m pip install {name}", file=sys.stderr)
    return found


def plugin_environment(options):
    """Returns the environment of the C++ peers, with the filters of hdf5plugin if it is installed."""
    code = "import hdf5plugin; print(hdf5plugin.PLUGINS_PATH)"
    answer = subprocess.run([options.python, "-c", code], capture_output=True, text=True)
    if answer.returncode != 0:
        return None
    return {**os.environ, "HDF5_PLUGIN_PATH": answer.stdout.strip()}


class Setting:
    """One loader with one number of workers: how to measure it once, and the results."""

    def __init__(self, loader, order, num_workers, command, environment=None):
        self.loader, self.order, self.num_workers = loader, order, num_workers
        self.command, self.environment = command, environment
        self.repetitions, self.shares, self.error = [], [], None

    def measure(self):
        if self.error:
            return
        try:
            run = subprocess.run(self.command, env=self.environment, capture_output=True, text=True,
                                 timeout=RUN_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.error = f"no result within {RUN_LIMIT_S} s"
            return
        try:
            answer = json.loads(run.stdout)
        except ValueError:
            lines = (run.stderr or run.stdout).strip().splitlines()
            self.error = lines[-1][:300] if lines else f"exit code {run.returncode}"
            return
        if "error" in answer:
            self.error = answer["error"]
        elif "rows" in answer:
            self.repetitions.append(answer["rows"][0]["samples_per_s"])
            self.shares.append(answer["rows"][0]["share_of_limit"])
        else:
            self.repetitions.append(answer["samples"] / answer["seconds"])

    def result(self):
        row = {"loader": self.loader, "order": self.order, "num_workers": self.num_workers, "error": self.error,
               "note": NOTES[self.loader], "repetitions": self.repetitions}
        if self.repetitions:
            row.update(samples_per_s=statistics.median(self.repetitions), slowest=min(self.repetitions),
                       fastest=max(self.repetitions))
        shares = [share for share in self.shares if share is not None]
        if shares:
            row["share_of_limit"] = statistics.median(shares)
        return row


def make_settings(options, file, order, found):
    workers = [int(n) for n in options.num_workers.split(",")]
    environment = plugin_environment(options)
    peers = []

    def ask(mode, order, n):
        return json.dumps({"mode": mode, "order": order, "num_workers": n, "batch_size": options.batch_size,
                           "seconds": options.time_budget, "seed": 1})

    def cpp(program, n):
        return [os.path.join(options.build, "benchmarks", "peers", program), file, options.data, order, str(n),
                str(options.batch_size), str(options.time_budget), "1"]

    any_order = "sequential" if order == "sequential" else "full"
    for n in workers:
        for name, mode, its_order in (("PyTorch + h5py, per sample", "per_sample", any_order),
                                      ("PyTorch + h5py, tuned", "tuned", order)):
            peers.append(Setting(name, its_order, n, [options.python, PYTORCH_PEER, ask(mode, its_order, n), file,
                                                      options.data, options.target]))
        peers.append(Setting("LibTorch DataLoader + HDF5 C++", order, n, cpp("libtorch_loader", n), environment))
        if n > 0:
            peers.append(Setting("H5Dread in threads", order, n, cpp("h5dread_threads", n), environment))
    for name, counts in (("hidefix", [0]), ("pyfive", [0, 2])):
        if found[name]:
            peers += [Setting(name, order, n, [options.python, OTHER_READERS, name, ask("tuned", order, n), file,
                                               options.data]) for n in counts]
    if options.peers:
        wanted = options.peers.split(",")
        peers = [peer for peer in peers if any(word in peer.loader for word in wanted)]

    ours = []
    for n in workers:
        # bench divides its time between the loader and the limits that it compares with.
        command = [os.path.join(options.build, "h5feed"), "bench", file, "--data", options.data, "--json", "--runs",
                   "1", "--warmup", "0", "--num-workers", str(n), "--batch-size", str(options.batch_size),
                   "--shuffle", order, "--cache-bytes", options.cache_bytes, "--time-budget",
                   f"{2 * options.time_budget}s"]
        ours.append(Setting("h5feed", order, n, command + (["--target", options.target] if options.target else [])))
    return interleave(peers, ours)


def interleave(peers, ours):
    """Returns the rows with `ours` spread evenly among `peers`."""
    step = max(1, len(peers) // len(ours))
    mixed = []
    for i in range(max(len(ours), -(-len(peers) // step))):
        mixed += peers[i * step:(i + 1) * step] + ours[i:i + 1]
    return mixed


def read_once(file):
    with open(file, "rb", buffering=0) as opened:
        while opened.read(1 << 24):
            pass


def measure_file(options, file, order, found):
    settings = make_settings(options, file, order, found)
    read_once(file)
    start = time.monotonic()
    rounds = 0
    longest = 0.0
    while rounds < options.rounds and (rounds == 0 or time.monotonic() - start + longest <= options.time_limit):
        begun = time.monotonic()
        for setting in settings:
            setting.measure()
        longest = max(longest, time.monotonic() - begun)
        rounds += 1
        print(f"{file} {order}: round {rounds} of {options.rounds}, {time.monotonic() - start:.0f} s", file=sys.stderr)
    return {"file": os.path.basename(file), "order": order, "rounds": rounds,
            "rows": [setting.result() for setting in settings]}


def describe(options, found):
    """Returns the machine and the program's version, as the program reports them."""
    file = options.files[0].split("@")[0]
    command = [os.path.join(options.build, "h5feed"), "bench", file, "--data", options.data, "--json", "--num-workers",
               "0", "--runs", "1", "--warmup", "0", "--time-budget", "50ms"]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stderr.strip().splitlines()[-1])
    answer = json.loads(run.stdout)
    command = " ".join(["benchmarks/peers/run.py"] + [os.path.basename(word) if os.sep in word else word
                                                      for word in sys.argv[1:]])
    keys = ("batch_size", "cache_bytes", "time_budget", "num_workers", "data", "target", "rounds")
    return {"date": datetime.date.today().isoformat(), "commit": answer["commit"], "machine": answer["machine"],
            "command": command, "versions": found,
            "settings": {**{key: getattr(options, key) for key in keys}, "page_cache": "warm"}, "files": []}


def main():
    options = parse_arguments()
    found = require(options)
    results = describe(options, found)
    for name in options.files:
        file, _, order = name.partition("@")
        results["files"].append(measure_file(options, file, order or options.order, found))
        if options.json:
            with open(options.json, "w", encoding="utf-8") as out:
                json.dump(results, out, indent=2)
                out.write("\n")
    print(render.markdown(results))


if __name__ == "__main__":
    main()
