"""CommittedBolt, DurableBolt, BatchSpout: the interface between the engine and components that take part in commits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from types import NoneType
from typing import Any, NamedTuple, Protocol

from pystorm_spark.naming import java_names
from pystorm_spark.topology.component import Bolt, Component, Spout, WrappingBolt

# Extension types of a section, beside those of values (`runtime/codec/extension.py`).
DELETED = 100  # instead of a value: its key is gone
PACKED = 101  # a key or a value that is no atom, packed by a `StateCodec`

ATOMS: frozenset[type] = frozenset({NoneType, bool, int, float, str, bytes})  # immutable types


class TaskKey(NamedTuple):
    """Names a task across restarts, in which its task id may change."""

    component: str
    index: int  # type: ignore[assignment]  # it hides a method of tuples that is never called


class StateCodec(Protocol):
    """Packs values and unpacks them, each with its exact type."""

    def pack(self, values: Sequence[Any]) -> bytes: ...

    def pack_value(self, value: Any) -> bytes:
        """Pack a single value, as a row. A `SerializationError` says why it cannot be packed."""
        ...

    def defines_classes(self, packed: bytes) -> bool:
        """Whether a packed row contains class definitions, which make a different class in each process."""
        ...

    def knows_again(self, value: Any) -> bool:
        """Whether a copy from another process equals `value`, although its class may be another one."""
        ...

    def unpack_rows(self, data: bytes, count: int) -> list[list[Any]]: ...


class CommittedBolt(Bolt):
    """A bolt that takes part in commits. Spouts whose tuples reach it get their acks after a commit.

    The engine calls these methods between executes, in the thread that executes.
    """

    @abstractmethod
    def prepare_commit(self, txid: int, is_full: bool) -> bytes | None:
        """Return the changes since the last commit, or the whole state if `is_full`; None if the bolt has no state."""

    @abstractmethod
    def commit(self, txid: int) -> None:
        """The commit `txid`, with what was prepared for it, is made."""

    @abstractmethod
    def rollback(self) -> None:
        """Roll back to the last commit."""

    def post_rollback(self) -> None:
        """All bolts of this process have gone back; called before anything is executed again."""

    @abstractmethod
    def has_changed(self) -> bool:
        """Whether there is something to commit."""


class DurableBolt(WrappingBolt, CommittedBolt):
    """A bolt with state.

    Its state is stored as sections, oldest first. Each section is one msgpack array of alternating keys and values: the
    changes of one commit, or the whole state.
    """

    checkpoint_metadata: Any = None  # plain data that a checkpoint keeps of the bolt, for its `validate`
    starting = "prepare"  # the user's method that is being called, for error messages

    @property
    @abstractmethod
    def schema_version(self) -> int:
        """The user's version of the format of the values; stored with the state."""

    @abstractmethod
    def restore(self, codec: StateCodec, sections: Sequence[bytes], schema_version: int | None) -> None:
        """Load the state of the last commit; called once, after `prepare`. Without a commit the version is None."""

    @abstractmethod
    def committed(self) -> dict[Any, Any]:
        """{key: value} of the last commit."""

    @abstractmethod
    def committed_value(self, key: Any) -> Any:
        """The value of `key` in the last commit; None if it has none."""


@java_names()
class DurableSpout(Spout):
    """A spout whose position in its source is part of the commit, beside the states.

    The position goes before what the source itself remembers: after a crash the spout goes on where the last commit
    says. It is any value that a state can keep. After a rollback the spout hears `rollback_position`, and no `fail` of
    what was in flight. All of this is called in the task's thread, between two calls of `next_tuple`.
    """

    def init_position(self, position: Any) -> None:
        """Begin at `position`, which the last commit holds; None at the first start. Called after `open`."""

    def settled(self, message_ids: Sequence[Any]) -> None:
        """What the trees of these have changed is in the commit that is being prepared; called before `position`.

        Their `ack` comes when the commit is durable. If it is not made, they are emitted again: see
        `rollback_position`.
        """

    def position(self) -> Any:
        """The position up to which all that was emitted is settled; called for each commit.

        With exactly-once that is all that was emitted: nothing is in flight then. With at-least-once it ends before the
        first message whose id has neither come to `settled` nor to `ack`.
        """
        raise NotImplementedError(f"{type(self).__name__} must define position()")

    def rollback_position(self, position: Any) -> None:
        """Emit again whatever comes after `position`, that of the last commit; None if there was no commit."""
        raise NotImplementedError(f"{type(self).__name__} must define rollback_position(position)")


class BatchSpout(Spout):
    """A spout whose source redelivers a whole batch until all of it is done, which may take several commits.

    Its message ids are (component, batch, partition, row number in the partition). With exactly-once it skips committed
    rows by itself.
    """

    @abstractmethod
    def next_tuples(self, most: int) -> bool:
        """Emit up to `most` tuples; return whether there may be more."""

    @abstractmethod
    def acked(self, message_ids: Sequence[Any]) -> None:
        """These messages are acked."""

    def next_tuple(self) -> None:
        self.next_tuples(1)

    def ack(self, message_id: Any) -> None:
        self.acked([message_id])


def committed_of(component: Component) -> CommittedBolt | None:
    """`component`, or the bolt it wraps, if that takes part in commits; otherwise None."""
    inner: Any = component
    while inner is not None and not isinstance(inner, CommittedBolt):
        inner = getattr(inner, "wrapped", None)
    return inner
