"""Kind: what all kinds of windows have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pystorm_spark.windowing.entry import Entry, Firing


class Kind:
    """Holds the entries of a task, and says which window is due with which of them."""

    def __init__(self) -> None:
        self.watermark: int | None = None
        self.released: list[Entry] = []  # that no window needs any more
        self.failed: list[tuple[Entry, BaseException]] = []  # that the aggregator has not taken

    def is_late(self, at: int) -> bool:
        """Whether a time is so far behind the watermark that no window takes it."""
        raise NotImplementedError

    def add(self, entry: Entry) -> Iterable[Firing]:
        """Take in an entry that is not late; `()` if that fires nothing.

        What the aggregator raises comes out, and leaves everything as it was.
        """
        raise NotImplementedError

    def advance(self, watermark: int) -> Iterator[Firing]:
        """Move the watermark, which never goes back, and fire in order what it passes."""
        raise NotImplementedError

    def on_time(self, now: int) -> Iterator[Firing]:
        """Ask the triggers of all windows that hold something, in order."""
        return iter(())

    def next_end(self) -> int | None:
        """The time at which `advance` has something to do by the clock."""
        return None

    def last_end(self) -> int | None:
        """The watermark that fires everything; None if nothing is held."""
        return None
