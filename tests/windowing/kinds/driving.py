"""Drives a kind of windows by hand, and notes what it does."""

from pystorm_spark.aggregators import CombinerAggregator
from pystorm_spark.windowing.entry import Entry
from pystorm_spark.windowing.trigger import CONTINUE

ADDING = CombinerAggregator.of(0, lambda acc, value: acc + value, lambda acc, other: acc + other)
APPENDING = CombinerAggregator.of((), lambda acc, value: (*acc, value), lambda acc, other: acc + other)


class Drive:
    """Feeds one kind of windows; `fired` has (start, end, timing, numbers of the entries) of each firing.

    Checks what holds for all kinds: new and expired add up, aggregates are those of folding anew, no entry is
    released twice or is in a firing after that.
    """

    def __init__(self, kind, fold=sum, fails=()):
        self.kind, self.fold, self.fails = kind, fold, set(fails)
        self.fired, self.gone, self.failed = [], set(), set()
        self.entries = []
        self.previous = []  # numbers of the last firing

    def add(self, at, key=None, group=None):
        """Feed an entry unless it is late; whether it was taken."""
        entry = Entry(f"tuple {len(self.entries)}", at, len(self.entries), key, group, len(self.entries) + 1)
        self.entries.append(entry)
        if self.kind.is_late(at):
            self.gone.add(entry.number)
            return False
        self._run(self.kind.add(entry))
        return True

    def advance(self, watermark):
        self._run(self.kind.advance(watermark))

    def on_time(self, now=0):
        self._run(self.kind.on_time(now))

    def _run(self, firings):
        for firing in firings:
            numbers = [entry.number for entry in firing.entries]
            assert numbers == sorted(numbers)
            assert numbers
            assert firing.size == len(numbers)
            assert not self.gone & set(numbers)
            if firing.is_aggregated:
                expected = {}
                for entry in firing.entries:
                    expected.setdefault(entry.group, []).append(entry.value)
                assert dict(firing.totals) == {group: self.fold(values) for group, values in expected.items()}
            elif firing.key is None:
                assert [entry.number for entry in firing.previous] == self.previous
            self.previous = numbers
            self.fired.append((firing.start, firing.end, firing.timing, numbers))
            if len(self.fired) in self.fails:
                firing.has_failed = True
                self.gone |= set(numbers)
                self.failed |= set(numbers)
        released = [entry.number for entry in self.kind.released]
        self.kind.released.clear()
        assert len(set(released)) == len(released)
        assert not self.gone & set(released)
        self.gone |= set(released)

    @property
    def held(self):
        return {entry.number for entry in self.entries} - self.gone


class Answers:
    """Triggers that fire as told: `answers` gives a decision for each question in turn."""

    def __init__(self, answers=()):
        self.answers = iter(answers)

    def new(self):
        return None

    def on_tuple(self, trigger, entry, window):
        return next(self.answers, CONTINUE)

    def on_time(self, trigger, window):
        return next(self.answers, CONTINUE)
