"""Fields, Values and Stream: the names and the values of a tuple."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pystorm_spark.errors import InvalidTopologyError, UnknownFieldError, did_you_mean
from pystorm_spark.naming import java_names

DEFAULT_STREAM = "default"


@java_names()
class Fields:
    """An ordered list of distinct field names.

    >>> Fields("word", "count").field_index("count")
    1
    """

    __slots__ = ("_index", "_names")

    def __init__(self, *names: str | Iterable[str]) -> None:
        if len(names) == 1 and isinstance(names[0], Iterable) and not isinstance(names[0], str):
            names = tuple(names[0])
        for name in names:
            if not isinstance(name, str):
                raise InvalidTopologyError(f"a field name must be a string, got {name!r} in {list(names)!r}")
        self._names: tuple[str, ...] = names  # type: ignore[assignment]
        self._index = {name: index for index, name in enumerate(self._names)}
        if len(self._index) != len(self._names):
            twice = next(name for name in self._names if self._names.count(name) > 1)
            raise InvalidTopologyError(f"duplicate field {twice!r} in {list(self._names)!r}; field names must differ")

    def select(self, selector: FieldsLike, values: Sequence[Any]) -> list[Any]:
        """The values of the fields that `selector` names, in its order."""
        return [values[self.field_index(name)] for name in as_fields(selector)]

    def field_index(self, name: str) -> int:
        """The position of `name`; an unknown name is an `UnknownFieldError` that says what there is."""
        try:
            return self._index[name]
        except (KeyError, TypeError):
            raise UnknownFieldError(f"field {name!r} does not exist; {did_you_mean(name, self._names)}") from None

    def contains(self, name: str) -> bool:
        return name in self._index

    def get(self, index: int) -> str:
        return self._names[index]

    def size(self) -> int:
        return len(self._names)

    def to_list(self) -> list[str]:
        return list(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._index

    def __getitem__(self, index: int) -> str:
        return self._names[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __eq__(self, other: object) -> bool:
        return self._names == other._names if isinstance(other, Fields) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._names)

    def __repr__(self) -> str:
        return f"Fields({', '.join(map(repr, self._names))})"


FieldsLike = Fields | str | Iterable[str]


def as_fields(names: FieldsLike) -> Fields:
    """`names` as `Fields`. It may be Fields, a list of names, or one name."""
    return names if isinstance(names, Fields) else Fields(names)


class Values(list[Any]):
    """The values of one tuple: a list made from its arguments.

    >>> Values("storm", 1)
    ['storm', 1]
    """

    __slots__ = ()

    def __init__(self, *values: Any) -> None:
        super().__init__(values)

    # What a Java list has and Python's spells otherwise.

    def add(self, value: Any) -> None:
        self.append(value)

    def get(self, index: int) -> Any:
        return self[index]

    def size(self) -> int:
        return len(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Values, tuple(self)


@dataclass(frozen=True)
class Stream:
    """What a component declares of one output stream; `direct` says that its tuples are emitted to chosen tasks."""

    fields: Fields
    direct: bool = False

    def __init__(self, fields: FieldsLike, direct: bool = False) -> None:
        object.__setattr__(self, "fields", as_fields(fields))
        object.__setattr__(self, "direct", bool(direct))
