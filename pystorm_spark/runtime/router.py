"""Internal. Routes: stream and values → the ports of the target tasks. Each subscription has one chooser."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from operator import itemgetter
from typing import Any

from pystorm_spark.core import laid_out
from pystorm_spark.errors import EmitError
from pystorm_spark.runtime.frames import TupleBuffer
from pystorm_spark.runtime.keys.hashing import partial_key_candidates, stable_hash
from pystorm_spark.runtime.keys.java_hash import java_fields_index, java_partial_key_candidates
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

CACHED_KEYS = 50_000  # of one fields grouping and its source tasks in a slot


@laid_out
class Port:
    """The way to one target task: its queue if it lives in this slot, otherwise the buffer of its next frame.

    `append` is the queue's own method, for the short way of a collector. It is None for a buffer, and where a tuple
    must be copied first.
    """

    __slots__ = ("append", "buffer", "put", "task_id")

    def __init__(
        self,
        task_id: int,
        put: Callable[[Tuple], None] | None = None,
        buffer: TupleBuffer | None = None,
        is_plain: bool = True,
    ) -> None:
        self.task_id = task_id
        self.put = put
        self.append = put if is_plain else None
        self.buffer = buffer


Ports = Sequence[Port]
Choose = Callable[[list[Any]], Ports]
Pick = Callable[[list[Any]], Port]  # for groupings that send each tuple to exactly one task


@dataclass(frozen=True)
class Subscription:
    """One bolt that listens to a stream: how it is grouped, and the ports of its tasks, ascending by task id."""

    component: str
    grouping: Grouping
    ports: list[Port]
    keys: dict[Any, int]  # cache of a fields grouping, {key: index of its port}; the source's tasks share it
    chooser: Any = None  # the user's own, prepared, for a custom grouping


@laid_out
class Route:
    """The subscriptions of one stream of one task.

    `choose` always works. For the most common routes `emit` is shorter: it calls `pick` if there is one subscriber that
    gets each tuple once, and looks into `keys` if that is grouped on one field, the one at `key_at`.
    """

    __slots__ = (
        "arity",
        "choose",
        "direct",
        "emitted",
        "extra",
        "hashes",
        "key_at",
        "keys",
        "only",
        "origin",
        "pick",
        "ports",
    )

    def __init__(self, origin: Origin, subscriptions: list[Subscription], rng: random.Random, java: bool) -> None:
        self.origin = origin
        self.arity = len(origin.fields)
        self.emitted = 0
        self.extra = 0  # receivers beyond one per emit
        regular = [s for s in subscriptions if not isinstance(s.grouping, DirectGrouping)]
        self.direct = {port.task_id: port for s in subscriptions if s not in regular for port in s.ports}
        picks = [_pick(s, origin, rng, java) for s in regular]
        choosers = [_choose(s, origin, pick) for s, pick in zip(regular, picks, strict=True)]
        self.choose: Choose = self._refuse_regular_emit if self.direct else _combined(choosers)
        self.pick: Pick | None = picks[0] if len(subscriptions) == len(picks) == 1 else None
        self.only: Port | None = None  # the only port that `pick` can return
        self.keys: dict[Any, int] | None = None
        self.key_at = 0
        self.hashes = not java  # keys go where `stable_hash` says
        self.ports: list[Port] = []
        if self.pick is not None:
            eligible = _eligible(regular[0])
            self.only = eligible[0] if len(eligible) == 1 else None
            self._set_keys(regular[0])

    def _set_keys(self, subscription: Subscription) -> None:
        grouping = subscription.grouping
        if isinstance(grouping, FieldsGrouping) and len(grouping.fields) == 1 and len(subscription.ports) > 1:
            self.keys = subscription.keys
            self.key_at = self.origin.fields.field_index(grouping.fields[0])
            self.ports = subscription.ports

    def port_for_direct(self, task_id: int) -> Port:
        """The port of a task that subscribes by direct grouping."""
        port = self.direct.get(task_id) if isinstance(task_id, Hashable) else None
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
        return lambda values: ()
    if len(choosers) == 1:
        return choosers[0]
    return lambda values: [port for choose in choosers for port in choose(values)]


def _choose(subscription: Subscription, origin: Origin, pick: Pick | None) -> Choose:
    if pick is not None:
        return lambda values: (pick(values),)
    if isinstance(subscription.grouping, AllGrouping):
        return lambda values: subscription.ports
    if isinstance(subscription.grouping, CustomGrouping):
        return _by_custom(subscription, origin)
    raise TypeError(f"unknown grouping {subscription.grouping!r} of {subscription.component!r}")


def _eligible(subscription: Subscription) -> list[Port]:
    """The ports that a grouping may pick. A shuffle prefers tasks in this slot."""
    grouping, ports = subscription.grouping, subscription.ports
    if isinstance(grouping, GlobalGrouping):
        return ports[:1]
    if isinstance(grouping, (ShuffleGrouping, LocalOrShuffleGrouping)):
        return [port for port in ports if port.put is not None] or ports
    return ports


def _pick(subscription: Subscription, origin: Origin, rng: random.Random, java: bool) -> Pick | None:
    """The `pick` of a grouping; None for groupings that may choose several tasks."""
    grouping, ports = subscription.grouping, subscription.ports
    if isinstance(grouping, (ShuffleGrouping, LocalOrShuffleGrouping)):
        return _shuffle(_eligible(subscription), rng)
    if isinstance(grouping, FieldsGrouping):
        return _by_fields(origin, grouping.fields, subscription, java)
    if isinstance(grouping, PartialKeyGrouping):
        return _by_partial_key(origin, grouping.fields, ports, java)
    if isinstance(grouping, GlobalGrouping):
        return _in_turn(_eligible(subscription))
    if isinstance(grouping, NoneGrouping):
        return lambda values: rng.choice(ports)
    return None


def _in_turn(ring: list[Port]) -> Pick:
    # `next` ignores `values`, its default, because a cycle never ends: a pick without a Python call.
    return partial(next, cycle(ring))


def _shuffle(ports: list[Port], rng: random.Random) -> Pick:
    """Round-robin over a ring shuffled once, so the spread is exactly even."""
    ring = list(ports)
    rng.shuffle(ring)
    return _in_turn(ring)


def _by_fields(origin: Origin, fields: Fields, subscription: Subscription, java: bool) -> Pick:
    indexes = [origin.fields.field_index(name) for name in fields]
    key_of = itemgetter(*indexes)
    ports, cache = subscription.ports, subscription.keys

    def look_up(values: list[Any]) -> int:
        key = [values[index] for index in indexes]
        try:
            chosen = java_fields_index(key, len(ports)) if java else stable_hash(key) % len(ports)
        except TypeError as exc:
            raise EmitError(_key_problem(origin, fields, exc)) from None
        # In Java 1, 1.0 and true are different keys, in a dict they are one: cache only text there.
        if not java or all(type(part) is str for part in key):
            if len(cache) >= CACHED_KEYS:
                cache.clear()
            with suppress(TypeError):  # lists, dicts and sets are keys, but not hashable
                cache[key_of(values)] = chosen
        return chosen

    def pick(values: list[Any]) -> Port:
        try:
            return ports[cache[key_of(values)]]
        except (KeyError, TypeError):
            return ports[look_up(values)]

    return pick


def _by_partial_key(origin: Origin, fields: Fields, ports: list[Port], java: bool) -> Pick:
    fields = fields if len(fields) else Fields(origin.fields.to_list()[:1])
    indexes = [origin.fields.field_index(name) for name in fields]
    candidates_of = java_partial_key_candidates if java else partial_key_candidates
    sent = [0] * len(ports)

    def pick(values: list[Any]) -> Port:
        try:
            first, second = candidates_of([values[index] for index in indexes], len(ports))
        except TypeError as exc:
            raise EmitError(_key_problem(origin, fields, exc)) from None
        chosen = first if sent[first] <= sent[second] else second
        sent[chosen] += 1
        return ports[chosen]

    return pick


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
                f"stream {origin.stream!r} of {origin.component!r}; it must return a list of task ids out of "
                f"{sorted(by_task)}"
            ) from None

    return choose


def _key_problem(origin: Origin, fields: Fields, cause: TypeError) -> str:
    grouped = f"stream {origin.stream!r}, which is grouped on {fields.to_list()}"
    return f"component {origin.component!r} emits on {grouped}: {cause}"
