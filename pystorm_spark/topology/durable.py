"""CommittedBolt, DurableBolt: bolts whose work is committed. How kinds of bolts that keep state meet the engine."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from pystorm_spark.naming import java_names
from pystorm_spark.topology.component import Bolt, Component, Spout, WrappingBolt

# Extension types of a section, beside those of values (`runtime/codec/extension.py`).
DELETED = 100  # instead of a value: its key is gone
PACKED = 101  # a key or a value that is no atom, packed by a `StateCodec`


class TaskKey(NamedTuple):
    """A task across restarts: its task id may change, this does not."""

    component: str
    index: int  # type: ignore[assignment]  # it hides a method of tuples, which nobody calls


class StateCodec(Protocol):
    """Packs any values that can travel, and unpacks them, each with its exact type."""

    def pack(self, values: Sequence[Any]) -> bytes: ...

    def pack_value(self, value: Any) -> bytes:
        """The row of one value; a `SerializationError` says what is wrong with it."""
        ...

    def defines_classes(self, packed: bytes) -> bool:
        """Whether a packed row brings the classes of its values along: in each process they are others."""
        ...

    def knows_again(self, value: Any) -> bool:
        """Whether a copy from another process is equal to `value`, though it may be of another class."""
        ...

    def unpack_rows(self, data: bytes, count: int) -> list[list[Any]]: ...


class CommittedBolt(Bolt):
    """A bolt that takes part in commits: spouts whose tuples reach it hear of acks after a commit.

    All of this is called between executes, in the thread that executes.
    """

    @abstractmethod
    def prepare_commit(self, txid: int, is_full: bool) -> bytes | None:
        """Set apart what has changed since the last commit, or all there is; None if none of it is state."""

    @abstractmethod
    def commit(self, txid: int) -> None:
        """What was prepared is committed."""

    @abstractmethod
    def rollback(self) -> None:
        """Go back to the last commit."""

    def post_rollback(self) -> None:
        """All bolts of this process have gone back; called before anything is executed again."""

    @abstractmethod
    def has_changed(self) -> bool:
        """Whether there is something to commit."""


class DurableBolt(WrappingBolt, CommittedBolt):
    """A bolt with state.

    What it keeps travels as sections, oldest first: each one msgpack array of keys and values in turn, with the changes
    of a commit, or with all there was.
    """

    checkpoint_metadata: Any = None  # plain data that a checkpoint keeps of the bolt, for its `validate`
    starting = "prepare"  # the user's method that a start has come to, for what it raises

    @property
    @abstractmethod
    def schema_version(self) -> int:
        """The version of what the state's values look like; kept with the state."""

    @abstractmethod
    def restore(self, codec: StateCodec, sections: Sequence[bytes], schema_version: int | None) -> None:
        """Begin with what the last commit held; called once, after `prepare`. No version: there was no commit."""

    @abstractmethod
    def committed(self) -> dict[Any, Any]:
        """What the last commit holds."""

    @abstractmethod
    def committed_value(self, key: Any) -> Any:
        """What the last commit holds for `key`; None if it holds nothing."""


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
    """A spout whose source gives a batch again as a whole until all of it is done: it may take several commits.

    Its message ids are (component, batch, partition, number of the row there). With exactly-once it leaves out what is
    committed by itself.
    """

    @abstractmethod
    def next_tuples(self, most: int) -> bool:
        """Emit up to `most` tuples; whether there may be more."""

    @abstractmethod
    def acked(self, message_ids: Sequence[Any]) -> None:
        """All of these are acked."""

    def next_tuple(self) -> None:
        self.next_tuples(1)

    def ack(self, message_id: Any) -> None:
        self.acked([message_id])


def committed_of(component: Component) -> CommittedBolt | None:
    """`component` if its work is committed, or the bolt it wraps whose work is."""
    inner: Any = component
    while inner is not None and not isinstance(inner, CommittedBolt):
        inner = getattr(inner, "wrapped", None)
    return inner
