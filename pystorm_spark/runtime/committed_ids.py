"""Internal. CommittedIds: the messages of a spout that are part of a commit, and need not be executed again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pystorm_spark.runtime.codec import ValueCodec


class CommittedIds:
    """The message ids of one spout that are committed, with exactly-once.

    All of its tasks in a slot share them: what one has emitted, another one may be given to emit again.
    """

    def __init__(self, codec: ValueCodec, batch_of: Callable[[Any], Any] | None = None) -> None:
        self.last: set[Any] = set()  # of the last commit, and of earlier ones as long as their batch goes on
        self.restored: set[Any] = set()  # of commits before a start: who knows when they come again
        self.batch_of = batch_of  # of a message id, where batches are given again as a whole
        self._codec = codec
        self._txid = 0
        self._batch: Any = None  # that the last ids belong to

    def __contains__(self, key: Any) -> bool:
        return key in self.last or key in self.restored

    def remember(self, txid: int, message_ids: list[Any]) -> set[Any]:
        """Some messages of the commit `txid`; their keys. Those of earlier commits are not needed any more."""
        keys = self._keys(message_ids)
        batch = self.batch(message_ids)
        goes_on = self.batch_of is not None and (batch is None or batch == self._batch)
        if goes_on or txid == self._txid:
            self.last |= keys
        else:
            self.last = set(keys)
        self._txid = txid
        self._batch = self._batch if batch is None else batch
        return keys

    def restore(self, message_ids: Iterable[Any]) -> None:
        """These are committed, and a slot that emitted some of them is gone."""
        self.restored = self._keys(list(message_ids))

    def batch(self, message_ids: list[Any]) -> Any:
        """The batch that some messages of one commit belong to; None if there are none, or no batches."""
        return self.batch_of(message_ids[-1]) if self.batch_of is not None and message_ids else None

    def key(self, message_id: Any) -> Any:
        """What stands for a message id in a set or a dict."""
        try:
            hash(message_id)
        except TypeError:
            return self._codec.pack([message_id])
        return message_id

    def _keys(self, message_ids: list[Any]) -> set[Any]:
        try:
            return set(message_ids)
        except TypeError:
            return set(map(self.key, message_ids))
