"""Internal. HeldOutcomes: what a spout hears after the next commit, for its trees may have changed durable state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from pystorm_spark.runtime.codec import ValueCodec
from pystorm_spark.runtime.trees import Root

MOST_HELD = 1 << 18  # roots of one spout task, above which it rests until there has been a commit


class DeadLetter(NamedTuple):
    """A message that has failed too often."""

    message_id: Any
    values: list[Any]
    failures: int


class HeldOutcomes:
    """The roots of one spout task that are complete and wait for a commit.

    A commit takes what was marked before the states were prepared: what a tree has changed is then part of it. With
    exactly-once a failed root waits, too: it takes all that is not committed back with it.
    """

    def __init__(self, codec: ValueCodec, is_exactly_once: bool, most_replays: int | None) -> None:
        self.is_exactly_once = is_exactly_once
        self.is_broken = False  # a root has failed, with exactly-once
        self._codec = codec
        self._most_replays = most_replays
        self._complete: list[Root] = []
        self._marked: list[Root] = []
        self._failed: list[Root] = []
        self._letters: list[DeadLetter] = []
        self._failures: dict[Any, int] = {}  # {message id: how often its tree has failed}, with exactly-once
        self._committed: set[Any] = set()  # message ids of the last commit, with exactly-once
        self._restored: set[Any] = set()  # those that were committed before the start: who knows when they come again

    def __len__(self) -> int:
        return len(self._complete) + len(self._marked) + len(self._failed)

    def keep(self, acked: list[Root], failed: list[Root]) -> list[Root]:
        """Hold what is complete; those that have failed and are to be told now."""
        self._complete += acked
        if not self.is_exactly_once or not failed:
            return failed
        for root in failed:
            key = self._key(root.message_id)
            self._failures[key] = self._failures.get(key, 0) + 1
        self._failed += failed
        self.is_broken = True
        return []

    def settles(self, root: Root, values: list[Any]) -> bool:
        """Whether an emit needs no execution: its message is part of a commit, or has failed too often."""
        if not self.is_exactly_once:
            return False
        key = self._key(root.message_id)
        failures = self._failures.get(key, 0)
        is_dead = self._most_replays is not None and failures > self._most_replays
        if is_dead:
            self._letters.append(DeadLetter(root.message_id, values, failures))
        elif key not in self._committed and key not in self._restored:
            return False
        self._complete.append(root)
        return True

    def mark(self) -> None:
        """Whatever is complete now belongs to the commit that begins."""
        self._marked += self._complete
        self._complete = []

    def marked_ids(self) -> list[Any]:
        return [root.message_id for root in self._marked]

    def letters(self) -> list[DeadLetter]:
        """What the commit that begins gives up."""
        return self._letters

    def commit(self) -> list[Root]:
        """What was marked is committed; the roots that are acked by it."""
        acked, self._marked = self._marked, []
        self._letters = []
        if self.is_exactly_once:
            self._committed = {self._key(root.message_id) for root in acked}
            for key in self._committed:
                self._failures.pop(key, None)
        return acked

    def rollback(self) -> list[Root]:
        """Nothing since the last commit counts; the roots that fail by it."""
        failed = [*self._marked, *self._complete, *self._failed]
        self._marked, self._complete, self._failed, self._letters = [], [], [], []
        self.is_broken = False
        return failed

    def restore(self, committed_ids: Iterable[Any]) -> None:
        """The message ids that are committed, after a start."""
        self._restored = {self._key(message_id) for message_id in committed_ids}

    def _key(self, message_id: Any) -> Any:
        try:
            hash(message_id)
        except TypeError:
            return self._codec.pack([message_id])
        return message_id
