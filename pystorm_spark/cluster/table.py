"""Tables of text: how the status of a topology looks in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from unicodedata import combining, east_asian_width

GAP = "  "
MORE = "…"
LONGEST_TEXT = 32  # columns of a terminal that a cell takes; longer names are cut
WIDE = ("W", "F")  # East Asian widths of characters that take two columns of a terminal
UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def table(header: Sequence[str], rows: Iterable[Sequence[str]], texts: int) -> list[str]:
    """The lines of a table. The first `texts` columns are text; the others are numbers, aligned right."""
    cells = [header, *([_shortened(printable(cell)) for cell in row] for row in rows)]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
    return [_line(row, widths, texts) for row in cells]


def printable(text: str) -> str:
    """`text` with escapes for characters that break a line, control a terminal, or cannot be encoded."""
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _line(row: Sequence[str], widths: Sequence[int], texts: int) -> str:
    gaps = [" " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)]
    cells = [cell + gap if at < texts else gap + cell for at, (cell, gap) in enumerate(zip(row, gaps, strict=True))]
    return GAP.join(cells).rstrip()


def _width(text: str) -> int:
    """How many columns of a terminal `text` takes."""
    return sum(0 if combining(char) else 2 if east_asian_width(char) in WIDE else 1 for char in text)


def _shortened(text: str) -> str:
    if _width(text) <= LONGEST_TEXT:
        return text
    while _width(text) > LONGEST_TEXT - 1:
        text = text[:-1]
    return text + MORE


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
