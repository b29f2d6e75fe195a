"""Writes `results/*.json` into `docs/performance.md`, and as one HTML page with charts that needs no other file.

Run it as `python -m benchmarks.page`.
"""

import json
import re
from html import escape

from benchmarks import charts, report
from benchmarks.__main__ import NAMES
from benchmarks.machine import ROOT, described

PAGE = report.RESULTS / "index.html"
# Charts that compare several results: one of workloads, one of peers.
WORKLOADS, PEERS = "tuples_per_s", "words_per_s"
ENGINE = "pystorm-spark"
PANELS = {
    WORKLOADS: "tuples per second of CPU, at saturation",
    "cpu_secs_per_million": "seconds of CPU for a million tuples",
    "peak_rss_mib": "peak resident memory, MiB",
}
FIGURE = re.compile(r"\+?([\d,]+(?:\.\d+)?)( k\b)?")
STYLE = """
:root { color-scheme: light dark; --ink: #1c2733; --faint: #5c6b7a; --rule: #d9e0e7; --paper: #fff; --bar: #2f6fb3;
  --ours: #c4620a; --good: #1a7f45; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9ee; --faint: #9aa8b5; --rule: #34404c; --paper: #14191f;
  --bar: #6aa5e0; --ours: #f0a050; --good: #5fc98a; --bad: #ff8a80; } }
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
svg { display: block; max-width: 100%; height: auto; margin: .8rem 0; }
svg text { fill: var(--ink); font: 13px system-ui, sans-serif; }
svg .tick, svg .unit { fill: var(--faint); font-size: 12px; }
svg .bar { fill: var(--bar); }
svg .ours { fill: var(--ours); }
svg .hollow { fill: var(--paper); stroke: var(--bar); stroke-width: 2; }
svg .line { fill: none; stroke: var(--bar); stroke-width: 2; }
svg .rule { stroke: var(--rule); }
svg .ours-line { stroke: var(--ours); stroke-dasharray: 3 3; }
svg .mark { stroke: var(--ink); stroke-width: 3; }
svg .quartiles { stroke: var(--ink); stroke-width: 1.5; }
"""


NOTE = "Figures are medians, with the quartiles in brackets. docs/performance.md says how to read them."


def main():
    results = kept_results(report.RESULTS)
    for name, kept in results.items():
        report.put(name, kept)
    PAGE.write_text(html(results), encoding="utf-8")
    print(f"wrote {report.PAGE.relative_to(ROOT)} and {PAGE.relative_to(ROOT)}")


def kept_results(folder):
    """Return {name: kept result}, in the order of the benchmarks."""
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")}
    order = {name: number for number, name in enumerate(NAMES)}
    return {name: found[name] for name in sorted(found, key=lambda name: (order.get(name, len(order)), name))}


def html(results):
    links = " ".join(f'<a href="#{name}">{name}</a>' for name in results)
    parts = [f"<h1>Benchmarks</h1>\n<nav>{links}</nav>\n<p>{NOTE}</p>", *_overview(results)]
    parts += [_section(name, kept) for name, kept in results.items()]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Benchmarks of pystorm-spark</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def _overview(results):
    """Yield charts that compare several results."""
    figures = {name: kept["figures"] for name, kept in results.items()}
    beside = [found for found in figures.values() if PEERS in found]
    if beside:  # the last one has the most peers
        yield _beside_peers(beside[-1][PEERS], beside[-1].get("bars", {}))
    workloads = {name: found for name, found in figures.items() if WORKLOADS in found}
    if workloads:
        yield "<h2>The workloads, one slot on one core</h2>"
        for key, unit in PANELS.items():
            yield charts.bars({name: found[key] for name, found in workloads.items()}, unit)
        latencies = {name: (found["p50_ms"]["median"], found["p99_ms"]["median"]) for name, found in workloads.items()}
        yield charts.spans(latencies, "complete latency at half load, p50 ● to p99 ○, ms")


def _beside_peers(words_per_s, bars):
    """Draw the engine first, then the others, fastest first."""
    engine, *others = sorted(words_per_s, key=lambda name: (not name.startswith(ENGINE), -words_per_s[name]["median"]))
    marks = {name: bar * words_per_s[name]["median"] for name, bar in bars.items() if bar and name in words_per_s}
    drawn = charts.bars({name: words_per_s[name] for name in (engine, *others)}, "words/s", engine, marks)
    noted = "<p>Dashed: the engine. Strokes: its target for that peer.</p>" if marks else ""
    return f"<h2>The word count on Spark, compared with its peers</h2>\n{drawn}\n{noted}"


def _section(name, kept):
    parts = [f'<h2 id="{name}">{_text(kept["question"])}</h2>']
    parts += [_table(**table) for table in kept["tables"]]
    parts += [charts.line(**chart) for chart in kept["charts"]]
    parts += [f"<h3>{_text(each['title'])}</h3>\n{each['svg']}" for each in kept["pictures"]]
    parts += [f"<p>{_text(paragraph)}</p>" for paragraph in kept["method"].split("\n\n")]
    parts += [f"<p>Measured on {_text(described(kept['environment']))}.</p>"]
    return "\n".join(parts)


def _text(markdown):
    """Render the Markdown that results use: code and emphasis."""
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
    """Return the largest figure of a column, or 0 if it has fewer than two."""
    found = [number for number in map(figure, cells) if number is not None]
    return max(found) if len(found) > 1 else 0


def _cell(text, tallest):
    """Render a cell, with a bar below its figure in proportion to the largest of its column."""
    judged = ' class="missed"' if text.endswith("MISSED") else ' class="met"' if text.endswith(": met") else ""
    number = figure(text)
    drawn = ""
    if tallest and number is not None:
        drawn = f'<svg width="80" height="4"><rect class="bar" width="{80 * number / tallest:.1f}" height="4"/></svg>'
    return f"<td{judged}>{_text(text)}{drawn}</td>"


def figure(text):
    """Return the number that a cell begins with, or None."""
    match = FIGURE.match(text)
    return match and float(match[1].replace(",", "")) * (1000 if match[2] else 1)


if __name__ == "__main__":
    main()
