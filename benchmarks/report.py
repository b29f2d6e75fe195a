"""Results: printed as tables, kept as JSON, and written between the markers of `docs/performance.md`.

`results/*.json` is the only source of the figures on that page: it holds the tables as well as the bare figures, so
`python -m benchmarks.page` can write the page again without measuring.
"""

import argparse
import inspect
import json
import math
import re
import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from benchmarks import meter
from benchmarks.machine import ROOT, described, environment

RESULTS = ROOT / "benchmarks" / "results"
RUNS = ROOT / "benchmarks" / "runs"  # runs on this machine
PAGE = ROOT / "docs" / "performance.md"
WIDTH = 120  # characters of a line of prose on the page


@dataclass(frozen=True)
class Table:
    """Columns of text; the first is the label of the row."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def as_text(self):
        widths = [max(map(len, column)) for column in zip(self.columns, *self.rows, strict=True)]
        return "\n".join(self._line(row, widths) for row in (self.columns, ["-" * w for w in widths], *self.rows))

    @staticmethod
    def _line(row, widths):
        label, *figures = row
        cells = [label.ljust(widths[0])] + [figure.rjust(w) for figure, w in zip(figures, widths[1:], strict=True)]
        return "  ".join(cells).rstrip()

    def as_markdown(self):
        rule = ["---", *["--:"] * (len(self.columns) - 1)]
        return "\n".join(f"| {' | '.join(row)} |" for row in (self.columns, rule, *self.rows))


@dataclass(frozen=True)
class Chart:
    """A line over labels, drawn on both pages but not printed."""

    title: str
    labels: Sequence[str]
    heights: Sequence[float]

    def as_markdown(self):
        labels = ", ".join(f'"{label}"' for label in self.labels)
        heights = ", ".join(f"{height:.2f}" for height in self.heights)
        lines = [f'title "{self.title}"', f"x-axis [{labels}]", f"y-axis 0 --> {max(self.heights) * 1.2:.1f}"]
        return "\n    ".join(["```mermaid\nxychart-beta", *lines, f"line [{heights}]"]) + "\n```"


@dataclass(frozen=True)
class Picture:
    """A drawing in a file beside the page."""

    title: str
    path: Path
    svg: str


@dataclass(frozen=True)
class Result:
    """The result of one benchmark: its tables, and the bare figures."""

    name: str
    question: str
    method: str
    tables: Sequence[Table]
    figures: Mapping[str, object]
    charts: Sequence[Chart] = ()
    environment: Mapping[str, object] = field(default_factory=environment)
    pictures: Sequence[Picture] = ()

    def as_text(self):
        return "\n\n".join([self.question, *[table.as_text() for table in self.tables], self.method])

    def note(self):
        """Keep the figures of this run beside those of earlier ones, to compare while tuning."""
        self._keep(RUNS / f"{time.strftime('%Y%m%d-%H%M%S')}-{self.name}.json")

    def _keep(self, path):
        kept = {
            "question": self.question,
            "method": self.method,
            "environment": self.environment,
            "figures": self.figures,
            "tables": [asdict(table) for table in self.tables],
            "charts": [asdict(chart) for chart in self.charts],
            "pictures": [
                {"title": picture.title, "file": picture.path.name, "svg": picture.svg} for picture in self.pictures
            ],
        }
        kept = _rounded(kept)
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return kept

    def write(self):
        """Keep the figures, and write the tables into the page."""
        kept = self._keep(RESULTS / f"{self.name}.json")
        for picture in self.pictures:
            picture.path.write_text(picture.svg, encoding="utf-8")
        put(self.name, kept)


def as_markdown(kept):
    """Render a kept result for the page."""
    drawn = [
        *[Table(**table).as_markdown() for table in kept["tables"]],
        *[Chart(**chart).as_markdown() for chart in kept["charts"]],
        *[f"![{picture['title']}]({picture['file']})" for picture in kept["pictures"]],
    ]
    told = [*kept["method"].split("\n\n"), f"Measured on {described(kept['environment'])}."]
    return "\n\n".join([*drawn, *map(_wrapped, told)])


def _wrapped(paragraph):
    return textwrap.fill(paragraph, WIDTH, break_long_words=False, break_on_hyphens=False)


def compared(name, docstring, unit, rows):
    """The result of comparisons: `rows` is {label: (comparison, bar of its ratio, or None)}."""
    columns = ["", f"reference, {unit}/s", f"engine, {unit}/s", "ratio", "bar", "ratio, gc off", "mean latency"]
    table = Table(columns, [_compared(label, *row) for label, row in rows.items()])
    figures = {label: asdict(comparison) for label, (comparison, _) in rows.items()}
    return Result(name, first_line(docstring), meter.METHOD, [table], figures)


def joined(first, second):
    """Merge two results of one benchmark."""
    return replace(
        first,
        method=f"{first.method}\n\n{second.method}",
        tables=[*first.tables, *second.tables],
        figures={**first.figures, **second.figures},
    )


def _compared(label, comparison, bar):
    return [
        label,
        rate(comparison.reference),
        rate(comparison.engine),
        ratio(comparison.ratio),
        verdict(comparison.ratio.median >= bar, f"≥ {bar}") if bar else "",
        ratio(comparison.ratio_gc_off),
        f"{comparison.complete_latency_ms:.1f} ms",
    ]


def first_line(docstring):
    return docstring.splitlines()[0]


def rate(spread):
    """Format thousands per second, with the quartiles."""
    return f"{spread.median / 1000:,.0f} k ({spread.low / 1000:,.0f}–{spread.high / 1000:,.0f})"


def ratio(spread):
    return f"{spread.median:.2f} ({spread.low:.2f}–{spread.high:.2f})"


def millis(spread):
    return f"{spread.median:,.0f} ms ({spread.low:,.0f}–{spread.high:,.0f})"


def fine_millis(spread):
    """Format times that may be below a millisecond."""
    return f"{spread.median:,.2f} ms ({spread.low:,.2f}–{spread.high:,.2f})"


def verdict(met, bar):
    return f"{bar}: {'met' if met else 'MISSED'}"


def answer(measure):
    """Run the command line of one benchmark; `--quick` changes only those that accept it."""
    parser = argparse.ArgumentParser()
    add_options(parser)
    asked = parser.parse_args()
    can_be_quick = "quick" in inspect.signature(measure).parameters
    tell(measure(quick=asked.quick) if can_be_quick else measure(), asked.write)


def add_options(parser):
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--write", action="store_true", help="keep the results, and rewrite docs/performance.md")
    group.add_argument("--quick", action="store_true", help="take few samples, to check that it runs")


def tell(result, write):
    """Print the result and note it in `runs/`; with `write`, write it into the page too."""
    print(f"{result.as_text()}\n\n{described(result.environment)}\n", flush=True)
    result.note()
    if write:
        result.write()


def put(name, kept):
    """Replace the text between the markers of `name` on the page."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    page, found = re.subn(
        f"{re.escape(begin)}.*?{re.escape(end)}",
        lambda match: f"{begin}\n{as_markdown(kept)}\n{end}",
        PAGE.read_text(encoding="utf-8"),
        flags=re.DOTALL,
    )
    if found != 1:
        raise ValueError(f"{PAGE} must have one place between {begin!r} and {end!r}, it has {found}")
    PAGE.write_text(page, encoding="utf-8")


def _rounded(value):
    """Round to four digits: the noise of the machine is larger."""
    if isinstance(value, float):
        return float(f"{value:.4g}") if math.isfinite(value) else str(value)  # JSON knows no infinity
    if isinstance(value, Mapping):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return value
