#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how many small faults, planted in the sources one at a time, the tests find.

    tests/mutation/mutate.py [--mutants 200] [--seed 1] [--json OUT.json] [--only plan,cache,cursor,normalize]
    tests/mutation/mutate.py --again OUT.json      tries the survivors of OUT.json with the commit's tests, and updates it

A mutant is one change of one line: another comparison, another operator, a constant that is one larger, a negated
condition, a statement left out. The lines are drawn at random from the sources of ROOMS, as many from each room. A
mutant that does not compile is drawn again. It is killed if a test of its room fails or takes ten times as long as without it, and
survives if all of them pass: then either a test is missing, or the change has no effect on what the code must do. The
sources are changed in a worktree of the commit, in --folder; the working tree is not touched. A run that is cut off
continues with the same --json.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Sources, and the tests that must notice a fault in them: the fastest first. A test is killed by its time, or named
# with a filter where only part of it is about the room.
ROOMS = {
    "plan": (["loader/plan/*.cpp", "loader/plan/*.hpp", "loader/flow/resolve/row_forecast.cpp"],
             ["plan_test", "mixture_test", "row_forecast_test", "resume_test", "order_options_test", "shard_reads_test",
              "oracle_test"]),
    "cache": (["loader/cache/*.cpp", "loader/flow/resolve/cache_layout.cpp", "loader/flow/chunks/chunk_agenda.cpp",
               "loader/flow/chunks/row_future.cpp"],
              ["cache_test", "row_cache_test", "chunk_agenda_test", "row_forecast_test", "order_options_test",
               "cache_policy_test", "oracle_test", "worker_allocations_test"]),
    "cursor": (["loader/flow/data_loader.cpp", "loader/flow/data_loader_state.cpp", "loader/flow/data_loader_resume.cpp",
                "loader/flow/stretch.cpp", "loader/flow/stretch.hpp", "loader/flow/epoch_state.hpp"],
               ["data_loader_test", "resume_test", "order_options_test", "output_options_test", "loader_options_test",
                "oracle_test", "shutdown_test", "faults_test", "self_tuning_test", "cuda_host_test"]),
    "normalize": (["loader/batch/normalize.cpp", "loader/batch/row_kernel.cpp", "loader/batch/resize_kernel.cpp",
                   "loader/batch/strides.cpp", "loader/flow/values/augmentation.cpp", "loader/flow/values/conversion.cpp",
                   "cuda/kernels/convert_core.hpp", "cuda/kernels/divisor.hpp", "cuda/kernels/normalize_coefficients.cpp",
                   "cuda/kernels/image_units.hpp", "cuda/kernels/flat_units.hpp"],
                  ["batch_test", "cuda_kernel_test", "output_options_test", "oracle_test", "patches_test", "cuda_host_test"]),
}

