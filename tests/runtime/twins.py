"""The compiled functions, their twins in Python, and a stage to call them on: two slots of one plan, turned by hand.

`drawn` lists every object that can be reached from some others, so that a test can compare the effects of two calls.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from contextlib import contextmanager
from types import BuiltinFunctionType, FunctionType, MethodType

import pystorm_spark.runtime
import pystorm_spark.state
from pystorm_spark.topology.builder import TopologyBuilder
from pystorm_spark.topology.component import Bolt, Spout
from pystorm_spark.topology.fields import Fields
from pystorm_spark.topology.tuple import SETTLED

from .slots import CountingRandom, Mesh

STREAMS = {"default": ["key", "value"], "side": ["key"], "all": ["value"], "lone": ["value"], "unheard": ["value"]}
CACHES = {"keys", "_keys"}  # caches of keys of a fields grouping: the core hashes short text instead
ADDRESS = re.compile(r"0x[0-9a-f]+")


def modules():
    """All modules that may have compiled functions."""
    for package in (pystorm_spark.runtime, pystorm_spark.state):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield importlib.import_module(found.name)


def compiled_functions():
    """Return (holder, name, function) of each function that has a version in C."""
    found = {}
    for module in modules():
        own = [each for each in vars(module).values() if getattr(each, "__module__", "") == module.__name__]
        for holder in [module, *(each for each in own if isinstance(each, type))]:
            for name, function in vars(holder).items():
                if type(function).__name__ == "Compiled" and function.__module__ == module.__name__:
                    found[f"{function.__module__}.{function.__qualname__}", name] = (holder, name, function)
    return list(found.values())


@contextmanager
def python_alone():
    """Run the functions in Python, as if there were no compiled core."""
    functions = compiled_functions()
    try:
        for holder, name, function in functions:
            setattr(holder, name, function.__wrapped__)
        yield
    finally:
        for holder, name, function in functions:
            setattr(holder, name, function)


class Source(Spout):
    outputs = {name: STREAMS[name] for name in ("default", "side")}

    def open(self, conf, context, collector):
        self.collector = collector
        self.told = []

    def ack(self, message_id):
        self.told.append(("ack", message_id))

    def fail(self, message_id):
        self.told.append(("fail", message_id))


class Keeper(Bolt):
    """Keeps what it receives."""

    outputs = STREAMS

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.kept = []

    def execute(self, tup):
        self.kept.append(tup)


def stage(bits=None, **conf):
    """Build two slots; the first one has the spout, and tasks of both bolts. `bits` is the source of random ids."""
    builder = TopologyBuilder()
    builder.set_spout("source", Source())
    first = builder.set_bolt("first", Keeper(), 2)
    first.shuffle_grouping("source").fields_grouping("source", Fields("key"), "side")
    last = builder.set_bolt("last", Keeper(), 3)
    last.fields_grouping("first", Fields("key")).fields_grouping("first", Fields("key"), "side")
    last.all_grouping("first", "all").global_grouping("first", "lone")
    mesh = Mesh(builder.create_topology(), 2, conf, bits or CountingRandom(1))
    for slot in mesh.slots:
        slot._open_short_way()  # as during a turn
    return mesh


def drawn(*roots):
    """List all objects that can be reached from `roots`; equal graphs of objects give equal lists."""
    numbers, waiting, lines, kept = {}, list(roots), [], []

    def mark(value):
        if value is None or (isinstance(value, (bool, int, float, str, bytes)) and not hasattr(value, "__dict__")):
            return f"{type(value).__name__} {value!r}"
        if isinstance(value, (type, FunctionType)) or value is SETTLED:
            return f"the {type(value).__name__} {getattr(value, '__qualname__', '')}"
        if id(value) not in numbers:
            numbers[id(value)] = len(numbers)
            waiting.append(value)
            kept.append(value)  # keeps a bound method alive, so that its id stays unique
        return numbers[id(value)]

    line = [mark(root) for root in waiting[:]]
    lines.append(line)
    waiting = waiting[len(roots) :]
    while waiting:
        value = waiting.pop(0)
        lines.append([type(value).__name__, *parts(value, mark)])
    return lines


def parts(value, mark):
    if isinstance(value, dict):
        return [mark(part) for pair in value.items() for part in pair]
    if isinstance(value, (list, tuple, set, frozenset)) or type(value).__name__ == "deque":
        return [mark(part) for part in value]
    if isinstance(value, MethodType):
        return [value.__func__.__qualname__, mark(value.__self__)]
    if isinstance(value, BuiltinFunctionType):
        return [value.__name__]
    if isinstance(value, BaseException):
        return [told(value)]
    return [part for name, each in state_of(value) for part in (name, mark(each))]


def state_of(value):
    """Yield the slots and attributes of an object of this project, and nothing for others."""
    if not type(value).__module__.startswith(("pystorm_spark", "tests")):
        return
    for cls in type(value).__mro__:
        for name in sorted(getattr(cls, "__slots__", ())):
            if name.startswith("_") and hasattr(value, f"_{cls.__name__}{name}"):
                name = f"_{cls.__name__}{name}"
            if hasattr(value, name) and name not in CACHES:
                yield name, getattr(value, name)
    attributes = vars(value) if hasattr(value, "__dict__") else {}
    yield from sorted(item for item in attributes.items() if item[0] not in CACHES)


def told(error):
    return f"{type(error).__name__}: {ADDRESS.sub('0x…', str(error))}"


def outcome(call, *args, **kwargs):
    """Return the result of a call, or its exception."""
    try:
        return call(*args, **kwargs)
    except Exception as error:
        return error
