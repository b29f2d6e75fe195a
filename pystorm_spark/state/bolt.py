"""StatefulBolt: a bolt whose state survives crashes and restarts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pystorm_spark.errors import CheckpointError, InvalidTopologyError
from pystorm_spark.naming import java_names
from pystorm_spark.state.key_value import KeyValueState
from pystorm_spark.topology.collector import OutputCollector
from pystorm_spark.topology.component import BasicBolt, Bolt, Conf
from pystorm_spark.topology.durable import DurableBolt, StateCodec

if TYPE_CHECKING:
    from pystorm_spark.topology.context import TopologyContext


@java_names()
class StatefulBolt(Bolt):
    """A bolt with a `KeyValueState` for each task. Calls `prepare`, then `init_state`, then `execute` for each tuple.

    Changes are committed together with the acks of the tuple trees that made them: a spout receives an ack after the
    commit. After a crash the state is that of the last commit, and spouts replay what came later.
    """

    checkpoint_metadata: Any = None  # plain data (numbers, text, lists, dicts) that each commit keeps: see `validate`
    state_version = 1  # raise it when the form of the values changes, and define `migrate_state`

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if issubclass(cls, BasicBolt):
            raise InvalidTopologyError(
                f"{cls.__name__} is a BasicBolt and a StatefulBolt, but can be only one of them: leave BasicBolt out, "
                "define execute(self, tup), anchor what it emits, ack its input"
            )

    def init_state(self, state: KeyValueState[Any, Any]) -> None:
        """Called at every start, after `prepare`, with the state of the last commit, or an empty one.

        A rollback keeps changes that are made here, even if there was no commit since.
        """

    def pre_prepare(self, txid: int) -> None:
        """Called when a commit begins. Changes that are made here still belong to it."""

    def pre_commit(self, txid: int) -> None:
        """Called when the commit `txid` is durable. Emits here, without an anchor, belong to the next commit."""

    def pre_rollback(self) -> None:
        """Called before the state rolls back to the last commit. The state object stays the same."""

    def post_rollback(self) -> None:
        """The states of all bolts of this process hold the last commit again, and nothing was executed since."""

    def migrate_state(self, state: KeyValueState[Any, Any], version: int) -> None:
        """Convert values of the older state version `version`. Called once, before `init_state`."""
        raise CheckpointError(
            f"the checkpoint holds version {version} of the state of {type(self).__name__}, but its state_version is "
            f"{self.state_version}; define migrate_state(state, version) to convert it"
        )

    def as_bolt(self) -> Bolt:
        if type(self.state_version) is not int:
            raise InvalidTopologyError(
                f"state_version of {type(self).__name__} must be an integer, got {self.state_version!r}"
            )
        try:
            json.dumps(self.checkpoint_metadata)
        except (TypeError, ValueError) as exc:
            raise InvalidTopologyError(
                f"checkpoint_metadata of {type(self).__name__} must be numbers, text, lists and dicts, got "
                f"{self.checkpoint_metadata!r}"
            ) from exc
        return StatefulBoltExecutor(self)


class StatefulBoltExecutor(DurableBolt):
    """Runs a stateful bolt: keeps its state, and calls it at commits and rollbacks."""

    wrapped: StatefulBolt

    def prepare(self, conf: Conf, context: TopologyContext, collector: OutputCollector) -> None:
        self.execute = self.wrapped.execute  # type: ignore[method-assign] # saves a call for each tuple
        self.wrapped.prepare(conf, context, collector)

    @property
    def checkpoint_metadata(self) -> Any:
        return self.wrapped.checkpoint_metadata

    @property
    def schema_version(self) -> int:
        return self.wrapped.state_version

    def restore(self, codec: StateCodec, sections: Sequence[bytes], schema_version: int | None) -> None:
        self.starting = "restore"
        self._state: KeyValueState[Any, Any] = KeyValueState(codec)
        self._state.restore(sections)
        self.starting = "migrate_state"
        if schema_version not in (None, self.schema_version):
            self.wrapped.migrate_state(self._state, schema_version)
        self.starting = "init_state"
        self.wrapped.init_state(self._state)
        # Both methods are called only once, so a rollback must redo their changes until a commit holds them.
        self._begun = self._state.changes()

    def prepare_commit(self, txid: int, is_full: bool) -> bytes | None:
        self.wrapped.pre_prepare(txid)
        return self._state.prepare_all() if is_full else self._state.prepare_commit()

    def commit(self, txid: int) -> None:
        try:
            self.wrapped.pre_commit(txid)
        finally:
            self._state.accept_prepared()
            self._begun = {}

    def rollback(self) -> None:
        try:
            self.wrapped.pre_rollback()
        finally:
            self._state.rollback()
            self._state.redo(self._begun)

    def post_rollback(self) -> None:
        self.wrapped.post_rollback()

    def has_changed(self) -> bool:
        return self._state.has_changed()

    def committed(self) -> dict[Any, Any]:
        return self._state.committed()

    def committed_value(self, key: Any) -> Any:
        return self._state.committed_value(key)


BaseStatefulBolt = IStatefulBolt = StatefulBolt
