"""Java's names for Python's methods: the only module that makes camelCase aliases.

Two directions. `java_names` gives a public class of ours its aliases (`set_bolt` → `setBolt`, the property `values` →
`getValues()`). `link_spellings` is called for every subclass of such a class and for every component class that a user
defines: each may use either spelling, and the definition nearest to the class wins, whichever spelling it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, TypeVar

C = TypeVar("C", bound=type)


def camel_case(name: str) -> str:
    """`this_task_id` → `thisTaskId`."""
    head, *rest = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


def getter_name(name: str) -> str:
    """`this_task_id` → `getThisTaskId`."""
    return camel_case(f"get_{name}")


def java_names(*, getters: Iterable[str] = (), **renamed: str) -> Callable[[C], C]:
    """A class decorator that adds Java's names to a class.

    Every public method gets its camelCase name; every property and slot `x` gets a method `getX()`. A dataclass's field
    `task_id` can also be read as `taskId`: where we have dataclasses, Storm has classes with public fields. `getters`
    names methods and attributes that Java spells with a leading `get`. `renamed` lists irregular names:
    `java_name="python_name"`.
    """

    def decorate(cls: C) -> C:
        methods: dict[str, str] = {}  # {Java's name: Python's}, for subclasses that override one of them
        for name, member in list(vars(cls).items()):
            if name.startswith("_"):
                continue
            if callable(member) or isinstance(member, (staticmethod, classmethod)):
                methods[camel_case(name)] = name
            else:
                _add(cls, getter_name(name), _reader(name))
        for name in getattr(cls, "__dataclass_fields__", ()):
            _add(cls, getter_name(name), _reader(name))
            if camel_case(name) != name:
                _add(cls, camel_case(name), property(attrgetter(name)))
        for name in getters:
            if callable(vars(cls).get(name)):
                methods[getter_name(name)] = name
            else:
                _add(cls, getter_name(name), _reader(name))
        methods.update(renamed)
        for java_name, name in methods.items():
            _add(cls, java_name, vars(cls)[name])
        _link_subclasses(cls, methods)
        return cls

    return decorate


def link_spellings(cls: type, spellings: Mapping[str, str]) -> None:
    """Let `cls` define each method under its Python or its Java name; both names then mean the same function."""
    for pair in spellings.items():
        for owner in cls.__mro__:
            defined = [name for name in pair if name in vars(owner)]
            if defined:
                for name in pair:
                    if name not in vars(owner):
                        setattr(cls, name, vars(owner)[defined[0]])
                break


def _link_subclasses(cls: type, spellings: Mapping[str, str]) -> None:
    """Have `link_spellings` called for every subclass of `cls`: an alias must not bypass an override."""
    inherited = vars(cls).get("__init_subclass__")

    def __init_subclass__(subclass: type, **kwargs: Any) -> None:  # noqa: N807 - it becomes the method of that name
        if inherited is None:
            super(cls, subclass).__init_subclass__(**kwargs)  # type: ignore[arg-type]
        else:
            inherited.__get__(None, subclass)(**kwargs)
        link_spellings(subclass, spellings)

    cls.__init_subclass__ = classmethod(__init_subclass__)  # type: ignore[assignment]


def _add(cls: type, name: str, member: Any) -> None:
    if name not in vars(cls):
        setattr(cls, name, member)


def _reader(name: str) -> Callable[[Any], Any]:
    def get(self: Any) -> Any:
        return getattr(self, name)

    get.__name__ = get.__qualname__ = getter_name(name)
    get.__doc__ = f"Java's name for `{name}`."
    return get
