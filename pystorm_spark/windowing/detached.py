"""DetachedTuple: a tuple as a value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pystorm_spark.errors import shown
from pystorm_spark.naming import java_names
from pystorm_spark.topology.fields import Fields, FieldsLike
from pystorm_spark.topology.tuple import GlobalStreamId, Origin, Tuple


class DetachedTuple:
    """The values of a tuple and where it came from, without its tuple tree.

    Two are equal if their values, fields and sources are. It can be neither acked nor an anchor, and it travels between
    processes as a value of other tuples.
    """

    __slots__ = ("_origin", "values")

    def __init__(self, tup: Tuple) -> None:
        self.values: list[Any] = list(tup.values)
        self._origin = tup._origin

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
        return self.values[self.field_index(field)]

    def __getitem__(self, key: int | str | slice) -> Any:
        return self.values[self.field_index(key) if isinstance(key, str) else key]

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DetachedTuple):
            return NotImplemented
        return self._origin == other._origin and self.values == other.values

    def __hash__(self) -> int:
        return hash((self._origin.component, self._origin.task, self._origin.stream, len(self.values)))

    def __reduce__(self) -> tuple[Any, ...]:
        origin = self._origin
        return _restored, (self.values, origin.component, origin.task, origin.stream, origin.fields.to_list())

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={shown(value)}" for name, value in zip(self.fields, self.values, strict=False))
        return (
            f"DetachedTuple({values}; from {self.source_component}:{self.source_task} stream {self.source_stream_id})"
        )


def _restored(values: list[Any], component: str, task: int, stream: str, fields: list[str]) -> DetachedTuple:
    detached = DetachedTuple.__new__(DetachedTuple)
    detached.values = values
    detached._origin = Origin(component, task, stream, Fields(*fields))
    return detached


for _kind in ("string", "integer", "long", "short", "byte", "double", "float", "boolean", "binary"):
    for _name in (f"get_{_kind}", f"get_{_kind}_by_field"):
        setattr(DetachedTuple, _name, getattr(Tuple, _name))  # Storm's typed getters, which read `values` and `fields`
java_names(getters=["values", "fields", "source_component", "source_task", "source_stream_id"])(DetachedTuple)
