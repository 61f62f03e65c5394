#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `h5feed monitor` takes of a core while it watches a command, by interval.

    benchmarks/monitor_cost.py build/release/h5feed [PROGRAM ...] [--intervals 1,0.1] [--seconds 6] [--rounds 10]
                               [--processes 0]

Each round starts every program with every interval in turn, in a changing order. The command is `sleep`; the processor time
is that of the kernel (wait4), user and system, `sleep` included. The time that a start and an end take is measured by
watching `true`, and is also printed subtracted. --processes starts as many idle processes beside, which are listed each time.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile


def processor_seconds(program, interval, command):
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as lines:
        child = subprocess.Popen([program, "monitor", "--interval", interval, "-o", lines.name, "--", *command],
                                 stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"{program}: exit code {child.returncode}")
    return usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+")
    parser.add_argument("--intervals", default="1,0.1")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--processes", type=int, default=0)
    arguments = parser.parse_args()
    beside = [subprocess.Popen(["sleep", "1d"]) for _ in range(arguments.processes)]
    try:
        cases = [(program, interval) for interval in arguments.intervals.split(",") for program in arguments.programs]
        whole, bare = {case: [] for case in cases}, {case: [] for case in cases}
        for round_number in range(arguments.rounds):
            for case in cases if round_number % 2 == 0 else reversed(cases):
                whole[case].append(processor_seconds(*case, ["sleep", str(arguments.seconds)]) / arguments.seconds)
                bare[case].append(processor_seconds(*case, ["true"]) / arguments.seconds)
        listed = sum(name.isdigit() for name in os.listdir("/proc"))
        print(f"medians of {arguments.rounds} runs of {arguments.seconds:g} s beside {listed} processes, of a core:")
        for program, interval in cases:
            share, start = (statistics.median(times[program, interval]) for times in (whole, bare))
            print(f"{program} --interval {interval}: {share:.2%}, without start and end {share - start:.2%}")
    finally:
        for process in beside:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
