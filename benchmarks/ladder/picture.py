# SPDX-License-Identifier: Apache-2.0
"""The picture of a ladder: a bar for each rung, as long as its samples/s, with the share of waiting drawn in.

SVG of its own, with its own background, so that it can be read on light and dark pages; the colours follow the scheme
that the reader prefers."""

import pathlib
from xml.sax.saxutils import escape

WIDTH, LEFT, BAR, ROW, TOP = 860, 320, 340, 40, 62
STYLE = """
  .page { fill: #ffffff; stroke: #d0d7de; } text { fill: #1f2328; font: 14px system-ui, "DejaVu Sans", sans-serif; }
  .small { font-size: 12px; } .faint { fill: #59636e; } .title { font-size: 16px; font-weight: 600; }
  .train { fill: #1a7f5a; } .wait { fill: #e0a458; } .range { stroke: #1f2328; stroke-width: 1.5; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; stroke: #3d444d; } text { fill: #e6edf3; } .faint { fill: #9198a1; }
    .train { fill: #3fb68b; } .wait { fill: #b87a2b; } .range { stroke: #e6edf3; }
  }"""


def alternative(results):
    """Returns the picture in words."""
    parts = []
    for number, entry in enumerate(results["rungs"]):
        if "not_run" in entry:
            parts.append(f"{number} {entry['rung']}: not measured")
        else:
            parts.append(f"{number} {entry['rung']}: {entry['samples_per_s']['median']:,.0f} samples/s, waiting "
                         f"{entry['wait_share']['median']:.0%}")
    return "Bars of samples/s, from the bottom rung to the top. " + "; ".join(parts)


def text(x, y, content, classes=""):
    return f'<text x="{x:.0f}" y="{y:.0f}" class="{classes}">{escape(content)}</text>'


def bar(x, y, width, height, classes):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" class="{classes}"/>'


def row(number, entry, y, per_sample, first):
    """Returns the elements of one rung; `per_sample` is the length of 1 sample/s."""
    drawn = [text(20, y + 20, f"{number}  {entry['change']}", "small")]
    if "not_run" in entry:
        return drawn + [text(LEFT, y + 20, "not measured, " + entry["not_run"], "small faint")]
    speed, waiting = entry["samples_per_s"], entry["wait_share"]["median"]
    length = speed["median"] * per_sample
    drawn += [bar(LEFT, y + 4, length * (1 - waiting), 24, "train"),
              bar(LEFT + length * (1 - waiting), y + 4, length * waiting, 24, "wait")]
    least, most = LEFT + speed["least"] * per_sample, LEFT + speed["most"] * per_sample
    drawn.append(f'<path class="range" d="M{least:.1f} {y + 12}v8m0 -4H{most:.1f}m0 -4v8" fill="none"/>')
    ratio = speed["median"] / first["samples_per_s"]["median"]
    drawn.append(text(max(most, LEFT + length) + 8, y + 20, f"{speed['median']:,.0f}/s · {ratio:.1f} ×", "small"))
    return drawn


def svg(results):
    rungs = results["rungs"]
    measured = [entry for entry in rungs if "not_run" not in entry]
    per_sample = BAR / max(entry["samples_per_s"]["most"] for entry in measured)
    height = TOP + ROW * len(rungs) + 40
    drawn = [f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="6" class="page"/>',
             text(20, 32, "The ladder: samples/s, one change at a time", "title"),
             bar(LEFT + 170, 20, 14, 14, "train"), text(LEFT + 190, 32, "training", "small"),
             bar(LEFT + 270, 20, 14, 14, "wait"), text(LEFT + 290, 32, "waiting for data", "small")]
    for number, entry in enumerate(rungs):
        drawn += row(number, entry, TOP + ROW * number, per_sample, measured[0])
    machine, settings = results["machine"], results["settings"]
    drawn.append(text(20, height - 16, f"{results['date']}, commit {results['commit']}; {machine['cpu']}, {machine['cores']} cores; "
                      f"{settings['model']}, batches of {settings['batch_size']}; lines: slowest to fastest of {results['rounds']} "
                      "rounds", "small faint"))
    lines = "\n".join("  " + element for element in drawn)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            f'role="img" aria-labelledby="title desc">\n  <title id="title">The ladder</title>\n'
            f'  <desc id="desc">{escape(alternative(results))}</desc>\n  <style>{STYLE}\n  </style>\n{lines}\n</svg>\n')


def write(path, results):
    pathlib.Path(path).write_text(svg(results), encoding="utf-8")
