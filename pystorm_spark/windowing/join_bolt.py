"""JoinBolt: joins the tuples of several streams that are in one window."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, TypeVar

from pystorm_spark.errors import InvalidTopologyError, did_you_mean
from pystorm_spark.naming import java_names
from pystorm_spark.topology.collector import OutputCollector
from pystorm_spark.topology.component import Conf
from pystorm_spark.topology.context import TopologyContext
from pystorm_spark.topology.declarer import OutputFieldsDeclarer
from pystorm_spark.topology.fields import DEFAULT_STREAM, Fields
from pystorm_spark.topology.tuple import GlobalStreamId, Tuple
from pystorm_spark.topology.view import ComponentView
from pystorm_spark.windowing.bolt import WindowedBolt
from pystorm_spark.windowing.window import TupleWindow

J = TypeVar("J", bound="JoinBolt")
Row = list[Tuple | None]  # a tuple of each joined stream, in the order of declaration

INNER, LEFT, RIGHT, FULL = "join", "left_join", "right_join", "full_join"


class Selector(Enum):
    """What the ids of a join are: of streams, or of the components that they come from."""

    STREAM = "stream"
    SOURCE = "source"


@dataclass(frozen=True)
class Joined:
    """One stream of a join: its key, and the stream that it is joined to."""

    id: str
    field: str
    kind: str = INNER
    prior: int = 0  # its place in the order of declaration


@java_names()
class JoinBolt(WindowedBolt):
    """Joins the streams of a window, in the order of declaration, each on a field of its own.

    `JoinBolt("orders", "user").join("users", "id", "orders").select("users:name, total")` with a window. The ids are
    those of components; with `JoinBolt(JoinBolt.Selector.STREAM, "orders", "user")` those of streams. A field may be a
    path into dicts, such as `address.city`. Each row is anchored to its own tuples.
    """

    Selector: ClassVar[type[Selector]] = Selector

    def __init__(self, *args: Any) -> None:
        by, id_, field, *more = args if len(args) > 2 else (Selector.SOURCE, *args, *[None] * (2 - len(args)))
        if more or not isinstance(by, Selector):
            raise InvalidTopologyError(f"JoinBolt takes a JoinBolt.Selector, an id and a field, got {args!r}")
        self._by = by
        self._joined = [Joined(_id(id_), _field(field))]
        self._columns: list[str] = []
        self._output_stream = DEFAULT_STREAM
        self._only_new = False

    def join(self: J, new: str, field: str, prior: str) -> J:
        """Add a stream: rows whose `prior` key has no equal are dropped."""
        return self._add(INNER, new, field, prior)

    def left_join(self: J, new: str, field: str, prior: str) -> J:
        """The same, but rows without an equal are kept. As in Storm, those whose `prior` key is None are not."""
        return self._add(LEFT, new, field, prior)

    def right_join(self: J, new: str, field: str, prior: str) -> J:
        """Add a stream of which every tuple is kept; rows without an equal are dropped."""
        return self._add(RIGHT, new, field, prior)

    def full_join(self: J, new: str, field: str, prior: str) -> J:
        """Add a stream and keep everything."""
        return self._add(FULL, new, field, prior)

    def select(self: J, columns: str) -> J:
        """Name the output fields, separated by commas: `field` or `id:field`.

        A field without an id has the first value that is not None among the joined tuples.
        """
        if not isinstance(columns, str) or not all(name.strip() for name in columns.split(",")):
            raise InvalidTopologyError(f"select takes field names separated by commas, got {columns!r}")
        self._columns = [name.strip() for name in columns.split(",")]
        return self

    def with_output_stream(self: J, stream_id: str) -> J:
        """Emit rows on another stream than the default one."""
        if not isinstance(stream_id, str) or not stream_id:
            raise InvalidTopologyError(f"the output stream must be the id of a stream, got {stream_id!r}")
        self._output_stream = stream_id
        return self

    def with_new_rows_only(self: J) -> J:
        """Emit only rows of which a tuple is new in the window; for inner joins."""
        self._only_new = True
        return self

    def _add(self: J, kind: str, new: str, field: str, prior: str) -> J:
        ids = [joined.id for joined in self._joined]
        if _id(new) in ids:
            raise InvalidTopologyError(f"{new!r} is already joined; each stream is joined once")
        if prior not in ids:
            raise InvalidTopologyError(f"{kind}: {prior!r} is not joined before {new!r}; {did_you_mean(prior, ids)}")
        self._joined.append(Joined(new, _field(field), kind, ids.index(prior)))
        return self

    # In the driver.

    def _window_problems(self) -> list[str]:
        problems = []
        if not self._columns:
            problems.append("has no output fields; call select")
        if self._only_new and any(joined.kind != INNER for joined in self._joined):
            problems.append("has with_new_rows_only and an outer join; it is for inner joins")
        if self._window_settings.aggregate is not None:
            problems.append("has an aggregate, and joins tuples; it can have one of them")
        ids = [joined.id for joined in self._joined]
        for column in self._columns:
            prefix, name = _split(column)
            if prefix is not None and (prefix not in ids or not name):
                problems.append(f"selects {column!r}, and {prefix!r} is not joined; {did_you_mean(prefix, ids)}")
        return problems

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare_stream(self._output_stream, self._columns)

    def validate(self, conf: Conf, view: ComponentView) -> None:
        problems = list(self._input_problems(view.inputs))
        if problems:
            raise InvalidTopologyError("\n".join(f"bolt {view.id!r} {problem}" for problem in problems))

    def _input_problems(self, inputs: Mapping[GlobalStreamId, Fields]) -> Iterator[str]:
        fields_of: dict[str, list[Fields]] = {}
        for source, fields in inputs.items():
            fields_of.setdefault(source.stream_id if self._by is Selector.STREAM else source.component_id, []).append(
                fields
            )
        ids = [joined.id for joined in self._joined]
        for id_ in fields_of:
            if id_ not in ids:
                yield f"reads {self._by.value} {id_!r}, which it does not join; {did_you_mean(id_, ids)}"
        for joined in self._joined:
            if joined.id not in fields_of:
                hint = did_you_mean(joined.id, fields_of)
                yield f"joins {self._by.value} {joined.id!r}, which is no input of it; {hint}"
            for fields in fields_of.get(joined.id, ()):
                if not _declares(fields, joined.field):
                    yield f"joins {joined.id!r} on {joined.field!r}; {did_you_mean(joined.field, fields)}"
        for column in self._columns:
            prefix, name = _split(column)
            found = [fields for id_ in ids if prefix in (None, id_) for fields in fields_of.get(id_, ())]
            if not any(_declares(fields, name) for fields in found):
                yield f"selects {column!r}; {did_you_mean(name, {each for fields in found for each in fields})}"

    # In a task.

    def prepare(self, conf: Conf, context: TopologyContext, collector: OutputCollector) -> None:
        self._collector = collector
        self._places = {joined.id: place for place, joined in enumerate(self._joined)}
        self._readers = [_reader(joined.field) for joined in self._joined]
        self._values = [self._column_reader(column) for column in self._columns]

    def _column_reader(self, column: str) -> Callable[[Row], Any]:
        prefix, name = _split(column)
        if prefix is not None:
            place, read_one = self._places[prefix], _reader(name)
            return lambda row: None if (tup := row[place]) is None else read_one(tup)
        readers = [_reader(name) for _ in self._joined]

        def first(row: Row) -> Any:
            for tup, read in zip(row, readers, strict=True):
                if tup is not None and (value := read(tup)) is not None:
                    return value
            return None

        return first

    def execute(self, window: TupleWindow) -> None:  # type: ignore[override]
        new = {id(tup) for tup in window.get_new()} if self._only_new else set()
        for row in self._rows(window):
            anchors = [tup for tup in row if tup is not None]
            if not self._only_new or any(id(tup) in new for tup in anchors):
                self._collector.emit(
                    [value(row) for value in self._values], anchors=anchors, stream=self._output_stream
                )

    def _rows(self, window: TupleWindow) -> list[Row]:
        by_place: list[list[Tuple]] = [[] for _ in self._joined]
        is_stream = self._by is Selector.STREAM
        for tup in window:
            by_place[self._places[tup.source_stream_id if is_stream else tup.source_component]].append(tup)
        rows: list[Row] = [[tup] for tup in by_place[0]]
        for place, joined in enumerate(self._joined[1:], 1):
            rows = self._joined_with(rows, joined, by_place[place], self._readers[place])
        return rows

    def _joined_with(
        self, rows: list[Row], joined: Joined, tuples: list[Tuple], read: Callable[[Tuple], Any]
    ) -> list[Row]:
        """The rows with one more stream."""
        by_key: dict[Hashable, list[Tuple]] = {}
        for tup in tuples:
            key = read(tup)
            if key is not None:
                by_key.setdefault(key, []).append(tup)
        prior, read_prior = joined.prior, self._readers[joined.prior]
        found: list[Row] = []
        matched: set[Hashable] = set()
        for row in rows:
            before = row[prior]
            key = None if before is None else read_prior(before)
            equals = by_key.get(key) if key is not None else None
            if equals:
                matched.add(key)
                found += [[*row, tup] for tup in equals]
            elif joined.kind == FULL or (joined.kind == LEFT and key is not None):
                found.append([*row, None])
        if joined.kind in (RIGHT, FULL):
            width = self._places[joined.id]
            found += [[*[None] * width, tup] for tup in tuples if read(tup) not in matched]
        return found


def _id(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidTopologyError(f"a join takes the id of a component or of a stream, got {value!r}")
    return value


def _field(value: Any) -> str:
    if not isinstance(value, str) or not value or ":" in value:
        raise InvalidTopologyError(f"a join field must be the name of a field without ':', got {value!r}")
    return value


def _split(column: str) -> tuple[str | None, str]:
    """(id or None, field) of a selected column."""
    prefix, colon, name = column.partition(":")
    return (prefix.strip(), name.strip()) if colon else (None, column)


def _declares(fields: Fields, name: str) -> bool:
    return name in fields or name.partition(".")[0] in fields


def _reader(name: str) -> Callable[[Tuple], Any]:
    """Reads a field or a path into dicts; None where there is none."""
    head, *path = name.split(".")
    fields: Fields | None = None  # of the last tuple: mostly all come from one stream
    index: int | None = None
    keys: list[str] = []

    def read(tup: Tuple) -> Any:
        nonlocal fields, index, keys
        if tup._origin.fields is not fields:
            fields = tup._origin.fields
            has_all = name in fields
            keys = [] if has_all else path
            index = fields.field_index(name if has_all else head) if has_all or (path and head in fields) else None
        value = None if index is None else tup.values[index]
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    return read
