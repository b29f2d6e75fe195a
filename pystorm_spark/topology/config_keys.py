"""The table of configuration keys: every name, its default, what values it takes, who may set it and what it means.

`config.py` derives the rest from it: the constants on `Config`, defaults, checks, and what a component may override. A
default of `None` (null) also means that null is a value. Keys that Storm has and that change nothing here are listed
under the reason why, so that a ported configuration is still checked and no key of it is taken for a misspelling.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

# What a float can hold: a number beyond it cannot be reckoned with as seconds or bytes.
_MOST = sys.float_info.max


@dataclass(frozen=True, slots=True)
class Kind:
    """What values a key takes; `expects` completes the sentence "but must be …"."""

    expects: str
    accepts: Callable[[object], bool]


class Scope(Enum):
    """Where a key is heeded."""

    TOPOLOGY = "in the topology's configuration only"
    TASK = "in a component's own configuration too: its tasks see that value"
    PLAN = "in a component's own configuration, when the topology is built and planned"


def _number(value: object) -> float | None:
    """`value` if it is a number that a float can hold: no bool, no NaN, no infinity."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if abs(value) <= _MOST else None


def _between(least: float, most: float = _MOST, *, open_below: bool = False) -> Callable[[object], bool]:
    def accepts(value: object) -> bool:
        number = _number(value)
        return number is not None and least <= number <= most and not (open_below and number == least)

    return accepts


def _integer(least: int, most: float = _MOST) -> Callable[[object], bool]:
    in_range = _between(least, most)
    return lambda value: isinstance(value, int) and in_range(value)


def _choice(*names: str) -> Kind:
    return Kind("one of " + ", ".join(map(repr, names)), lambda value: isinstance(value, str) and value in names)


def _or_null(kind: Kind) -> Kind:
    return Kind(f"{kind.expects} or null", lambda value: value is None or kind.accepts(value))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _list_of(accepts: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, (list, tuple)) and all(map(accepts, value))


def _map_to(accepts: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, Mapping) and all(map(_is_text, value)) and all(map(accepts, value.values()))


def _names_class(value: object) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("class"), str)


def _is_consumer(value: object) -> bool:
    return isinstance(value, Mapping) and _names_class(value) and COUNT.accepts(value.get("parallelism.hint"))


def _is_kryo_entry(value: object) -> bool:
    return _is_text(value) or _map_to(_is_text)(value)


def _is_constraint(value: object) -> bool:
    return _list_of(_list_of(_is_text))(value) or _map_to(lambda entry: isinstance(entry, Mapping))(value)


FLAG = Kind("True or False", lambda value: isinstance(value, bool))
COUNT = Kind("an int of at least 1", _integer(1))
COUNT_OR_ZERO = Kind("an int of at least 0", _integer(0))
AMOUNT = Kind("a number of at least 0", _between(0))
POSITIVE = Kind("a number above 0", _between(0, open_below=True))
FRACTION = Kind("a number above 0 and at most 1", _between(0, 1, open_below=True))
NUMBER = Kind("a number", _between(-_MOST))
PORT = Kind("an int from 0 to 65535", _integer(0, 65535))
TEXT = Kind("a string", _is_text)
TEXTS = Kind("a list of strings", _list_of(_is_text))
TEXT_OR_TEXTS = Kind("a string or a list of strings", lambda value: _is_text(value) or _list_of(_is_text)(value))
TEXT_MAP = Kind("a mapping of strings to strings", _map_to(_is_text))
NUMBER_MAP = Kind("a mapping of strings to numbers", _map_to(NUMBER.accepts))
MAP_MAP = Kind("a mapping of strings to mappings", _map_to(lambda value: isinstance(value, Mapping)))
TEXT_OR_MAP = Kind("a string or a mapping", lambda value: isinstance(value, (str, Mapping)))
CLASS_LIST = Kind("a list of mappings with a string as 'class'", _list_of(_names_class))
CONSUMER_LIST = Kind(
    "a list of mappings with a string as 'class' and an int of at least 1 as 'parallelism.hint'", _list_of(_is_consumer)
)
KRYO_LIST = Kind("a list of class names or {class name: serializer name} mappings", _list_of(_is_kryo_entry))
CONSTRAINTS = Kind("a list of lists of component ids, or a mapping of component ids to mappings", _is_constraint)


