# SPDX-License-Identifier: Apache-2.0
"""Configuration files: the options of a dataset and a loader by name."""

import json
import os
from collections.abc import Collection
from typing import Any

from ._errors import FileError, OptionError
from ._options import PathLike


_PARTS = ("dataset", "mixture", "loader")
# An option that the program takes, too.
_NOT_IN_PYTHON = {"output_memory"}
# Deepest nesting of arrays and objects, as in the program; printing a deeper value may exhaust the stack.
_MOST_LEVELS = 64


def read_config(path: PathLike, part: str, names: Collection[str]) -> dict[str, Any]:
    """Returns the options of one part of a configuration file, "dataset" or "loader"; none if it lacks that part.

    `names` are those that the part may have. Raises FileError or OptionError.
    """
    options: dict[str, Any] = _read(path).get(part, {})
    _check_names(f"{os.fsdecode(path)}: {part}", options, names)
    return options


def read_mixture(path: PathLike, names: Collection[str]) -> dict[str, Any] | None:
    """Returns the part "mixture" of a configuration file: a list of "sets", and the "epoch_size"; None if it lacks the part.

    `names` are those of the options that the "dataset" of a set may have. Raises FileError or OptionError.
    """
    config = _read(path)
    if "mixture" not in config:
        return None
    where = f"{os.fsdecode(path)}: mixture"
    mixture: dict[str, Any] = config["mixture"]
    _check_names(where, mixture, ("sets", "epoch_size"))
    if not isinstance(mixture.get("sets"), list):
        raise OptionError(f'{where}.sets: expected a list of sets')
    for number, part in enumerate(mixture["sets"]):
        if not isinstance(part, dict) or not isinstance(part.get("dataset"), dict):
            raise OptionError(f'{where}.sets[{number}]: expected an object with a "dataset"')
        _check_names(f"{where}.sets[{number}]", part, ("dataset", "weight", "shuffle"))
        _check_names(f"{where}.sets[{number}].dataset", part["dataset"], names)
    return mixture


def _check_names(where: str, options: dict[str, Any], names: Collection[str]) -> None:
    for name in options:
        if name in _NOT_IN_PYTHON:
            raise OptionError(f"{where}: {name} is an option of C++ and the program h5feed only; leave it out")
        if name not in names:
            raise OptionError(f'{where} has no option "{name}"')


def _too_deep(shown: str) -> str:
    return f"{shown}: nested more than {_MOST_LEVELS} levels deep, which no configuration is"


def _is_deep(value: Any) -> bool:
    """Returns whether a value of JSON is nested more than _MOST_LEVELS levels deep."""
    level = [value]
    for _ in range(_MOST_LEVELS + 1):
        level = [part for part in level if isinstance(part, (dict, list))]
        if not level:
            return False
        level = [part for outer in level for part in (outer.values() if isinstance(outer, dict) else outer)]
    return True


def _read(path: PathLike) -> dict[str, Any]:
    """Returns a configuration file, each part of which is a dict."""
    shown = os.fsdecode(path)
    try:
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
    except OSError as error:
        raise FileError(f"{shown}: cannot be read ({error.strerror}); give a configuration file") from None
    except ValueError as error:
        raise OptionError(f"{shown}: not JSON: {error}") from None
    except RecursionError:
        raise OptionError(_too_deep(shown)) from None
    if _is_deep(config):
        raise OptionError(_too_deep(shown))
    if not isinstance(config, dict) or not all(isinstance(config.get(part, {}), dict) for part in _PARTS):
        raise OptionError(f'{shown}: not a configuration, an object with the parts "dataset" or "mixture", and "loader"')
    for name in config:
        if name not in _PARTS:
            raise OptionError(f'{shown}: no part "{name}"; a configuration has "dataset" or "mixture", and "loader"')
    if "dataset" in config and "mixture" in config:
        raise OptionError(f'{shown}: "dataset" and "mixture" exclude each other; describe each set in mixture.sets')
    return config
