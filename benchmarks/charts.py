"""Charts as SVG, which take their colours from the page they stand in."""

import math
from dataclasses import dataclass
from html import escape
from itertools import cycle, pairwise

COLOURS = ("#9ecae1", "#6baed6", "#d62728", "#fdae6b", "#e6550d", "#a1d99b", "#31a354")  # of parts of a bar
INK = "fill: #1c2733; font: 13px system-ui, sans-serif"
LABELS = 240  # width at the left of bars
ROW = 26  # height
FIGURE = 48  # width at the end of a bar
LOG_FROM = 30  # times the smallest value; beyond it a linear axis would hide small values


@dataclass(frozen=True)
class Scale:
    """Maps values to positions on an axis: linear from zero, or logarithmic from a power of ten."""

    low: float
    high: float
    length: float
    log: bool

    @classmethod
    def of(cls, values, length):
        smallest, largest = min(values), max(values)
        if smallest > 0 and largest / smallest > LOG_FROM:
            return cls(10 ** math.floor(math.log10(smallest)), largest, length, log=True)
        return cls(0, largest or 1, length, log=False)

    def at(self, value):
        if self.log:
            return self.length * math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return self.length * value / self.high

    def ticks(self):
        """Return a few round values, none above the highest."""
        if self.log:
            first, last = round(math.log10(self.low)), math.floor(math.log10(self.high))
            return [10.0**power for power in range(first, last + 1)]
        power = 10 ** math.floor(math.log10(self.high))
        step = next(power * share for share in (0.2, 0.5, 1, 2) if self.high / (power * share) <= 5)
        return [step * number for number in range(math.floor(self.high / step + 1e-9) + 1)]


def bars(spreads, unit, ours=None, marks=None):
    """Bars of medians, with a stroke from one quartile to the other: {label: spread}.

    `ours` is the label of a bar that stands out, with a line through all others. `marks` {label: value} are drawn
    across their bars.
    """
    marks = marks or {}
    values = [spread[key] for spread in spreads.values() for key in ("median", "low", "high")]
    scale = Scale.of([*values, *marks.values()], 400)
    parts = _axis_below(scale, unit, len(spreads))
    if ours in spreads:
        parts.append(_down("ours-line", scale.at(spreads[ours]["median"]), 0, len(spreads)))
    for row, (label, spread) in enumerate(spreads.items()):
        y = ROW * row
        median, low, high = (scale.at(spread[key]) for key in ("median", "low", "high"))
        mark = scale.at(marks[label]) if label in marks else 0
        end = mark if high < mark < high + FIGURE else high  # keeps the figure off the mark
        parts += [
            _label(label, y),
            f'<rect class="bar{" ours" * (label == ours)}" x="{LABELS}" y="{y + 5}" width="{median:.1f}" height="16"/>',
            f'<path class="quartiles" d="M{LABELS + low:.1f} {y + 13}H{LABELS + high:.1f}"/>',
            f'<text x="{LABELS + end + 8:.1f}" y="{y + 17}">{short(spread["median"])}</text>',
        ]
        if label in marks:
            parts.append(_down("mark", mark, row, row + 1))
    return _svg(LABELS + 480, ROW * len(spreads) + 42, parts, unit)


def spans(pairs, unit):
    """A line from one value to another: {label: (from, to)}."""
    scale = Scale.of([value for pair in pairs.values() for value in pair], 400)
    parts = _axis_below(scale, unit, len(pairs))
    for row, (label, (low, high)) in enumerate(pairs.items()):
        y, first, last = ROW * row + 13, LABELS + scale.at(low), LABELS + scale.at(high)
        parts += [
            _label(label, ROW * row),
            f'<path class="line" d="M{first:.1f} {y}H{last:.1f}"/>',
            f'<circle class="bar" cx="{first:.1f}" cy="{y}" r="5"/>',
            f'<circle class="hollow" cx="{last:.1f}" cy="{y}" r="4"/>',
            f'<text x="{last + 10:.1f}" y="{y + 4}">{short(low)} – {short(high)}</text>',
        ]
    return _svg(LABELS + 520, ROW * len(pairs) + 42, parts, unit)


