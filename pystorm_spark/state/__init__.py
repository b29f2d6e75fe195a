"""Durable state: each task of a `StatefulBolt` has a `KeyValueState`, committed together with the acks."""

from pystorm_spark.state.bolt import BaseStatefulBolt, IStatefulBolt, StatefulBolt
from pystorm_spark.state.key_value import KeyValueState, State

__all__ = ["BaseStatefulBolt", "IStatefulBolt", "KeyValueState", "State", "StatefulBolt"]
