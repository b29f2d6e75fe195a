"""What a topology is: components, streams, groupings, configuration. Building one runs nothing."""

from pystorm_spark.topology.builder import TopologyBuilder
from pystorm_spark.topology.collector import BasicOutputCollector, OutputCollector, SpoutOutputCollector
from pystorm_spark.topology.component import BasicBolt, Bolt, LambdaBolt, LambdaSpout, Spout, TickAwareBolt
from pystorm_spark.topology.config import Config
from pystorm_spark.topology.context import TopologyContext
from pystorm_spark.topology.declarer import BoltDeclarer, OutputFieldsDeclarer, SpoutDeclarer
from pystorm_spark.topology.delegating import DelegatingCollector
from pystorm_spark.topology.durable import DurableSpout
from pystorm_spark.topology.fields import Fields, Stream, Values
from pystorm_spark.topology.graph import Topology
from pystorm_spark.topology.grouping import CustomStreamGrouping
from pystorm_spark.topology.hooks import (
    BoltAckInfo,
    BoltExecuteInfo,
    BoltFailInfo,
    EmitInfo,
    SpoutAckInfo,
    SpoutFailInfo,
    TaskHook,
    WorkerHook,
)
from pystorm_spark.topology.tuple import GlobalStreamId, MessageId, Tuple, is_tick
from pystorm_spark.topology.view import CheckpointView, ComponentView

# Storm's names for the same classes.
BaseRichSpout = IRichSpout = Spout
BaseRichBolt = IRichBolt = Bolt
BaseBasicBolt = IBasicBolt = BasicBolt
BaseTickTupleAwareRichBolt = TickAwareBolt

__all__ = [
    "BaseBasicBolt",
    "BaseRichBolt",
    "BaseRichSpout",
    "BaseTickTupleAwareRichBolt",
    "BasicBolt",
    "BasicOutputCollector",
    "Bolt",
    "BoltAckInfo",
    "BoltDeclarer",
    "BoltExecuteInfo",
    "BoltFailInfo",
    "CheckpointView",
    "ComponentView",
    "Config",
    "CustomStreamGrouping",
    "DelegatingCollector",
    "DurableSpout",
    "EmitInfo",
    "Fields",
    "GlobalStreamId",
    "IBasicBolt",
    "IRichBolt",
    "IRichSpout",
    "LambdaBolt",
    "LambdaSpout",
    "MessageId",
    "OutputCollector",
    "OutputFieldsDeclarer",
    "Spout",
    "SpoutAckInfo",
    "SpoutDeclarer",
    "SpoutFailInfo",
    "SpoutOutputCollector",
    "Stream",
    "TaskHook",
    "TickAwareBolt",
    "Topology",
    "TopologyBuilder",
    "TopologyContext",
    "Tuple",
    "Values",
    "WorkerHook",
    "is_tick",
]
