"""State that survives: a `StatefulBolt` keeps a `KeyValueState`, which is committed together with what was acked."""

from pystorm_spark.state.bolt import BaseStatefulBolt, IStatefulBolt, StatefulBolt
from pystorm_spark.state.key_value import KeyValueState, State

__all__ = ["BaseStatefulBolt", "IStatefulBolt", "KeyValueState", "State", "StatefulBolt"]
