"""Collectors: how components emit, ack and fail. The runtime subclasses them.

Only `bolt_emit` and `spout_emit` distinguish Java's positional forms from Python's keyword forms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pystorm_spark.errors import EmitError
from pystorm_spark.naming import java_names
from pystorm_spark.topology.fields import DEFAULT_STREAM
from pystorm_spark.topology.tuple import Tuple

MISSING: Any = object()
Anchors = Any  # a Tuple, a collection of Tuples, or None


@java_names()
class OutputCollector:
    """Emits the tuples of a bolt, and acks and fails the tuples that it received. Threads of the bolt may use it, too.

    `emit(values, anchors=tup, stream="errors")`, or as in Java `emit("errors", tup, values)`.

    A subclass may wrap another collector: every method calls the same method of `delegate`.
    """

    def __init__(self, delegate: OutputCollector) -> None:
        self._delegate = delegate

    def emit(self, *args: Any, **kwargs: Any) -> list[int]:
        """Send `values` to the subscribers of `stream`; return the ids of the tasks that get a copy.

        The new tuple joins the trees of `anchors` (a tuple, a collection of tuples, or None): their roots are acked
        only when it is acked too.
        """
        stream, anchors, values = bolt_emit("emit", args, **kwargs)
        return self._delegate.emit(stream, anchors, values)

    def emit_direct(self, task_id: int, *args: Any, **kwargs: Any) -> None:
        """Send `values` to the one task `task_id`, which must subscribe to the stream by direct grouping."""
        stream, anchors, values = bolt_emit("emit_direct", args, **kwargs)
        self._delegate.emit_direct(task_id, stream, anchors, values)

    def ack(self, tup: Tuple) -> None:
        """Report that this bolt has finished with `tup`.

        The spout's `ack` is called once every tuple of the tree is acked. A second ack or fail of a tuple is ignored
        with a warning.
        """
        self._delegate.ack(tup)

    def fail(self, tup: Tuple) -> None:
        """Report that `tup` could not be processed: every root that it belongs to fails now."""
        self._delegate.fail(tup)

    def reset_timeout(self, tup: Tuple) -> None:
        """Give the trees of `tup` a new message timeout from now on."""
        self._delegate.reset_timeout(tup)

    def report_error(self, error: BaseException) -> None:
        """Show `error` in the topology's status; no tuple is failed by it."""
        self._delegate.report_error(error)

    def run(self, function: Callable[[Any], object]) -> None:
        """Have `function(collector)` called in the task's own thread, between two calls of the component.

        Any thread may call it, and it returns at once: one hand-over for any number of emits, acks and fails. What is
        handed over is called in that order; what it raises is reported as an error of the component.
        """
        self._delegate.run(lambda _: function(self))

    def dead_letter(self, letter: Mapping[str, Any]) -> None:
        """Write down what is given up; it is durable when this returns. What is no JSON in it is written as text.

        It is one line of `dead-letters/COMPONENT/*.jsonl` beside the topology's checkpoint; `id`, `time`, `kind` and
        `topology` are added where they are missing. Any thread may call it.
        """
        self._delegate.dead_letter(letter)

    def _report_failure(self, error: BaseException, tup: Tuple) -> None:
        """Report why `tup` is about to fail."""
        self.report_error(error)

    def _crash(self, error: BaseException) -> None:
        """A call that is about to raise `error` counts as an `execute` that raises it (`topology.bolt.on.error`)."""

    def flush(self) -> None:
        """Does nothing, and exists for Storm's API: emitted tuples always leave at the end of the turn."""
        self._delegate.flush()


@java_names(getters=["pending_count"])
class SpoutOutputCollector:
    """Emits the tuples of a spout.

    `emit(values, message_id=7)`, or as in Java `emit(values, 7)`. A tuple with a message id is tracked: `ack` or `fail`
    is called with that id. The spout gets neither call for a tuple without an id (None).

    A subclass may wrap another collector: every method calls the same method of `delegate`.
    """

    def __init__(self, delegate: SpoutOutputCollector) -> None:
        self._delegate = delegate

    def emit(self, *args: Any, **kwargs: Any) -> list[int]:
        """Send `values` to the subscribers of `stream`; return the ids of the tasks that get a copy."""
        stream, values, message_id = spout_emit("emit", args, **kwargs)
        return self._delegate.emit(stream, values, message_id)

    def emit_direct(self, task_id: int, *args: Any, **kwargs: Any) -> None:
        """Send `values` to the one task `task_id`, which must subscribe to the stream by direct grouping."""
        stream, values, message_id = spout_emit("emit_direct", args, **kwargs)
        self._delegate.emit_direct(task_id, stream, values, message_id)

    def report_error(self, error: BaseException) -> None:
        """Show `error` in the topology's status."""
        self._delegate.report_error(error)

    def run(self, function: Callable[[Any], object]) -> None:
        """Have `function(collector)` called in the task's own thread, between two calls of the component.

        Any thread may call it, and it returns at once: one hand-over for any number of emits. What is
        handed over is called in that order; what it raises is reported as an error of the component.
        """
        self._delegate.run(lambda _: function(self))

    def dead_letter(self, letter: Mapping[str, Any]) -> None:
        """Write down what is given up; it is durable when this returns. What is no JSON in it is written as text.

        It is one line of `dead-letters/COMPONENT/*.jsonl` beside the topology's checkpoint; `id`, `time`, `kind` and
        `topology` are added where they are missing. Any thread may call it.
        """
        self._delegate.dead_letter(letter)

    def pending_count(self) -> int:
        """How many tracked tuples of this task are neither acked nor failed."""
        return self._delegate.pending_count()

    def flush(self) -> None:
        """Does nothing, and exists for Storm's API: emitted tuples always leave at the end of the turn."""
        self._delegate.flush()


