"""Sessions: the tuples of a key that follow one another within a gap."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator
from heapq import heappop, heappush
from typing import Any

from pystorm_spark.aggregators import CombinerAggregator
from pystorm_spark.windowing.entry import EARLY, LATE, ON_TIME, Entry, Firing, by_number
from pystorm_spark.windowing.folding import Merging
from pystorm_spark.windowing.kinds.kind import Kind
from pystorm_spark.windowing.kinds.triggering import Content, Triggers, fire_early


class Session:
    """One session: what it holds, from its first time to its last one."""

    __slots__ = ("content", "due", "first", "is_gone", "key", "last", "number", "trigger")

    def __init__(self, key: Hashable, at: int, number: int, trigger: Any) -> None:
        self.key = key
        self.first = self.last = at
        self.number = number  # of its first arrival
        self.content = Content()
        self.trigger = trigger
        self.due: int | None = None  # the end under which it is queued; it may have moved since
        self.is_gone = False


class Sessions(Kind):
    """Fires a session when the watermark is greater than its end, which is its last time plus the gap."""

    def __init__(
        self,
        gap: int,
        lateness: int | None = None,
        aggregator: CombinerAggregator[Any, Any] | None = None,
        triggers: Triggers | None = None,
    ) -> None:
        super().__init__()
        self._gap = gap
        self._lateness = lateness
        self._aggregator = aggregator
        self._triggers = triggers
        self._by_key: dict[Hashable, list[Session]] = {}  # each list in order of time
        self._due: list[tuple[int, int, Session]] = []  # a heap of (end, number of first arrival, session)
        self._kept: list[tuple[int, int, Session]] = []  # the same, of sessions that have fired and may fire again

    def is_late(self, at: int) -> bool:
        """Whether a time is so far behind the watermark that no session takes it."""
        return self.watermark is not None and at < self.watermark - (self._lateness or 0)

    def add(self, entry: Entry) -> Iterator[Firing]:
        """Take in an entry that is not late. A session that is over fires at once."""
        session = self._session_for(entry)
        if self.watermark is not None and self._end(session) < self.watermark:
            yield from self._fire(session, LATE)
            self._end_or_keep(session)
            return
        if session.due is None:
            self._queue(session)
        if self._triggers is not None:
            firing = self._firing(session, EARLY)
            decision = self._triggers.on_tuple(session.trigger, entry, firing)
            yield from fire_early(session.content, firing, decision, self.released)

    def _session_for(self, entry: Entry) -> Session:
        """The session that holds a new entry; it may join two that were there."""
        sessions = self._by_key.get(entry.key, [])
        at = bisect_left(sessions, entry.at, key=_first)
        near = [each for each in sessions[max(0, at - 1) : at + 1] if self._reaches(each, entry.at)]
        if not near:
            session = Session(entry.key, entry.at, entry.number, self._triggers and self._triggers.new())
            session.content.add(entry, self._aggregator)
            sessions.insert(at, session)
            self._by_key[entry.key] = sessions
            return session
        session, *others = sorted(near, key=_number)
        if not others:
            session.content.add(entry, self._aggregator)
        else:
            session.content = self._joined(session.content, others[0].content, entry)
            self._drop(others[0])
        session.first = min(session.first, entry.at, *(other.first for other in others))
        session.last = max(session.last, entry.at, *(other.last for other in others))
        return session

    def _reaches(self, session: Session, at: int) -> bool:
        return session.first - self._gap <= at <= session.last + self._gap

    def _joined(self, content: Content, other: Content, entry: Entry) -> Content:
        joined = Content()
        joined.entries = sorted(content.entries + other.entries, key=by_number)
        joined.previous = sorted(content.previous + other.previous, key=by_number)
        joined.accs = dict(content.accs)
        if self._aggregator is not None:
            merging = Merging(self._aggregator)
            for group, acc in other.accs.items():
                joined.accs[group] = merging.merged(joined.accs[group], acc) if group in joined.accs else acc
        joined.add(entry, self._aggregator)
        return joined

    # Time.

    def next_end(self) -> int | None:
        """The end of the session that ends first."""
        while self._due:
            end, _, session = self._due[0]
            if not session.is_gone and end == self._end(session):
                return end
            heappop(self._due)
            if not session.is_gone:
                self._queue(session)
        return None

    def last_end(self) -> int | None:
        """The watermark that has all sessions fire."""
        ends = [self._end(each) for _, _, each in self._due if not each.is_gone and each.content.entries]
        return max(ends) + 1 if ends else None

    def _queue(self, session: Session) -> None:
        session.due = self._end(session)
        heappush(self._due, (session.due, session.number, session))

    def advance(self, watermark: int) -> Iterator[Firing]:
        """Move the watermark, which never goes back, and fire the sessions that it leaves behind."""
        if self.watermark is not None and watermark <= self.watermark:
            return
        self.watermark = watermark
        while (end := self.next_end()) is not None and end < watermark:
            session = heappop(self._due)[2]
            session.due = None
            if session.content.entries:
                yield from self._fire(session, ON_TIME)
            self._end_or_keep(session)
        while self._kept and self._kept[0][0] < watermark - (self._lateness or 0):
            session = heappop(self._kept)[2]
            if not session.is_gone and session.due is None:
                self._end_or_keep(session)

    def on_time(self, now: int) -> Iterator[Firing]:
        """Ask the triggers of all sessions that hold something, in order of their ends."""
        assert self._triggers is not None
        sessions = [session for _, _, session in self._due if not session.is_gone and session.content.entries]
        for session in sorted(sessions, key=lambda each: (self._end(each), each.number)):
            firing = self._firing(session, EARLY)
            decision = self._triggers.on_time(session.trigger, firing)
            yield from fire_early(session.content, firing, decision, self.released)

    def _end(self, session: Session) -> int:
        return session.last + self._gap

    def _firing(self, session: Session, timing: str) -> Firing:
        content = session.content
        return Firing(
            session.first,
            self._end(session),
            timing,
            lambda: list(content.entries),
            content.previous,
            content.folded if self._aggregator is not None else None,
            session.key,
            content.size,
        )

    def _fire(self, session: Session, timing: str) -> Iterator[Firing]:
        firing = self._firing(session, timing)
        session.content.has_fired(firing)
        yield firing
        if firing.has_failed:
            session.content.cleared()

    def _end_or_keep(self, session: Session) -> None:
        """A session has fired: let it go, or keep it for as long as something may still join it."""
        if self._lateness is None or self._end(session) < (self.watermark or 0) - self._lateness:
            self._release(session)
        else:
            heappush(self._kept, (self._end(session), session.number, session))

    def _release(self, session: Session) -> None:
        self.released += session.content.cleared()
        self._drop(session)

    def _drop(self, session: Session) -> None:
        session.is_gone = True
        sessions = self._by_key[session.key]
        del sessions[bisect_left(sessions, session.first, key=_first)]
        if not sessions:
            del self._by_key[session.key]


def _first(session: Session) -> int:
    return session.first


def _number(session: Session) -> int:
    return session.number
