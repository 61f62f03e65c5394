# SPDX-License-Identifier: Apache-2.0
"""The steps that lead to a dataset, and how it is opened again in another process or after a change of folder."""

import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _core
from ._errors import DatasetError, FileError, MissingFileError, none_exists

# One step that leads from the opened files to a dataset: open, subset or split; or mix, the only step of a mixture.
Step = tuple[Any, ...]


class Places(NamedTuple):
    """Where the paths among the options led when the dataset was opened: absolute paths and patterns."""

    files: list[str]
    target_files: list[str]
    stage_dir: str
    #: The files of each field.
    fields: list[list[str]]

    @staticmethod
    def of(options: dict[str, Any]) -> "Places":
        """Returns where the paths lead from the current directory."""
        return Places([_absolute(file) for file in options["files"]], [_absolute(file) for file in options["target_files"]],
                      _absolute(options["stage_dir"]),
                      [[_absolute(file) for file in field.get("files", ())] for field in options["fields"]])

    def put_into(self, options: dict[str, Any]) -> dict[str, Any]:
        """Returns the options with these paths; the paths that were given, if they still lead there: messages show them."""
        if Places.of(options) == self:
            return options
        fields = [{**field, "files": files} if files else field for field, files in zip(options["fields"], self.fields)]
        return {**options, "files": self.files, "target_files": self.target_files, "stage_dir": self.stage_dir,
                "fields": fields}


def open_files(options: dict[str, Any]) -> "_core.Dataset":
    """Opens a dataset with the options of `Dataset.open` in the form that the core takes."""
    try:
        return _core.open_dataset(options)
    except FileError as error:
        if not isinstance(error, MissingFileError) and none_exists([*options["files"], *options["target_files"]]):
            raise MissingFileError(str(error)) from None
        raise


def opening(options: dict[str, Any], places: Places, opened: "_core.Dataset") -> Step:
    """Returns the step of a dataset that was opened with these options."""
    return "open", options, places, opened.size(), _place_of_last(opened, opened.size())


def open_again(step: Step) -> "tuple[_core.Dataset, Step]":
    """Opens the files of the step `opening` as they are now; returns the dataset and its step."""
    _, options, places, *_ = step
    opened = open_files(places.put_into(options))
    return opened, opening(options, places, opened)


def leads_there(step: Step) -> bool:
    """Returns whether the paths that were given still lead where they did when the step `opening` was made."""
    return bool(Places.of(step[1]) == step[2])


def replay(steps: tuple[Step, ...]) -> "_core.Dataset":
    """Opens a dataset again: the same samples, also if others were appended since."""
    if steps[0][0] == "mix":
        return mixed(*steps[0][1:])
    _, options, places, size, place_of_last = steps[0]
    opened = open_files(places.put_into(options))
    if opened.size() < size or _place_of_last(opened, size) != place_of_last:
        raise DatasetError(f"{options['files'][0]}: the files have {opened.size():,} samples now, and had {size:,} others when "
                           "the dataset was opened; open it again, or call refresh() before it is pickled or the process forks")
    if opened.size() > size:
        opened = opened.subset(np.arange(size))
    for step in steps[1:]:
        if step[0] == "subset":
            opened = opened.subset(step[1])
        else:
            opened = opened.split(step[1], step[2], step[3])[step[4]]
    return opened


def mixed(sets: Sequence[Any], epoch_size: str | int) -> "_core.Dataset":
    """Returns the core's mixture of checked sets, which are MixedSets."""
    shuffles: list[Any] = [part.shuffle for part in sets]
    return _core.mix([part.dataset._live for part in sets], [part.weight for part in sets], shuffles, epoch_size)


def _absolute(path: str) -> str:
    """Returns a path or pattern as an absolute one; "", and what has no current directory to start from, as it is."""
    if not path or os.path.isabs(path):
        return path
    try:
        folder = os.getcwd()
    except OSError:  # the directory was removed
        return path
    if re.search(r"[*?\[]", path) and not os.path.exists(path):
        folder = re.sub(r"([*?\[\\])", r"\\\1", folder)  # only the pattern that was given matches names
    return os.path.join(folder, path)


def _place_of_last(opened: "_core.Dataset", size: int) -> tuple[Any, ...]:
    last = opened.origin(size - 1)
    # Not as a path to open: a name with ".." is the same only in spelling.
    return os.path.normpath(_absolute(last.file)), last.path, last.row, last.y, last.x
