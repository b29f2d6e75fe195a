"""make_tuple and RecordingCollector: for unit tests of one component, without a cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from reprlib import repr as short
from typing import Any

from pystorm_spark.errors import EmitError, StormError
from pystorm_spark.testing.row import checked_row
from pystorm_spark.topology.collector import (
    Anchors,
    BasicOutputCollector,
    OutputCollector,
    SpoutOutputCollector,
    anchor_tuples,
    bolt_emit,
    spout_emit,
)
from pystorm_spark.topology.fields import DEFAULT_STREAM, Fields, FieldsLike, as_fields
from pystorm_spark.topology.tuple import SETTLED, NoTree, Origin, Tuple, new_tuple

log = logging.getLogger(__name__)


def make_tuple(
    values: Sequence[Any],
    fields: FieldsLike | None = None,
    component: str = "source",
    stream: str = DEFAULT_STREAM,
    task: int = 1,
) -> Tuple:
    """A tuple as a bolt receives it. Without `fields`, the fields are named field0, field1 and so on.

    >>> make_tuple(["storm", 2], ["word", "count"])["word"]
    'storm'
    """
    names = _numbered(values) if fields is None else as_fields(fields)
    return new_tuple(checked_row("make_tuple got", values, names), Origin(component, task, stream, names), NoTree())


def _numbered(values: Any) -> Fields:
    count = len(values) if isinstance(values, (list, tuple)) else 0  # `checked_row` refuses anything else
    return Fields(f"field{index}" for index in range(count))


@dataclass(frozen=True)
class Emitted:
    """One emit that a `RecordingCollector` has recorded; `task` is the target of an `emit_direct`.

    >>> Emitted(["storm", 1], message_id=7)
    Emitted(values=['storm', 1], stream='default', anchors=[], message_id=7, task=None)
    """

    values: list[Any]
    stream: str = DEFAULT_STREAM
    anchors: list[Tuple] = field(default_factory=list)
    message_id: Any = None
    task: int | None = None


class RecordingCollector(OutputCollector, SpoutOutputCollector, BasicOutputCollector):
    """A collector for spouts and bolts that records all calls, in `emitted`, `acked`, `failed` and `errors`.

    It distinguishes the emits of bolts and spouts by their arguments. It does not check streams and arity, because it
    does not know what the component declares. Every emit returns `task_ids`.

    >>> from pystorm_spark import Bolt
    >>> class Upper(Bolt):
    ...     def prepare(self, conf, context, collector):
    ...         self.collector = collector
    ...
    ...     def execute(self, tup):
    ...         self.collector.emit([tup["word"].upper()], anchors=tup)
    ...         self.collector.ack(tup)
    >>> bolt, collector, tup = Upper(), RecordingCollector(), make_tuple(["storm"], ["word"])
    >>> bolt.prepare({}, None, collector)
    >>> bolt.execute(tup)
    >>> collector.emitted == [Emitted(["STORM"], anchors=[tup])], collector.acked == [tup]
    (True, True)
    """

    _delegate: Any  # unused; the base classes declare different types for it

    def __init__(self, task_ids: Iterable[int] = (1,)) -> None:
        self.emitted: list[Emitted] = []
        self.acked: list[Tuple] = []
        self.failed: list[Tuple] = []
        self.errors: list[BaseException] = []
        self.letters: list[dict[str, Any]] = []
        self.timeouts_reset: list[Tuple] = []
        self._task_ids = list(task_ids)
        self._input: Tuple | None = None  # only `set_context` sets it

    def emit(self, *args: Any, **kwargs: Any) -> list[int]:
        self._record("emit", args, kwargs)
        return list(self._task_ids)

    def emit_direct(self, task_id: int, *args: Any, **kwargs: Any) -> None:
        self._record("emit_direct", args, kwargs, task_id)

    def ack(self, tup: Tuple) -> None:
        self._settle("ack", tup, self.acked)

    def fail(self, tup: Tuple) -> None:
        self._settle("fail", tup, self.failed)

    def reset_timeout(self, tup: Tuple) -> None:
        _check_tuple("reset_timeout", tup)
        self.timeouts_reset.append(tup)

    def report_error(self, error: BaseException) -> None:
        if not isinstance(error, BaseException):
            error = StormError(f"report_error got {error!r}; give it an exception")
        self.errors.append(error)

    def run(self, function: Callable[[Any], object]) -> None:
        function(self)

    def dead_letter(self, letter: Mapping[str, Any]) -> None:
        self.letters.append(dict(letter))

    def pending_count(self) -> int:
        """The number of emits with a message id. None of them is ever acked or failed."""
        return sum(emitted.message_id is not None for emitted in self.emitted)

    def flush(self) -> None:
        pass

    def _record(self, call: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], task: int | None = None) -> None:
        anchors: Anchors = None
        message_id = None
        if _is_spout_form(args, kwargs):
            stream, values, message_id = spout_emit(call, args, **kwargs)
        else:
            stream, anchors, values = bolt_emit(call, args, **kwargs)
        if not isinstance(values, (list, tuple)):
            raise EmitError(
                f"{call} got {short(values)} of type {type(values).__name__}; values must be a list or a tuple, "
                "for example [value]"
            )
        anchored = _unsettled(self._input if anchors is None else anchors)
        self.emitted.append(Emitted(list(values), stream, anchored, message_id, task))

    def _settle(self, verb: str, tup: Tuple, settled: list[Tuple]) -> None:
        _check_tuple(verb, tup)
        if tup._tree is SETTLED:
            log.warning("%s of %r is ignored: it was already acked or failed; settle each tuple once", verb, tup)
            return
        tup._tree = SETTLED
        settled.append(tup)


def _check_tuple(verb: str, tup: object) -> None:
    if not isinstance(tup, Tuple):
        raise TypeError(f"{verb} takes a tuple that the bolt received, got {short(tup)} of type {type(tup).__name__}")


def _is_spout_form(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether an emit is that of a spout: it has a message id, by name or after the values."""
    if "message_id" in kwargs or "anchors" in kwargs:
        return "message_id" in kwargs
    given = args[1:] if len(args) > 1 and isinstance(args[0], str) else args
    if len(given) != 2 or not isinstance(given[0], (list, tuple)):
        return False
    first, second = given
    if not first:  # either (no anchors, values) or (no values, message id)
        return not isinstance(second, (list, tuple))
    return not any(isinstance(value, Tuple) for value in first)


def _unsettled(anchors: Anchors) -> list[Tuple]:
    found = list(anchor_tuples(anchors))
    for anchor in found:
        if anchor._tree is SETTLED:
            raise EmitError(
                f"an emit is anchored to {anchor!r}, which was already acked or failed; emit first, then ack"
            )
    return found
