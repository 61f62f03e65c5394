# SPDX-License-Identifier: Apache-2.0
"""One row of run.py: a loader with one number of workers, how to measure it once, and the results."""

import json
import statistics
import subprocess

RUN_LIMIT_S = 120
NEAR_BEST = 0.8  # of a loader's best number of workers; slower ones are measured in the first round only


class Setting:
    def __init__(self, loader, order, num_workers, command, note, same_order=False, converts=False):
        self.loader, self.order, self.num_workers = loader, order, num_workers
        self.same_order, self.converts = same_order, converts
        self.command, self.note = command, note
        self.answers, self.error = [], None

    def measure(self, batch_size):
        if self.error:
            return
        try:
            run = subprocess.run(self.command, capture_output=True, text=True, timeout=RUN_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.error = f"no result within {RUN_LIMIT_S} s"
            return
        try:
            answer = json.loads(run.stdout.strip())
        except ValueError:
            lines = (run.stderr or run.stdout).strip().splitlines()
            self.error = lines[-1][:300] if lines else f"exit code {run.returncode}"
            return
        if "error" in answer:
            self.error = answer["error"]
        elif "rows" in answer:
            self.answers.append(own_answer(answer, batch_size))
        elif "samples_per_s" in answer:
            self.answers.append(answer)
        else:
            self.answers.append({"samples_per_s": answer["samples"] / answer["seconds"]})

    def key(self):
        return self.loader, self.order, self.same_order

    def rate(self):
        return self.median("samples_per_s") or 0

    def median(self, key):
        values = [answer[key] for answer in self.answers if answer.get(key) is not None]
        return statistics.median(values) if values else None

    def is_near_best(self, rows):
        return self.rate() >= NEAR_BEST * max(row.rate() for row in rows if row.key() == self.key())

    def summary(self):
        figure = self.error or f"{self.answers[-1]['samples_per_s']:,.0f} samples/s"
        return f"{self.loader}, {self.order}{', the same' if self.same_order else ''}, {self.num_workers} workers: {figure}"

    def result(self):
        rates = [answer["samples_per_s"] for answer in self.answers]
        row = {"loader": self.loader, "order": self.order, "same_order": self.same_order, "converts": self.converts,
               "num_workers": self.num_workers, "error": self.error, "note": self.note, "repetitions": rates}
        if rates:
            row.update(samples_per_s=self.rate(), slowest=min(rates), fastest=max(rates))
            for key in ("after_start", "first_batch_s", "share_of_limit"):
                if self.median(key) is not None:
                    row[key] = self.median(key)
        return row


def own_answer(answer, batch_size):
    """Returns what the scripts of the peers print, from the JSON of `h5feed bench`."""
    row = answer["rows"][0]
    found = {"samples_per_s": row["samples_per_s"], "after_start": row["samples_per_s_after_start"],
             "first_batch_s": row["first_batch_ms"] / 1e3, "share_of_limit": row["share_of_limit"]}
    if found["after_start"] is not None:
        samples = answer["settings"]["samples"]
        rest = max(0, samples - batch_size) / found["after_start"]
        found["samples_per_s"] = samples / (found["first_batch_s"] + rest)
    return found
