"""Internal. Router: stream and values → the ports of the target tasks. One chooser for each subscription."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from operator import itemgetter
from typing import Any

from pystorm_spark.errors import EmitError
from pystorm_spark.runtime.frames import TupleBuffer
from pystorm_spark.runtime.hashing import partial_key_candidates, stable_hash
from pystorm_spark.runtime.java_hash import java_fields_index, java_partial_key_candidates
from pystorm_spark.topology.fields import Fields
from pystorm_spark.topology.grouping import (
    AllGrouping,
    CustomGrouping,
    DirectGrouping,
    FieldsGrouping,
    GlobalGrouping,
    Grouping,
    LocalOrShuffleGrouping,
    NoneGrouping,
    PartialKeyGrouping,
    ShuffleGrouping,
)
from pystorm_spark.topology.tuple import Origin, Tuple

CACHED_KEYS = 50_000  # of one fields grouping in one task


class Port:
    """The way to one target task: its queue when it lives in this slot, else the buffer that will be its frame."""

    __slots__ = ("append", "buffer", "task_id")

    def __init__(
        self, task_id: int, append: Callable[[Tuple], None] | None = None, buffer: TupleBuffer | None = None
    ) -> None:
        self.task_id = task_id
        self.append = append
        self.buffer = buffer


Ports = Sequence[Port]
Choose = Callable[[list[Any]], Ports]


@dataclass(frozen=True)
class Subscription:
    """One bolt that listens to a stream: how it is grouped, and the ports of its tasks, ascending by task id."""

    component: str
    grouping: Grouping
    ports: list[Port]
    keys: dict[Any, int]  # {key of a fields grouping: index of its port}; a cache that the source's tasks share
    chooser: Any = None  # the user's own, prepared, for a custom grouping


class Route:
    """The subscriptions of one stream of one task."""

    __slots__ = ("arity", "choose", "direct", "emitted", "extra", "local", "origin")

    def __init__(self, origin: Origin, subscriptions: list[Subscription], rng: random.Random, java: bool) -> None:
        self.origin = origin
        self.arity = len(origin.fields)
        self.emitted = 0
        self.extra = 0  # receivers beyond one per emit
        regular = [s for s in subscriptions if not isinstance(s.grouping, DirectGrouping)]
        self.direct = {port.task_id: port for s in subscriptions if s not in regular for port in s.ports}
        self.local = all(port.append is not None for s in subscriptions for port in s.ports)
        choosers = [_chooser(s, origin, rng, java) for s in regular]
        self.choose: Choose = self._refuse_regular_emit if self.direct else _combined(choosers)

    def port_for_direct(self, task_id: int) -> Port:
        """The port of a task that subscribes by direct grouping."""
        port = self.direct.get(task_id)
        if port is None:
            raise EmitError(
                f"emit_direct of component {self.origin.component!r} on stream {self.origin.stream!r} to task "
                f"{task_id!r}, which does not subscribe to it by direct grouping; tasks that do: {sorted(self.direct)}"
            )
        return port

    def _refuse_regular_emit(self, values: list[Any]) -> Ports:
        raise EmitError(
            f"component {self.origin.component!r} cannot emit on stream {self.origin.stream!r}: it is subscribed to by "
            f"direct grouping; use emit_direct with one of the tasks {sorted(self.direct)}"
        )


def _combined(choosers: list[Choose]) -> Choose:
    if not choosers:
        return _always(())
    if len(choosers) == 1:
        return choosers[0]
    return lambda values: [port for choose in choosers for port in choose(values)]


def _chooser(subscription: Subscription, origin: Origin, rng: random.Random, java: bool) -> Choose:
    grouping, ports = subscription.grouping, subscription.ports
    if isinstance(grouping, (ShuffleGrouping, LocalOrShuffleGrouping)):
        return _shuffle(ports, rng)
    if isinstance(grouping, FieldsGrouping):
        return _by_fields(origin, grouping.fields, subscription, java)
    if isinstance(grouping, PartialKeyGrouping):
        return _by_partial_key(origin, grouping.fields, ports, java)
    if isinstance(grouping, AllGrouping):
        return _always(ports)
    if isinstance(grouping, GlobalGrouping):
        return _always(ports[:1])
    if isinstance(grouping, NoneGrouping):
        singles, choice = [(port,) for port in ports], rng.choice
        return lambda values: choice(singles)
    if isinstance(grouping, CustomGrouping):
        return _by_custom(subscription, origin)
    raise TypeError(f"unknown grouping {grouping!r} of {subscription.component!r}")


def _in_turn(ring: Sequence[Ports]) -> Choose:
    # `next(iterator, default)` never needs its default here: a chooser without a Python call, see benchmarks.
    return partial(next, cycle(ring))


def _always(ports: Ports) -> Choose:
    return _in_turn([ports])


def _shuffle(ports: list[Port], rng: random.Random) -> Choose:
    """Round-robin over a once-shuffled ring: exactly even. Tasks in this slot are nearer than all others."""
    near = [port for port in ports if port.append is not None] or ports
    ring = [(port,) for port in near]
    rng.shuffle(ring)
    return _in_turn(ring)


def _by_fields(origin: Origin, fields: Fields, subscription: Subscription, java: bool) -> Choose:
    indexes = [origin.fields.field_index(name) for name in fields]
    key_of = itemgetter(*indexes)
    singles = [(port,) for port in subscription.ports]
    count, cache = len(singles), subscription.keys

    def look_up(values: list[Any]) -> int:
        key = [values[index] for index in indexes]
        try:
            chosen = java_fields_index(key, count) if java else stable_hash(key) % count
        except TypeError as exc:
            raise EmitError(_key_problem(origin, fields, exc)) from None
        # Java tells 1 from 1.0 and from true, a dict does not: there only text is cached.
        if not java or all(type(part) is str for part in key):
            if len(cache) >= CACHED_KEYS:
                cache.clear()
            with suppress(TypeError):  # a list, a dict or a set can be a key, but not in a dict
                cache[key_of(values)] = chosen
        return chosen

    def choose(values: list[Any]) -> Ports:
        try:
            return singles[cache[key_of(values)]]
        except (KeyError, TypeError):
            return singles[look_up(values)]

    return _always(singles[0]) if count == 1 else choose


def _by_partial_key(origin: Origin, fields: Fields, ports: list[Port], java: bool) -> Choose:
    indexes = [origin.fields.field_index(name) for name in fields] or [0]
    candidates_of = java_partial_key_candidates if java else partial_key_candidates
    sent = [0] * len(ports)

    def choose(values: list[Any]) -> Ports:
        try:
            first, second = candidates_of([values[index] for index in indexes], len(ports))
        except TypeError as exc:
            raise EmitError(_key_problem(origin, fields, exc)) from None
        chosen = first if sent[first] <= sent[second] else second
        sent[chosen] += 1
        return (ports[chosen],)

    return choose


def _by_custom(subscription: Subscription, origin: Origin) -> Choose:
    chooser = subscription.chooser
    choose_tasks = getattr(chooser, "choose_tasks", None) or chooser.chooseTasks
    by_task = {port.task_id: port for port in subscription.ports}

    def choose(values: list[Any]) -> Ports:
        chosen = choose_tasks(origin.task, values)
        try:
            return [by_task[task_id] for task_id in chosen]
        except (KeyError, TypeError):
            raise EmitError(
                f"the custom grouping {type(chooser).__name__} of bolt {subscription.component!r} chose {chosen!r} for "
                f"stream {origin.stream!r} of {origin.component!r}; it must give a list out of {sorted(by_task)}"
            ) from None

    return choose


def _key_problem(origin: Origin, fields: Fields, cause: TypeError) -> str:
    grouped = f"stream {origin.stream!r}, which is grouped on {fields.to_list()}"
    return f"component {origin.component!r} emits on {grouped}: {cause}"