@dataclass(frozen=True, slots=True)
class Key:
    """One configuration key. `default` is a scalar, so that it cannot be mutated."""

    name: str
    default: bool | int | float | str | None
    kind: Kind
    meaning: str
    scope: Scope = Scope.TOPOLOGY

    @property
    def constant(self) -> str:
        """The name of the constant on `Config`: Storm's."""
        return _IRREGULAR.get(self.name) or re.sub(r"[.-]", "_", self.name).upper()

    @property
    def expects(self) -> str:
        return self._kind.expects

    def accepts(self, value: object) -> bool:
        return self._kind.accepts(value)

    @property
    def _kind(self) -> Kind:
        return _or_null(self.kind) if self.default is None else self.kind


# Constants that Storm does not spell like their key.
_IRREGULAR = {
    "topology.bolts.window.sliding.interval.count": "TOPOLOGY_BOLTS_SLIDING_INTERVAL_COUNT",
    "topology.bolts.window.sliding.interval.duration.ms": "TOPOLOGY_BOLTS_SLIDING_INTERVAL_DURATION_MS",
    "topology.isolate.machines": "TOPOLOGY_ISOLATED_MACHINES",
    "topology.logging.config": "TOPOLOGY_LOGGING_CONFIG_FILE",
    "topology.state.checkpoint.interval.ms": "TOPOLOGY_STATE_CHECKPOINT_INTERVAL",
    "topology.trident.windowing.cache.tuple.limit": "TOPOLOGY_TRIDENT_WINDOWING_INMEMORY_CACHE_LIMIT",
}

_OURS = (
    Key("topology.bolt.on.error", "fail", _choice("fail", "restart"), "an exception in execute: fail it, or restart"),
    Key("topology.execute.slow.secs", 0.2, AMOUNT, "a bolt whose execute is longer gets a thread of its own; 0: none"),
    Key("topology.execute.timeout.secs", None, POSITIVE, "a longer execute hangs; null: message timeout x 2"),
    Key("topology.fall.back.on.pickle", True, FLAG, "pickle values of types that have no wire format"),
    Key("topology.fields.grouping.hash", "stable", _choice("stable", "java"), "how keys are routed; java: as by Storm"),
    Key(
        "topology.max.replays", 3, _or_null(COUNT_OR_ZERO), "replays of a row before it is a dead letter; null: no end"
    ),
    Key("topology.poison.deaths", 2, COUNT_OR_ZERO, "slot deaths by one tuple until it fails unexecuted; 0: never"),
    Key("topology.slot.inbox.max.bytes", 64 * 1024 * 1024, COUNT, "above this, spouts that feed the slot are paused"),
    Key("topology.slot.max.restarts", 5, COUNT_OR_ZERO, "restarts of a slot in a row without a commit"),
    Key("topology.state.allow.older.commit", False, FLAG, "restore an older commit if the newest is damaged"),
    Key(
        "topology.state.guarantee",
        "at-least-once",
        _choice("at-least-once", "exactly-once"),
        "what state may see twice",
    ),
)

