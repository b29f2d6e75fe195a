"""All results that are kept as one HTML page with charts, which needs nothing else: `python -m benchmarks.page`."""

import itertools
import json
import re
from html import escape

from benchmarks import report
from benchmarks.__main__ import NAMES
from benchmarks.machine import ROOT, described

PAGE = report.RESULTS / "index.html"
# What can be compared across results: the figure of the workloads, and that of the peers.
WORKLOADS, PEERS = "tuples_per_s", "words_per_s"
FIGURE = re.compile(r"\+?([\d,]+(?:\.\d+)?)( k\b)?")
COLOURS = ("#9ecae1", "#6baed6", "#d62728", "#fdae6b", "#e6550d", "#a1d99b", "#31a354")  # of parts of a bar
INK = "fill: #1c2733; font: 13px system-ui, sans-serif"
STYLE = """
:root { color-scheme: light dark; --ink: #1c2733; --faint: #5c6b7a; --rule: #d9e0e7; --paper: #fff; --bar: #2f6fb3;
  --good: #1a7f45; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9ee; --faint: #9aa8b5; --rule: #34404c; --paper: #14191f;
  --bar: #6aa5e0; --good: #5fc98a; --bad: #ff8a80; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 66rem;
  margin: 2rem auto; padding: 0 1rem; }
h2 { font-size: 1.15rem; margin: 2.8rem 0 .6rem; }
h3 { font-size: 1rem; font-weight: 600; margin: 1.4rem 0 .4rem; }
p { color: var(--faint); font-size: .85rem; }
a { color: var(--bar); }
nav a { margin-right: .8rem; white-space: nowrap; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .8rem 0; }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--rule); text-align: right; vertical-align: top; }
th { font-weight: 600; }
th:first-child, td:first-child { text-align: left; }
td { font-variant-numeric: tabular-nums; white-space: nowrap; }
td svg { display: block; margin: .15rem 0 0 auto; }
.met { color: var(--good); }
.missed { color: var(--bad); font-weight: 600; }
svg { max-width: 100%; }
svg text { fill: var(--ink); font: 13px system-ui, sans-serif; }
svg .bar { fill: var(--bar); }
svg .line { fill: none; stroke: var(--bar); stroke-width: 2; }
svg .rule { stroke: var(--rule); }
svg .quartiles { stroke: var(--ink); stroke-width: 1.5; }
"""


def main():
    PAGE.write_text(html(kept_results(report.RESULTS)), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)} is made")


def kept_results(folder):
    """{name: what was kept}, in the order of the benchmarks."""
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")}
    order = {name: number for number, name in enumerate(NAMES)}
    return {name: found[name] for name in sorted(found, key=lambda name: (order.get(name, len(order)), name))}


def html(results):
    links = " ".join(f'<a href="#{name}">{name}</a>' for name in results)
    parts = [f"<h1>Benchmarks</h1>\n<nav>{links}</nav>", *_overview(results)]
    parts += [_section(name, kept) for name, kept in results.items()]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Benchmarks of pystorm-spark</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def _overview(results):
    """What is best seen side by side."""
    figures = {name: kept["figures"] for name, kept in results.items()}
    workloads = {name: found[WORKLOADS] for name, found in figures.items() if WORKLOADS in found}
    if workloads:
        yield f"<h3>Workloads on one core, tuples in a second of CPU</h3>\n{bars(workloads)}"
    for found in figures.values():
        if PEERS in found:
            yield f"<h3>Word count on Spark beside its peers, words a second</h3>\n{bars(found[PEERS])}"


def _section(name, kept):
    parts = [f'<h2 id="{name}">{_text(kept["question"])}</h2>']
    parts += [_table(**table) for table in kept.get("tables", ())]  # of older results only the figures were kept
    parts += [f"<h3>{_text(chart['title'])}</h3>\n{line(**chart)}" for chart in kept.get("charts", ())]
    parts += [f"<h3>{_text(each['title'])}</h3>\n{each['svg']}" for each in kept.get("pictures", ())]
    parts += [f"<p>{_text(kept['method'])}</p>", f"<p>Measured on {_text(described(kept['environment']))}.</p>"]
    return "\n".join(parts)


def _text(markdown):
    """The little of Markdown that results use."""
    coded = re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(markdown))
    return re.sub(r"\*([^*]+)\*", r"<em>\1</em>", coded)


def _table(columns, rows):
    tallest = [_tallest(cells) for cells in zip(*rows, strict=True)]
    head = "".join(f"<th>{_text(column)}</th>" for column in columns)
    body = "\n".join(
        "<tr>" + "".join(_cell(*each) for each in zip(row, [0, *tallest[1:]], strict=True)) + "</tr>" for row in rows
    )
    return f'<div class="wide"><table>\n<tr>{head}</tr>\n{body}\n</table></div>'


