#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures h5feed and other ways to feed from the same samples, in turn: the league of docs/results.md.

    benchmarks/peers/run.py --folder /tmp/league --python venv/bin/python --json OUT.json --docs docs/results.md

Without FILE it makes gzip.h5 and contiguous.h5 in --folder and measures the one in the order chunk:16 and the other in
the order full. Peers are those of `h5feed bench --peer`, two other readers of HDF5, and two loops in C++; what is not
installed is left out, with the command that installs it. Peers with a format of their own get a copy of the samples
first.

Every repetition is a separate process. A round measures each setting once, h5feed's between those of the peers; rounds
repeat, so that drift of the machine affects all. The first round tries every number of workers; later ones leave out
those that are clearly not a loader's best. The file is read once before the first round. --verify measures nothing and
checks instead that each peer of Python delivers every sample once, and in h5feed's order where it says so.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import time

import render
from setting import Setting

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SCRIPTS = os.path.join(ROOT, "tools", "bench", "peers")
PEERS = ("pytorch", "spdl", "dali", "litdata", "ffcv")
READERS = ("hidefix", "pyfive")  # through other_readers.py
SAMPLES = 12000
MADE = {"gzip.h5": ("chunk:16", ["--chunk", "20", "--filter", "gzip:4"]),
        "contiguous.h5": ("full", ["--chunk", "none", "--filter", "none"])}