_STORM = (
    Key("topology.name", None, TEXT, "the topology's name; set at submit"),
    Key("topology.version", None, TEXT, "the user's own version of the topology"),
    Key("topology.workers", None, COUNT, "how many slots; null: Spark's default parallelism"),
    Key("topology.tasks", None, COUNT_OR_ZERO, "tasks of a component; null: its parallelism hint", Scope.PLAN),
    Key("topology.max.task.parallelism", None, COUNT, "most tasks that a component may have", Scope.TASK),
    Key("topology.acker.executors", None, COUNT_OR_ZERO, "0 turns acking off; null: on"),
    Key("topology.message.timeout.secs", 30, POSITIVE, "a tree that takes longer fails"),
    Key("topology.enable.message.timeouts", True, FLAG, "False: trees never time out"),
    Key("topology.max.spout.pending", None, COUNT, "pending roots per spout task; Trident: batches", Scope.TASK),
    Key("topology.sleep.spout.wait.strategy.time.ms", 1, AMOUNT, "pause of a spout that emitted nothing", Scope.TASK),
    Key("topology.tick.tuple.freq.secs", None, POSITIVE, "seconds between tick tuples", Scope.TASK),
    Key("topology.debug", False, FLAG, "log every emit", Scope.TASK),
    Key("topology.testing.always.try.serialize", False, FLAG, "pack and unpack values that stay in a process too"),
    Key("supervisor.worker.start.timeout.secs", 120, POSITIVE, "a slot that takes longer to open has failed"),
    Key("topology.environment", None, TEXT_MAP, "environment variables of the slots"),
    Key("topology.worker.shared.thread.pool.size", 4, COUNT, "threads of the pool that tasks of a slot share"),
    Key("topology.auto.task.hooks", None, TEXTS, "classes of hooks that every task gets"),
    Key("topology.error.throttle.interval.secs", 10, POSITIVE, "interval for max.error.report.per.interval"),
    Key("topology.max.error.report.per.interval", 5, COUNT, "errors that a task may report in an interval"),
    Key("topology.eventlogger.executors", 0, _or_null(COUNT_OR_ZERO), "event loggers; null: one per slot"),
    Key("topology.event.logger.register", None, CLASS_LIST, "classes of event loggers"),
    Key("topology.eventlogger.rotation.size.mb", 100, POSITIVE, "size at which an event log is rotated"),
    Key("topology.eventlogger.max.retained.files", 5, COUNT_OR_ZERO, "rotated event logs that are kept"),
    Key("topology.builtin.metrics.bucket.size.secs", 60, POSITIVE, "how often metrics go to the consumers"),
    Key("topology.metrics.consumer.register", None, CONSUMER_LIST, "classes of metrics consumers"),
    Key("topology.metrics.reporters", None, CLASS_LIST, "classes of metrics reporters"),
    Key("storm.metrics.reporters", None, CLASS_LIST, "old name of topology.metrics.reporters"),
    Key("topology.enable.v2.metrics.tick", False, FLAG, "reporters' metrics go to the consumers too"),
    Key("topology.v2.metrics.tick.interval.seconds", 60, POSITIVE, "how often they do"),
    Key("topology.worker.metrics", None, TEXT_MAP, "{name: metric class}, one of each per slot"),
    Key("topology.bolts.window.length.count", None, COUNT, "length of a window in tuples", Scope.TASK),
    Key("topology.bolts.window.length.duration.ms", None, COUNT, "length of a window in time", Scope.TASK),
    Key("topology.bolts.window.sliding.interval.count", None, COUNT, "slide of a window in tuples", Scope.TASK),
    Key("topology.bolts.window.sliding.interval.duration.ms", None, COUNT, "slide of a window in time", Scope.TASK),
    Key("topology.bolts.tuple.timestamp.max.lag.ms", 0, COUNT_OR_ZERO, "how late an event may be", Scope.TASK),
    Key("topology.bolts.watermark.event.interval.ms", 1000, COUNT, "how often watermarks are computed", Scope.TASK),
    Key("topology.bolts.late.tuple.stream", None, TEXT, "stream for tuples that are too late", Scope.TASK),
    Key("topology.bolts.message.id.field.name", None, TEXT, "field that holds a message's id", Scope.TASK),
    Key("topology.state.provider", None, TEXT, "class that keeps state; null: the checkpoint", Scope.TASK),
    Key("topology.state.provider.config", None, TEXT_OR_MAP, "what that class is given", Scope.TASK),
    Key("topology.state.checkpoint.interval.ms", 1000, POSITIVE, "time between commits"),
    Key("topology.trident.batch.emit.interval.millis", 500, POSITIVE, "time between Trident batches"),
    Key("topology.trident.windowing.cache.tuple.limit", 100, COUNT, "tuples of a Trident window kept in memory"),
    Key("topology.spout.max.batch.size", 1000, COUNT, "next_tuple calls per batch of a plain spout in Trident"),
    Key("topology.transactional.id", None, TEXT, "id under which a Trident spout keeps its position", Scope.TASK),
    Key("topology.multilang.serializer", None, TEXT, "class that talks to child processes; null: JSON"),
    Key("topology.multilang.log.handler", None, TEXT, "class that takes log lines of child processes"),
    Key("topology.shellbolt.max.pending", 100, COUNT, "tuples queued for a child process"),
    Key("topology.subprocess.timeout.secs", None, POSITIVE, "a child process silent for longer is dead"),
    Key("topology.component.resources.onheap.memory.mb", 128.0, AMOUNT, "memory of a task", Scope.PLAN),
    Key("topology.component.resources.offheap.memory.mb", 0.0, AMOUNT, "more memory of a task", Scope.PLAN),
    Key("topology.component.cpu.pcore.percent", 10.0, AMOUNT, "CPU of a task; 100 is a core", Scope.PLAN),
    Key("topology.component.resources.map", None, NUMBER_MAP, "other resources of a task", Scope.PLAN),
    Key("topology.spout.wait.strategy", None, TEXT, "no effect: idle slots wait for work", Scope.TASK),
    Key("drpc.servers", None, TEXTS, "hosts of the DRPC servers"),
    Key("drpc.port", 3772, PORT, "port for DRPC clients"),
    Key("drpc.invocations.port", 3773, PORT, "port for DRPC spouts and results"),
    Key("drpc.http.port", 3774, PORT, "port for DRPC over HTTP"),
    Key("drpc.disable.http.binding", True, FLAG, "no DRPC over plain HTTP"),
    Key("drpc.request.timeout.secs", 600, POSITIVE, "a DRPC request that takes longer fails"),
)

