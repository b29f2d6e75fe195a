"""Tables of text: how the status of a topology looks in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

GAP = "  "
MORE = "…"
LONGEST_TEXT = 32  # characters of a cell; longer names are cut
UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def table(header: Sequence[str], rows: Iterable[Sequence[str]], texts: int) -> list[str]:
    """The lines of a table. The first `texts` columns are text; the others are numbers, aligned right."""
    cells = [header, *([_shortened(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [_line(row, widths, texts) for row in cells]


def _line(row: Sequence[str], widths: Sequence[int], texts: int) -> str:
    texts_first = [cell.ljust(width) for cell, width in zip(row[:texts], widths, strict=False)]
    numbers = [cell.rjust(width) for cell, width in zip(row[texts:], widths[texts:], strict=True)]
    return GAP.join([*texts_first, *numbers]).rstrip()


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + MORE


def span(secs: float) -> str:
    """A duration in its two largest units: `2 h 5 min`."""
    left, told = int(secs), list[str]()
    for unit, size in UNITS:
        count, left = divmod(left, size)
        if count or told:
            told.append(f"{count} {unit}")
    return " ".join(told[:2]) or "0 s"


def counted(count: int, noun: str) -> str:
    """`1 worker`, `1,200 workers`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def millis(ms: float) -> str:
    """Milliseconds to about three digits."""
    return f"{ms:,.3f}" if ms < 1 else f"{ms:,.1f}" if ms < 1000 else f"{ms:,.0f}"
