# SPDX-License-Identifier: Apache-2.0
"""The exceptions of h5feed, each below the built-in one that Python code catches for the same fault."""

import builtins
import glob
import logging
import os
import re
from collections.abc import Callable, Iterable
from typing import NoReturn

_log = logging.getLogger("h5feed")


class Error(Exception):
    """Base class. The message is one line: what, where, and what to do about it."""


class FileError(Error, OSError):
    """A file cannot be opened, is not HDF5, is truncated, or cannot be read."""


class MissingFileError(FileError, FileNotFoundError):
    """A file does not exist, or a pattern matches no file."""


class IsolationError(FileError):
    """The process that reads a file's metadata crashed over the file, exceeded a limit, or answered with nonsense."""


class DatasetError(Error, ValueError):
    """A dataset is missing or cannot provide samples."""


class ChunkError(Error, OSError):
    """The stored bytes of a chunk cannot be decoded or fail their checksum."""


class OptionError(Error, ValueError):
    """An option has an invalid value, or two options exclude each other."""


class TimeoutError(Error, builtins.TimeoutError):
    """`timeout` elapsed before the next batch was ready. The batch is not lost: a later `next()` returns it."""


class DeviceError(Error, RuntimeError):
    """A GPU cannot be used or failed."""


class StateError(Error, ValueError):
    """A saved state is damaged, or of another dataset, order or sharding."""


class VersionError(Error, ImportError):
    """The libhdf5 loaded is not the version that h5feed was compiled against."""


# What is spelled in another way stands alone: it is no part of a path, of FILE:DATASET or of a quoted name.
_START = r"(?<![\w./:\\\"'~-])"
_END = r"(?![\w/\\\"'-]|[.:][\w/:])"
# The options that are bools, and all options.
_BOOLS = "drop_last|headroom|in_order|pin_memory|preload|provenance|shuffle|unit_range"
_OPTIONS = (f"{_BOOLS}|augment|bad_list|batch_sampler|batch_size|cache_bytes|cache_policy|channels|collate_fn|copy_depth|"
            "cpu_limit|data|device|echo|episodes|epoch_log|fields|files|gpu_cache_bytes|images|input_layout|io_depth|isolation|"
            "isolation_memory_bytes|isolation_timeout|local_world_size|max_bad_share|memory_budget_bytes|normalize|num_workers|"
            "on_error|output_dtype|output_layout|prefetch_bytes|prefetch_factor|rank|row_reads|sample|sampler|seed|shard|sparse|"
            "stage_dir|target|target_dtype|target_files|target_window|tiles|timeout|trace_path|uneven|window|worker_init_fn|"
            "world_size")
# The options whose values are words, and these words: C++ has enumerations, Python strings.
_WORDS = ("nchw|nhwc|nhw|none|NCHW|NHWC|NHW|row|dataset|channels_last|strided|contiguous|by_chunk|exact|pad|drop|lru|"
          "clairvoyant|keep_first|always|never|automatic|stack|ragged|fail|skip|replace|shift|auto|lengths|ends|ids|datasets|"
          "dense|csr|flips|planar|all|process")
_WORD_OPTION = re.compile(rf"{_START}(?:options\.|\.)?(input_layout|sample|output_layout|shard|uneven|cache_policy|row_reads|"
                          rf"collate|on_error|edges|num_workers|index|isolation) = "
                          rf"((?:{_WORDS})\b(?:(?:, or|,| or) (?:{_WORDS})\b)*){_END}")


def _in_python(found: re.Match[str]) -> str:
    return f"{found[1]}={found[2].capitalize()}"