_Row = tuple[str, bool | int | float | str | None, Kind]

_WITHOUT_EFFECT: dict[str, tuple[_Row, ...]] = {
    "counts are exact": (
        ("topology.stats.sample.rate", 0.05, FRACTION),
        ("topology.stats.ewma.enable", False, FLAG),
        ("topology.stats.ewma.smoothing.factor", 0.0625, FRACTION),
        ("topology.serialized.message.size.metrics", False, FLAG),
        ("topology.enable.send.iconnection.metrics", True, FLAG),
    ),
    "slots exchange whole frames; topology.slot.inbox.max.bytes limits what waits": (
        ("topology.backpressure.enable", False, FLAG),
        ("topology.backpressure.check.millis", 50, POSITIVE),
        ("topology.executor.receive.buffer.size", 32768, COUNT),
        ("topology.executor.send.buffer.size", 1024, COUNT),
        ("topology.executor.overflow.limit", 0, COUNT_OR_ZERO),
        ("topology.transfer.buffer.size", 1000, COUNT),
        ("topology.transfer.batch.size", 1, COUNT),
        ("topology.producer.batch.size", 1, COUNT),
        ("topology.producer.batch.dynamic", False, FLAG),
        ("topology.batch.flush.interval.millis", 1, AMOUNT),
        ("topology.disruptor.batch.size", 100, COUNT),
        ("topology.disruptor.batch.timeout.millis", 1, POSITIVE),
        ("topology.disruptor.wait.timeout.millis", 1000, POSITIVE),
        ("topology.disruptor.wait.strategy", None, TEXT),
        ("topology.bolts.outgoing.overflow.buffer.enable", False, FLAG),
        ("topology.tuple.compression.enable", False, FLAG),
        ("topology.tuple.compression.threshold", 1460, COUNT_OR_ZERO),
        ("topology.tuple.compression.max.decompressed.bytes", 10485760, COUNT),
    ),
    "idle slots wait for work": (
        ("topology.spout.recvq.skips", 3, COUNT_OR_ZERO),
        ("topology.spout.wait.park.microsec", 100, AMOUNT),
        ("topology.spout.wait.progressive.level1.count", 0, COUNT_OR_ZERO),
        ("topology.spout.wait.progressive.level2.count", 0, COUNT_OR_ZERO),
        ("topology.spout.wait.progressive.level3.sleep.millis", 1, AMOUNT),
        ("topology.bolt.wait.strategy", None, TEXT),
        ("topology.bolt.wait.park.microsec", 100, AMOUNT),
        ("topology.bolt.wait.progressive.level1.count", 1, COUNT_OR_ZERO),
        ("topology.bolt.wait.progressive.level2.count", 1000, COUNT_OR_ZERO),
        ("topology.bolt.wait.progressive.level3.sleep.millis", 1, AMOUNT),
        ("topology.backpressure.wait.strategy", None, TEXT),
        ("topology.backpressure.wait.park.microsec", 100, AMOUNT),
        ("topology.backpressure.wait.progressive.level1.count", 1, COUNT_OR_ZERO),
        ("topology.backpressure.wait.progressive.level2.count", 1000, COUNT_OR_ZERO),
        ("topology.backpressure.wait.progressive.level3.sleep.millis", 1, AMOUNT),
    ),
    "shuffle is even over tasks that are equally near": (
        ("topology.disable.loadaware.messaging", False, FLAG),
        ("topology.localityaware.higher.bound", 0.8, POSITIVE),
        ("topology.localityaware.lower.bound", 0.2, POSITIVE),
        ("topology.upstream.feedback.enable", False, FLAG),
        ("topology.upstream.feedback.freq.secs", 10, POSITIVE),
    ),
    "values are packed without Kryo; see topology.fall.back.on.pickle": (
        ("topology.kryo.register", None, KRYO_LIST),
        ("topology.kryo.decorators", None, TEXTS),
        ("topology.kryo.factory", None, TEXT),
        ("topology.tuple.serializer", None, TEXT),
        ("topology.fall.back.on.java.serialization", False, FLAG),
        ("topology.skip.missing.kryo.registrations", False, FLAG),
        ("topology.state.kryo.register", None, TEXTS),
    ),
    "the timestamp field is given to the bolt": (("topology.bolts.tuple.timestamp.field.name", None, TEXT),),
    "a slot is a Python process": (
        ("topology.worker.childopts", None, TEXT_OR_TEXTS),
        ("topology.worker.gc.childopts", None, TEXT_OR_TEXTS),
        ("topology.worker.logwriter.childopts", None, TEXT_OR_TEXTS),
        ("topology.classpath", None, TEXT_OR_TEXTS),
        ("topology.classpath.beginning", None, TEXT_OR_TEXTS),
        ("topology.logging.config", None, TEXT),
    ),
    "a slot is alive while it is connected; see topology.execute.timeout.secs": (
        ("topology.worker.timeout.secs", None, POSITIVE),
        ("worker.max.timeout.secs", 600, POSITIVE),
        ("topology.state.synchronization.timeout.secs", 60, POSITIVE),
    ),
    "Spark places the slots": (
        ("topology.ras.acker.executors.per.worker", 1, COUNT_OR_ZERO),
        ("topology.acker.resources.onheap.memory.mb", 128.0, AMOUNT),
        ("topology.acker.resources.offheap.memory.mb", 0.0, AMOUNT),
        ("topology.acker.cpu.pcore.percent", 10.0, AMOUNT),
        ("topology.metrics.consumer.resources.onheap.memory.mb", 128.0, AMOUNT),
        ("topology.metrics.consumer.resources.offheap.memory.mb", 0.0, AMOUNT),
        ("topology.metrics.consumer.cpu.pcore.percent", 10.0, AMOUNT),
        ("topology.worker.max.heap.size.mb", 768.0, POSITIVE),
        ("topology.priority", 29, COUNT_OR_ZERO),
        ("topology.scheduler.strategy", None, TEXT),
        ("topology.scheduler.favored.nodes", None, TEXTS),
        ("topology.scheduler.unfavored.nodes", None, TEXTS),
        ("topology.spread.components", None, TEXTS),
        ("topology.ras.constraints", None, CONSTRAINTS),
        ("topology.ras.constraint.max.state.search", None, COUNT),
        ("topology.ras.constraint.max.time.secs", None, POSITIVE),
        ("topology.ras.one.executor.per.worker", False, FLAG),
        ("topology.ras.one.component.per.worker", False, FLAG),
        ("topology.ras.order.executors.by.proximity.needs", False, FLAG),
        ("topology.isolate.machines", None, COUNT),
    ),
    "access, code and files are Spark's": (
        ("topology.users", None, TEXT_OR_TEXTS),
        ("topology.groups", None, TEXT_OR_TEXTS),
        ("topology.readonly.users", None, TEXT_OR_TEXTS),
        ("topology.readonly.groups", None, TEXT_OR_TEXTS),
        ("topology.submitter.principal", None, TEXT),
        ("topology.submitter.user", None, TEXT),
        ("topology.auto-credentials", None, TEXTS),
        ("topology.blobstore.map", None, MAP_MAP),
        ("topology.logging.sensitivity", "S3", _choice("S0", "S1", "S2", "S3")),
        ("topology.min.replication.count", 1, NUMBER),
        ("topology.max.replication.wait.time.sec", 60, NUMBER),
    ),
    "positions are kept in the checkpoint": (
        ("transactional.zookeeper.root", "/transactional", TEXT),
        ("transactional.zookeeper.servers", None, TEXTS),
        ("transactional.zookeeper.port", None, PORT),
    ),
}

KEYS: Mapping[str, Key] = {
    key.name: key
    for key in (
        *_OURS,
        *_STORM,
        *(Key(*row, f"no effect: {reason}") for reason, rows in _WITHOUT_EFFECT.items() for row in rows),
    )
}
