"""Put the figures of a run into docs/reliability.md: the JSON object at the end of a file, or of the standard input.

python -m tests.torture.table run.log
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- begin torture -->\n", "<!-- end torture -->\n"
PROMISES = "lost", "doubled", "counted_twice", "not_replayed", "leftovers", "stalls"


def table(figures: Mapping[str, Any]) -> str:
    """The figures as Markdown."""
    recoveries = figures["recoveries"]
    faults = ", ".join(f"{kind} {count}" for kind, count in figures["faults"].items())
    rows = {
        "seed, time": f"{figures['seed']}, {figures['secs']:,.0f} s of faults, {figures['took_secs']:,} s in all",
        "faults": f"{sum(figures['faults'].values()):,}: {faults}",
        "rows, exactly-once": f"{figures['rows']:,}",
        "messages, at-least-once": f"{figures['messages']:,}, and {figures['replayed']:,} emissions that failed",
        "recoveries": f"{recoveries['count']:,}"
        + (
            f", median {recoveries['median_secs']:g} s, at most {recoveries['max_secs']:g} s"
            if len(recoveries) > 1
            else ""
        ),
        **{f"`{promise}`": f"{figures[promise]:,}" for promise in PROMISES},
        "topologies and drivers that ended": f"{figures['topologies_ended']:,}, {figures['drivers_ended']:,}",
    }
    return "\n".join(
        ["| figure | value |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items()), ""]
    )


def filled(page: str, figures: Mapping[str, Any]) -> str:
    """The page with these figures in place of those that it has."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + table(figures) + END + after


def main() -> None:
    text = Path(sys.argv[1]).read_text() if sys.argv[1:] else sys.stdin.read()
    (last,) = [line for line in text.splitlines() if line.startswith("{")][-1:] or [""]
    if not last:
        sys.exit("no line of the input is a JSON object")
    PAGE.write_text(filled(PAGE.read_text(), json.loads(last)))


if __name__ == "__main__":
    main()