SWAPS = [(r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "), (r" == ", " != "), (r" != ", " == "),
         (r" && ", " || "), (r" \|\| ", " && "), (r" \+ ", " - "), (r" - ", " + "), (r" \* ", " + "), (r" / ", " * "),
         (r" % ", " / "), (r" \+= ", " -= "), (r" -= ", " += "), (r"\+\+", "--"), (r"--", "++"), (r"\btrue\b", "false"),
         (r"\bfalse\b", "true"), (r"std::min\b", "std::max"), (r"std::max\b", "std::min"), (r"\b0\b", "1"),
         (r"\b1\b", "2"), (r"\bif \((.+)\)(?= |$)", r"if (!(\1))"), (r"\? (.+?) : (.+?);", r"? \2 : \1;")]
CALL = re.compile(r"^\s+[\w.:>-]+(\[.*\])?(\(.*\)| [+-]?= .*);$")  # a call or an assignment, alone on its line
NOT_CODE = re.compile(r"^\s*(//|#|using |namespace|static_assert|template|friend|enum |struct |class |public:|private:|throw )")


def code_part(line):
    """Returns the line with its strings and trailing comment blanked out, of the same length."""
    line = re.sub(r'"(\\.|[^"\\])*"', lambda found: '"' + "\0" * (len(found[0]) - 2) + '"', line)
    return re.sub(r"//.*$", lambda found: "\0" * len(found[0]), line)


def mutants_of_line(line):
    """Yields every changed form of a line of code."""
    code = code_part(line)
    if NOT_CODE.match(code) or "H5FEED_" in code or "throw " in code or "fmt::" in code:
        return
    for pattern, replacement in SWAPS:
        for found in re.finditer(pattern, code):
            changed = line[:found.start()] + found.expand(replacement) + line[found.end():]
            if "\0" not in changed:
                yield changed
    if CALL.match(code) and not code.lstrip().startswith(("return", "delete", "co_")):
        yield re.match(r"\s*", line)[0] + ";\n"


def all_mutants(folder, patterns):
    """Returns every mutant of the files that match, as (path, line number from 1, new line)."""
    mutants = []
    for path in sorted({path for pattern in patterns for path in folder.glob(pattern)}):
        for number, line in enumerate(path.read_text().splitlines(keepends=True), 1):
            for changed in mutants_of_line(line):
                mutants.append((str(path.relative_to(folder)), number, changed))
    return mutants


def commit_of(folder):
    return subprocess.run(["git", "-C", folder, "rev-parse", "--short=12", "HEAD"], check=True, capture_output=True,
                          text=True).stdout.strip()


class Tree:
    """A worktree of the commit with a Debug build of the tests."""

    def __init__(self, folder, rooms, jobs):
        self.folder, self.build, self.jobs = folder, folder / "build" / "mutation", jobs
        self.tests = sorted({test for room in rooms for test in ROOMS[room][1]})
        self.timeouts = {}  # of each test, in seconds

    def prepare(self):
        if not self.folder.exists():
            subprocess.run(["git", "-C", ROOT, "worktree", "add", "--detach", self.folder, "HEAD"], check=True)
        # A run that was killed may have left a mutant.
        subprocess.run(["git", "-C", self.folder, "checkout", "--quiet", "--force", "--detach", commit_of(ROOT)], check=True)
        linker = next((f"-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld={name}" for name in ("lld", "gold") if shutil.which(f"ld.{name}")),
                      "-DCMAKE_EXE_LINKER_FLAGS=")
        subprocess.run(["cmake", "-S", self.folder, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", linker,
                        "-DCMAKE_CXX_FLAGS_DEBUG=-O1", "-DH5FEED_WITH_TORCH=OFF", "-DH5FEED_BUILD_PYTHON=OFF",
                        "-DH5FEED_BUILD_EXAMPLES=OFF", "-DH5FEED_BUILD_BENCHMARKS=OFF", "-DH5FEED_BUILD_TOOLS=OFF"],
                       check=True, stdout=subprocess.DEVNULL)
        if not self.compiles(self.tests):
            sys.exit("mutate: the commit itself does not build")
        for test in self.tests:
            start = time.monotonic()
            if self.fails(test):
                sys.exit(f"mutate: {test} fails without a mutant")
            self.timeouts[test] = 10 + 10 * (time.monotonic() - start)

    def compiles(self, tests):
        return subprocess.run(["ninja", "-C", self.build, f"-j{self.jobs}", *tests], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0

    def fails(self, test):
        program = next(self.build.rglob(test))
        try:
            return subprocess.run([program, "--gtest_fail_fast", "--gtest_brief=1"], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, timeout=self.timeouts.get(test), cwd=self.build).returncode != 0
        except subprocess.TimeoutExpired:
            return True

    def verdict_of(self, mutant, tests):
        """Returns the test that kills a mutant, "" if it survives, or None if it does not compile."""
        path, number, changed = mutant
        file = self.folder / path
        original = file.read_text()
        lines = original.splitlines(keepends=True)
        lines[number - 1] = changed
        try:
            file.write_text("".join(lines))
            if not self.compiles(tests[:1]):
                return None
            for test in tests:
                if self.compiles([test]) and self.fails(test):
                    return test
            return ""
        finally:
            file.write_text(original)


def try_again(tree, path):
    """Runs the tests of the survivors in a result of a run, and writes down those that are killed now."""
    results = json.loads(path.read_text())
    for mutant in results["mutants"]:
        if mutant["killed_by"] != "":
            continue
        lines = (tree.folder / mutant["file"]).read_text().splitlines()
        if mutant["line"] > len(lines) or lines[mutant["line"] - 1].strip() != mutant["was"]:
            print(f"{mutant['file']}:{mutant['line']}: the line has changed")
            continue
        indent = lines[mutant["line"] - 1][: -len(mutant["was"])]
        killer = tree.verdict_of((mutant["file"], mutant["line"], indent + mutant["now"] + "\n"), ROOMS[mutant["room"]][1])
        if killer:
            mutant["killed_by"], mutant["killed_at"] = killer, commit_of(tree.folder)
            path.write_text(json.dumps(results, indent=1) + "\n")
        print(f"{mutant['file']}:{mutant['line']}: {mutant['now']}: {'killed by ' + killer if killer else 'SURVIVED'}", flush=True)
    killed = sum(1 for each in results["mutants"] if each["killed_by"])
    print(f"{killed} of {sum(1 for each in results['mutants'] if each['killed_by'] is not None)} mutants killed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=200, help="of all rooms together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default=",".join(ROOMS), help="rooms, by comma")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "mutation-tree")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path, help="write each mutant and what became of it, and continue from there")
    parser.add_argument("--again", type=Path, help="try the survivors of this result of --json")
    options = parser.parse_args()
    if options.again and not options.again.is_file():
        sys.exit(f"mutate: --again {options.again}: no such file; name what --json has written")
    rooms = options.only.split(",")
    if unknown := set(rooms) - set(ROOMS):
        sys.exit(f"mutate: --only {options.only}: no room {', '.join(sorted(unknown))}; rooms: {', '.join(ROOMS)}")

    tree = Tree(options.folder.resolve(), rooms, options.jobs)
    tree.prepare()
    if options.again:
        try_again(tree, options.again)
        return
    commit = commit_of(tree.folder)
    done = []
    if options.json and options.json.exists():
        before = json.loads(options.json.read_text())
        if (before["commit"], before["seed"]) != (commit, options.seed):
            sys.exit(f"mutate: {options.json} is of another commit or seed; name another file")
        done = before["mutants"]
    known = {(each["file"], each["line"], each["now"]): each for each in done}
    results = []
    for room in rooms:
        sources, tests = ROOMS[room]
        drawn = all_mutants(tree.folder, sources)
        random.Random(f"{options.seed} {room}").shuffle(drawn)
        wanted = options.mutants // len(rooms)
        for mutant in drawn:
            if wanted == 0:
                break
            path, number, changed = mutant
            result = known.get((path, number, changed.strip()))
            if result is None:
                start = time.monotonic()
                killer = tree.verdict_of(mutant, tests)
                was = (tree.folder / path).read_text().splitlines()[number - 1].strip()
                result = {"room": room, "file": path, "line": number, "was": was, "now": changed.strip(),
                          "killed_by": killer, "seconds": round(time.monotonic() - start, 1)}
            results.append(result)
            if result["killed_by"] is not None:
                wanted -= 1
                state = f"killed by {result['killed_by']}" if result["killed_by"] else "SURVIVED"
                print(f"{room}: {path}:{number}: {result['was']}  =>  {result['now']}: {state}", flush=True)
            if options.json:
                options.json.write_text(json.dumps({"commit": commit, "seed": options.seed, "mutants": results}, indent=1) + "\n")
    for room in rooms:
        of_room = [each for each in results if each["room"] == room and each["killed_by"] is not None]
        killed = sum(1 for each in of_room if each["killed_by"])
        print(f"{room}: {killed} of {len(of_room)} mutants killed")


if __name__ == "__main__":
    main()