def line(title, labels, heights):
    """A line over labels; the title `this, by that` names both axes."""
    upward, _, along = title.partition(", by ")
    left, bottom, step = 70, 190, 500 / max(1, len(labels) - 1)
    scale = Scale.of(heights, 150)
    parts = [f'<text class="unit" x="0" y="14">{escape(upward)}{_logarithmic(scale)}</text>']
    for tick in scale.ticks():
        y = bottom - scale.at(tick)
        parts += [
            f'<path class="rule" d="M{left - 10} {y:.1f}H{left + 520}"/>',
            f'<text class="tick" x="{left - 16}" y="{y + 4:.1f}" text-anchor="end">{short(tick)}</text>',
        ]
    points = [(left + step * number, bottom - scale.at(height)) for number, height in enumerate(heights)]
    parts += [f'<path class="line" d="M{x:.1f} {y:.1f}L{u:.1f} {v:.1f}"/>' for (x, y), (u, v) in pairwise(points)]
    for (x, y), label, height in zip(points, labels, heights, strict=True):
        parts += [
            f'<circle class="bar" cx="{x:.1f}" cy="{y:.1f}" r="4"/>',
            f'<text x="{x:.1f}" y="{y - 9:.1f}" text-anchor="middle">{short(height)}</text>',
            f'<text class="tick" x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{escape(label)}</text>',
        ]
    parts.append(f'<text class="unit" x="{left + 250}" y="{bottom + 38}" text-anchor="middle">{escape(along)}</text>')
    return _svg(left + 550, bottom + 46, parts, title)


def _axis_below(scale, unit, rows):
    parts = []
    for tick in scale.ticks():
        x = LABELS + scale.at(tick)
        parts += [
            _down("rule", scale.at(tick), 0, rows),
            f'<text class="tick" x="{x:.1f}" y="{ROW * rows + 16}" text-anchor="middle">{short(tick)}</text>',
        ]
    named = f'<text class="unit" x="{LABELS}" y="{ROW * rows + 36}">{escape(unit)}{_logarithmic(scale)}</text>'
    return [*parts, named]


def _logarithmic(scale):
    return " (logarithmic)" if scale.log else ""


def _down(drawn, x, first_row, last_row):
    """A line down through some rows."""
    return f'<path class="{drawn}" d="M{LABELS + x:.1f} {ROW * first_row + 1}V{ROW * last_row}"/>'


def _label(label, y):
    return f'<text x="{LABELS - 10}" y="{y + 17}" text-anchor="end">{escape(label.replace("`", ""))}</text>'


def stacked(bars, unit, title=""):
    """Bars of parts that follow one another, {label: {part: size}}, with a legend; a picture that stands alone."""
    longest = max(sum(parts.values()) for parts in bars.values())
    names = list(next(iter(bars.values())))
    colour = dict(zip(names, cycle(COLOURS), strict=False))
    height = 46 * len(bars) + 20 * -(-len(names) // 3) + 10
    drawn = [f'<rect width="760" height="{height}" fill="#fff"/>']
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
    named = f"<title>{escape(title)}</title>" if title else ""
    size = f'viewBox="0 0 760 {height}" width="760" height="{height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">{named}\n' + "\n".join(drawn) + "\n</svg>"


def _svg(width, height, parts, title):
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f'<svg {size} role="img"><title>{escape(title)}</title>\n' + "\n".join(parts) + "\n</svg>"


def short(number):
    """A number with the digits that a reader needs."""
    for factor, suffix in ((1e6, " M"), (1e3, " k")):
        if number >= 10 * factor or (number >= factor and number % (factor / 10) == 0):
            return f"{number / factor:,.3g}{suffix}" if number < 1000 * factor else f"{number / factor:,.0f}{suffix}"
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
