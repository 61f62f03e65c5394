#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens pages of h5feed report in a headless Chromium: accessibility by axe-core, widths, schemes, keyboard.

  browser_test.py PROGRAM AXE.js [FOLDER]     FOLDER: screenshots are left there
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from browser import Browser

PHONE, DESK = 390, 1200
BAD_NAME = "</script><script>document.title='broken'</script>\"'\u202e<img src=x>"


def make_inputs(program: str, folder: Path) -> None:
    """Runs the program for inputs of each kind."""
    def run(*words: str) -> None:
        subprocess.run([program, *words], cwd=folder, check=True, capture_output=True, timeout=120)

    run("generate", "demo.h5", "--samples", "600", "--shape", "3,32,32", "--filter", "gzip:1", "--chunk", "20")
    bench = ("bench", "demo.h5", "--num-workers", "0,1,auto", "--time-budget", "200ms", "--runs", "2")
    run(*bench, "--shuffle", "chunk:4", "--export-json", "bench.json")
    run(*bench, "--shuffle", "full", "--cache-bytes", "1MiB", "--export-json", "other.json")
    run("monitor", "--interval", "0.1", "-o", "watched.jsonl", "--", program, *bench)


def gpu_lines(cut: bool) -> str:
    """A record of two GPUs, a loader and a finding, cut off before its last line if asked."""
    lines: list[dict[str, Any]] = []
    for i in range(400):
        busy = 0.9 if i < 250 else 0.5
        for gpu in (0, 1):
            lines.append({"time": 1.7e9 + i, "gpu": gpu, "pci_id": f"0000:0{gpu}:00.0",
                          "busy": busy - 0.05 * gpu + 0.04 * math.sin(i / 5), "memory_used_bytes": 9e9 + 1e7 * i})
        lines.append({"time": 1.7e9 + i, "process": {"rss_bytes": 3e9 + 1e6 * i},
                      "machine": {"cpu_busy": 0.6, "disk_busy": 0.3 if i < 250 else 0.98, "disk_read_bytes_per_s": 2e8},
                      "loader": {"wait": 0.05 if i < 250 else 0.4, "samples_per_s": 9000 * busy}})
    if not cut:
        finding = {"finding": "fall_of_use", "what": "use of the GPUs fell from 87 % to 47 %", "from_s": 250.0,
                   "to_s": 399.0, "try": ["a local copy: stage_dir"], "gpu": None}
        lines.append({"summary": [], "process": {"exit_code": 0}, "epochs": [], "verdict": finding["what"],
                      "findings": [finding]})
    return "".join(json.dumps(line) + "\n" for line in lines) + ('{"time": 17' if cut else "")


def epoch_lines() -> str:
    lines = [{"epoch": epoch, "rank": 0, "finished": True, "headroom": False, "samples": 60000, "batches": 235,
              "seconds": 20 - epoch, "samples_per_s": 60000 / (20 - epoch), "wait_share": 0.4, "bottleneck": "decode",
              "wait_read_s": 2, "wait_decode_s": 5 - epoch / 3, "wait_gather_s": 0.4, "wait_transform_s": 0.5,
              "wait_transfer_s": 0.2, "wait_free_slot_s": 0.1, "wait_other_s": 0.1, "num_workers": 2, "usable_cpus": 2,
              "advice": ["more workers: 4"]} for epoch in range(8)]
    return "".join(json.dumps(line) + "\n" for line in lines)


def make_pages(program: str, folder: Path) -> list[Path]:
    make_inputs(program, folder)
    (folder / "gpus.jsonl").write_text(gpu_lines(cut=False))
    (folder / "killed.jsonl").write_text(gpu_lines(cut=True))
    (folder / "epochs.jsonl").write_text(epoch_lines())
    result = json.loads((folder / "bench.json").read_text())
    result["file"] = result["settings"]["data"] = BAD_NAME
    for row in result["rows"]:
        row["swept"] = {BAD_NAME: BAD_NAME}
    hostile = folder / "a<b>&\"'.json"
    hostile.write_text(json.dumps(result))
    pages = {"bench": ["bench.json"], "compared": ["bench.json", "other.json"], "gpus": ["gpus.jsonl"],
             "all": ["bench.json", "gpus.jsonl", "killed.jsonl", "watched.jsonl", "epochs.jsonl"],
             "hostile": [hostile.name, "other.json"]}
    for name, inputs in pages.items():
        subprocess.run([program, "report", *inputs, "-o", f"{name}.html"], cwd=folder, check=True, capture_output=True)
    return [folder / f"{name}.html" for name in pages]


