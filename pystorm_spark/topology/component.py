"""Spout, Bolt and related base classes that users subclass."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pystorm_spark.errors import FailedException, ReportedFailedException
from pystorm_spark.naming import link_spellings
from pystorm_spark.topology.collector import BasicOutputCollector, OutputCollector, SpoutOutputCollector
from pystorm_spark.topology.fields import Stream
from pystorm_spark.topology.tuple import Tuple, is_tick

if TYPE_CHECKING:
    from pystorm_spark.topology.context import TopologyContext
    from pystorm_spark.topology.declarer import OutputFieldsDeclarer
    from pystorm_spark.topology.view import ComponentView

Conf = Mapping[str, Any]


class Component:
    """What spouts and bolts share: their output streams and their configuration.

    `outputs` is the short way to declare: a list of field names for the default stream, or a dict of stream id to
    field names or `Stream(fields, direct=True)`.
    """

    outputs: Any = None
    # Methods that the engine calls and a user may define under Java's name.
    _spellings: ClassVar[dict[str, str]] = {
        "declare_output_fields": "declareOutputFields",
        "component_configuration": "getComponentConfiguration",
        "next_tuple": "nextTuple",
        "on_tick": "onTickTuple",
    }

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        link_spellings(cls, Component._spellings)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declare the output streams; called once, when the topology is created. By default what `outputs` says."""
        outputs = self.outputs
        if outputs is None:
            return
        if not isinstance(outputs, Mapping):
            outputs = {"default": outputs}
        for stream_id, stream in outputs.items():
            stream = stream if isinstance(stream, Stream) else Stream(stream)
            declarer.declare_stream(stream_id, stream.direct, stream.fields)

    def component_configuration(self) -> Conf | None:
        """Configuration of this component alone, over the topology's; called once, when the topology is created."""
        return None

    def _configured(self, conf: Conf) -> None:
        """Internal. Learn what the component and its declarer have configured, before the streams are declared."""

    def validate(self, conf: Conf, view: ComponentView) -> None:
        """Raise what speaks against running; called once, in the driver, at submit, before anything starts.

        A `StormError` reaches the caller of the submit as it is, anything else as an `InvalidTopologyError` from it.
        `conf` is the component's own configuration over the topology's.
        """


class Spout(Component):
    """A source of tuples. `open`, then `activate`, then `next_tuple` again and again; all in one thread.

    An instance is copied for every task; what `open` creates need not be picklable.
    """

    def open(self, conf: Conf, context: TopologyContext, collector: SpoutOutputCollector) -> None:
        """Called once in every task, before anything else."""

    def next_tuple(self) -> None:
        """Emit any number of tuples. It must not block for long, because the tasks of a slot share one thread."""

    def ack(self, message_id: Any) -> None:
        """The tree of the tuple emitted with `message_id` is complete."""

    def fail(self, message_id: Any) -> None:
        """The tree of the tuple emitted with `message_id` failed or timed out; emit it again if it matters."""

    def activate(self) -> None:
        """Called when the spout is activated, before `next_tuple`."""

    def deactivate(self) -> None:
        """Called when the spout is deactivated: no `next_tuple` until `activate`, but `ack` and `fail` go on."""

    def close(self) -> None:
        """The task ends in good order; not promised when its process dies."""


class Bolt(Component):
    """Receives tuples, emits others, and acks or fails each one that it received."""

    def prepare(self, conf: Conf, context: TopologyContext, collector: OutputCollector) -> None:
        """Called once in every task, before the first tuple."""

    def execute(self, tup: Tuple) -> None:
        """Process one tuple. An exception fails the tuple and is reported; the task lives on."""

    def cleanup(self) -> None:
        """The task ends in good order; not promised when its process dies."""

    def as_bolt(self) -> Bolt:
        """The bolt that the engine runs: itself, or for richer kinds of bolts the one that wraps it."""
        return self


class BasicBolt(Bolt):
    """A bolt for which anchoring and acking are done: every emit is anchored to the input, which is acked on return.

    `FailedException` fails the input quietly, `ReportedFailedException` also reports.
    """

    def prepare(self, conf: Conf, context: TopologyContext) -> None:  # type: ignore[override]
        """Called once in every task, before the first tuple."""

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:  # type: ignore[override]
        """Process one tuple; acked when this returns."""

    def as_bolt(self) -> Bolt:
        return BasicBoltExecutor(self)


class WrappingBolt(Bolt):
    """A bolt that runs another one, and has its streams and configuration."""

    def __init__(self, wrapped: Bolt) -> None:
        self.wrapped = wrapped

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        self.wrapped.declare_output_fields(declarer)

    def component_configuration(self) -> Conf | None:
        return self.wrapped.component_configuration()

    def _configured(self, conf: Conf) -> None:
        self.wrapped._configured(conf)

    def validate(self, conf: Conf, view: ComponentView) -> None:
        self.wrapped.validate(conf, view)

    def cleanup(self) -> None:
        self.wrapped.cleanup()


class BasicBoltExecutor(WrappingBolt):
    """Runs a basic bolt: anchors to the input, acks it on return, fails it on `FailedException`."""

    wrapped: BasicBolt

    def prepare(self, conf: Conf, context: TopologyContext, collector: OutputCollector) -> None:
        self._collector = collector
        self._basic = BasicOutputCollector(collector)
        self._ack = collector.ack
        self._execute = self.wrapped.execute
        self.wrapped.prepare(conf, context)

    def execute(self, tup: Tuple) -> None:
        basic = self._basic
        basic._input = tup
        try:
            self._execute(tup, basic)
        except FailedException as failure:
            if isinstance(failure, ReportedFailedException):
                self._collector._report_failure(failure, tup)
            self._collector.fail(tup)
        else:
            self._ack(tup)


class TickAwareBolt(Bolt):
    """A bolt with one method for data and one for ticks. It acks neither."""

    def execute(self, tup: Tuple) -> None:
        if is_tick(tup):
            self.on_tick(tup)
        else:
            self.process(tup)

    def process(self, tup: Tuple) -> None:
        """Called for every tuple except ticks."""

    def on_tick(self, tup: Tuple) -> None:
        """Called for every tick."""


class LambdaSpout(Spout):
    """A spout made from a function: what it returns is emitted untracked in the field `lambda`, None is not emitted."""

    outputs = ("lambda",)

    def __init__(self, supplier: Callable[[], Any]) -> None:
        self.supplier = supplier

    def open(self, conf: Conf, context: TopologyContext, collector: SpoutOutputCollector) -> None:
        self._collector = collector

    def next_tuple(self) -> None:
        value = self.supplier()
        if value is not None:
            self._collector.emit([value])


class LambdaBolt(BasicBolt):
    """A basic bolt made from a function of `(tup, collector)` or of `(tup)`.

    A function that can be called either way, such as `print`, gets the collector if there are output `fields`.
    """

    def __init__(self, function: Callable[..., Any], fields: Iterable[str] = ()) -> None:
        self.function = function
        self.outputs = tuple([fields] if isinstance(fields, str) else fields) or None
        self._takes_collector = takes(function, 2) and not (takes(function, 1) and self.outputs is None)

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:  # type: ignore[override]
        if self._takes_collector:
            self.function(tup, collector)
        else:
            self.function(tup)


def takes(function: Callable[..., Any], count: int) -> bool:
    """Whether `function` accepts `count` positional arguments; True if its signature is unknown."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # some built-in functions do not tell
        return True
    except TypeError:  # no function at all
        return False
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True
