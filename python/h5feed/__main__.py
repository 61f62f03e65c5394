# SPDX-License-Identifier: Apache-2.0
"""`python -m h5feed info FILE`: what a file holds for training, and what an epoch costs."""

import argparse
import io
import os
import sys

from . import Dataset, Error, __version__, plan


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns 0, 1 if it failed, 2 for wrong usage, 130 if it was interrupted."""
    parser = argparse.ArgumentParser(prog="h5feed", description="Feeds deep-learning training from HDF5 files.")
    parser.add_argument("--version", action="version", version=f"h5feed {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    info = commands.add_parser("info", help="show what a file holds for training, and what an epoch costs")
    info.add_argument("file", nargs="+", help="HDF5 files, or patterns of their names")
    info.add_argument("--data", default="", help="path of the samples; default: the only dataset that looks like images")
    info.add_argument("--target", default="", help="path of the targets")
    info.add_argument("--batch-size", type=int, default=32)
    info.add_argument("--shuffle", default="full", help="sequential, full or chunk:K")
    given = parser.parse_args(arguments)
    if sys.stdout is None:
        print("the output cannot be written: it is closed", file=sys.stderr)
        return 1
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for terminals without × and paths that are no text
    try:
        dataset = Dataset.open(given.file, data=given.data, target=given.target)
        print(dataset)
        print(plan(dataset, batch_size=given.batch_size, shuffle=given.shuffle), flush=True)
    except Error as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130  # as a shell says of a program that Ctrl-C ended
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # else the program that reads the output, such as head, has ended
            print(f"the output cannot be written: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what the interpreter still flushes
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