def faults_by_axe(browser: Browser, axe: str) -> list[str]:
    """Returns the serious and critical findings of axe-core, with all tables open."""
    browser.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    browser.run(axe + "; undefined")
    found, passed = browser.run(
        "axe.run(document).then((all) => [all.violations.map("
        "(each) => [each.impact, each.id, each.help, each.nodes[0].html]), all.passes.map((each) => each.id)])")
    if not {"color-contrast", "svg-img-alt", "label"} <= set(passed):
        return [f"axe: only these rules were tried: {passed}"]
    return [f"axe: {' / '.join(each)[:400]}" for each in found if each[0] in ("serious", "critical")]


def faults_of_layout(browser: Browser, width: int) -> list[str]:
    faults = []
    if (reached := browser.run("document.documentElement.scrollWidth")) > width:
        faults.append(f"the page is {reached} pixels wide")
    # Texts of one chart that cover each other.
    covered = browser.run("""[...document.querySelectorAll('figure.chart svg[role=img]')].flatMap((svg) => {
      const boxes = [...svg.querySelectorAll('text')].map((text) => [text.textContent, text.getBoundingClientRect()]);
      const frame = svg.getBoundingClientRect();
      const over = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
      return boxes.flatMap(([text, box], i) => [
        ...boxes.slice(i + 1).filter(([, other]) => over(box, other)).map(([other]) => text + ' covers ' + other),
        ...(box.left < frame.left - 1 || box.right > frame.right + 1 ? [text + ' is cut'] : [])]);
    })""")
    return faults + [f"chart: {each}" for each in covered]


def faults_of_keyboard(browser: Browser) -> list[str]:
    """Goes to the first chart by the Tab key and reads its second value by an arrow."""
    for _ in range(60):
        browser.press("Tab")
        if browser.run("document.activeElement.classList.contains('read')"):
            break
    else:
        return ["keyboard: the Tab key reaches no chart"]
    browser.press("ArrowRight")
    said = browser.run("document.activeElement.getAttribute('aria-valuetext')")
    cells = browser.run("[...document.activeElement.closest('figure').querySelectorAll('tbody tr')[1].cells]"
                        ".map((cell) => cell.textContent)")
    shown = browser.run("document.activeElement.parentElement.querySelector('.tip').checkVisibility()")
    faults = [f"keyboard: \"{said}\" lacks {cell}" for cell in cells if cell not in said]
    return faults if shown else [*faults, "keyboard: the values are not shown"]


def main() -> int:
    program, axe = str(Path(sys.argv[1]).resolve()), Path(sys.argv[2]).read_text(encoding="utf-8")
    shots = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    faults: list[str] = []
    checked = 0
    browser = Browser("chromium")
    with tempfile.TemporaryDirectory() as temporary:
        for page in make_pages(program, Path(temporary)):
            for width in (DESK, PHONE):
                for dark in (False, True):
                    browser.open(page, width, dark)
                    here = [f"log: {line}" for line in browser.log]
                    here += faults_of_layout(browser, width)
                    if shots is not None:
                        shots.mkdir(parents=True, exist_ok=True)
                        browser.screenshot(shots / f"{page.stem}-{width}-{'dark' if dark else 'light'}.png")
                    if not browser.run("document.title").startswith("h5feed report: "):
                        here.append("a name of the inputs was run as a script")
                    here += faults_of_keyboard(browser)
                    here += faults_by_axe(browser, axe)
                    faults += [f"{page.name}, {width} pixels, {'dark' if dark else 'light'}: {fault}" for fault in here]
                    checked += 1
    browser.close()
    for fault in faults:
        print(fault)
    print(f"browser: {checked} views checked, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