@java_names()
class BasicOutputCollector:
    """Emits the tuples of a basic bolt, each anchored to the tuple being executed."""

    def __init__(self, collector: OutputCollector) -> None:
        self._collector = collector
        self._emit = collector.emit
        self._input: Tuple | None = None

    def set_context(self, tup: Tuple) -> None:
        """Anchor later emits to `tup`. The engine calls it before each `execute`."""
        self._input = tup

    def emit(self, values: Any, *more: Any, stream: str = DEFAULT_STREAM) -> list[int]:
        """Send `values` to the subscribers of `stream`: `emit(values)`, `emit("stream", values)`."""
        if more:
            stream, anchors, values = bolt_emit("emit", (values, *more), stream=stream)
            self._check_anchors(anchors)
        return self._emit(values, anchors=self._input, stream=stream)

    def emit_direct(self, task_id: int, *args: Any, **kwargs: Any) -> None:
        """Send `values` to one task: `emit_direct(task, values)`, `emit_direct(task, "stream", values)`."""
        stream, anchors, values = bolt_emit("emit_direct", args, **kwargs)
        self._check_anchors(anchors)
        self._collector.emit_direct(task_id, values, anchors=self._input, stream=stream)

    def reset_timeout(self, tup: Tuple) -> None:
        """Give the trees of `tup` a new message timeout from now on."""
        self._collector.reset_timeout(tup)

    def report_error(self, error: BaseException) -> None:
        """Show `error` in the topology's status; no tuple is failed by it."""
        self._collector.report_error(error)

    def dead_letter(self, letter: Mapping[str, Any]) -> None:
        """Write down what is given up: see `OutputCollector.dead_letter`."""
        self._collector.dead_letter(letter)

    def _check_anchors(self, anchors: Anchors) -> None:
        if anchors is not None and anchors is not self._input:
            raise EmitError(
                f"a basic bolt can anchor only to the tuple that it executes, got {anchors!r}; leave out anchors"
            )


def bolt_emit(
    call: str,
    args: tuple[Any, ...],
    *,
    values: Any = MISSING,
    anchors: Anchors = None,
    stream: str = DEFAULT_STREAM,
    **unknown: Any,
) -> tuple[str, Anchors, Any]:
    """(stream, anchors, values) of `values`, `anchors, values`, `"stream", values` or `"stream", anchors, values`."""
    given = list(args) if values is MISSING else [*args, values]
    twice = False
    if len(given) > 1 and isinstance(given[0], str):
        twice = stream != DEFAULT_STREAM
        stream = given.pop(0)
    if len(given) == 2:
        twice = twice or anchors is not None
        anchors = given.pop(0)
    if len(given) != 1 or unknown or twice:
        raise _wrong_call(
            f"{call} takes values, anchors and a stream: {call}(values, anchors=tup, stream='default') or "
            f'{call}("stream", tup, values)',
            args,
            unknown,
        )
    if isinstance(given[0], Tuple):
        raise EmitError(f"{call} got a tuple where the values belong; write {call}(values, anchors=tup)")
    return stream, anchors, given[0]


def spout_emit(
    call: str,
    args: tuple[Any, ...],
    *,
    values: Any = MISSING,
    message_id: Any = None,
    stream: str = DEFAULT_STREAM,
    **unknown: Any,
) -> tuple[str, Any, Any]:
    """(stream, values, message id) of `values`, `values, id`, `"stream", values` or `"stream", values, id`."""
    given = list(args) if values is MISSING else [*args, values]
    twice = False
    if len(given) > 1 and isinstance(given[0], str):
        twice = stream != DEFAULT_STREAM
        stream = given.pop(0)
    if len(given) == 2:
        twice = twice or message_id is not None
        message_id = given.pop()
    if len(given) != 1 or unknown or twice:
        raise _wrong_call(
            f"{call} takes values, a message id and a stream: {call}(values, message_id=7, stream='default') or "
            f'{call}("stream", values, 7)',
            args,
            unknown,
        )
    return stream, given[0], message_id


def _wrong_call(usage: str, args: tuple[Any, ...], unknown: Mapping[str, Any]) -> TypeError:
    names = "".join(f", {name!r}" for name in unknown)
    return TypeError(f"{usage}, each at most once; got {len(args)} positional arguments{names}")


def anchor_tuples(anchors: Anchors) -> Iterable[Tuple]:
    """`anchors`, which may be None, a tuple or a collection of tuples, as tuples; otherwise an `EmitError`."""
    if anchors is None:
        return ()
    if isinstance(anchors, Tuple):
        return (anchors,)
    try:
        found = tuple(anchors)
    except TypeError:
        found = (anchors,)
    for anchor in found:
        if not isinstance(anchor, Tuple):
            raise EmitError(
                f"anchors must be tuples that this bolt received, got {anchor!r} of type {type(anchor).__name__}; "
                "write emit(values, anchors=tup)"
            )
    return found