# How C++ spells things, and how Python does.
_SPELLINGS: "tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]" = (
    (re.compile(rf"{_START}(episodes|sparse|tiles)\.(\w+) = ({_WORDS}){_END}"), r"\1={'\2': '\3'}"),
    (re.compile(rf"{_START}normalize\.scale = ([\d.]+ / \d+){_END}"), r"normalize={'scale': \1}"),
    (re.compile(rf"{_START}echo\.factor = (?=\d)"), "echo="),
    (re.compile(rf"{_START}echo\.factor{_END}"), "echo"),
    (re.compile(r"\b(?:what LoaderState::to_bytes gave|a state as state\(\) returned it)"), "what state_dict() returned"),
    (re.compile(rf"{_START}state\(\)(?= needs )"), "state_dict()"),
    (re.compile(rf"{_START}restore\(\)(?= needs )"), "load_state_dict()"),
    (re.compile(rf"{_START}SplitBy::(automatic|sample|part){_END}"), r'by="\1"'),
    (re.compile(r"\bmax_batch_size\(\) of the batch sampler"), "the largest batch of the batch sampler"),
    (re.compile(r" \(a TorchDataset may set it too\)| or TorchDataset(?= of this dataset)"), ""),
    (re.compile(rf"{_START}(?:options)?\.({_OPTIONS}) = \{{\.(\w+) = ([^}}]*)\}}"), r"\1={'\2': \3}"),
    (re.compile(rf"{_START}(?:options\.|\.)?({_BOOLS}) = (true|false){_END}"), _in_python),
    (re.compile(rf"{_START}(?:options\.({_OPTIONS}) = (?=[\w\"])|\.({_OPTIONS}) = (?=\"))"), r"\1\2="),
    (re.compile(rf"{_START}(?:options\.|(?:DataLoaderOptions|DatasetOptions|SampleReaderOptions)::)({_OPTIONS}){_END}"), r"\1"),
    (re.compile(rf"{_START}std::nullopt{_END}"), "None"),
    (re.compile(r"\bor auto \(-1\)(?=; got )"), 'or "auto"'),
    (re.compile(r"\bor none for single samples\b"), "or None for single samples"),
    (re.compile(rf"{_START}(target_dtype|output_dtype) = f32{_END}"), r'\1="float32"'),
    (re.compile(rf"(?<=; use )automatic{_END}"), '"automatic"'),
    (re.compile(rf"{_START}(?:h5feed|Batch|DeviceBatch|LoaderStats)(?:::[A-Za-z]\w*)+{_END}"),
     lambda found: found[0].replace("::", ".").replace("Batch.field", "Batch.fields")),
    (re.compile(rf'{_START}(device|shuffle) = (?=")'), r"\1="),
    (re.compile(r"(?<=samples; it must have 1 to )(\d+)$"),
     r"\1, the largest of epoch 0; if others are larger, give the batch sampler an attribute batch_size"),
    (re.compile(r"install it with h5feed, put it next to the program, or"),
     "the wheel of h5feed does not contain it: install the wheel h5feed_images of the same version, or"),
    (re.compile(r"build it with H5FEED_WITH_OPENCV=ON, or"),
     "build it with OpenCV, install the wheel h5feed_images of the same version, or"),
    (re.compile(r"load that one or build h5feed again"),
     "import h5feed before other packages that use HDF5, or build h5feed again"),
)


def _with_quotes(found: re.Match[str]) -> str:
    return found[1] + "=" + re.sub(rf"\b(?:{_WORDS})\b", lambda word: f'"{word[0].lower()}"', found[2])


def in_python_terms(message: str) -> str:
    """Returns a message of the C++ library with options spelled as keyword arguments, and names of files as they are.

    >>> in_python_terms('two datasets look like images; set .data = "train/images"')
    'two datasets look like images; set data="train/images"'
    >>> in_python_terms("a state needs in_order = true")
    'a state needs in_order=True'
    >>> in_python_terms("state it: input_layout = NCHW, or none")
    'state it: input_layout="nchw", or "none"'
    >>> in_python_terms("num_workers must be 0 to 1024, or auto (-1); got -2")
    'num_workers must be 0 to 1024, or "auto"; got -2'
    >>> in_python_terms("batch_size must be at least 1, or none for single samples; got 0")
    'batch_size must be at least 1, or None for single samples; got 0'
    >>> in_python_terms("row_reads = always needs uncompressed rows; use automatic, or set target_dtype = f32")
    'row_reads="always" needs uncompressed rows; use "automatic", or set target_dtype="float32"'
    >>> print(in_python_terms("set sparse.format = dense, or num_workers = auto"))
    set sparse={'format': 'dense'}, or num_workers="auto"
    """
    head, colon, rest = message.partition(": ")
    if colon and ":/" in head and "; " not in head:  # FILE:/DATASET: what is wrong
        return head + colon + in_python_terms(rest)
    quoted = re.findall(r'"([^"\n]*)"', message)  # names, which stay as they are; no message has a null character
    message = re.sub(r'"[^"\n]*"', '"\0"', message)
    message = _WORD_OPTION.sub(_with_quotes, message)
    for pattern, spelling in _SPELLINGS:
        message = pattern.sub(spelling, message)
    return re.sub("\0", lambda found: quoted.pop(0) if quoted else found[0], message)


def raise_from_core(name: str, message: str) -> NoReturn:
    """Called by the core to raise the exception class `name`."""
    raise globals()[name](in_python_terms(message)) from None


def log_from_core(is_warning: bool, line: str) -> None:
    """Called by the core for each line of its log."""
    _log.log(logging.WARNING if is_warning else logging.INFO, "%s", in_python_terms(line))


def none_exists(files: Iterable[str]) -> bool:
    """Returns whether one of the files, or of the patterns, names nothing that exists."""
    return any(not os.path.exists(file) and not glob.glob(file) for file in files)
