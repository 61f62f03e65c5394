# SPDX-License-Identifier: Apache-2.0
"""Stops in the middle of an epoch and goes on in a new loader: every sample arrives once. Needs NumPy only.

    python examples/python/resume.py FILE.h5 --data images --target labels
"""

import argparse
import json

import h5feed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--data", default="")
    parser.add_argument("--target", default="")
    given = parser.parse_args()
    dataset = h5feed.Dataset.open(given.file, data=given.data, target=given.target)
    print(dataset)

    seen: list[int] = []
    first = h5feed.DataLoader(dataset, batch_size=32, shuffle=True, seed=1, num_workers=2)
    for number, batch in enumerate(first, 1):
        seen += batch.indices.tolist()
        if 2 * number >= len(first):
            break
    checkpoint = json.dumps(first.state_dict())
    first.close()
    print(f"stopped after {len(seen)} samples: {checkpoint}")

    second = h5feed.DataLoader(dataset, batch_size=50, shuffle=True, seed=1)  # another batch size, no workers
    second.load_state_dict(json.loads(checkpoint))
    for batch in second:
        seen += batch.indices.tolist()
    assert sorted(seen) == list(range(len(dataset)))
    print(f"each of {len(dataset)} samples arrived once")


if __name__ == "__main__":
    main()
