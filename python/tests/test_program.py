# SPDX-License-Identifier: Apache-2.0
"""`python -m h5feed`."""

import os
import subprocess
import sys

import pytest

import h5feed.__main__


def test_info_says_what_is_found_and_what_it_costs(gzip_file, capsys):
    assert h5feed.__main__.main(["info", str(gzip_file), "--data", "images", "--target", "labels"]) == 0
    shown = capsys.readouterr().out
    assert "100 samples of 3 × 8 × 6 u8" in shown and "an epoch: 100 samples in 4 batches" in shown


def test_a_failure_is_one_line_and_exit_code_1(folder, capsys):
    assert h5feed.__main__.main(["info", str(folder / "none.h5")]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_wrong_usage_is_exit_code_2(capsys):
    with pytest.raises(SystemExit) as ended:
        h5feed.__main__.main(["infos"])
    assert ended.value.code == 2


def test_output_that_nobody_reads_is_no_traceback(gzip_file):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as nobody:
        outcome = subprocess.run([sys.executable, "-m", "h5feed", "info", gzip_file, "--data", "images"], stdout=nobody,
                                 stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (outcome.returncode, outcome.stderr) == (1, "")


def shell(command: str, path, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(["sh", "-c", f'"{sys.executable}" -m h5feed info "$0" --data images {command}', path], text=True,
                          capture_output=True, env={**os.environ, **environment}, timeout=60, check=False)


def test_a_terminal_without_the_characters_gets_escapes(gzip_file):
    outcome = shell("", gzip_file, PYTHONIOENCODING="ascii")
    assert outcome.returncode == 0 and r"3 \xd7 8" in outcome.stdout and not outcome.stderr


@pytest.mark.parametrize(("where", "message"), [(">/dev/full", "No space left"), (">&-", "it is closed")])
def test_output_that_cannot_be_written_is_an_error_of_one_line(gzip_file, where, message):
    outcome = shell(where, gzip_file)
    assert outcome.returncode == 1
    assert outcome.stderr.startswith("the output cannot be written: ") and message in outcome.stderr
    assert outcome.stderr.count("\n") == 1
