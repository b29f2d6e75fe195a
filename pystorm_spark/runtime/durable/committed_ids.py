"""Internal. CommittedIds: the committed messages of a spout, which are not executed again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pystorm_spark.errors import StormError, shown
from pystorm_spark.runtime.codec.codec import RefusedValueError, ValueCodec

PLAIN = frozenset({type(None), bool, int, str, bytes})  # equal to their copies, all of them


class CommittedIds:
    """The message ids of one spout that are committed, with exactly-once.

    All tasks of the spout in a slot share them: after a restart another task may emit a message again.
    """

    def __init__(self, spout: str, codec: ValueCodec) -> None:
        self.last: set[Any] = set()  # of the last commit
        self.restored: set[Any] = set()  # committed before the slot started; the source may replay them at any time
        self._spout = spout
        self._codec = codec
        self._txid = 0

    def __contains__(self, key: Any) -> bool:
        return key in self.last or key in self.restored

    def section(self, message_ids: list[Any]) -> bytes | None:
        """The bytes that a commit of these messages stores; a `StormError` if copies of the ids would not be equal."""
        if not message_ids:
            return None
        told = (
            f"exactly-once needs message ids that equal their copies after a restart; those of {self._spout!r} do not"
        )
        try:
            packed = self._codec.pack(message_ids)
        except RefusedValueError as exc:
            raise StormError(f"{told}: {shown(message_ids[exc.index])} cannot be stored, {exc.why}") from exc
        for message_id in _odd(message_ids):
            (copy,) = self._codec.unpack_rows(self._codec.pack([message_id]), 1)[0]
            if self.key(copy) != self.key(message_id):
                raise StormError(f"{told}: {shown(message_id)} is not equal to a copy of itself")
        if self._codec.defines_classes(packed) and not all(map(self._codec.knows_again, message_ids)):
            raise StormError(f"{told}: their class is defined in the main program or in a function, not in a module")
        return packed

    def remember(self, txid: int, message_ids: list[Any]) -> None:
        """Add messages of the commit `txid`. The ids of earlier commits are discarded."""
        keys = self._keys(message_ids)
        self.last = self.last | keys if txid == self._txid else keys
        self._txid = txid

    def restore(self, sections: Iterable[bytes]) -> None:
        """Replace the restored ids with those of the last commit: a slot that emitted some of them is gone."""
        self.restored = self._keys([id_ for section in sections for id_ in self._codec.unpack_rows(section, 1)[0]])

    def key(self, message_id: Any) -> Any:
        """A hashable value that is equal for equal message ids."""
        try:
            hash(message_id)
            return message_id
        except TypeError:
            pass
        if isinstance(message_id, dict):
            return dict, frozenset((key, self.key(value)) for key, value in message_id.items())
        if isinstance(message_id, (list, tuple)):
            return type(message_id), tuple(map(self.key, message_id))
        if isinstance(message_id, set):
            return set, frozenset(message_id)
        return self._codec.pack([message_id])

    def _keys(self, message_ids: list[Any]) -> set[Any]:
        try:
            return set(message_ids)
        except TypeError:
            return set(map(self.key, message_ids))


def _odd(message_ids: list[Any]) -> list[Any]:
    """The ids that may differ from their copies."""
    if PLAIN.issuperset(map(type, message_ids)):
        return []
    return [
        id_
        for id_ in message_ids
        if type(id_) not in PLAIN and not (type(id_) is tuple and PLAIN.issuperset(map(type, id_)))
    ]
