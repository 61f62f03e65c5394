# SPDX-License-Identifier: Apache-2.0
"""Configuration files: the options of a dataset and a loader by name."""

import json
import os
from collections.abc import Collection
from typing import Any

from ._errors import FileError, OptionError
from ._options import PathLike


def read_config(path: PathLike, part: str, names: Collection[str]) -> dict[str, Any]:
    """Returns the options of one part of a configuration file, "dataset" or "loader"; none if it lacks that part.

    `names` are those that the part may have. Raises FileError or OptionError.
    """
    shown = os.fsdecode(path)
    try:
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
    except OSError as error:
        raise FileError(f"{shown}: cannot be read ({error.strerror}); give a configuration file") from None
    except ValueError as error:
        raise OptionError(f"{shown}: not JSON: {error}") from None
    if not isinstance(config, dict) or not isinstance(config.get(part, {}), dict):
        raise OptionError(f'{shown}: not a configuration, an object with the parts "dataset" and "loader"')
    for name in config:
        if name not in ("dataset", "loader"):
            raise OptionError(f'{shown}: no part "{name}"; a configuration has "dataset" and "loader"')
    options: dict[str, Any] = config.get(part, {})
    for name in options:
        if name not in names:
            raise OptionError(f'{shown}: {part} has no option "{name}"')
    return options