CPP_NOTES = {
    "LibTorch DataLoader + HDF5 C++": "one row a read under a mutex, 1 GiB chunk cache, Stack; no labels",
    "H5Dread in threads": "a bound: whole chunks (full: rows) into slots, no batches in order, no labels",
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE[@ORDER]", help="ORDER overrides --order for the file")
    parser.add_argument("--folder", default="league", help="for the files that are made and the copies; kept")
    parser.add_argument("--data", default="images", help="dataset of the samples")
    parser.add_argument("--target", default="labels", help="dataset of the labels; empty: none")
    parser.add_argument("--order", default="chunk:16", help="sequential, full or chunk:K")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--num-workers", default="0,1,2,4")
    parser.add_argument("--cache-bytes", default="128MiB", help="of h5feed")
    parser.add_argument("--time-budget", type=float, default=1.5, help="seconds of one repetition")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--time-limit", type=float, default=340, help="seconds for one file; no round starts past it")
    parser.add_argument("--peers", default="", help="only loaders whose name contains one of these, by comma")
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"), help="Release build of h5feed")
    parser.add_argument("--python", default=sys.executable, help="interpreter with the packages of the peers")
    parser.add_argument("--json", help="write the results here, after every round")
    parser.add_argument("--docs", help="replace the tables between the marks of this Markdown file")
    parser.add_argument("--verify", action="store_true", help="check what the peers deliver instead of measuring")
    return parser.parse_args()


def script_of(peer):
    if peer in READERS:
        return [os.path.join(HERE, "other_readers.py"), peer]
    return [os.path.join(SCRIPTS, peer + "_peer.py")]


def ask(options, peer, *arguments):
    """Runs the script of a peer and returns its answer."""
    run = subprocess.run([options.python, *script_of(peer), *arguments], capture_output=True, text=True)
    try:
        return json.loads(run.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        lines = (run.stderr or run.stdout).strip().splitlines() or [f"exit code {run.returncode}"]
        return {"error": lines[-1][:300]}


def find_peers(options):
    """Returns the installed peers with the versions of their modules, and says how to install the others."""
    if not os.access(os.path.join(options.build, "h5feed"), os.X_OK):
        sys.exit(f"{options.build}/h5feed is missing; build it: cmake --preset release && cmake --build --preset release")
    peers, versions, left_out = [], {}, {}
    for peer in PEERS + READERS:
        answer = ask(options, peer, "describe", options.order)
        if "error" in answer:
            sys.exit(f"{options.python} cannot run {script_of(peer)[0]}: {answer['error']}; name another with --python")
        missing = {name: module for name, module in answer["modules"].items() if module["version"] is None}
        if missing:
            packages = " ".join(module["pip"] for module in missing.values())
            problem = "; ".join(module["problem"] for module in missing.values() if module["problem"])
            left_out[peer] = f"{options.python} -m pip install {packages}" + (f" ({problem})" if problem else "")
            print(f"left out: {peer}; {left_out[peer]}", file=sys.stderr)
            continue
        peers.append(peer)
        versions["python"] = answer["python"]
        versions.update({name: module["version"] for name, module in answer["modules"].items()})
    return peers, versions, left_out


def make_files(options):
    """Makes the files that are measured by default, unless they are there."""
    os.makedirs(options.folder, exist_ok=True)
    files = []
    for name, (order, storage) in MADE.items():
        path = os.path.join(options.folder, name)
        files.append(f"{path}@{order}")
        if not os.path.exists(path):
            subprocess.run([os.path.join(options.build, "h5feed"), "generate", path, "--samples", str(SAMPLES), "--shape",
                            "3,218,178", "--ratio", "1.5", *storage], check=True)
    return files


class League:
    """The loaders of one file in one order."""

    def __init__(self, options, peers, file, order):
        self.options, self.peers, self.file, self.order = options, peers, file, order
        # The files that are made have the same samples, and so share the copies.
        samples = "made" if os.path.basename(file) in MADE else os.path.basename(file)
        self.copies = os.path.join(os.path.abspath(options.folder), samples + ".copies")
        os.makedirs(self.copies, exist_ok=True)
        self.numbers = os.path.join(self.copies, os.path.basename(file) + ".i64")
        subprocess.run([self.built("sample_order"), file, options.data, order, str(options.batch_size), "1", self.numbers],
                       check=True)
        self.names = [file, options.data, options.target]
        self.conversions = {}

    def built(self, program):
        return os.path.join(self.options.build, "benchmarks", "peers", program)

    def settings(self, peer, way, workers):
        options = self.options
        return json.dumps({"mode": way["mode"], "order": self.order, "num_workers": workers, "seed": 1,
                           "batch_size": options.batch_size, "seconds": options.time_budget, "numbers": self.numbers,
                           "folder": os.path.join(self.copies, peer)})

    def ways(self):
        """Returns the ways of all peers that were asked for; lets those that need it copy the samples."""
        found = []
        wanted = self.options.peers.split(",")
        for peer in self.peers:
            ways = [way for way in ask(self.options, peer, "ways", self.order) if any(word in way["name"] for word in wanted)]
            found += [(peer, way) for way in ways]
            copied = [way for way in ways if way["converts"]]
            if copied:
                self.copy(peer, copied[0])
        return found

    def copy(self, peer, way):
        """Converts the samples unless an earlier run has; its time and size are kept beside."""
        note = os.path.join(self.copies, peer + ".json")
        if os.path.exists(note):
            with open(note, encoding="utf-8") as opened:
                self.conversions[peer] = json.load(opened)
            return
        print(f"{peer} copies the samples into {self.copies}", file=sys.stderr)
        answer = self.conversions[peer] = ask(self.options, peer, "convert", self.settings(peer, way, 0), *self.names)
        if "error" not in answer:
            with open(note, "w", encoding="utf-8") as out:
                json.dump(answer, out)

    def rows(self):
        """Returns a Setting for each loader and number of workers, h5feed's spread evenly among the peers."""
        options = self.options
        counts = [int(n) for n in options.num_workers.split(",")]
        peers = []
        ways = self.ways()
        for n in counts:
            for peer, way in ways:
                if peer == "hidefix" and n > 0 or peer in ("spdl", "dali", "ffcv") and n == 0 and len(counts) > 1:
                    continue  # hidefix has its own threads; to the peers with threads, 0 means 1
                command = [options.python, *script_of(peer), "measure", self.settings(peer, way, n), *self.names]
                peers.append(Setting(way["name"], way["order"], n, command, way["note"], way["same_order"],
                                     way["converts"]))
            peers += self.cpp_rows(n)
        return interleave(peers, [self.own_row(n) for n in counts])

    def cpp_rows(self, n):
        options = self.options
        wanted = options.peers.split(",")
        several = [self.file, options.data, self.order, str(n), str(options.batch_size), str(options.time_budget), "1"]
        for loader, program in zip(CPP_NOTES, ("libtorch_loader", "h5dread_threads")):
            asked_for = any(word in loader for word in wanted) and (n > 0 or program == "libtorch_loader")
            if asked_for and os.access(self.built(program), os.X_OK):
                yield Setting(loader, self.order, n, [self.built(program), *several], CPP_NOTES[loader])

    def own_row(self, n):
        options = self.options
        # bench divides its time between the loader and the limits that it compares with.
        command = [os.path.join(options.build, "h5feed"), "bench", self.file, "--data", options.data, "--json", "--runs",
                   "1", "--warmup", "0", "--num-workers", str(n), "--batch-size", str(options.batch_size), "--shuffle",
                   self.order, "--seed", "1", "--cache-bytes", options.cache_bytes, "--time-budget",
                   f"{2 * options.time_budget}s"]
        command += ["--target", options.target] if options.target else []
        return Setting("h5feed", self.order, n, command, "batches in order, in reused slots")

    def measure(self, save):
        """Measures all rounds; calls `save` with the results so far after each."""
        options = self.options
        rows = self.rows()
        read_once(self.file)
        start = time.monotonic()
        rounds = 0
        longest = 0.0
        while rounds < options.rounds and (rounds == 0 or time.monotonic() - start + longest <= options.time_limit):
            begun = time.monotonic()
            for row in rows:
                if rounds == 0 or row.is_near_best(rows):
                    row.measure(options.batch_size)
                    print(f"{time.monotonic() - start:4.0f} s, round {rounds + 1}: {row.summary()}", file=sys.stderr, flush=True)
            if rounds > 0:
                longest = max(longest, time.monotonic() - begun)
            rounds += 1
            save({"file": os.path.basename(self.file), "bytes": os.path.getsize(self.file), "order": self.order,
                  "rounds": rounds, "conversions": self.conversions, "load": os.getloadavg(),
                  "rows": [row.result() for row in rows]})

    def verify(self):
        """Returns whether all peers deliver what they should."""
        fine = True
        for peer, way in self.ways():
            for n in (0, 2):
                answer = ask(self.options, peer, "verify", self.settings(peer, way, n), *self.names)
                passed = bool(answer.get("complete")) and (answer["in_order"] or not way["same_order"])
                fine = fine and passed
                print(f"{'ok' if passed else 'WRONG'}: {os.path.basename(self.file)} {self.order}, {way['name']}, "
                      f"{way['mode']}, num_workers={n}: {answer}")
        return fine


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


def describe(options, versions, left_out):
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
            "load": os.getloadavg(), "command": command, "versions": versions, "left_out": left_out,
            "settings": {**{key: getattr(options, key) for key in keys}, "page_cache": "warm"}, "files": []}


def main():
    options = parse_arguments()
    peers, versions, left_out = find_peers(options)
    options.files = options.files or make_files(options)
    fine = True
    results = describe(options, versions, left_out)
    for name in options.files:
        file, _, order = name.partition("@")
        league = League(options, peers, file, order or options.order)
        if options.verify:
            fine = league.verify() and fine
            continue
        results["files"].append({})

        def save(measured):
            results["files"][-1] = measured
            if options.json:
                with open(options.json, "w", encoding="utf-8") as out:
                    json.dump(results, out, indent=1)
                    out.write("\n")

        print(f"{file}, {league.order}:", file=sys.stderr)
        league.measure(save)
    if options.verify:
        sys.exit(0 if fine else "run.py: a peer did not deliver the samples")
    print(render.markdown(results))
    if options.docs:
        render.replace_tables(options.docs, results)


if __name__ == "__main__":
    main()
