"""TupleWindow: what a windowed bolt executes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any

from pystorm_spark.errors import StormError
from pystorm_spark.naming import java_names
from pystorm_spark.topology.tuple import Tuple
from pystorm_spark.windowing.entry import Firing

ResultOf = Callable[[Any], Any]  # of an accumulator


@java_names(getters=["start_timestamp", "end_timestamp", "timing", "key", "result", "results"])
class TupleWindow:
    """The tuples of one window, in order of arrival, or their aggregate. Read it inside `execute`.

    A window is `(start_timestamp, end_timestamp]` in milliseconds. A session is from its first timestamp to its last
    one plus the gap, and `start_timestamp` is None where the length is a number of tuples.
    """

    __slots__ = ("_firing", "_has_keys", "_result_of", "_results")

    def __init__(self, firing: Firing, result_of: ResultOf | None = None, *, has_keys: bool = False) -> None:
        self._firing = firing
        self._result_of = result_of
        self._has_keys = has_keys  # of the aggregate
        self._results: dict[Hashable, Any] | None = None

    @property
    def start_timestamp(self) -> int | None:
        return self._firing.start

    @property
    def end_timestamp(self) -> int | None:
        return self._firing.end

    @property
    def timing(self) -> str:
        """Why it fires: "on-time", "early" (by a trigger) or "late" (again, because of a late tuple)."""
        return self._firing.timing

    @property
    def key(self) -> Any:
        """The key of a session; None elsewhere."""
        return self._firing.key

    def get(self) -> list[Tuple]:
        """All tuples of the window."""
        self._check_tuples("get")
        return [entry.tup for entry in self._firing.entries]

    def get_iter(self) -> Iterator[Tuple]:
        """The same one by one."""
        self._check_tuples("get_iter")
        return (entry.tup for entry in self._firing.entries)

    def get_new(self) -> list[Tuple]:
        """The tuples that were not in the firing before this one, of this task or of this session."""
        self._check_tuples("get_new")
        before = {entry.number for entry in self._firing.previous}
        return [entry.tup for entry in self._firing.entries if entry.number not in before]

    def get_expired(self) -> list[Tuple]:
        """The tuples that were in the firing before this one, and are not in this one."""
        self._check_tuples("get_expired")
        now = {entry.number for entry in self._firing.entries}
        return [entry.tup for entry in self._firing.previous if entry.number not in now]

    @property
    def result(self) -> Any:
        """The aggregate of the window."""
        if self._result_of is None or self._has_keys:
            raise StormError(
                "window.result is there with with_aggregate(aggregator) and without a key; "
                + ("read window.results" if self._has_keys else "read window.get()")
            )
        for acc in self._firing.totals.values():
            return self._result_of(acc)
        raise StormError("window.result of an empty window was asked for; a window that fires holds a tuple")

    @property
    def results(self) -> dict[Hashable, Any]:
        """The aggregate of each key that the window holds."""
        if self._result_of is None or not self._has_keys:
            raise StormError(
                "window.results is there with with_aggregate(aggregator, key=...); "
                + ("read window.get()" if self._result_of is None else "read window.result")
            )
        if self._results is None:
            self._results = {key: self._result_of(acc) for key, acc in self._firing.totals.items()}
        return self._results

    def __iter__(self) -> Iterator[Tuple]:
        return self.get_iter()

    def __len__(self) -> int:
        return self._firing.size

    def __repr__(self) -> str:
        return f"TupleWindow({bounds(self._firing)}, {self.timing}, {len(self)} tuples)"

    def _check_tuples(self, method: str) -> None:
        if self._firing.is_aggregated:
            raise StormError(
                f"window.{method}() is not there with with_aggregate: the window has the aggregate in place of its "
                f"tuples; read window.{'results' if self._has_keys else 'result'}"
            )


def bounds(firing: Firing) -> str:
    """The bounds of a window as people write them."""
    if firing.key is not None:
        return f"session of {firing.key!r} from {firing.start} to {firing.end}"
    return f"(…, {firing.end}]" if firing.start is None else f"({firing.start}, {firing.end}]"
