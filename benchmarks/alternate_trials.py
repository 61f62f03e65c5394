# SPDX-License-Identifier: Apache-2.0
"""How often `bench --alternate` calls a slower decoder slower, and the same program different.

    python3 benchmarks/alternate_trials.py build/release/h5feed [--trials 20] [--time-budget 60s] [--share 0.06]

The slowdown is a library that is loaded before libdeflate (LD_PRELOAD) and repeats `share` of each decompression, so that
one stage of the loader, decoding, takes longer. Needs cc. Prints one line for each trial, and the counts.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SLOW_DECODER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>
typedef int (*decompress_t)(void *, const void *, size_t, void *, size_t, size_t *);
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}
int libdeflate_zlib_decompress(void *d, const void *in, size_t n, void *out, size_t m, size_t *made) {
  static decompress_t next;
  static double share;
  if (!next) {
    share = atof(getenv("SLOW_SHARE"));
    next = (decompress_t)dlsym(RTLD_NEXT, "libdeflate_zlib_decompress");
  }
  const double start = now();
  const int result = next(d, in, n, out, m, made);
  const double end = now() + share * (now() - start);
  while (now() < end) {
  }
  return result;
}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--time-budget", default="60s")
    parser.add_argument("--share", type=float, default=0.06, help="of the decoder's time")
    arguments = parser.parse_args()
    program = arguments.program.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "slow.c").write_text(SLOW_DECODER)
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", folder / "slow.so", folder / "slow.c", "-ldl"], check=True)
        slow = folder / "slow"
        slow.write_text(f'#!/bin/sh\nLD_PRELOAD={folder}/slow.so SLOW_SHARE={arguments.share} exec "{program}" "$@"\n')
        slow.chmod(0o755)
        subprocess.run([program, "generate", folder / "t.h5", "--samples", "4000", "--shape", "3,64,64"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for what, other in (("slower", slow), ("same", program)):
            called = {"rate": 0, "cpu": 0, "any": 0}
            for trial in range(arguments.trials):
                run = subprocess.run([program, "bench", folder / "t.h5", "--num-workers", "1", "--shuffle", "chunk:4",
                                      "--alternate", program, other, "--time-budget", arguments.time_budget, "--json"],
                                     check=True, stdout=subprocess.PIPE, env=os.environ)
                found = json.loads(run.stdout)
                for test in ("rate", "cpu"):
                    called[test] += found[test]["significant"]
                called["any"] += found["significant"]
                print(what, trial, f"{found['pairs']} pairs",
                      *(f"{test} {found[test]['ratio']:.3f} p={found[test]['p']:.2g}" for test in ("rate", "cpu")), flush=True)
            print(f"{what}: called different in {called['any']} of {arguments.trials}"
                  f" (samples/s {called['rate']}, CPU time {called['cpu']})", flush=True)


if __name__ == "__main__":
    sys.exit(main())