def _tallest(cells):
    """The largest figure of a column, or 0 where there is nothing to compare."""
    found = [number for number in map(figure, cells) if number is not None]
    return max(found) if len(found) > 1 else 0


def _cell(text, tallest):
    """With a bar below its figure, as long as the figure is large in its column."""
    judged = ' class="missed"' if text.endswith("MISSED") else ' class="met"' if text.endswith(": met") else ""
    number = figure(text)
    drawn = ""
    if tallest and number is not None:
        drawn = f'<svg width="80" height="4"><rect class="bar" width="{80 * number / tallest:.1f}" height="4"/></svg>'
    return f"<td{judged}>{_text(text)}{drawn}</td>"


def figure(text):
    """The number that a cell begins with, or None."""
    match = FIGURE.match(text)
    return match and float(match[1].replace(",", "")) * (1000 if match[2] else 1)


def bars(spreads):
    """Bars of medians, with a stroke from one quartile to the other: {label: spread}."""
    tallest = max(spread["high"] for spread in spreads.values())
    width = 420 / tallest
    parts = []
    for number, (label, spread) in enumerate(spreads.items()):
        y, median, low, high = 26 * number, *(spread[key] for key in ("median", "low", "high"))
        parts += [
            f'<text x="230" y="{y + 16}" text-anchor="end">{escape(label.replace("`", ""))}</text>',
            f'<rect class="bar" x="240" y="{y + 4}" width="{width * median:.1f}" height="16"/>',
            f'<path class="quartiles" d="M{240 + width * low:.1f} {y + 12}H{240 + width * high:.1f}"/>',
            f'<text x="{248 + width * high:.1f}" y="{y + 16}">{_short(median)}</text>',
        ]
    return _svg(740, 26 * len(spreads), parts)


def line(title, labels, heights):
    """A line over labels, from zero up."""
    tallest, step = max(heights) * 1.2, 520 / max(1, len(labels) - 1)
    points = [(50 + step * number, 150 - 130 * height / tallest) for number, height in enumerate(heights)]
    parts = ['<path class="rule" d="M30 150H590"/>']
    parts += [
        f'<path class="line" d="M{x:.1f} {y:.1f}L{u:.1f} {v:.1f}"/>' for (x, y), (u, v) in itertools.pairwise(points)
    ]
    for (x, y), label, height in zip(points, labels, heights, strict=True):
        parts += [
            f'<circle class="bar" cx="{x:.1f}" cy="{y:.1f}" r="4"/>',
            f'<text x="{x:.1f}" y="{y - 9:.1f}" text-anchor="middle">{height:.2f}</text>',
            f'<text x="{x:.1f}" y="168" text-anchor="middle">{escape(label)}</text>',
        ]
    return _svg(620, 176, parts, title)


def stacked(bars, unit, title=""):
    """Bars of parts that follow one another, {label: {part: size}}, with a legend; a picture that stands alone."""
    longest = max(sum(parts.values()) for parts in bars.values())
    names = list(next(iter(bars.values())))
    colour = dict(zip(names, itertools.cycle(COLOURS), strict=False))
    drawn = [f'<rect width="760" height="{46 * len(bars) + 20 * -(-len(names) // 3) + 10}" fill="#fff"/>']
    for row, (label, parts) in enumerate(bars.items()):
        x, y = 10.0, 46 * row
        whole = f"{label}: {sum(parts.values()):,.0f} {unit}"
        drawn.append(f'<text x="10" y="{y + 15}" style="{INK}">{escape(whole)}</text>')
        for name, size in parts.items():
            width = 740 * size / longest
            told = f"{name}: {size:,.1f} {unit}"
            drawn.append(
                f'<rect x="{x:.1f}" y="{y + 20}" width="{width:.1f}" height="20" fill="{colour[name]}">'
                f"<title>{escape(told)}</title></rect>"
            )
            x += width
    for number, name in enumerate(names):
        x, y = 10 + 250 * (number % 3), 46 * len(bars) + 20 * (number // 3)
        drawn += [
            f'<rect x="{x}" y="{y + 2}" width="12" height="12" fill="{colour[name]}"/>',
            f'<text x="{x + 18}" y="{y + 13}" style="{INK}">{escape(name)}</text>',
        ]
    return _svg(760, 46 * len(bars) + 20 * -(-len(names) // 3) + 10, drawn, title)


def _svg(width, height, parts, title=""):
    named = f"<title>{escape(title)}</title>" if title else ""
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">{named}\n' + "\n".join(parts) + "\n</svg>"


def _short(number):
    return f"{number / 1000:,.0f} k" if number >= 10_000 else f"{number:,.4g}"


if __name__ == "__main__":
    main()
