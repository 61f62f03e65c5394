# SPDX-License-Identifier: Apache-2.0
"""Prints which rank of a training waited most for its data, epoch by epoch, and what would help it.

    python examples/cluster/starving.py epochs-0.jsonl epochs-1.jsonl

The files are those that `epoch_log` names; each holds the lines of one rank or of several. While a rank waits for data, the
others wait for it in the sum of gradients, which is their own time, not the loader's: the starving rank is the one whose
share is high. Of an epoch that a rank began twice, by a resumed run, the last line counts. Loaders of different data, such
as those for training and validation, are compared by themselves. Needs Python alone.
"""

import argparse
import json
import sys
from typing import Any

NEEDED = {"epoch", "rank", "wait_share", "seconds", "bottleneck", "advice"}


Verdicts = dict[int, dict[str, Any]]


def read(files: list[str]) -> dict[tuple[int, str], Verdicts]:
    """Returns the verdicts by epoch and data, and then by rank."""
    epochs: dict[tuple[int, str], Verdicts] = {}
    for name in files:
        try:
            with open(name, encoding="utf-8") as file:
                lines = file.readlines()
        except (OSError, UnicodeDecodeError) as error:
            sys.exit(f"starving.py: {name}: cannot be read: {error}")
        for number, line in enumerate(lines, 1):
            try:
                verdict = json.loads(line)
                if not NEEDED <= verdict.keys():
                    raise ValueError
                data = f", {verdict['data']} ({verdict['dataset_samples']} samples)" if "data" in verdict else ""
                epochs.setdefault((verdict["epoch"], data), {})[verdict["rank"]] = verdict
            except (ValueError, TypeError, AttributeError, KeyError):
                sys.exit(f"starving.py: {name}:{number}: this is no line of an epoch_log")
    return epochs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE")
    epochs = read(parser.parse_args().files)
    several = len({data for _, data in epochs}) > 1
    for (epoch, data), ranks in sorted(epochs.items()):
        by_wait = sorted(ranks.values(), key=lambda verdict: -verdict["wait_share"])
        most = by_wait[0]
        median = by_wait[len(by_wait) // 2]
        starves = most["bottleneck"] != "consumer"
        advice = "; ".join(most["advice"]) or "`trace_path` shows more"
        print(f"epoch {epoch}{data if several else ''}: " + ("" if starves else "no rank starves; ") +
              f"rank {most['rank']} of {len(ranks)} waited most, {most['wait_share']:.1%} of {most['seconds']:.1f} s (median of all "
              f"ranks {median['wait_share']:.1%})" + (f"; bottleneck: {most['bottleneck']}; advice: {advice}" if starves else ""))


if __name__ == "__main__":
    main()
