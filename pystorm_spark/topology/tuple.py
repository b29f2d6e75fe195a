"""Tuple: what a bolt receives; and what it knows of the tuple tree that it belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pystorm_spark.errors import shown
from pystorm_spark.naming import java_names
from pystorm_spark.topology.fields import DEFAULT_STREAM, Fields, FieldsLike

SYSTEM_COMPONENT = "__system"
SYSTEM_TASK = -1
TICK_STREAM = "__tick"
TICK_FIELDS = Fields("rate_secs")


@java_names(get_componentId="_component", get_streamId="_stream")
class GlobalStreamId(NamedTuple):
    """One stream of one component."""

    component: str
    stream: str = DEFAULT_STREAM

    @property
    def component_id(self) -> str:
        return self.component

    @property
    def stream_id(self) -> str:
        return self.stream

    def _component(self) -> str:
        return self.component

    def _stream(self) -> str:
        return self.stream


@dataclass(frozen=True, slots=True)
class Origin:
    """Where tuples come from: one object for all tuples of one task on one stream."""

    component: str
    task: int
    stream: str
    fields: Fields


class Tree:
    """The subtree of a tuple tree that lives in this process. It counts the tuples that are neither acked nor failed.

    A tuple refers to its tree. An emit anchored to the tuple adds one to `unsettled`, its ack subtracts one. The call
    that brings `unsettled` to zero calls `drained`.
    """

    __slots__ = ("unsettled",)

    unsettled: int

    def drained(self) -> None:
        """Every tuple of the subtree has been acked."""

    def fail(self) -> None:
        """A tuple of the subtree has failed: every tree that it belongs to fails."""

    def reset_timeout(self) -> None:
        """Restart the message timeout of every tree that the subtree belongs to."""

    def members(self) -> tuple[Tree, ...]:
        """The tracked trees that the subtree belongs to: none, one, or several for tuples with several anchors."""
        return ()

    def edges(self) -> dict[int, int]:
        """{root id: edge id} as in Storm. Edges inside a process have the id 0."""
        return {}


class NoTree(Tree):
    """The tree of tuples that are not tracked."""

    __slots__ = ()

    def __init__(self) -> None:
        self.unsettled = 0


SETTLED = NoTree()  # the tree of a tuple that has been acked or failed


@java_names(getters=["anchors_to_ids"])
@dataclass(frozen=True, slots=True)
class MessageId:
    """Which tuple trees a tuple belongs to: {root id: XOR of edge ids}; empty for an untracked tuple."""

    anchors_to_ids: dict[int, int]

    @property
    def anchors(self) -> frozenset[int]:
        return frozenset(self.anchors_to_ids)

    @classmethod
    def make_unanchored(cls) -> MessageId:
        return cls({})

    @classmethod
    def make_id(cls, anchors_to_ids: Mapping[int, int]) -> MessageId:
        return cls(dict(anchors_to_ids))

    @classmethod
    def make_root_id(cls, root_id: int, edge_id: int) -> MessageId:
        return cls({root_id: edge_id})

    def __hash__(self) -> int:
        return hash(frozenset(self.anchors_to_ids.items()))


@java_names(
    getters=["values", "fields", "source_component", "source_task", "source_stream_id", "message_id"],
)
class Tuple:
    """A list of values that a task received, with the names of its fields and where it came from.

    Equality and hash are those of the object, as in Storm: two tuples with the same values are two tuples. Tuples are
    made by `new_tuple`; the class has no `__init__`, because calling one costs more than the rest of making a tuple.
    """

    __slots__ = ("_origin", "_tree", "values")

    values: list[Any]
    _origin: Origin
    _tree: Tree

    @property
    def fields(self) -> Fields:
        return self._origin.fields

    @property
    def source_component(self) -> str:
        return self._origin.component

    @property
    def source_task(self) -> int:
        return self._origin.task

    @property
    def source_stream_id(self) -> str:
        return self._origin.stream

    @property
    def source_global_stream_id(self) -> GlobalStreamId:
        return GlobalStreamId(self._origin.component, self._origin.stream)

    @property
    def message_id(self) -> MessageId:
        """The trees that this tuple belongs to; empty when it is untracked or already settled."""
        return MessageId(self._tree.edges())

    def size(self) -> int:
        return len(self.values)

    def contains(self, field: str) -> bool:
        return field in self._origin.fields

    def field_index(self, field: str) -> int:
        return self._origin.fields.field_index(field)

    def select(self, selector: FieldsLike) -> list[Any]:
        """The values of the named fields, in the order asked for."""
        return self._origin.fields.select(selector, self.values)

    def get_value(self, index: int) -> Any:
        return self.values[index]

    def get_value_by_field(self, field: str) -> Any:
        return self.values[self._origin.fields.field_index(field)]

    def __getitem__(self, key: int | str | slice) -> Any:
        if isinstance(key, str):
            return self.values[self._origin.fields.field_index(key)]
        return self.values[key]

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __repr__(self) -> str:
        origin = self._origin
        values = ", ".join(f"{name}={_short(value)}" for name, value in zip(origin.fields, self.values, strict=False))
        return f"Tuple({values}; from {origin.component}:{origin.task} stream {origin.stream})"


def new_tuple(values: list[Any], origin: Origin, tree: Tree) -> Tuple:
    """A tuple of `values` that came from `origin` and belongs to `tree`."""
    tup = Tuple()
    tup.values = values
    tup._origin = origin
    tup._tree = tree
    return tup


def _short(value: object, limit: int = 200) -> str:
    text = shown(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


# Storm's typed getters are casts: the value itself or None, never a conversion.
_GETTERS: dict[str, type] = {
    "string": str,
    "integer": int,
    "long": int,
    "short": int,
    "byte": int,
    "double": float,
    "float": float,
    "boolean": bool,
    "binary": bytes,
}


def _typed_getter(kind: str, expected: type) -> tuple[Any, Any]:
    def checked(tup: Tuple, index: int) -> Any:
        value = tup.values[index]
        if value is None or (isinstance(value, expected) and (expected is not int or not isinstance(value, bool))):
            return value
        raise TypeError(
            f"field {tup.fields[index]!r} holds {_short(value)} of type {type(value).__name__}, "
            f"get_{kind} needs {expected.__name__}"
        )

    def get(self: Tuple, index: int) -> Any:
        return checked(self, index)

    def get_by_field(self: Tuple, field: str) -> Any:
        return checked(self, self.field_index(field))

    return get, get_by_field


for _kind, _expected in _GETTERS.items():
    for _name, _method in zip((f"get_{_kind}", f"get_{_kind}_by_field"), _typed_getter(_kind, _expected), strict=True):
        _method.__name__ = _name
        _method.__qualname__ = f"Tuple.{_name}"
        _method.__doc__ = f"The value, which must be {_expected.__name__} or None; anything else is a TypeError."
        setattr(Tuple, _name, _method)
java_names()(Tuple)


def is_tick(tup: Tuple) -> bool:
    """Whether `tup` is a tick of the system's clock rather than data."""
    origin = tup._origin
    return origin.stream == TICK_STREAM and origin.component == SYSTEM_COMPONENT
