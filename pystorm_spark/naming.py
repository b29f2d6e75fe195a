"""Java's names for Python's methods: the one place where camelCase aliases are made.

Two directions. `java_names` gives a public class of ours its aliases (`set_bolt` → `setBolt`, the property `values` →
`getValues()`). `link_spellings` is called for every component class that a user defines, which may use either
spelling for the methods that the engine calls: the definition nearest to the class wins, whichever spelling it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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

    Every public method gets its camelCase name; every property and slot `x` gets a method `getX()`. `getters` names
    methods and attributes that Java spells with a `get` in front; `renamed` is for what follows no rule:
    `java_name="python_name"`.
    """

    def decorate(cls: C) -> C:
        for name, member in list(vars(cls).items()):
            if name.startswith("_"):
                continue
            if callable(member) or isinstance(member, (staticmethod, classmethod)):
                _add(cls, camel_case(name), member)
            else:
                _add(cls, getter_name(name), _reader(name))
        for name in getters:
            member = vars(cls).get(name)
            _add(cls, getter_name(name), member if callable(member) else _reader(name))
        for java_name, name in renamed.items():
            _add(cls, java_name, vars(cls)[name])
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


def _add(cls: type, name: str, member: Any) -> None:
    if name not in vars(cls):
        setattr(cls, name, member)


def _reader(name: str) -> Callable[[Any], Any]:
    def get(self: Any) -> Any:
        return getattr(self, name)

    get.__name__ = get.__qualname__ = getter_name(name)
    get.__doc__ = f"Java's name for `{name}`."
    return get
